"""Audits of private sums by an attack: what a site can tell from all that it sees, and whether that is too much.

The attacker knows every row but one, and whether it is there is all that it asks: of each sum it knows what the row
would add, and adds up how much more likely the sum is with it. How often it is wrong over many runs, either way,
bounds what the sums guarantee at best (Clopper and Pearson 1934; Jagielski, Ullman and Oprea 2020). For Gaussian
noise both errors together bound mu, more closely (Nasr et al. 2023).
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy import stats

from gaussip.mixture.owners import Owners
from gaussip.privacy import BoundedRows, Privacy, ask_private, look, noised
from gaussip.privacy.accounting import epsilon_of, together
from gaussip.privacy.discrete_gaussian import discrete_gaussian
from gaussip.privacy.fit import Model
from gaussip.privacy.noised import Noised, Releases

SURE = 0.999  # that a bound holds
N_SITES, COLLUDING = 4, 1  # site 0 reads, and site 1 shares all it knows
HONEST = slice(1 + COLLUDING, None)


def at_most(events, trials):
    """The largest probability with which so few events are not unlikely."""
    return float(stats.beta.ppf(SURE, events + 1, trials - events)) if events < trials else 1.0


def epsilon_at_least(without, present, delta, threshold):
    """Of (epsilon, delta)-differential privacy: from how often scores are above a threshold."""
    wrong = at_most(int((without > threshold).sum()), len(without))
    right = 1 - at_most(int((present <= threshold).sum()), len(present))
    return math.log((right - delta) / wrong) if right > delta + wrong else 0.0


def mu_at_least(without, present, threshold):
    """Of Gaussian differential privacy: from both errors."""
    wrong = at_most(int((without > threshold).sum()), len(without))
    missed = at_most(int((present <= threshold).sum()), len(present))
    return -float(stats.norm.ppf(wrong) + stats.norm.ppf(missed))


@pytest.fixture
def faint(monkeypatch):
    """Noise half as large as it must be."""
    monkeypatch.setattr(noised, "discrete_gaussian", lambda sigma, below: discrete_gaussian(sigma // 2, below))


def neighbours(X, row, label, limits):
    """A table by site, of rows with label 0 or none, and the same with one row more at the last."""
    rng = np.random.default_rng(0)
    y = [np.where(rng.random(len(x)) < 0.8, 0, -1) for x in X]
    more = [*X[:-1], np.vstack([X[-1], row])], [*y[:-1], np.append(y[-1], label)]
    return BoundedRows.within(limits, X, y, None, None), BoundedRows.within(limits, *more, None, None)


def log_ratio(total, known, apart):
    """Of how likely the honest sites' noisy sum is with the row and without; (..., size) of the sums."""
    return (total - known) @ apart - apart @ apart / 2


TIMES, MU, DELTA = 12_000, 1.0, 1e-3


def scores_of_the_first_sum(shares):
    """Of many times the first look; what is claimed of it."""
    limits = np.array([[-5.0, 5.0]])
    X = list(np.random.default_rng(1).normal(size=(N_SITES, 60, 1)))
    without, present = neighbours(X, np.array([5.0]), 0, limits)
    below = random.Random(7).randrange
    releases = Releases(N_SITES, shares, lambda number, place: below)
    ask = next(look.ask_look(releases, (MU, MU), limits, ["x"], ["c"]))
    parts = ask.part(without), ask.part(present)
    apart, known = (parts[1] - parts[0])[:, :-1].sum(axis=0), parts[0][HONEST, :-1].sum(axis=0)
    scores = []
    for part in parts:
        words = ask.code.encode(np.broadcast_to(part, (TIMES, *part.shape)), N_SITES)
        seen = np.asarray([ask.code.decode(honest) for honest in words[:, HONEST].sum(axis=1)])
        scores.append(log_ratio(seen, known, apart))
    return *scores, together(mu for _, mu, _ in releases.made)


def test_an_attack_on_one_sum_finds_what_is_claimed_and_no_more():
    """The bound is close, so that an attack would show much less noise than there should be."""
    *scores, mu = scores_of_the_first_sum(N_SITES - 1 - COLLUDING)
    assert mu == pytest.approx(MU, rel=1e-6)
    assert 0.9 * mu < mu_at_least(*scores, 0.0) < mu
    claimed = epsilon_of(mu, DELTA)
    assert 0.5 * claimed < epsilon_at_least(*scores, DELTA, 2 * MU) < claimed
    for threshold in np.linspace(-3, 4, 15):
        assert mu_at_least(*scores, threshold) < mu
        assert epsilon_at_least(*scores, DELTA, threshold) < claimed


@pytest.mark.usefixtures("faint")
def test_it_notices_half_the_noise():
    *scores, mu = scores_of_the_first_sum(N_SITES - 1 - COLLUDING)
    assert mu_at_least(*scores, 0.0) > 1.8 * mu
    assert epsilon_at_least(*scores, DELTA, 1.2 * MU) > 1.2 * epsilon_of(mu, DELTA)


def test_it_notices_that_more_sites_collude_than_was_said():
    *scores, mu = scores_of_the_first_sum(N_SITES - COLLUDING)
    assert mu_at_least(*scores, 0.0) > 1.1 * mu


RUNS, EPSILON = 400, 5.0
LIMITS = np.array([[-5.0, 5.0]])
TABLES = {"labels": (Owners.one_each(1), "full"), "k-means": (Owners(()), "full"), "not solved": (Owners(()), "VEE")}


def score_of_a_fit(model, privacy, without, present, there):
    """All sums of one fit: the row's part is known at each, as it is of what was seen before; and the largest mu."""
    computation = ask_private(privacy, model, N_SITES)
    ask, score, spent, found = next(computation), 0.0, 0.0, None
    while found is None:
        parts = ask.part(without), ask.part(present)
        words = ask.code.encode(parts[there], N_SITES)
        if isinstance(ask.code, Noised):
            apart, known = (parts[1] - parts[0])[:, :-1].sum(axis=0), parts[0][HONEST, :-1].sum(axis=0)
            score += log_ratio(ask.code.decode(words[HONEST].sum(axis=0)), known, apart)
            spent += apart @ apart
        try:
            ask = computation.send(ask.code.decode(words.sum(axis=0)))
        except StopIteration as end:
            found = end.value
    assert math.sqrt(spent) <= found.guarantee.mu * (1 + 1e-9)
    assert found.guarantee.mu <= privacy.mu * (1 + 1e-6)
    return score, math.sqrt(spent)


def scores_of_fits(case):
    """Of many fits of one component to one feature, of a row that always weighs as much as a row can."""
    owners, covariance_type = TABLES[case]
    model = Model(1, ["x"], owners, ["a"] * owners.owned, None, covariance_type, 1e-6, 1.0, 0)
    X = list(np.random.default_rng(2).normal(size=(N_SITES, 500, 1)))
    without, present = neighbours(X, np.array([5.0]), 0 if owners.owned else -1, LIMITS)
    found = []
    for there in (0, 1):
        for run in range(RUNS):
            privacy = Privacy.of(
                {"epsilon": EPSILON, "bounds": [-5, 5], "colluding": COLLUDING, "noise_seed": 2 * run + there}
            )
            found.append(score_of_a_fit(model, privacy, without, present, there))
    scores, spent = np.array(found).T
    return scores[:RUNS], scores[RUNS:], spent, privacy


@pytest.mark.slow
@pytest.mark.parametrize("case", TABLES)
def test_an_attack_on_all_sums_of_a_fit_finds_what_is_claimed_and_no_more(case):
    without, present, spent, privacy = scores_of_fits(case)
    assert spent.max() < privacy.mu * (1 + 1e-6)
    assert spent.min() > 0.95 * privacy.mu  # as bad a row as there can be
    for threshold in (-1.0, 0.0, 1.0):
        assert mu_at_least(without, present, threshold) < privacy.mu
        assert epsilon_at_least(without, present, privacy.delta, threshold) < EPSILON
    assert epsilon_of(mu_at_least(without, present, 0.0), privacy.delta) > 0.4 * EPSILON
    scaled = np.concatenate([without + spent[:RUNS] ** 2 / 2, present - spent[RUNS:] ** 2 / 2]) / spent
    assert stats.kstest(scaled, "norm").pvalue > 1e-3  # both are as Gaussian privacy says


@pytest.mark.slow
@pytest.mark.usefixtures("faint")
def test_it_notices_half_the_noise_in_a_fit():
    without, present, _, privacy = scores_of_fits("labels")
    assert mu_at_least(without, present, 0.0) > 1.3 * privacy.mu
    assert epsilon_of(mu_at_least(without, present, 0.0), privacy.delta) > 1.3 * EPSILON

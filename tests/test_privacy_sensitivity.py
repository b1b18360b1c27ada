"""What one row changes in a private fit's sums: never more than what their noise was made for."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limited
from hypothesis import strategies as st

from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta
from gaussip.mixture.units import Unit
from gaussip.privacy import BoundedRows, Privacy, ask_private, fit, look, start
from gaussip.privacy.accounting import together
from gaussip.privacy.fit import Model
from gaussip.privacy.look import Look
from gaussip.privacy.noised import Noised, Releases
from gaussip.privacy.plan import Plan

NEARLY = 1 + 1e-9
SETS = ((0,), (1, 2), (0, 2), (0, 1, 2))  # of components: those of rows with each label


class Watched(Releases):
    """Releases that keep what was asked last."""

    made_here: list = []  # noqa: RUF012

    def ask(self, name, mu, blocks, part):
        self.asked = name, mu, blocks, part
        Watched.made_here[:] = [self]
        return (yield from super().ask(name, mu, blocks, part))

    def refuse_beyond(self, held):
        """The part of one row alone: each block within its bound, and all together within what is kept account of."""
        _, mu, blocks, part = self.asked
        assert math.fsum(block.share for block in blocks) <= NEARLY
        norms = [np.linalg.norm(given.reshape(len(given), -1)) for given in part(held)]
        for norm, block in zip(norms, blocks, strict=True):
            assert norm <= block.bound * NEARLY
        apart = math.hypot(*(norm / block.deviation(mu) for norm, block in zip(norms, blocks, strict=True)))
        assert apart <= self.made[-1][1] * NEARLY
        return apart / self.made[-1][1]


def watched():
    below = random.Random(0).randrange
    return Watched(4, 2, lambda number, place: below)


def alone(limits, row, label=-1, weight=1.0, allowed=None):
    """One row at one site."""
    values = [np.asarray(row, dtype=float)[None]]
    return BoundedRows.within(limits, values, [np.array([label])], [np.array([weight])], allowed)


def asked(question, held, *about):
    """What the row adds to the first sum of a question; its share of what is allowed."""
    releases = watched()
    next(question(releases, *about))
    return releases.refuse_beyond(held)


cells = st.one_of(
    st.floats(-10, 10), st.floats(-1e3, 1e3), st.floats(allow_nan=False), st.sampled_from([0.0, np.nan, np.nan])
)
rows = st.lists(cells, min_size=1, max_size=5)
labels, weights, seeds = st.integers(-1, 3), st.floats(0, 1), st.integers(0, 2**32 - 1)


def some_limits(p, rng):
    low = rng.normal(size=p) * 10.0 ** rng.integers(-3, 4, p)
    return np.stack([low, low + 10.0 ** rng.uniform(-3, 4, p)], axis=1)


def some_unit(limits, rng):
    """As the first release may give it: a location within the limits, and any spread."""
    low, high = limits.T
    return Unit.of(low + (high - low) * rng.random(len(low)), (high - low) * 10.0 ** rng.uniform(-6, 1, len(low)))


def some_look(limits, rng):
    p = len(limits)
    return Look(1000.0, np.array([300.0, 300.0]), np.ones(p), some_unit(limits, rng), np.eye(p))


def some_theta(K, p, condition, rng):
    """Any mixture whose covariances have a Cholesky factor."""
    turned = np.linalg.qr(rng.normal(size=(K, p, p)))[0]
    values = 10.0 ** rng.uniform(-condition, 0, (K, p)) * 10.0 ** rng.uniform(-3, 3, (K, 1))
    covariances = (turned * values[:, None, :]) @ np.swapaxes(turned, -1, -2)
    covariances = (covariances + np.swapaxes(covariances, -1, -2)) / 2
    shares = np.maximum(rng.dirichlet(np.full(K, 0.3)), 1e-12)
    return Theta(shares / shares.sum(), rng.normal(size=(K, p)) * 10.0 ** rng.uniform(-2, 2), covariances)


@given(rows, labels, weights, seeds)
@limited(max_examples=200, deadline=None)
def test_one_row_in_the_first_release(row, label, weight, seed):
    rng = np.random.default_rng(seed)
    bounds = some_limits(len(row), rng)
    names = [f"x{j}" for j in range(len(row))]
    for n_classes in (0, 2):
        held = alone(bounds, row, label if n_classes else -1, weight, SETS)
        asked(look.ask_look, held, (0.3, 0.3), bounds, names, list(range(n_classes)))


@given(rows, weights, seeds)
@limited(max_examples=200, deadline=None)
def test_one_row_in_the_products(row, weight, seed):
    rng = np.random.default_rng(seed)
    bounds = some_limits(len(row), rng)
    unit, seen = some_unit(bounds, rng), np.ones(len(row))
    held = alone(bounds, row, weight=weight)
    asked(look._ask_products, held, 0.3, unit, 1000.0, seen)


@given(rows, labels, weights, seeds)
@limited(max_examples=200, deadline=None)
def test_one_row_in_the_start(row, label, weight, seed):
    """By labels, and by k-means from any centres, several sets of them or one."""
    rng = np.random.default_rng(seed)
    p = len(row)
    bounds = some_limits(p, rng)
    seen, radius = some_look(bounds, rng), math.sqrt(p) + start.BEYOND
    held = alone(bounds, row, label, weight, SETS)
    asked(start._ask_classes, held, 0.3, seen, radius, 2)
    for trials in (1, start.TRIALS):
        centres = rng.normal(size=(trials, 3, p)) * 10.0 ** rng.uniform(-2, 1)
        if seed % 2:
            centres[0] = np.where(np.isnan(row), 0.0, seen.unit.standard_rows(held.values[0][0]))
        for labelled in (False, True):
            asked(start._ask_lloyd, held, 0.3, seen, radius, centres, labelled)


@given(rows, labels, weights, seeds, st.sampled_from([0, 1, 4, 8, 12, 14]), st.booleans())
@limited(max_examples=400, deadline=None)
def test_one_row_in_a_round(row, label, weight, seed, condition, grouped):
    """At any mixture, however ill its covariances are conditioned."""
    rng = np.random.default_rng(seed)
    p = len(row)
    bounds = some_limits(p, rng)
    theta, unit = some_theta(3, p, condition, rng), some_unit(bounds, rng)
    plan = Plan.of(0.3, 3, p, "labels", "full")
    held = alone(bounds, row, label if grouped else min(label, 2), weight, SETS if grouped else None)
    asked(fit._ask_moments, held, plan, 0.3, theta, unit)


@pytest.mark.parametrize("condition", [2, 6, 10, 12, 14])
def test_a_row_with_missing_cells_where_covariances_are_nearly_singular(condition):
    """Its observed cells are turned into those of all features: by a rotation, to the last digits."""
    rng = np.random.default_rng(condition)
    for _ in range(200):
        p = int(rng.integers(2, 6))
        turned = np.linalg.qr(rng.normal(size=(p, p)))[0]
        values = np.concatenate([[1.0, 10.0**-condition], 10.0 ** -rng.uniform(0, condition, p - 2)])
        covariance = (turned * values) @ turned.T
        theta = Theta(np.ones(1), np.zeros((1, p)), ((covariance + covariance.T) / 2)[None])
        row = rng.normal(size=p) * 1e3
        row[rng.permutation(p)[: rng.integers(1, p)]] = np.nan
        bounds, plan = np.tile([-1e6, 1e6], (p, 1)), Plan.of(0.3, 1, p, "kmeans", "full")
        unit = Unit.of(np.zeros(p), np.ones(p))
        asked(fit._ask_moments, alone(bounds, row), plan, 0.3, theta, unit)


@pytest.mark.parametrize("p", [1, 2, 8, 30])
def test_rows_at_zero_and_rows_of_nothing(p):
    """Of length zero in standard units: no division by it."""
    rng = np.random.default_rng(p)
    bounds, unit = np.tile([-3.0, 3.0], (p, 1)), Unit.of(np.zeros(p), np.ones(p))
    seen, radius = Look(1e3, np.full(2, 300.0), np.ones(p), unit, np.eye(p)), math.sqrt(p) + start.BEYOND
    plan, theta = Plan.of(0.3, 1, p, "kmeans", "full"), Theta(np.ones(1), np.zeros((1, p)), np.eye(p)[None])
    for row in (np.zeros(p), np.full(p, np.nan), np.where(np.arange(p) % 2, np.nan, 0.0)):
        held = alone(bounds, row, 0)
        asked(look.ask_look, held, (0.3, 0.3), bounds, [f"x{j}" for j in range(p)], ["ill", "well"])
        asked(look._ask_products, held, 0.3, unit, 1e3, np.ones(p))
        asked(start._ask_classes, held, 0.3, seen, radius, 2)
        asked(start._ask_lloyd, held, 0.3, seen, radius, rng.normal(size=(4, 3, p)), False)
        asked(fit._ask_moments, held, plan, 0.3, theta, unit)


@pytest.mark.parametrize("p", [1, 2, 3, 6])
def test_bounds_are_no_larger_than_they_must_be(p):
    """A labelled row far out, with all its cells: in a round, for one, it is at all three bounds at once."""
    bounds, unit = np.tile([-20.0, 20.0], (p, 1)), Unit.of(np.zeros(p), np.ones(p))
    rng = np.random.default_rng(p)
    theta, plan = some_theta(2, p, 1, rng), Plan.of(0.3, 2, p, "labels", "full")
    theta = theta._replace(means=rng.normal(size=(2, p)), covariances=theta.covariances / theta.covariances.max())
    seen, radius = Look(1e3, np.full(2, 300.0), np.ones(p), unit, np.eye(p)), math.sqrt(p) + start.BEYOND
    held = alone(bounds, np.full(p, 20.0), 1)
    shares = {
        "features": asked(look.ask_look, held, (0.3, 0.3), bounds, [f"x{j}" for j in range(p)], ["ill", "well"]),
        "products": asked(look._ask_products, held, 0.3, unit, 1e3, np.ones(p)),
        "labels": asked(start._ask_classes, held, 0.3, seen, radius, 2),
        "k-means": asked(start._ask_lloyd, held, 0.3, seen, radius, np.zeros((4, 2, p)), True),
        "round": asked(fit._ask_moments, held, plan, 0.3, theta, unit),
    }
    assert min(shares.values()) > 0.99, shares


CASES = {
    "k-means": (Owners(()), None, 2, "full"),
    "labels": (Owners.one_each(2), None, 2, "full"),
    "sets": (Owners((2, 1)), ((0, 1), (2,), (0, 2)), 4, "full"),
    "not solved": (Owners.one_each(2), None, 2, "VEE"),
}
LIMITS = np.array([[-12.0, 14.0], [-9.0, 11.0]])


def tables(case):
    """6000 rows at 4 sites, of two features of which some cells are missing."""
    owners, allowed, K, covariance_type = CASES[case]
    rng = np.random.default_rng(len(case))
    group = rng.integers(K, size=6000)
    X = np.array([[0.0, 0.0], [5.0, 3.0], [-4.0, 4.0], [1.0, -5.0]])[group] + rng.normal(size=(6000, 2))
    X[rng.random((6000, 2)) < 0.05] = np.nan
    y = np.full(6000, -1)
    known = rng.random(6000) < 0.3
    of_component = owners.classes(K)
    y[known] = of_component[group[known]]
    if allowed is not None:
        y[known & (group % 2 == 0) & (y >= 0) & (rng.random(6000) < 0.2)] = 2
    model = Model(
        K, ["a", "b"], owners, [str(c) for c in range(owners.owned)], allowed, covariance_type, 1e-6, 1.0, 0
    )
    return model, np.split(X, 4), np.split(y, 4)


def others(X, n_labels):
    """Rows that may be added: at the limits, beyond them, at the middle, in the rows, with missing cells."""
    nan, inf = np.nan, np.inf
    places = {
        "corner": (14, 11), "other corner": (-12, 11), "beyond": (1e12, -1e12), "infinite": (-inf, inf),
        "middle": (0, 0), "at a component": (5, 3), "half": (nan, 11), "other half": (-1e9, nan), "empty": (nan, nan),
        "a row again": X[0][17],
    }  # fmt: skip
    given = {name: (place, -1, 1.0) for name, place in places.items()}
    for label in range(n_labels):
        given |= {f"{name}, label {label}": (places[name], label, 1.0) for name in ("corner", "half", "middle")}
    return given | {"light": (places["corner"], -1, 0.3)}


def each_sum(computation, held):
    """Run a computation; at every sum with noise, what there is to be asked."""
    ask = next(computation)
    while True:
        here = ask.part(held)
        if isinstance(ask.code, Noised):
            yield ask, here
        total = ask.code.decode(ask.code.encode(here, len(here)).sum(axis=0))
        try:
            ask = computation.send(total)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("case", CASES)
def test_one_row_in_every_sum_of_a_fit(case, monkeypatch):
    """From the same public state, added to a site; the fit goes on from the sums without it."""
    model, X, y = tables(case)
    held = BoundedRows.within(LIMITS, X, y, None, model.allowed)
    n_labels = len(model.owners.counts if model.allowed is None else model.allowed)
    added = {}
    for name, (place, label, weight) in others(X, n_labels).items():
        values, labels = [np.vstack([X[0], place]), *X[1:]], [np.append(y[0], label), *y[1:]]
        light = [np.append(np.ones(len(X[0])), weight), *(np.ones(len(x)) for x in X[1:])]
        added[name] = BoundedRows.within(LIMITS, values, labels, light, model.allowed)
    monkeypatch.setattr(fit, "Releases", Watched)
    privacy = Privacy.of({"epsilon": 8, "bounds": LIMITS.tolist(), "noise_seed": 5})
    seen = 0
    for ask, here in each_sum(ask_private(privacy, model, 4), held):
        (releases,) = Watched.made_here
        name, mu, size = releases.made[-1]
        assert here.shape == (4, size + 1)  # the last is the site's place
        apart = {other: np.linalg.norm(ask.part(rows) - here) for other, rows in added.items()}
        assert max(apart.values()) <= mu * NEARLY, (name, apart)
        if name in ("products", "moments"):
            assert max(apart.values()) > 0.9 * mu, (name, apart)
        seen += 1
    assert seen == len(releases.made) >= 15
    assert together(mu for _, mu, _ in releases.made) <= privacy.mu * (1 + 1e-6)
    spent = {name: math.hypot(*(mu for other, mu, _ in releases.made if other == name)) for name, *_ in releases.made}
    assert math.hypot(*spent.values()) > 0.999 * privacy.mu, spent

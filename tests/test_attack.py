"""What a curious site computes from what it receives: everything under gossip, nothing under masked.

The attacker follows the protocol to the letter, and keeps what it receives.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from attacker import moments_under_exact, rows_behind
from gaussip.exchange.masks import Masks
from gaussip.mixture.density import responsibilities
from gaussip.mixture.theta import Theta
from gaussip.mixture.units import unit_of
from gaussip.phases.base import NothingKept
from gaussip.phases.program import Program
from gaussip.phases.task import LocalData, make_task
from gaussip.studies.simulation_model import Setting, draw
from identities import Always, identities, transcript
from programs import run_together, settings

NAMES = tuple(f"site{m}" for m in range(8))
SMALL = 3  # the site of six rows, three links away from the attacker
ME = 0


def federation(algorithm, **changed):
    """Eight sites on a ring whose patients differ, one of them with six rows; its task and rows."""
    data = draw(Setting(n_rows=800, n_sites=8, n_features=2, delta=2, labelled=0.0), 5)
    rows = [X if m != SMALL else X[:6] for m, X in enumerate(data.by_site(data.X))]
    start = Theta(np.full(3, 1 / 3), data.truth.means + 0.3, np.stack([np.cov(np.concatenate(rows).T)] * 3))
    found = {"n_features": 2, "owners": None, "start": start, "max_rounds": 40, "reg_covar": 0.0}
    return make_task(NAMES, **settings(algorithm, **found | changed)), [LocalData(X, None, None) for X in rows], start


def moments_of(X, start):
    """psi of a site's own map F_m at the start, by SciPy's densities: the squares are about the start's means."""
    share, (i, j) = responsibilities(X, start)[0], np.triu_indices(X.shape[1])
    Z = X[:, None, :] - start.means
    products = np.einsum("nk,nkf->kf", share, Z[..., i] * Z[..., j])
    return np.concatenate([share.sum(axis=0)[:, None], share.T @ X, products], axis=1) / len(X)


def observed(task, rows):
    """What the attacker received and sent in the fit, exchange by exchange."""
    programs = [Program(task, m, local) for m, local in enumerate(rows)]
    received, sent, absorb = [], [], programs[ME].absorb

    def keeping(messages):
        if programs[ME].phase.name == "fit":
            received.append(dict(messages))
            sent.append(dict(programs[ME].outgoing().message))
        absorb(messages)

    programs[ME].absorb = keeping
    for program in programs:
        program.start()
    run_together(programs)
    return received, sent


def test_under_exact_one_site_computes_everybody_s_moments_and_a_small_site_s_rows():
    """The attack is right: moments four hops away to 1e-9, and all rows of a site of six."""
    task, rows, start = federation("exact")
    received, sent = observed(task, rows)
    found, rank = moments_under_exact(task, start, received, ME, sent)
    assert rank == 7  # as many independent equations as unknown sites
    unit = unit_of(start)
    for m, moments in found.items():
        np.testing.assert_allclose(unit.original(moments), moments_of(rows[m].X, start), rtol=0, atol=1e-9)
    guessed = rows_behind(unit.original(found[SMALL]), start, len(rows[SMALL].X))
    order = [int(np.argmin(((guessed - row) ** 2).sum(axis=1))) for row in rows[SMALL].X]
    assert sorted(order) == list(range(6))
    np.testing.assert_allclose(guessed[order], rows[SMALL].X, rtol=0, atol=1e-6)


@pytest.fixture
def one_way_to_split(monkeypatch):
    """Numbers have one split into limbs, so that parts can be compared; tests/test_codes.py looks at the splits."""
    monkeypatch.setattr("gaussip.exchange.codes._chance", lambda shape, below: np.zeros(shape, dtype=np.int64))


class Remembering(NothingKept):
    """What a site keeps of its sums, for a look at its parts as they are sent."""

    def __init__(self):
        self.sent = []

    def keep_part(self, phase, number, words):
        self.sent.append(words)


class World:
    """A federation whose sites hold some rows, and all that is sent in it."""

    def __init__(self, task, rows, proved, monkeypatch, mask=lambda site, number, mask: mask):
        taken, self.masks = Masks.__dict__["of"], [[] for _ in rows]

        def of(masks, number, chain, size):
            used = mask(masks._index, number - 1, taken(masks, number, chain, size))
            self.masks[masks._index].append(used)
            return used

        kept = [Remembering() for _ in rows]
        with monkeypatch.context() as patched:
            patched.setattr(Masks, "of", of)
            self.programs = [
                Program(task, m, local, None, proved[m], bytes([m + 1] * 32), kept[m]) for m, local in enumerate(rows)
            ]
            for program in self.programs:
                program.start()
            self.received = transcript(self.programs)
        self.sent = [one.sent for one in kept]

    def part(self, site, number):
        """A site's part of a sum, before it was masked."""
        return self.sent[site][number] - self.masks[site][number]

    def seen_by(self, sites):
        """All that some sites receive, in a form that can be compared."""
        return [
            {q: {name: part.tolist() for name, part in message.items()} for q, message in here.items()}
            for m in sites for here in self.received[m]
        ]  # fmt: skip


@pytest.mark.usefixtures("one_way_to_split")
@pytest.mark.parametrize("network", ["ring", "star", "circle"])
def test_under_masked_all_sites_but_two_learn_nothing_but_sums(network, tmp_path, monkeypatch):
    """What M - 2 colluding sites see is the same, bit for bit, for two data sets with equal sums.

    In the second world the two honest sites hold each other's rows, and the mask that they share is such that what
    each sends is what it sent before. Masks are uniform, so that both worlds are equally likely whatever is seen.
    """
    one, other = 2, 6
    settings = {"network": network, "max_rounds": 12, "tol": 0.0, "start": "kmeans"}
    task, rows, _ = federation("masked", **settings)
    proved = [Always(identity) for identity in identities(tmp_path, NAMES)]
    colluding = [m for m in range(len(NAMES)) if m not in (one, other)]
    first = World(task, rows, proved, monkeypatch)
    assert all(program.failure is None for program in first.programs)
    assert [program.round for program in first.programs] == [12] * 8

    def shared(site, number, mask):
        difference = first.part(one, number) - first.part(other, number)
        return mask + {one: difference, other: -difference}.get(site, 0)

    swapped = list(rows)
    swapped[one], swapped[other] = rows[other], rows[one]
    second = World(task, swapped, proved, monkeypatch, shared)
    assert second.seen_by(colluding) == first.seen_by(colluding)
    assert (first.part(one, 5) != second.part(one, 5)).any()  # the parts differ, the sums do not
    for mine, theirs in zip(first.programs[0].estimate(), second.programs[0].estimate(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with_its_own_mask = World(task, swapped, proved, monkeypatch)
    assert with_its_own_mask.seen_by(colluding) != first.seen_by(colluding)  # the comparison can fail
    in_the_clear = [
        World(task._replace(hide=False), there, proved, monkeypatch, shared).seen_by(colluding)
        for there in (rows, swapped)
    ]
    assert in_the_clear[0] != in_the_clear[1]


@pytest.mark.usefixtures("one_way_to_split")
def test_what_a_site_sends_under_masked_is_uniform(tmp_path, monkeypatch):
    """All words of all sums of a run, of the small site and of a large one; and none tells of its part."""
    task, rows, _ = federation("masked", start="search", at_least=3, max_rounds=200, tol=0.0)
    world = World(task, rows, identities(tmp_path, NAMES), monkeypatch)
    for site in (SMALL, 5):
        sent = np.concatenate(world.sent[site])
        parts = np.concatenate([world.part(site, number) for number in range(len(world.sent[site]))])
        assert len(sent) > 5000
        assert (parts == 0).mean() > 0.05  # where a part is zero, a mask that were not uniform would show
        assert stats.kstest(sent.view(np.uint64) / 2.0**64, "uniform").pvalue > 1e-3
        counts = np.bincount(sent.view(np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-3
        assert abs(np.corrcoef(sent.astype(float), parts.astype(float))[0, 1]) < 0.05
        assert len(np.unique(sent)) == len(sent)


def test_the_sums_that_all_learn_are_the_pooled_moments(tmp_path, monkeypatch):
    """What is not hidden: the total at each mixture. All sites but one together know that one's part."""
    task, rows, _ = federation("masked", max_rounds=3, tol=0.0)
    world = World(task, rows, identities(tmp_path, NAMES), monkeypatch)
    for number in range(len(world.sent[0])):
        parts = np.stack([world.part(m, number) for m in range(len(NAMES))])
        assert (np.sum([world.sent[m][number] for m in range(len(NAMES))], axis=0) == parts.sum(axis=0)).all()

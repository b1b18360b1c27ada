"""Sums of which no site learns another's part."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from gaussip.phases.masked_sums import SumsPhase
from scipy import stats

from gaussip.errors import DataError, FederationError
from gaussip.exchange import sums
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.networks import diameter, mixing_weights


class Parts(SumsPhase):
    """Sums of given parts, one after the other."""

    name, doing, result = "test", "summing", None

    def __init__(self, secret, index, n_sites, width, values=()):
        task = SimpleNamespace(diameter=width, sites=range(n_sites), longest_message=0)
        super().__init__(SimpleNamespace(task=task, index=index, secret=secret))
        self.values, self.totals = values, []

    @classmethod
    def begin(cls, context, results):
        raise NotImplementedError

    @property
    def over(self):
        return len(self.totals) == len(self.values)

    def _part(self):
        return self.values[len(self.totals)]

    def _take(self, total):
        self.totals.append(total)


def added(values, W, secrets):
    """All sites' sums, exchange by exchange: what each ends with for each sum, and what each received."""
    M = len(values)
    phases = [Parts(secret, m, M, diameter(W), values[m]) for m, secret in enumerate(secrets)]
    near, received = [Neighbours(W, m) for m in range(M)], []
    while not phases[0].over:
        sent, before = [phase.message() for phase in phases], len(phases[0].totals)
        tables = []
        for phase, place, mine in zip(phases, near, sent, strict=True):
            heard = {q: sent[q] for q in place.heard}
            assert all(phase.check(message) for message in heard.values())
            flood = phase.memory.flood
            combined = place.combine(mine, heard)
            tables.append(flood.after(combined).table)
            phase.absorb(combined)
        if len(phases[0].totals) > before:
            received.append(tables)
    return [np.stack(totals) for totals in zip(*(phase.totals for phase in phases), strict=True)], received


@pytest.mark.parametrize("network", ["ring", "circle", "star", "complete"])
def test_all_sites_end_with_the_sum_to_the_last_bit(network):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(5, 2, 4)) * [1e6, 1.0, 1e-3, 1e9]
    W = mixing_weights(network, range(5), "row", 0)
    found, _ = added(values, W, [rng.bytes(32) for _ in range(5)])
    for number, one in enumerate(found):
        assert (one == sums.agreed(values[:, number])).all()
        np.testing.assert_allclose(one[0], values[:, number].sum(axis=0), rtol=0, atol=5 * 2.0**-17)


def test_what_is_told_of_a_part_is_chance():
    """Uniform over all numbers, whatever the part, and another one each time."""
    rng = np.random.default_rng(2)
    values = np.full((3, 2, 500), -12345.678)
    W = mixing_weights("ring", range(3), "row", 0)
    _, told = added(values, W, [rng.bytes(32) for _ in range(3)])
    first, second = (round_of[0][1] for round_of in told)  # what site 0 knows of site 1
    for numbers in (first, second, first - sums.encode(values[1, 0], 3)):
        assert stats.kstest(numbers % sums.MODULUS / sums.MODULUS, "uniform").pvalue > 1e-3
    assert (first != second).all()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.2


def test_two_sites_that_pool_what_they_know_do_not_learn_a_third_s():
    """Of four sites: without the secret that the other two share, what one tells stays chance."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(4, 300))
    secrets = {frozenset((m, q)): rng.bytes(32) for m in range(4) for q in range(m)}
    told = sums.masked(values[0], 0, {q: secrets[frozenset((0, q))] for q in (1, 2, 3)}, "a")
    known = sums.masked(np.zeros(300), 0, {q: secrets[frozenset((0, q))] for q in (1, 2)}, "a")
    left = (told - known) % sums.MODULUS
    assert stats.kstest(left / sums.MODULUS, "uniform").pvalue > 1e-3


def test_negative_and_large_sums_and_what_cannot_be():
    limit = sums.LARGEST_SUM
    parts = np.array([[-0.3 * limit, 0.25], [-0.3 * limit, -0.5], [0.1 * limit, 0.0]])
    np.testing.assert_allclose(sums.agreed(parts), [-0.5 * limit, -0.25], rtol=1e-15)
    with pytest.raises(DataError, match="below"):
        sums.agreed(np.full((3, 1), 0.34 * limit))  # each could be told, but not their sum
    for impossible in (np.nan, np.inf, -np.inf, 1.01 * limit):
        with pytest.raises(DataError, match="not a finite number below"):
            sums.encode(np.array([0.0, impossible]), 1)


def test_what_a_neighbour_cannot_have_sent():
    machine = Parts(bytes(range(32)), 0, 3, 1)
    keys = machine.message()["max"]
    strange = np.where(np.isfinite(keys), keys + 1, keys)
    assert not machine.check({"max": strange})  # another key of mine
    half = keys.copy()
    half[1] = 0.5
    assert not machine.check({"max": half})
    half[1] = 2.0**40
    assert not machine.check({"max": half})
    half[1] = 7.0
    assert machine.check({"max": half})
    half[1] = 0.0
    assert not machine.check({"max": half})  # a key with which every secret is the same


def test_a_secret_that_was_lost():
    machine = Parts(bytes(range(32)), 0, 3, 1)
    other = Parts(bytes(32), 0, 3, 1)
    with pytest.raises(FederationError, match="not the one it began with"):
        other.resume(machine.memory, [])

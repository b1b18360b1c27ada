"""How sums travel: every plan ends with the sum at every site, and costs what it says."""

from __future__ import annotations

import numpy as np
import pytest

from gaussip.exchange.plan import Flood, Network, Tree
from gaussip.exchange.sums import Contradiction, Sum
from gaussip.networks import diameter, mixing_weights

NETWORKS = [
    ("ring", 9), ("star", 8), ("complete", 6), ("circle", 7), ("circle(2)", 9), ("fixed-degree(3)", 12),
    ("grid", 12), ("chain", 6), ("ring", 2),
]  # fmt: skip


def network_of(name, n_sites):
    return Network(mixing_weights(name, range(n_sites), seed=3))


class Planned(Sum):
    """A sum by a plan of one's choice."""

    def __init__(self, network, plan, index, words):
        self.chosen = plan
        senders = [q for q in range(network.n_sites) if index in network.receivers(q)]
        super().__init__(network, index, senders, words, receipts=False)

    def _plan(self, network, words):
        return self.chosen


def summed(network, plan, parts):
    """Every site's total, exchange by exchange, and the words that were sent."""
    sites = [Planned(network, plan, m, parts.shape[1]) for m in range(len(parts))]
    memories = [site.begun(part) for site, part in zip(sites, parts, strict=True)]
    sent = 0
    for _ in range(plan.exchanges):
        sides = [site.outgoing(memory) for site, memory in zip(sites, memories, strict=True)]
        for m, side in enumerate(sides):
            assert set(side.due) == {q for q, other in enumerate(sides) if m in other.to}
            sent += sum(values.size for values in side.message.values()) * len(side.to)
        for m, site in enumerate(sites):
            received = {q: sides[q].message for q in sides[m].due}
            for q, message in received.items():
                assert {name: part.shape for name, part in message.items()} == {
                    name: part.shape for name, part in sides[m].due[q].items()
                }
            memories[m] = site.absorbed(memories[m], received)
    assert all(site.over(memory) for site, memory in zip(sites, memories, strict=True))
    return [site.total(memory) for site, memory in zip(sites, memories, strict=True)], sent


@pytest.mark.parametrize(("name", "n_sites"), NETWORKS)
@pytest.mark.parametrize("kind", [Flood, Tree])
def test_every_site_ends_with_the_sum(name, n_sites, kind):
    network = network_of(name, n_sites)
    plan = Flood(network) if kind is Flood else Tree(network, network.root)
    parts = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (n_sites, 4))
    totals, sent = summed(network, plan, parts)
    for total in totals:
        assert (total == parts.sum(axis=0)).all()
    size = parts.shape[1]
    if kind is Tree:
        assert sent == 2 * (n_sites - 1) * size
        assert sent == plan.words_sent(size) - 12 * (n_sites * (n_sites - 1) + int(plan.up.sum()))
    else:
        assert sent * (size + 12) == plan.words_sent(size) * size


@pytest.mark.parametrize(("name", "n_sites"), NETWORKS)
def test_a_flood_takes_as_many_exchanges_as_the_network_is_wide(name, n_sites):
    network = network_of(name, n_sites)
    assert Flood(network).exchanges == diameter(mixing_weights(name, range(n_sites), seed=3)) == network.diameter


def test_the_plan_is_by_exchanges_and_then_by_bytes():
    ring, star = network_of("ring", 20), network_of("star", 20)
    assert str(ring.plan(88)) == "flood, 10 exchanges a sum"
    assert str(star.plan(88)) == "tree, 2 exchanges a sum"  # a flood takes as many, and more bytes
    assert star.plan(88).words_sent(88) < Flood(star).words_sent(88)
    assert str(network_of("complete", 6).plan(88)) == "flood, one exchange a sum"
    assert ring.plan(100_000).kind == "tree"  # twice the exchanges, but a tenth of the bytes
    assert ring.longest_sum == 20


def test_a_tree_of_many_sites_is_found_without_all_distances():
    network = network_of("random-regular(4)", 3000)
    plan = network.plan(88)
    assert isinstance(plan, Tree)
    exactly = Network(mixing_weights("random-regular(4)", range(3000), seed=3))
    radius = int(exactly.distances.max(axis=1).min())
    assert plan.exchanges <= 2 * radius + 2
    assert network.plan(88).words_sent(88) == 2 * 2999 * (88 + 12)


def test_two_parts_of_one_site_are_a_contradiction():
    network = network_of("ring", 4)
    site = Planned(network, Flood(network), 0, 2)
    memory = site.begun(np.zeros(2, dtype=np.int64))
    first = {q: {"sum": np.full((1, 2), q)} for q in (1, 3)}
    memory = site.absorbed(memory, first)
    mine, honest, other = (np.full(2, n) for n in (0, 7, 8))

    def received(*parts):
        return {q: {"sum": np.stack(parts[2 * place : 2 * place + 2])} for place, q in enumerate((1, 3))}

    assert site.absorbed(memory, received(mine, honest, mine, honest)).stage == 2
    assert site.absorbed(memory, received(mine, honest, mine, other)) == Contradiction(2, (1, 3))
    assert site.absorbed(memory, received(mine, honest, other, honest)) == Contradiction(0, (0, 3))  # its own part

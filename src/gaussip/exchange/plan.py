"""How a sum travels: as a flood or over a tree, exchange by exchange, as all sites derive it from the network.

Flood: every site sends on, in each exchange, the parts that it has just received; after as many exchanges as the
network is wide, all sites have all parts and add them up. Tree: parts are added on the way to the root, and the
total is sent back; twice the exchanges, but two vectors for each site in all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip.arrays import NDArray
from gaussip.networks import listening

MOST_FLOODED = 1000  # sites: above, distances between all of them are not computed, and sums take the tree
FLOOD_BYTES = 1 << 22  # the parts of a flood take no more at a site
AS_LONG = 500_000  # bytes that take as long as one exchange: 50 ms at 10 MB/s
RECEIPT = 12  # words that a site adds to its part: see `gaussip.exchange.receipts`
EVERYONES = 200  # sites up to which everyone's receipts reach everyone over a tree


class Stage(NamedTuple):
    """What one site sends in one exchange."""

    parts: tuple[int, ...]  #: rows of the values it sends: of a flood, whose parts; of a tree, the one sum
    receipts: tuple[int, ...]  #: whose receipts
    to: tuple[int, ...]  #: the sites it sends to


SILENT = Stage((), (), ())


class Plan(ABC):
    """The exchanges of one sum."""

    kind: str
    exchanges: int

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows of values that a site holds during a sum."""

    @abstractmethod
    def stage(self, site: int, number: int) -> Stage:
        """What a site sends in an exchange, counted from 0."""

    @abstractmethod
    def adds(self, number: int) -> bool:
        """Whether what arrives in an exchange is added to the row that a site holds, or takes its place."""

    @abstractmethod
    def known(self, site: int, number: int) -> tuple[int, ...]:
        """The rows that a site knows before an exchange, and that must not change."""

    @abstractmethod
    def words_sent(self, size: int) -> int:
        """Words that all sites together send in a sum of so many words, receipts included."""

    @abstractmethod
    def __str__(self) -> str:
        """The plan in words."""


class Flood(Plan):
    """All parts to all sites."""

    kind = "flood"

    def __init__(self, network: Network) -> None:
        self._network = network
        self.exchanges = network.diameter

    @property
    def rows(self) -> int:
        """One for each site."""
        return self._network.n_sites

    def stage(self, site: int, number: int) -> Stage:
        """The parts of the sites that are so many links away."""
        origins = tuple(np.flatnonzero(self._network.distances[:, site] == number).tolist())
        return Stage(origins, origins, self._network.receivers(site)) if origins else SILENT

    def adds(self, number: int) -> bool:
        """Parts are kept apart."""
        return False

    def known(self, site: int, number: int) -> tuple[int, ...]:
        """The parts of sites that are near enough, its own included."""
        return tuple(np.flatnonzero(self._network.distances[:, site] <= number).tolist())

    def words_sent(self, size: int) -> int:
        """Each site sends on all parts but those of the last exchange."""
        sent = (self._network.distances < self.exchanges).sum(axis=0)
        return int(sent @ self._network.n_receivers) * (size + RECEIPT)

    def __str__(self) -> str:
        return f"flood, {_counted(self.exchanges)} a sum"


class Tree(Plan):
    """Parts are added on the way to the root; the total is sent back."""

    kind = "tree"

    def __init__(self, network: Network, root: int) -> None:
        self._network, self.root = network, root
        self.up, self.down = network.distances_to(root), network.distances_from(root)
        self._height, self._depth = int(self.up.max()), int(self.down.max())
        self.exchanges = self._height + self._depth
        self.everyones = network.n_sites <= EVERYONES  # receipts go to everyone

    @property
    def rows(self) -> int:
        """The sum so far."""
        return 1

    def stage(self, site: int, number: int) -> Stage:
        """The site's sum to its parent, once all below it have sent theirs; later the total to its children."""
        if number < self._height:
            if self.up[site] != self._height - number:
                return SILENT
            return Stage((0,), self._below(site) if self.everyones else (site,), (self._parents_up[site],))
        if self.down[site] != number - self._height or not (children := self._children_down[site]):
            return SILENT
        return Stage((0,), tuple(range(self._network.n_sites)) if self.everyones else (site,), children)

    def adds(self, number: int) -> bool:
        """On the way up."""
        return number < self._height

    def known(self, site: int, number: int) -> tuple[int, ...]:
        """None: the sum changes."""
        return ()

    def words_sent(self, size: int) -> int:
        """Two vectors for each site but the root, with the receipts of all below, then of all."""
        n_sites = self._network.n_sites
        receipts = int(self.up.sum()) + (n_sites - 1) * n_sites if self.everyones else 2 * (n_sites - 1)
        return 2 * (n_sites - 1) * size + receipts * RECEIPT

    @property
    def _parents_up(self) -> tuple[int, ...]:
        return self._network.parents_up(self.root)

    @property
    def _children_down(self) -> tuple[tuple[int, ...], ...]:
        return self._network.children_down(self.root)

    def _below(self, site: int) -> tuple[int, ...]:
        """The site and all whose parts its sum holds."""
        below, children = [], [site]
        while children:
            below += children
            children = [m for m, parent in enumerate(self._parents_up) if parent in children and m != parent]
        return tuple(sorted(below))

    def __str__(self) -> str:
        return f"tree, {_counted(self.exchanges)} a sum"


class Network:
    """Who sends to whom, and how far sites are from each other.

    Parameters
    ----------
    weights : (M, M) sparse array, W with W[m, q] > 0 where m receives from q
    """

    def __init__(self, weights: Any) -> None:
        self._from = listening(weights)  # row m: the sites that m receives from
        self._from.sort_indices()
        self._to = sparse.csr_array(self._from.T)
        self._to.sort_indices()
        self.n_sites = int(self._from.shape[0])
        self.n_receivers = np.diff(self._to.indptr)
        self.distances_to = cache(self._distances_to)
        self.distances_from = cache(self._distances_from)
        self.parents_up = cache(self._parents_up)
        self.children_down = cache(self._children_down)
        self.plan = cache(self._plan)

    def receivers(self, site: int) -> tuple[int, ...]:
        """The sites that receive from a site."""
        return tuple(self._to.indices[self._to.indptr[site] : self._to.indptr[site + 1]].tolist())

    @property
    def distances(self) -> NDArray:
        """(M, M), the links from one site (row) to another."""
        if not hasattr(self, "_distances"):
            self._distances = _links(self._to, range(self.n_sites))
        return self._distances

    @property
    def diameter(self) -> int:
        """The exchanges after which all sites have received from all."""
        return max(1, int(self.distances.max()))

    def _distances_to(self, root: int) -> NDArray:
        return np.asarray(_links(self._from, [root])[0])

    def _distances_from(self, root: int) -> NDArray:
        return np.asarray(_links(self._to, [root])[0])

    def _parents_up(self, root: int) -> tuple[int, ...]:
        """For each site the first of those it sends to that is nearer to the root; the root for itself."""
        return tuple(_first_nearer(self._to, self.distances_to(root)))

    def _children_down(self, root: int) -> tuple[tuple[int, ...], ...]:
        """For each site those that receive the total from it."""
        children: list[list[int]] = [[] for _ in range(self.n_sites)]
        for site, parent in enumerate(_first_nearer(self._from, self.distances_from(root))):
            if site != root:
                children[parent].append(site)
        return tuple(map(tuple, children))

    @property
    def longest_sum(self) -> int:
        """The exchanges that no sum exceeds: a site is never further ahead of another."""
        tree = Tree(self, self.root).exchanges
        return tree if self.n_sites > MOST_FLOODED else max(tree, self.diameter)

    @property
    def root(self) -> int:
        """A site from which all others are near, both ways."""
        if not hasattr(self, "_root"):
            self._root = self._central()
        return self._root

    def _central(self) -> int:
        if self.n_sites <= MOST_FLOODED:
            return int((self.distances.max(axis=0) + self.distances.max(axis=1)).argmin())
        end = int(self.distances_from(0).argmax())  # in a large network, the middle of a longest path, nearly
        other = int(self.distances_from(end).argmax())
        worse = np.maximum(self.distances_from(end), self.distances_to(other))
        candidates = {0, int(worse.argmin())}
        return min(sorted(candidates), key=lambda r: int(self.distances_to(r).max() + self.distances_from(r).max()))

    def _plan(self, size: int) -> Plan:
        """The cheaper plan for sums of so many words; all sites derive the same."""
        tree = Tree(self, self.root)
        if self.n_sites > MOST_FLOODED or 8 * self.n_sites * (size + RECEIPT) > FLOOD_BYTES:
            return tree
        return min((Flood(self), tree), key=lambda plan: plan.exchanges + self._bytes_each(plan, size) / AS_LONG)

    def _bytes_each(self, plan: Plan, size: int) -> float:
        return 8 * plan.words_sent(size) / self.n_sites


def _links(steps: sparse.csr_array, sources: Any) -> NDArray:
    """Links on the shortest way from each source to every site, (S, M)."""
    found = sparse.csgraph.dijkstra(steps, indices=list(sources), unweighted=True)
    return np.asarray(np.where(np.isfinite(found), found, -1)).astype(np.int32)


def _first_nearer(steps: sparse.csr_array, distance: NDArray) -> Iterator[int]:
    """For each site the first that is one step away and one link nearer; itself where the distance is zero."""
    for site in range(len(distance)):
        row = steps.indices[steps.indptr[site] : steps.indptr[site + 1]]
        nearer = row[distance[row] == distance[site] - 1]
        yield int(nearer[0]) if distance[site] else site


def _counted(exchanges: int) -> str:
    return "one exchange" if exchanges == 1 else f"{exchanges} exchanges"

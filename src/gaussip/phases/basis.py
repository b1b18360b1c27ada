"""How sites agree on a basis of principal components.

MEAN      the average of (rows, sums): the number of rows and the mean of all
SCATTER   the average of the squares and products about that mean, a chunk after the other
SIZE      the first site, which alone decomposes the covariance, floods how many components it keeps
BASIS     it floods the basis, a chunk after the other; the others check it against the covariance they know
DIGESTS   all flood the digest of what they have, and check that it is the same everywhere
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, DisagreementError
from gaussip.exchange import Message
from gaussip.mixture.theta import vech
from gaussip.phases import averaging
from gaussip.phases.base import Context, Phase
from gaussip.phases.flooding import Flood
from gaussip.phases.task import Wanted
from gaussip.rows.basis import Basis, decomposed, fits

MEAN, SCATTER, SIZE, BASIS, DIGESTS = range(5)
NOT_AVERAGED = averaging.Mixed(np.empty(0), np.empty(0), 0)


class Memory(NamedTuple):
    """All that a site must remember between two exchanges."""

    part: int  #: MEAN to DIGESTS
    done: int  #: numbers of this part that are agreed
    mixed: averaging.Mixed  #: what is being averaged
    flood: Flood  #: what is being flooded
    known: NDArray  #: (1 + p,), the number of rows and the mean, after MEAN
    covariance: NDArray  #: its vech, as far as it is agreed
    flat: NDArray  #: the basis as one vector, as far as it is known


class BasisPhase(Phase):
    """One site's part.

    Parameters
    ----------
    X : (n, p), the site's rows
    index : the site's
    """

    name = "basis"
    doing = "reducing"

    def __init__(self, X: NDArray, index: int, wanted: Wanted) -> None:
        self._X, self._index, self.wanted = X, index, wanted
        self.room = wanted.room
        self._contributed: NDArray | None = None  # to the present part
        self._basis: Basis | None = None
        empty = np.empty(0)
        self.memory = self._begun(Memory(MEAN, 0, NOT_AVERAGED, Flood(np.empty((1, 0)), 0), empty, empty, empty))

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> BasisPhase | None:
        """Where features are reduced, from the rows that count."""
        wanted, local = context.task.wanted, context.local
        if wanted is None or context.resumed is not None:
            return None
        return cls(local.X if local.weights is None else local.X[local.weights > 0], context.index, wanted)

    @property
    def over(self) -> bool:
        """Whether the basis is agreed on."""
        return self._basis is not None

    @property
    def result(self) -> Basis:
        """The same at all sites."""
        assert self._basis is not None
        return self._basis

    @property
    def share_done(self) -> float:
        """Of the work, about."""
        memory = self.memory
        return float((memory.part + memory.done / max(1, len(memory.covariance))) / (DIGESTS + 1))

    def resume(self, memory: Memory, totals: Any) -> None:
        """Continue from what was remembered; the site's own contribution is computed again."""
        self.memory, self._contributed = memory, None

    def message(self) -> Message:
        """The vector being averaged, or what is flooded."""
        memory = self.memory
        return {"mean": memory.mixed.y} if memory.part <= SCATTER else memory.flood.message()

    def check(self, message: Message) -> bool:
        """What is averaged is finite, which every exchange looks at; what is flooded agrees with what is known."""
        return bool(self.memory.part <= SCATTER) or self.memory.flood.agrees(message)

    def absorb(self, heard: Message) -> None:
        """One exchange; at the end of a piece the next begins, at the end of a part the next part."""
        memory, wanted = self.memory, self.wanted
        if memory.part <= SCATTER:
            mixed = averaging.after(memory.mixed, heard["mean"], wanted.plan)
            self.memory = memory._replace(mixed=mixed)
            if mixed.stage == len(wanted.plan.steps):
                self._agreed(mixed.y)
        else:
            flood = memory.flood.after(heard)
            self.memory = memory._replace(flood=flood)
            if flood.stage == wanted.diameter:
                self._agreed(flood.table.ravel())

    def _agreed(self, piece: NDArray) -> None:
        """A piece is agreed on."""
        memory, wanted, M = self.memory, self.wanted, len(self.wanted.sites)
        end = memory.done + len(piece)
        if memory.part == MEAN:
            known = np.concatenate([[np.round(M * piece[0])], piece[1:] / piece[0]])
            self._refuse_few(known[0])
            self._next(memory._replace(part=SCATTER, known=known, covariance=np.zeros(wanted.n_covariances)))
        elif memory.part == SCATTER:
            memory.covariance[memory.done : end] = piece * (M / (memory.known[0] - 1))
            self._go_on(end, len(memory.covariance), SIZE)
        elif memory.part == SIZE:
            d = self._checked_size(float(piece[0]))
            flat = np.zeros(wanted.flat_size(d)) if self._index else self._decomposed(memory)
            self._next(memory._replace(part=BASIS, flat=flat))
        elif memory.part == BASIS:
            if not np.isfinite(piece).all():
                raise self._disagreement("an incomplete basis")
            memory.flat[memory.done : end] = piece
            self._go_on(end, len(memory.flat), DIGESTS)
        else:
            self._compare(piece)

    def _go_on(self, done: int, size: int, then: int) -> None:
        if done < size:
            self.memory = self._begun(self.memory._replace(done=done))
        else:
            self._next(self.memory._replace(part=then))

    def _next(self, memory: Memory) -> None:
        self._contributed = None
        self.memory = self._begun(memory._replace(done=0))

    def _begun(self, memory: Memory) -> Memory:
        """The memory with the next piece of its part on the way."""
        if self._contributed is None:
            self._contributed = self._contribution(memory)
        piece = self._contributed[memory.done : memory.done + self.wanted.longest].copy()
        if memory.part <= SCATTER:
            return memory._replace(mixed=averaging.begin(piece, self.wanted.plan, self._index))
        flood = Flood(piece[None], 0)
        if memory.part == DIGESTS:
            flood = Flood.of_site(piece, self._index, len(self.wanted.sites))
        return memory._replace(mixed=NOT_AVERAGED, flood=flood)

    def _contribution(self, memory: Memory) -> NDArray:
        """All that the site contributes to a part; minus infinity where the first site alone does."""
        wanted = self.wanted
        if memory.part == MEAN:
            return np.concatenate([[float(len(self._X))], self._X.sum(axis=0)])
        if memory.part == SCATTER:
            apart = self._X - memory.known[1:]
            return np.asarray(vech(apart.T @ apart))
        if memory.part == DIGESTS:
            return np.array([self._digest(memory)])
        if self._index != 0:
            return np.full(1 if memory.part == SIZE else len(memory.flat), -np.inf)
        if memory.part == SIZE:
            n_components = (len(self._decomposed(memory)) - wanted.flat_size(0)) // (1 + wanted.n_features)
            return np.array([float(n_components)])
        return memory.flat.copy()

    def _decomposed(self, memory: Memory) -> NDArray:
        """The first site's basis as one vector."""
        wanted, known = self.wanted, memory.known
        basis = decomposed(known[0], known[1:], memory.covariance, wanted.keep, wanted.standardise)
        return np.concatenate([np.ravel(part) for part in basis])

    def _checked_size(self, d: float) -> int:
        """The number of components that the first site sent; what cannot work is refused at every site."""
        wanted = self.wanted
        if d == 0:
            raise DataError("all features are constant, at all sites: there is no variance to keep")
        if not (d.is_integer() and 1 <= d <= wanted.n_features):
            raise self._disagreement(f"a basis of {d:g} components, of {wanted.n_features} features")
        if d > wanted.most:
            raise DataError(
                f"{wanted.keep:g} of the variance needs {d:g} components, more than the {wanted.most} allowed; keep "
                "less, or allow more"
            )
        return int(d)

    def _unflattened(self, memory: Memory) -> Basis:
        p = self.wanted.n_features
        d = (len(memory.flat) - 2 - 2 * p) // (1 + p)
        count, mean, scale, total, variances, components = np.split(memory.flat, np.cumsum([1, p, p, 1, d]))
        return Basis(count[0, ...], mean, scale, total[0, ...], variances, components.reshape(d, p))

    def _digest(self, memory: Memory) -> float:
        """A number of 48 bits that stands for the basis; refused where the basis does not fit the rows."""
        basis = self._unflattened(memory)
        if not fits(basis, memory.known[1:], memory.covariance, self.wanted.standardise):
            raise self._disagreement("a basis that does not fit the covariance known here")
        return float(int(basis.digest()[:12], 16))

    def _compare(self, digests: NDArray) -> None:
        others = np.flatnonzero(digests != digests[self._index])
        if others.size:
            sites = self.wanted.sites
            raise DisagreementError(
                f"{sites[int(others[0])]} has another basis than {sites[self._index]}: start over at all sites"
            )
        self._basis = self._unflattened(self.memory)

    def _disagreement(self, what: str) -> DisagreementError:
        text = f"{self.wanted.sites[0]}, which computes the basis, sent {what}"
        return DisagreementError(f"{text}: start over at all sites, with one version")

    def _refuse_few(self, count: float) -> None:
        keep = self.wanted.keep
        if count < 2 or (isinstance(keep, int) and keep > count):
            raise DataError(f"{keep} components are more than the {count:g} rows of all sites have; keep fewer")

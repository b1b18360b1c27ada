"""How sites agree on a basis: one site's part as a machine that gives out messages and takes in what was heard.

MEAN      the average of (rows, sums): the number of rows and the mean of all
SCATTER   the average of the squares and products about that mean, a chunk after the other
SIZE      the first site, which alone decomposes the covariance, tells how many components it keeps
BASIS     it tells the basis, a chunk after the other; the others see that it is one of the covariance they know
DIGESTS   all tell the digest of what they have, and see that it is the same everywhere

Averages are by `gaussip.phases.averaging`. What one site tells all is flooded: what is not known is minus infinity,
and each exchange takes the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, DisagreementError
from gaussip.exchange import Message
from gaussip.mixture.theta import vech
from gaussip.networks import diameter
from gaussip.phases import averaging
from gaussip.rows.basis import Basis, decomposed, fits

MEAN, SCATTER, SIZE, BASIS, DIGESTS = range(5)
CHUNK = 2**17  # numbers of one message, a megabyte


class Reduction(NamedTuple):
    """How features are to be reduced."""

    keep: float | int  #: components, or the share of the variance that they exceed
    standardise: bool  #: whether features are first divided by their standard deviations
    most: int  #: the most components that may be kept


class Wanted(NamedTuple):
    """What is to be agreed on, and over what network."""

    keep: float | int  #: as in `Reduction`
    standardise: bool
    most: int
    n_features: int
    sites: tuple[str, ...]
    plan: averaging.Plan
    diameter: int

    @property
    def longest(self) -> int:
        """Numbers that no message exceeds."""
        largest = max(self.n_covariances, self.told(self.most))
        return max(min(CHUNK, largest), len(self.sites), 1 + self.n_features)

    @property
    def room(self) -> int:
        """Bytes that no memory exceeds."""
        return 8 * (2 * self.longest + 1 + self.n_features + self.n_covariances + self.told(self.most)) + 1024

    @property
    def n_covariances(self) -> int:
        """Variances, and covariances of two features."""
        return self.n_features * (self.n_features + 1) // 2

    def told(self, d: int) -> int:
        """Numbers that a basis of d components takes."""
        return 2 + 2 * self.n_features + d * (1 + self.n_features)


def wanted_of(reduction: Reduction, n_features: int, sites: tuple[str, ...], W: Any) -> Wanted:
    """What sites over a network are to agree on."""
    return Wanted(*reduction, n_features, sites, averaging.plan_of(W), max(1, diameter(W)))


class Memory(NamedTuple):
    """All that a site must remember between two exchanges."""

    phase: int
    done: int  #: numbers of this phase that are agreed
    mixed: averaging.Mixed  #: what is being averaged or told
    known: NDArray  #: (1 + p,), the number of rows and the mean, after MEAN
    covariance: NDArray  #: its vech, as far as it is agreed
    told: NDArray  #: the basis, as far as it is told


class Agreement:
    """One site's part.

    Parameters
    ----------
    X : (n, p), the site's rows
    index : the site's
    """

    def __init__(self, X: NDArray, index: int, wanted: Wanted) -> None:
        self._X, self._index, self.wanted = X, index, wanted
        self._own: NDArray | None = None  # what the site contributes to the phase
        self.basis: Basis | None = None
        nothing = np.empty(0)
        self.memory = self._begun(Memory(MEAN, 0, averaging.Mixed(nothing, nothing, 0), nothing, nothing, nothing))

    @property
    def over(self) -> bool:
        """Whether the basis is agreed on."""
        return self.basis is not None

    def resume(self, memory: Memory) -> None:
        """Go on from what was remembered; the site's own contribution is computed anew."""
        self.memory, self._own = memory, None

    def message(self) -> Message:
        """What the neighbours get."""
        return {"mean" if self.memory.phase <= SCATTER else "max": self.memory.mixed.y}

    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this: what is told is whole, and the same wherever it is known."""
        if self.memory.phase <= SCATTER:
            return True  # finite, which every exchange looks at
        told, mine = message["max"], self.memory.mixed.y
        both = np.isfinite(told) & np.isfinite(mine)
        whole = np.isfinite(told) | (told == -np.inf)
        return bool(whole.all() and (told[both] == mine[both]).all())

    def absorb(self, heard: Message) -> None:
        """One exchange; at the end of a piece the next is begun, at the end of a phase the next phase."""
        state, w = self.memory, self.wanted
        if state.phase <= SCATTER:
            mixed = averaging.after(state.mixed, heard["mean"], w.plan)
            left = len(w.plan.steps) - mixed.stage
        else:
            mixed = state.mixed._replace(y=np.maximum(state.mixed.y, heard["max"]), stage=state.mixed.stage + 1)
            left = w.diameter - mixed.stage
        self.memory = state._replace(mixed=mixed)
        if left == 0:
            self._agreed(mixed.y)

    def _agreed(self, piece: NDArray) -> None:
        """A piece is agreed on."""
        state, w, M = self.memory, self.wanted, len(self.wanted.sites)
        end = state.done + len(piece)
        if state.phase == MEAN:
            known = np.concatenate([[np.round(M * piece[0])], piece[1:] / piece[0]])
            self._refuse_few(known[0])
            self._next(state._replace(phase=SCATTER, known=known, covariance=np.zeros(w.n_covariances)))
        elif state.phase == SCATTER:
            state.covariance[state.done : end] = piece * (M / (state.known[0] - 1))
            self._go_on(end, len(state.covariance), SIZE)
        elif state.phase == SIZE:
            d = self._checked_size(float(piece[0]))
            told = np.zeros(w.told(d)) if self._index else self._whole(state)
            self._next(state._replace(phase=BASIS, told=told))
        elif state.phase == BASIS:
            if not np.isfinite(piece).all():
                raise self._disagreement("no whole basis")
            state.told[state.done : end] = piece
            self._go_on(end, len(state.told), DIGESTS)
        else:
            self._compare(piece)

    def _go_on(self, done: int, size: int, then: int) -> None:
        if done < size:
            self.memory = self._begun(self.memory._replace(done=done))
        else:
            self._next(self.memory._replace(phase=then))

    def _next(self, state: Memory) -> None:
        self._own = None
        self.memory = self._begun(state._replace(done=0))

    def _begun(self, state: Memory) -> Memory:
        """The memory with the next piece of its phase on the way."""
        if self._own is None:
            self._own = self._contribution(state)
        own = self._own[state.done : state.done + self.wanted.longest].copy()
        if state.phase <= SCATTER:
            return state._replace(mixed=averaging.begin(own, self.wanted.plan, self._index))
        return state._replace(mixed=averaging.Mixed(own, own[:0], 0))

    def _contribution(self, state: Memory) -> NDArray:
        """All that the site contributes to a phase."""
        w = self.wanted
        if state.phase == MEAN:
            return np.concatenate([[float(len(self._X))], self._X.sum(axis=0)])
        if state.phase == SCATTER:
            apart = self._X - state.known[1:]
            return np.asarray(vech(apart.T @ apart))
        if state.phase == DIGESTS:
            table = np.full(len(w.sites), -np.inf)
            table[self._index] = self._digest(state)
            return table
        if self._index != 0:
            return np.full(1 if state.phase == SIZE else len(state.told), -np.inf)
        if state.phase == SIZE:
            n_components = (len(self._whole(state)) - w.told(0)) // (1 + w.n_features)
            return np.array([float(n_components)])
        return state.told.copy()

    def _whole(self, state: Memory) -> NDArray:
        """The first site's basis, one part after the other."""
        basis = decomposed(
            state.known[0], state.known[1:], state.covariance, self.wanted.keep, self.wanted.standardise
        )
        return np.concatenate([np.ravel(part) for part in basis])

    def _checked_size(self, d: float) -> int:
        """The number of components that the first site told; what cannot go on is refused at every site."""
        w = self.wanted
        if d == 0:
            raise DataError("all features are constant, at all sites: there is no variance to keep")
        if not (d.is_integer() and 1 <= d <= w.n_features):
            raise self._disagreement(f"a basis of {d:g} components, of {w.n_features} features")
        if d > w.most:
            raise DataError(
                f"{w.keep:g} of the variance needs {d:g} components, more than the {w.most} allowed; keep less, or "
                "allow more"
            )
        return int(d)

    def _told(self, state: Memory) -> Basis:
        p = self.wanted.n_features
        d = (len(state.told) - 2 - 2 * p) // (1 + p)
        count, mean, scale, total, variances, components = np.split(state.told, np.cumsum([1, p, p, 1, d]))
        return Basis(count[0, ...], mean, scale, total[0, ...], variances, components.reshape(d, p))

    def _digest(self, state: Memory) -> float:
        """A number of 48 bits that stands for the basis; refused where the basis is not that of the rows."""
        basis = self._told(state)
        if not fits(basis, state.known[1:], state.covariance, self.wanted.standardise):
            raise self._disagreement("a basis that is not that of the covariance known here")
        return float(int(basis.digest()[:12], 16))

    def _compare(self, digests: NDArray) -> None:
        others = np.flatnonzero(digests != digests[self._index])
        if others.size:
            sites = self.wanted.sites
            raise DisagreementError(
                f"{sites[int(others[0])]} has another basis than {sites[self._index]}: begin anew at all sites"
            )
        self.basis = self._told(self.memory)

    def _disagreement(self, what: str) -> DisagreementError:
        return DisagreementError(
            f"{self.wanted.sites[0]}, which tells the basis, told {what}: begin anew at all sites, with one version"
        )

    def _refuse_few(self, count: float) -> None:
        keep = self.wanted.keep
        if count < 2 or (isinstance(keep, int) and keep > count):
            raise DataError(f"{keep} components are more than the {count:g} rows of all sites have; keep fewer")


def agree(machines: list[Agreement], exchange: Callable[[Message], Message], watch: Callable[[float], None]) -> int:
    """Run all sites' machines in this process, to the end; ``exchange`` takes the sites along the first axis.

    Returns the number of exchanges; ``watch`` is told the share of the work that is done.
    """
    exchanges = 0
    while not machines[0].over:
        exchanges += 1
        told = [machine.message() for machine in machines]
        heard = exchange({channel: np.stack([one[channel] for one in told]) for channel in told[0]})
        for m, machine in enumerate(machines):
            machine.absorb({channel: values[m] for channel, values in heard.items()})
        state = machines[0].memory
        watch((state.phase + state.done / max(1, len(state.covariance))) / (DIGESTS + 1))
    return exchanges

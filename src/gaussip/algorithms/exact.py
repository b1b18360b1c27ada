"""Exact network EM: the pooled estimate at every site, without MNEM's bias, on any connected two-way network.

Exact diffusion (NIDS) around EM's map: with V symmetric, positive semidefinite and doubly stochastic,

    phi_t = x_t + eta (nu_m F_m(x_t) - x_t),    x_(t+1) = V (phi_t + x_t - phi_(t-1))

whose only fixed points have the same x at all sites, with x = sum_m (n_m / N) F_m(x): pooled EM's. V is a polynomial
of the Metropolis weights that takes some exchanges (Chebyshev's), as many as keep sites near enough to each other for
a step of nearly one. Sites find that number themselves: they first tell each other who hears whom.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from gaussip.algorithms.base import Algorithm, Info, register
from gaussip.algorithms.site import MOST_LISTED, Site
from gaussip.arrays import Array, namespace, to_numpy
from gaussip.errors import SettingError, Text
from gaussip.exchange import Message
from gaussip.mixture.theta import Psi, Theta, to_psi, to_theta
from gaussip.mixture.units import Unit, unit_of
from gaussip.mixture.validity import healthy
from gaussip.networks.balance import diameter
from gaussip.networks.weights import metropolis
from gaussip.rows.moments import Moments, summary

STEP = 0.9  # eta
APART = 0.25  # what V may leave of the sites' differences in a step, for equal sites
START, FIRST = 0.05, 5  # V leaves so much less in so many first steps, in which sites learn how they differ
RESTARTS = 8  # after so many an impossible mixture is a collapse
BITS = 24  # of a list of neighbours, in one number: exact in float32 too


class Plan(NamedTuple):
    """What all sites derive from the network: plain numbers."""

    diameter: int  #: rounds until everybody has heard of everybody
    exchanges: int  #: J, of one step
    first: int  #: of each of the first steps
    low: float  #: the least eigenvalue of the Metropolis weights
    high: float  #: the largest but one

    @property
    def growth(self) -> list[float]:
        """T_0(s), ..., T_J(s) at s, where the eigenvalue 1 lies if low..high is -1..1."""
        s = (2.0 - self.high - self.low) / max(self.high - self.low, 1e-9)
        values = [1.0, s]
        while len(values) <= max(self.exchanges, self.first):
            values.append(2 * s * values[-1] - values[-2])
        return values


NO_PLAN = Plan(0, 0, 0, 0.0, 0.0)


class State(NamedTuple):
    """A site's memory; arrays have leading axes ``...``, the rest are plain numbers."""

    table: Array  #: (..., M, w): each site's neighbours and mass as far as heard, zeros elsewhere
    reference: Array  #: (..., 2, f): the unit that all sites compute in, so that rounding does not add up
    plan: Plan
    share: Array  #: nu_m, (..., 1, 1)
    eta: Array  #: (..., 1, 1)
    number: Array  #: (...), one plus the site's index
    restarts: Array  #: (...)
    fault: Array  #: (...), the number of a site where going back did not help, zero if there is none
    x: Psi
    phi: Psi  #: of the step before
    v: Psi  #: what this step mixes
    y: Psi  #: mixed so far
    before: Psi  #: the same one exchange before
    good: Psi  #: the last x that is a mixture
    safe: Psi  #: x when all sites last were known to hold mixtures
    last: Psi  #: x at the end of the block before
    block: Array  #: (..., 2), of this block: the site's number if x was no mixture, and its largest move over eta
    flooded: Array  #: (..., 2), the largest of both anywhere in the block before, as far as it has come
    settled: Array  #: (...), the largest move anywhere that all sites know of
    round: int  #: exchanges so far
    stage: int  #: exchanges of this step so far
    spent: int  #: exchanges of this block so far
    total: int  #: steps so far

    @property
    def wanted(self) -> int:
        """Exchanges of this step."""
        return self.plan.first if self.total < FIRST else self.plan.exchanges

    @property
    def started(self) -> bool:
        """Whether the survey is over, and x in the common unit."""
        return self.plan.exchanges > 0 and self.round >= self.plan.diameter

    @property
    def unit(self) -> Unit:
        """The common unit: the start's, or the largest of the sites' where they start apart."""
        return Unit(self.reference[..., :1, :], self.reference[..., 1:, :])

    def theta(self, x: Psi) -> Theta:
        """Theta of an x in the common unit."""
        return to_theta(self.unit.original(x))


@register
@dataclass(frozen=True)
class Exact(Algorithm):
    """Survey, then steps of J exchanges and one pass each.

    Where some site's x is no mixture, all sites learn of it within a block of as many exchanges as the network is
    wide, and in the same round go back to where all were well, with half the step.
    """

    name = "exact"
    title = "exact"
    network_sets_target = False
    two_way = True
    stops_together = True
    one_estimate = True
    shows_contraction = True
    most_restarts = RESTARTS

    def init(self, start: Theta, site: Site) -> State:
        """Begin at the start, knowing one's own neighbours."""
        xp = namespace(start.means)
        x, M = to_psi(start), site.links.shape[-1]
        if not M:
            raise SettingError(
                Text(
                    "{algorithm:'exact'} runs with at most {most} sites: every site keeps a list of all links",
                    most=MOST_LISTED,
                ),
                setting="algorithm",
                remedy=Text("use {algorithm:'masked'}"),
            )
        like = {"dtype": x.dtype, "device": x.device}
        itself = xp.astype(xp.arange(M, device=x.device) == site.index[..., None], x.dtype)
        packing = xp.asarray(_packing(M), **like)
        listed = xp.concat([site.links @ packing, site.share[..., None]], axis=-1)
        none = xp.zeros_like(site.share)
        return State(
            table=itself[..., None] * listed[..., None, :],
            reference=xp.concat(list(unit_of(start)), axis=-2),
            plan=NO_PLAN,
            share=site.share[..., None, None],
            eta=STEP * xp.ones_like(site.share)[..., None, None],
            number=xp.astype(site.index + 1, x.dtype),
            restarts=none,
            fault=none,
            x=x, phi=x, v=x, y=x, before=x, good=x, safe=x, last=x,
            block=_nothing(none), flooded=_nothing(none), settled=_nothing(none)[..., 1],
            round=0, stage=0, spent=0, total=0,
        )  # fmt: skip

    def message(self, state: State) -> Message:
        """While the network is surveyed, what is known of it; then the vector being mixed, and the flag."""
        if not state.started:
            parts = [
                namespace(part).reshape(part, (*state.restarts.shape, -1)) for part in (state.table, state.reference)
            ]
            return {"max": namespace(state.x).concat(parts, axis=-1)}
        return {"mean": state.y, "max": state.flooded}

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta | None]:
        """One exchange: of the survey, or of a step. Moments are wanted at the end of either."""
        xp = namespace(state.x)
        state = state._replace(round=state.round + 1)
        if "mean" not in heard:
            return self._surveyed(state, heard["max"])
        state = self._mixed(state, heard["mean"])._replace(flooded=xp.maximum(state.flooded, heard["max"]))
        if state.stage < state.wanted:
            return state, None
        state = self._guarded(state)
        return state, state.theta(state.good)

    def _surveyed(self, state: State, heard: Array) -> tuple[State, Theta | None]:
        """One round of the survey; at its end all sites know the same, and start."""
        xp = namespace(state.x)
        size = math.prod(state.table.shape[-2:])
        table = xp.maximum(state.table, xp.reshape(heard[..., :size], state.table.shape))
        reference = xp.maximum(state.reference, xp.reshape(heard[..., size:], state.reference.shape))
        state = state._replace(table=table, reference=reference)
        if state.plan.exchanges == 0 and bool(xp.all(xp.any(table > 0, axis=-1))):
            state = state._replace(plan=plan_of(table))
        if not state.started:
            return state, None
        x = state.unit.standard(state.x)
        share = state.share / xp.mean(table[..., -1], axis=-1)[..., None, None]
        state = state._replace(x=x, phi=x, v=x, y=x, before=x, good=x, safe=x, last=x, share=share)
        return state, state.theta(x)

    def _mixed(self, state: State, heard: Psi) -> State:
        """One exchange of Chebyshev's iteration; at its end x = V v."""
        plan, a, j = state.plan, state.plan.growth, state.stage + 1
        centre, half = (plan.high + plan.low) / 2, max(plan.high - plan.low, 1e-9) / 2
        scaled = (heard - centre * state.y) / half
        y = scaled / a[1] if j == 1 else (2 * a[j - 1] / a[j]) * scaled - (a[j - 2] / a[j]) * state.before
        state = state._replace(y=y, before=state.y, stage=j)
        if j < state.wanted:
            return state
        return state._replace(x=(y + state.v / a[j]) / (1 + 1 / a[j]))  # the polynomial's least value becomes zero

    def _guarded(self, state: State) -> State:
        """Look whether x is a mixture; at a block's end go on, or back."""
        xp = namespace(state.x)
        well = healthy(state.theta(state.x))
        good = xp.where(well[..., None, None], state.x, state.good)
        move = xp.max(xp.abs(good - state.good) / state.eta, axis=(-2, -1))
        block = xp.stack([xp.where(well, 0 * state.number, state.number), move], axis=-1)
        if state.spent:
            block = xp.maximum(state.block, block)
        state = state._replace(good=good, block=block, spent=state.spent + state.wanted, total=state.total + 1)
        if state.spent < state.plan.diameter:
            return state
        back = state.flooded[..., 0] > 0
        wide = back[..., None, None]

        def choose(then: Psi, otherwise: Psi) -> Psi:
            return xp.where(wide, then, otherwise)

        return state._replace(
            x=choose(state.safe, state.x),
            phi=choose(state.safe, state.phi),
            good=choose(state.safe, state.good),
            safe=choose(state.safe, state.last),
            last=choose(state.safe, state.x),
            eta=xp.where(wide, state.eta / 2, state.eta),
            restarts=state.restarts + xp.astype(back, state.x.dtype),
            fault=xp.where(state.restarts >= RESTARTS, state.flooded[..., 0], state.fault),
            flooded=xp.where(back[..., None], _nothing(state.restarts), state.block),
            settled=xp.where(back, _nothing(state.restarts)[..., 1], state.flooded[..., 1]),
            spent=0,
        )

    def update(self, state: State, moments: Moments) -> State:
        """phi, and the vector that the next exchanges mix."""
        mapped = state.share * state.unit.standard(summary(moments))
        phi = state.x + state.eta * (mapped - state.x)
        v = phi + state.x - state.phi
        return state._replace(phi=phi, v=v, y=v, before=v, stage=0)

    def info(self, state: State) -> Info:
        """All sites know the moves of a whole block, and who failed after all restarts, in the same round."""
        return Info(state.eta[..., 0, 0], state.restarts, state.settled, state.fault, state.block[..., 0] > 0)

    def attempt(self, state: State, moments: Moments) -> Theta:
        """Theta of x, from which the sites may have gone back."""
        return state.theta(state.x)

    def check(self, message: Message, state: State) -> bool:
        """What is flooded is whole and agrees with what is known; what is mixed need not be a mixture."""
        xp = namespace(state.x)
        if "mean" in message:
            fault, move = message["max"]
            return float(fault) in range(state.table.shape[-2] + 1) and bool(move >= 0)
        table = xp.reshape(message["max"][..., : math.prod(state.table.shape)], state.table.shape)
        known = xp.any(state.table > 0, axis=-1, keepdims=True) & xp.any(table > 0, axis=-1, keepdims=True)
        sound = (table >= 0) & (~known | (table == state.table))
        return bool(xp.all(sound)) and bool(xp.all(xp.isfinite(message["max"])))

    def estimate(self, state: State) -> Theta:
        """Theta of the last x that was a mixture; of x itself where going back did not help."""
        if not state.started:
            return to_theta(state.x)
        lost = state.restarts[..., None, None] >= RESTARTS
        return state.theta(namespace(state.x).where(lost, state.x, state.good))


def _nothing(like: Array) -> Array:
    """(..., 2), what is known before a block is over: no fault, and no limit to the moves."""
    xp = namespace(like)
    return xp.stack([xp.zeros_like(like), xp.full_like(like, math.inf)], axis=-1)


def _packing(n_sites: int) -> np.ndarray:
    """(M, w): what a list of neighbours, zeros and ones, is multiplied by to become a few whole numbers."""
    number = np.arange(n_sites)
    return np.where(number[:, None] // BITS == np.arange(-(-n_sites // BITS)), 2.0 ** (number[:, None] % BITS), 0.0)


def plan_of(table: Array) -> Plan:
    """The plan that every site makes of the same table."""
    tables = to_numpy(table)
    M = tables.shape[-2]
    tables = tables.reshape(-1, *tables.shape[-2:])
    numbers, mass = tables[0, :, :-1].astype(np.int64), tables[..., -1]
    site = np.arange(M)
    links = (numbers[:, site // BITS] >> (site % BITS)) & 1
    if M == 1:
        return Plan(1, 1, 1, 0.0, 0.0)
    graph = sparse.csr_array(links.astype(float))
    eigenvalues = np.linalg.eigvalsh(metropolis(graph).toarray())
    plan = Plan(diameter(graph), 1, 1, float(eigenvalues[0]), float(eigenvalues[-2]))
    largest = mass.max(axis=-1) / mass.mean(axis=-1)
    plans = {_with_exchanges(plan, float(nu)) for nu in (largest.min(), largest.max())}
    if len(plans) > 1:
        raise SettingError(
            "exact cannot run replicates side by side whose sites differ so much in size; run them apart"
        )
    return plans.pop()


def _with_exchanges(plan: Plan, largest: float) -> Plan:
    """The exchanges that V needs, for the largest share of the mean mass.

    The slack lets sites whose eigenvalues differ in the last digit decide alike.
    """
    allowed = (1 + 1e-6) * APART / math.sqrt(largest)  # large sites pull harder
    while 2 / (plan.growth[plan.exchanges] + 1) > allowed:
        plan = plan._replace(exchanges=plan.exchanges + 1)
    plan = plan._replace(first=plan.exchanges)
    while 2 / (plan.growth[plan.first] + 1) > START * allowed:
        plan = plan._replace(first=plan.first + 1)
    return plan

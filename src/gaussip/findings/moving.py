"""Findings about the history: too few rounds, too large a step, overlapping groups, agreed but still moving."""

import math
from typing import Any

import numpy as np

from gaussip import algorithms
from gaussip.findings.decay import (
    GOAL,
    LEAST,
    REST,
    SLOW,
    contraction,
    labels_needed,
    late_decay,
    rounds_to,
)
from gaussip.findings.evidence import SITE, Evidence
from gaussip.findings.finding import Finding, again, rounded_up
from gaussip.settings import default

FEWEST = 100  # rounds to ask for
WANDERS = 10.0  # times its net gain: a likelihood that goes up and down this much makes no progress
STANDS = 0.5  # times an earlier change: a change that is still this large does not fall
DAMPED = 5.0  # times 1 / eta rounds: less than a hundredth of the start's oscillation is left
LARGE = 100.0  # times tol: a change this large is far from converged
LITTLE = 0.1  # times the distance to go: sites this near to each other agree
FLAT = 0.01  # relative variation of a disagreement that has settled


def not_enough_rounds(evidence: Evidence) -> Finding | None:
    """The rounds ran out before the change reached tol."""
    if evidence.converged or not evidence.over or evidence.failure or evidence.tol <= 0 or swings(evidence):
        return None
    last = _last_change(evidence)
    if last < REST:  # rounding keeps it from reaching tol
        return None
    decay = late_decay(evidence)
    shown = {"rounds": evidence.rounds, "change": last, "tol": evidence.tol}
    if decay is None:
        return Finding(
            "not enough rounds", shown,
            f"The rounds ran out after {len(evidence.passes)} steps, too few for a prediction (it needs {LEAST}).",
            _continue(evidence, None), (1, evidence.rounds), "change",
        )  # fmt: skip
    missing = rounds_to(evidence.tol, decay)
    if missing is None:
        return Finding(
            "not enough rounds", shown,
            f"The rounds ran out while the change ({last:.2g}) did not yet fall at a steady rate, so the rounds "
            f"needed cannot be predicted.{_faster(evidence)}",
            _continue(evidence, None), (decay.first, evidence.rounds), "change",
        )  # fmt: skip
    needed = evidence.rounds + missing
    a_round = 1 - decay.rate**decay.steps_per_round
    return Finding(
        "not enough rounds", shown | {"rounds needed": needed, "falls by a round": a_round},
        f"The rounds ran out while the change was still falling, by {100 * a_round:.2g}% a round: it reaches "
        f"tol={evidence.tol:g} after about {missing} more, {needed} in all. The remedy allows for half as many more."
        f"{_faster(evidence)}",
        _continue(evidence, missing),
        (decay.first, evidence.rounds), "change", (evidence.tol, needed),
    )  # fmt: skip


def _continue(evidence: Evidence, missing: int | None) -> str:
    """More rounds, half as many again as are missing; at least the default if that is not known.

    Too many do no harm, since a fit stops by itself, and too few lead to the same finding again. A fit that continues
    counts its rounds from zero; real sites with other settings start from the beginning.
    """
    before = evidence.rounds if evidence.source == SITE else 0
    asked = rounded_up(before + (evidence.rounds if missing is None else missing))
    return again(
        evidence, goes_on=True, max_rounds=max(asked, FEWEST if missing is not None else default("max_rounds"))
    )


def _faster(evidence: Evidence) -> str:
    """What else helps, for an algorithm with a step."""
    if not algorithms.has_step(evidence.algorithm):
        return ""
    return " Masked, or a larger eta, takes fewer."


def step_too_large(evidence: Evidence) -> Finding | None:
    """The run oscillates, undid steps, or ended with an invalid mixture."""
    stepped = algorithms.has_step(evidence.algorithm)
    if stepped:
        other: dict[str, Any] = {"eta": float(f"{evidence.eta / 4:.2g}")}
    else:
        other = {"algorithm": "masked"}
    restarts = evidence.restarts if evidence.kind.most_restarts else 0  # others go back as a matter of course
    if evidence.failure and not restarts:
        return Finding(
            "step too large", {"ended with": evidence.failure, "eta": evidence.eta, "round": evidence.rounds},
            f"The run ended in round {evidence.rounds} with an invalid mixture ({evidence.failure}): the step is too "
            "large for the sites' rows, or a component has too few rows.",
            again(evidence, **other), (max(1, evidence.rounds - 1), evidence.rounds), "change",
        )  # fmt: skip
    if restarts:
        ended = "gave up after" if evidence.failure else "continued after"
        times = "once" if restarts == 1 else f"{restarts} times"
        return Finding(
            "step too large", {"steps undone": restarts, "step now": evidence.eta},
            f"{evidence.kind.title.capitalize()} {ended} undoing its steps {times} ({evidence.kind.most_restarts} "
            "are allowed), halving the step each time: some site's mixture was invalid. It now takes "
            f"{2**restarts} times the rounds; masked has no step, and a better connected network or a start nearer "
            "the answer avoids that too.",
            again(evidence, **other), (1, evidence.rounds), "log_likelihood",
        )  # fmt: skip
    if evidence.converged or not (swing := swings(evidence)):
        return None
    near = nearest(evidence)
    return Finding(
        "step too large",
        {"eta": evidence.eta, "swing of the log-likelihood": swing, "change": _last_change(evidence)},
        f"The log-likelihood swings by {swing:.2g} from step to step and the change does not fall: with this step "
        f"the iterates oscillate and do not converge. Take no site for nearer to its goal than {near:.2g}.",
        again(evidence, **other), (_late(evidence), evidence.rounds), "log_likelihood",
    )  # fmt: skip


def swings(evidence: Evidence) -> float:
    """The mean swing of the likelihood in a step if it makes no progress and the change does not fall, else zero."""
    half = len(evidence.passes) // 2
    value, change = evidence.log_likelihood[half:], evidence.change[half:]
    if len(evidence.passes) < LEAST or not np.isfinite(value).all() or not np.isfinite(change).all():
        return 0.0
    if evidence.eta * half < DAMPED:  # on a circle the start goes round until 1 - eta has damped it
        return 0.0
    quarter = len(change) // 2
    stands = np.median(change[quarter:]) > STANDS * np.median(change[:quarter]) and change[-1] > 1e3 * REST
    moves = np.abs(np.diff(value))
    no_progress = moves.sum() > WANDERS * abs(value[-1] - value[0])
    return float(moves.mean()) if stands and no_progress and moves.mean() > REST else 0.0


def nearest(evidence: Evidence) -> float:
    """How near to the answer a run that oscillates may be taken to be: its largest late change."""
    return float(np.max(evidence.change[len(evidence.passes) // 2 :]))


def poor_separation(evidence: Evidence) -> Finding | None:
    """EM itself converges slowly, because components overlap."""
    decay = late_decay(evidence)
    L = contraction(evidence, decay)
    if decay is None or L is None or L <= SLOW:
        return None
    missing = 0 if evidence.converged else rounds_to(evidence.tol or GOAL, decay) or 0
    needed = evidence.rounds + missing
    target = int(evidence.settings["max_rounds"]) if needed > evidence.settings["max_rounds"] else needed // 10
    share = labels_needed(evidence, decay, L, target)
    steps = math.log(10) / -math.log(decay.rate)
    last = _last_change(evidence)
    distance = last / (1 - L)
    enough = f"labels on {100 * share:.2g}% of the unlabelled rows bring" if share <= 1 else "no labels bring"
    return Finding(
        "poor separation",
        {"contraction L": L, "steps for a digit": steps, "rounds needed": needed, "labels needed, share": share,
         "rounds with them": target, "distance to go": distance},
        f"Components overlap, so an EM step removes only {100 * (1 - L):.2g}% of the remaining distance "
        f"(L = {L:.4f}): a digit takes {steps:.0f} steps, and at a change of {last:.1g} about {distance:.1g} is "
        f"still to go; {enough} the fit to {target} rounds.",
        f"label {100 * share:.2g}% of the rows, if you can, then: {again(evidence, labels=True)}" if share <= 1
        else again(evidence, goes_on=True, max_rounds=rounded_up(needed)),
        (decay.first, evidence.rounds), "change",
        None if evidence.converged or not missing else (evidence.tol or GOAL, needed),
    )  # fmt: skip


def agreed_but_moving(evidence: Evidence) -> Finding | None:
    """Sites no longer come nearer to each other, but all still move: the network is not what is slow."""
    decay = late_decay(evidence)
    last, apart = _last_change(evidence), evidence.disagreement
    if evidence.converged or decay is None or swings(evidence) or last <= LARGE * (evidence.tol or GOAL):
        return None
    to_go = last * evidence.eta / (1 - decay.rate) if decay.rate < 1 else math.inf
    from_round = _late(evidence)
    late = apart[evidence.round >= from_round]
    little, settled = late[-1] <= LITTLE * to_go, late.max() - late.min() <= FLAT * late[-1]
    if not little and not settled:
        return None
    missing = rounds_to(evidence.tol or GOAL, decay)
    together = f"agree to {late[-1]:.2g}" if little else f"stay {late[-1]:.2g} apart and come no nearer to each other"
    distance = f"about {to_go:.2g} to go" if decay.rate < 1 else "an unknown distance to go"
    return Finding(
        "agreed but still moving",
        {"disagreement": float(late[-1]), "change": last, "distance to go": to_go},
        f"The sites {together}, but all still move, with {distance}. The network is not what is slow: another one "
        "will not help; more rounds, labels or a better start will.",
        _continue(evidence, missing), (from_round, evidence.rounds), "disagreement",
    )  # fmt: skip


def _last_change(evidence: Evidence) -> float:
    known = evidence.change[np.isfinite(evidence.change)]
    return float(known[-1]) if known.size else math.inf


def _late(evidence: Evidence) -> int:
    """The first round of the last half of the steps."""
    return int(evidence.round[len(evidence.round) // 2])

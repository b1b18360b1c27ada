"""All checks of a run, and the diagnosis that they give together."""

from collections.abc import Callable
from typing import NamedTuple

from gaussip.algorithms.base import NEIGHBOURS
from gaussip.findings import components, moving, sites
from gaussip.findings.evidence import Evidence
from gaussip.findings.finding import Finding


class Check(NamedTuple):
    """A check for one kind of fault."""

    name: str
    look: Callable[[Evidence], Finding | None]
    why_not: Callable[[Evidence], str]  #: why it cannot be judged; empty if it can
    at_fit: bool = False  #: whether a fit runs it and warns: certain and cheap


def _course(run: Evidence) -> str:
    return "" if len(run.passes) > 1 else "the file keeps the last round only"


def _ended(run: Evidence) -> str:
    return "the sites are still running" if not run.over else _course(run)


def _estimate(run: Evidence) -> str:
    return "" if run.theta is not None else "no estimate was kept"


def _network(run: Evidence) -> str:
    return "the network was drawn at random, from a seed that is not kept" if run.W is None and _several(run) else ""


def _several(run: Evidence) -> bool:
    return len(run.names) > 1


def _estimates(run: Evidence) -> str:
    if run.sites is None:
        return "a site knows only its own estimate"
    return "" if _several(run) else "there is one site"


def _comparable(run: Evidence) -> str:
    """Why sites cannot be compared with each other."""
    if why := _estimates(run):
        return why
    if run.kind.one_estimate:
        return f"{run.algorithm} gives all sites the same estimate; a fit with mnem shows it"
    return "" if len(run.names) >= sites.LEAST else f"at least {sites.LEAST} sites are needed"


def _contraction(run: Evidence) -> str:
    """Why EM's contraction cannot be seen."""
    return _course(run) or (
        "" if run.kind.steady else f"accelerated {run.algorithm} does not show it; a fit with accelerate=False does"
    )


def _together(run: Evidence) -> str:
    if run.kind.source == NEIGHBOURS:
        return _estimates(run)
    return _estimates(run) or f"{run.algorithm} does not bring sites together step by step"


OF_COMPONENTS = (
    Check("far wider component", components.far_wider_component, _estimate),
    Check("collapsed component", components.collapsed_component, _estimate, at_fit=True),
    Check("duplicated component", components.duplicated_component, _estimate, at_fit=True),
    Check("too many components", components.too_many_components, _estimate),
)
CHECKS = (  # in the order in which to try their remedies: rows, components, the step, the network, rounds
    Check("a site pulls away", sites.site_apart, _comparable),
    *OF_COMPONENTS,
    Check("step too large", moving.step_too_large, _course, at_fit=True),
    Check("unbalanced network", sites.unbalanced_network, _network),
    Check("settled apart", sites.settled_apart, _together),
    Check("poor separation", moving.poor_separation, _contraction),
    Check("agreed but still moving", moving.agreed_but_moving, lambda run: _together(run) or _course(run)),
    Check("not enough rounds", moving.not_enough_rounds, _ended),
)
OF_PRIVATE_FITS = (  # whose rounds are planned, and whose likelihood nobody knows
    *OF_COMPONENTS,
    Check("more than noise", components.more_than_noise, _estimate),
)


class Diagnosis(NamedTuple):
    """The findings, and which checks were made."""

    findings: list[Finding]
    judged: list[str]
    not_judged: dict[str, str]  #: the reasons, by check


def examine(run: Evidence, checks: tuple[Check, ...] | None = None) -> Diagnosis:
    """Run all checks that can be judged; by default those for its kind of fit."""
    if checks is None:
        checks = OF_PRIVATE_FITS if run.private else CHECKS
    reasons = {check.name: check.why_not(run) for check in checks}
    results = [check.look(run) for check in checks if not reasons[check.name]]
    return Diagnosis(
        [finding for finding in results if finding is not None],
        [name for name, why in reasons.items() if not why],
        {name: why for name, why in reasons.items() if why},
    )

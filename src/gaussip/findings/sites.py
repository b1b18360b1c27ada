"""Findings that compare sites: a network that counts some more, a site that pulls away, sites that stay apart.

MNEM's sites end where psi_m = (1 - eta) psi~_m + eta F_m(psi~_m), psi~ the neighbourhood's average. So what each
site's own rows say, F_m, is known from the sites' estimates alone, to the accuracy of the last change.
"""

from __future__ import annotations

import numpy as np

from gaussip.algorithms import REGISTRY
from gaussip.arrays import NDArray
from gaussip.findings.decay import contraction, late_decay
from gaussip.findings.evidence import Evidence
from gaussip.findings.finding import Finding, again
from gaussip.mixture.theta import to_psi
from gaussip.mixture.units import Unit, unit_of
from gaussip.networks import degree_shares, imbalance, stationary_weights

UNFAIR = 1e-6  # by which a row may count more at one site than at another
LEAST = 4  # sites of which one can be told to be odd
AWAY = 8.0  # times the median distance: a site so far from the others is not one of them
SETTLED = 10.0  # times tol: a change that is nearly done


def unbalanced_network(evidence: Evidence) -> Finding | None:
    """The network counts some sites' rows more than others', and nothing corrects it."""
    if not REGISTRY[evidence.algorithm].network_sets_target or evidence.W is None:
        return None
    counted = len(evidence.names) * stationary_weights(evidence.W) * _factor(evidence)
    counted /= counted.mean() if evidence.settings["weighting"] == "equal" else evidence.mass / evidence.mass.mean()
    if np.abs(counted - 1).max() <= UNFAIR:
        return None
    low, high = int(counted.argmin()), int(counted.argmax())
    shown = {
        "SE(W)": imbalance(evidence.W), "counts least": float(counted[low]), "counts most": float(counted[high]),
        "at": [str(evidence.names[low]), str(evidence.names[high])],
    }  # fmt: skip
    text = (
        f"On this network a row counts {counted[low]:.2f} times at site {evidence.names[low]} and "
        f"{counted[high]:.2f} times at site {evidence.names[high]} (SE(W) = {shown['SE(W)']:.2f}), so that the fit "
        "does not aim at the pooled estimate, whatever eta and however long"
    )
    if evidence.sites is not None and evidence.algorithm == "mnem":
        least, most = _shift(evidence, counted)
        noise = evidence.sampling_error
        shown |= {"bias at least about": least, "bias at most about": most, "sampling error": noise}
        text += f"; it is off by about {least:.2g} to {most:.2g}, where the sampling error is {noise:.2g}"
    return Finding("unbalanced network", shown, f"{text}.", _fair(evidence), (1, evidence.rounds), "disagreement")


def _fair(evidence: Evidence) -> str:
    """Exact, on the same network where it is two-way."""
    if evidence.two_way:
        return again(evidence, algorithm="exact")
    return again(evidence, algorithm="exact", network="ring")


def _factor(evidence: Evidence) -> NDArray:
    """What multiplies each site's map: its share of the rows, divided by its balance as its degree tells it."""
    if evidence.settings["weighting"] == "equal":
        return np.ones(len(evidence.names))
    return np.asarray(evidence.mass / evidence.mass.mean() / degree_shares(evidence.W))


def own_maps(evidence: Evidence) -> NDArray:
    """F_m of every site of MNEM, (M, K, f), in the consensus' standard units, from the sites' estimates.

    The mass that rides in psi's scale settles where it is eta times the factors, mixed: known from the network.
    """
    assert evidence.W is not None
    assert evidence.sites is not None
    eta, W = evidence.eta, evidence.W.toarray()
    scale = np.linalg.solve(np.eye(len(W)) - (1 - eta) * W, eta * _factor(evidence))
    psi = scale[:, None, None] * to_psi(evidence.sites)
    maps = (psi - (1 - eta) * np.tensordot(W, psi, axes=1)) / eta
    return np.asarray(_unit(evidence).standard(maps / maps[..., :1].sum(axis=-2, keepdims=True)))


def _unit(evidence: Evidence) -> Unit:
    assert evidence.theta is not None
    return unit_of(evidence.theta)


def _shift(evidence: Evidence, counted: NDArray) -> tuple[float, float]:
    """How far the sum of the sites' maps is off, and how far the estimate can be: 1 / (1 - L) times that."""
    right = _rightly(evidence)
    shift = np.tensordot(right * counted / (right @ counted) - right, own_maps(evidence), axes=1)
    least = float(np.sqrt(np.sum(shift**2)))
    L = contraction(evidence, late_decay(evidence)) or 0.0
    return least, least / (1 - L)


def _rightly(evidence: Evidence) -> NDArray:
    """What each site should count."""
    mass = np.ones_like(evidence.mass) if evidence.settings["weighting"] == "equal" else evidence.mass
    return np.asarray(mass / mass.sum())


def site_apart(evidence: Evidence) -> Finding | None:
    """One site whose estimate, or whose rows, are far from all the others'."""
    assert evidence.sites is not None
    if evidence.algorithm == "mnem" and evidence.W is not None:
        told, what = own_maps(evidence), "its own rows say something else than the other sites'"
    else:
        told, what = _unit(evidence).standard(to_psi(evidence.sites)), "its estimate is far from the other sites'"
    apart = told - np.median(told, axis=0)
    small = np.sqrt(np.minimum(1.0, evidence.mass / np.median(evidence.mass)))  # a small site's moments are noisier
    distance = small * np.sqrt(np.sum(apart**2, axis=(-2, -1)))
    usual, m = float(np.median(distance)), int(distance.argmax())
    if distance[m] <= AWAY * usual or distance[m] <= evidence.sampling_error:
        return None
    name = str(evidence.names[m])
    return Finding(
        "a site pulls away", {"site": name, "distance": float(distance[m]), "median distance": usual},
        f"Site {name} pulls away: {what}, {distance[m]:.2g} from their median in standard units; half of the sites "
        f"are within {usual:.2g}. Other units, another coding, or other patients?",
        f"look at the table of site {name}; without it: {_without(evidence, name)}",
        (evidence.rounds, evidence.rounds), "disagreement",
    )  # fmt: skip


def _without(evidence: Evidence, name: str) -> str:
    if evidence.path:
        return again(evidence).replace("TABLE", f"TABLE-WITHOUT-{name}")
    return f"mixture.fit(X[sites != {name!r}], sites=sites[sites != {name!r}])"


def settled_apart(evidence: Evidence) -> Finding | None:
    """Nothing moves any more, and the sites still differ by more than the sampling error: MNEM's bias."""
    apart = float(evidence.disagreement[-1])
    still = evidence.converged or evidence.change[-1] <= SETTLED * evidence.tol
    if not still or not apart > evidence.sampling_error:
        return None
    shown = {"disagreement": apart, "sampling error": evidence.sampling_error, "change": float(evidence.change[-1])}
    text = (
        f"Nothing moves any more, but the sites are {apart:.2g} apart, more than the sampling error of "
        f"{evidence.sampling_error:.2g}: each keeps a share of its own rows' answer"
    )
    if evidence.algorithm == "mnem" and evidence.W is not None and (eta := _eta_for(evidence)) is not None:
        shown |= {"eta that would do": eta}
        text += f". With eta={eta:g} they would be nearer than that, and exact has no such bias"
    return Finding(
        "settled apart", shown, f"{text}.", _fair(evidence),
        (int(evidence.round[len(evidence.round) // 2]), evidence.rounds), "disagreement",
    )  # fmt: skip


def _eta_for(evidence: Evidence) -> float | None:
    """A step, of those halved from this one, that leaves the sites nearer than the sampling error."""
    maps, W = own_maps(evidence), evidence.W.toarray()  # type: ignore[union-attr]
    eta = evidence.eta
    for _ in range(20):
        eta /= 2
        mixed = eta * np.linalg.solve(np.eye(len(W)) - (1 - eta) * W, maps.reshape(len(W), -1))
        apart = mixed - mixed.mean(axis=0)
        if np.sqrt(np.mean(np.sum(apart**2, axis=1))) < evidence.sampling_error:
            return float(f"{eta:.2g}")
    return None

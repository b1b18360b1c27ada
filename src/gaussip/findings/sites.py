"""Findings that compare sites: a network that weights them unequally, a site that pulls away, sites that stay apart.

MNEM's sites end where psi_m = (1 - eta) psi~_m + eta F_m(psi~_m), with psi~ the neighbourhood's average. So each
site's map F_m is known from the sites' estimates alone, to the accuracy of the last change.
"""

import numpy as np

from gaussip.arrays import NDArray
from gaussip.findings.decay import contraction, late_decay
from gaussip.findings.evidence import Evidence
from gaussip.findings.finding import Finding, again
from gaussip.mixture.theta import to_psi
from gaussip.mixture.units import Unit, unit_of
from gaussip.networks import degree_shares, imbalance, stationary_weights

UNFAIR = 1e-6  # the largest difference in a row's weight that is rounding
LEAST = 4  # sites needed to name the odd one
AWAY = 8.0  # times the median distance: a site this far from the others differs from them
SETTLED = 10.0  # times tol: with a change this small a run has nearly converged


def unbalanced_network(evidence: Evidence) -> Finding | None:
    """The network gives some sites' rows more weight than others', and nothing corrects it."""
    if not evidence.kind.network_sets_target or evidence.W is None:
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
        f"{counted[high]:.2f} times at site {evidence.names[high]} (SE(W) = {shown['SE(W)']:.2f}), so the fit does "
        "not approach the pooled estimate, whatever eta and however many rounds"
    )
    if evidence.sites is not None and evidence.kind.shows_site_maps:
        least, most = _shift(evidence, counted)
        noise = evidence.sampling_error
        shown |= {"bias at least about": least, "bias at most about": most, "sampling error": noise}
        text += f"; its bias is about {least:.2g} to {most:.2g}, and the sampling error is {noise:.2g}"
    return Finding(
        "unbalanced network", shown, f"{text}.", _with_masked(evidence), (1, evidence.rounds), "disagreement"
    )


def _with_masked(evidence: Evidence) -> str:
    """A fit by sums, on the same network."""
    return again(evidence, algorithm="masked")


def _factor(evidence: Evidence) -> NDArray:
    """The factor of each site's map: its share of the rows divided by its balance, as estimated from its degree."""
    if evidence.settings["weighting"] == "equal":
        return np.ones(len(evidence.names))
    return np.asarray(evidence.mass / evidence.mass.mean() / degree_shares(evidence.W))


def maps_of_sites(evidence: Evidence) -> NDArray:
    """F_m of every site of MNEM, (M, K, f), in the consensus' standard units, from the sites' estimates.

    The scale of a site's psi carries its mass, and its limit follows from the network and the factors.
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
    """The bias of the sum of the sites' maps, and the largest bias of the estimate: 1 / (1 - L) times that."""
    fair = _fair_shares(evidence)
    shift = np.tensordot(fair * counted / (fair @ counted) - fair, maps_of_sites(evidence), axes=1)
    least = float(np.sqrt(np.sum(shift**2)))
    L = contraction(evidence, late_decay(evidence)) or 0.0
    return least, least / (1 - L)


def _fair_shares(evidence: Evidence) -> NDArray:
    """The share that each site should have."""
    mass = np.ones_like(evidence.mass) if evidence.settings["weighting"] == "equal" else evidence.mass
    return np.asarray(mass / mass.sum())


def site_apart(evidence: Evidence) -> Finding | None:
    """A site whose rows, or whose estimate, are far from those of all others."""
    assert evidence.sites is not None
    if evidence.kind.shows_site_maps and evidence.W is not None:
        psi, what = maps_of_sites(evidence), "its rows differ from the other sites'"
    else:
        psi, what = _unit(evidence).standard(to_psi(evidence.sites)), "its estimate differs from the other sites'"
    apart = psi - np.median(psi, axis=0)
    small = np.sqrt(np.minimum(1.0, evidence.mass / np.median(evidence.mass)))  # a small site's moments are noisier
    distance = small * np.sqrt(np.sum(apart**2, axis=(-2, -1)))
    usual, m = float(np.median(distance)), int(distance.argmax())
    if distance[m] <= AWAY * usual or distance[m] <= evidence.sampling_error:
        return None
    name = str(evidence.names[m])
    return Finding(
        "a site pulls away", {"site": name, "distance": float(distance[m]), "median distance": usual},
        f"Site {name} pulls away: {what}. It is {distance[m]:.2g} from their median in standard units; half of the "
        f"sites are within {usual:.2g}. Does it have other units, another coding, or other patients?",
        f"look at the table of site {name}; without it: {_without(evidence, name)}",
        (evidence.rounds, evidence.rounds), "disagreement",
    )  # fmt: skip


def _without(evidence: Evidence, name: str) -> str:
    if evidence.path:
        return again(evidence, table=f"TABLE-WITHOUT-{name}")
    return f"mixture.fit(X[sites != {name!r}], sites=sites[sites != {name!r}])"


def settled_apart(evidence: Evidence) -> Finding | None:
    """The run has converged, and the sites still differ by more than the sampling error: MNEM's bias."""
    apart = float(evidence.disagreement[-1])
    settled = evidence.converged or evidence.change[-1] <= SETTLED * evidence.tol
    if not settled or not apart > evidence.sampling_error:
        return None
    shown = {"disagreement": apart, "sampling error": evidence.sampling_error, "change": float(evidence.change[-1])}
    text = (
        f"The estimates no longer move, but the sites are {apart:.2g} apart, more than the sampling error of "
        f"{evidence.sampling_error:.2g}: each is drawn towards the estimate of its own rows"
    )
    if evidence.kind.shows_site_maps and evidence.W is not None and (eta := _eta_for(evidence)) is not None:
        shown |= {"eta that would do": eta}
        text += f". With eta={eta:g} they would be nearer than that; masked has no such bias"
    return Finding(
        "settled apart", shown, f"{text}.", _with_masked(evidence),
        (int(evidence.round[len(evidence.round) // 2]), evidence.rounds), "disagreement",
    )  # fmt: skip


def _eta_for(evidence: Evidence) -> float | None:
    """The first of the halved steps that leaves the sites nearer to each other than the sampling error."""
    maps, W = maps_of_sites(evidence), evidence.W.toarray()  # type: ignore[union-attr]
    eta = evidence.eta
    for _ in range(20):
        eta /= 2
        mixed = eta * np.linalg.solve(np.eye(len(W)) - (1 - eta) * W, maps.reshape(len(W), -1))
        apart = mixed - mixed.mean(axis=0)
        if np.sqrt(np.mean(np.sum(apart**2, axis=1))) < evidence.sampling_error:
            return float(f"{eta:.2g}")
    return None

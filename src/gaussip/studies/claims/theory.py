"""What Theorems 1 and 2, and the paper's section 2, say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaussip.networks import imbalance, mixing_weights
from gaussip.studies.claims.base import SORTED, Evidence, claim

if TYPE_CHECKING:
    from gaussip.studies.results import Results

SMALL = {"rows": 6000, "labelled": 0.0}


def _distance(results: Results, **where: object) -> float:
    return results.distance(results.one(method="mnem", **{**SMALL, **where})).value


@claim(
    "bias-proportional-to-eta",
    "On sorted data MNEM's distance from the whole sample's estimate grows in proportion to eta",
)
def _bias(results: Results) -> Evidence:
    cells = sorted(
        results.all(method="mnem", spread=SORTED, network="circle", **SMALL), key=lambda cell: cell.method.eta
    )
    etas = [cell.method.eta for cell in cells]
    distances = [results.distance(cell).value for cell in cells]
    slope = float(np.polyfit(np.log(etas), np.log(distances), 1)[0])
    pairs = ", ".join(f"{eta:g}: {distance:.4f}" for eta, distance in zip(etas, distances, strict=True))
    yield 0.85 < slope < 1.15, f"distance by eta {pairs}; slope of the logarithms {slope:.3f}"


@claim("labels-scale-contraction", "Labels on a fraction r of the rows multiply EM's contraction by 1 - r")
def _contraction(results: Results) -> Evidence:
    bare = results.contraction(results.one(method="em", spread=SORTED, **SMALL)).value
    for cell in results.all(method="em", rows=6000, spread=SORTED):
        r = cell.values["labelled"]
        if r:
            ratio = results.contraction(cell).value / bare
            yield abs(ratio / (1 - r) - 1) < 0.05, f"r = {r:g}: {ratio:.4f} of the unlabelled, 1 - r = {1 - r:g}"


@claim("error-grows-with-heterogeneity", "On every network MNEM's distance grows with the sites' heterogeneity SE(F)")
def _heterogeneity(results: Results) -> Evidence:
    spreads = ("homogeneous", "dirichlet", SORTED)
    for cell in results.all(method="mnem", spread=SORTED, eta=0.01, **SMALL):
        own = [
            results.one(method="mnem", eta=0.01, network=cell.network, spread=spread, **SMALL) for spread in spreads
        ]
        distances = [results.distance(one).value for one in own]
        se = [results.heterogeneity(one).value for one in own]
        pairs = ", ".join(f"{a:.3f}: {b:.4f}" for a, b in zip(se, distances, strict=True))
        holds = distances == sorted(distances) and se == sorted(se)
        yield holds, f"{cell.network}, distance by SE(F): {pairs}"


@claim(
    "error-grows-with-imbalance",
    "On sorted data the distance is largest on the least balanced network, and larger on any unbalanced one than on "
    "the complete network",
)
def _imbalance(results: Results) -> Evidence:
    found = {}
    for cell in results.all(method="mnem", spread=SORTED, eta=0.01, **SMALL):
        W = mixing_weights(cell.network, range(cell.setting.n_sites), cell.mixing, results.design.seed)
        found[cell.network] = (imbalance(W), results.distance(cell).value)
    worst = max(found, key=lambda name: found[name][0])
    for name, (balance, distance) in found.items():
        if name != worst:
            least = f"{worst}, {found[worst][0]:.2f}: {found[worst][1]:.3f}"
            yield distance < found[worst][1], f"{name}, SE(W) {balance:.2f}: {distance:.3f}; {least}"
        if balance > 1e-9 and "complete" in found:
            yield distance > found["complete"][1], f"{name}: {distance:.3f}; complete: {found['complete'][1]:.3f}"


@claim(
    "error-shrinks-with-the-gap",
    "Of the balanced networks, those that mix faster leave MNEM nearer the whole sample's estimate",
)
def _gap(results: Results) -> Evidence:
    for slow, fast in (("circle", "circle(3)"), ("circle(3)", "complete")):
        far, near = (_distance(results, network=name, spread=SORTED, eta=0.01) for name in (slow, fast))
        yield near < far, f"{slow}: {far:.4f}; {fast}: {near:.4f}"


@claim(
    "efficient-for-small-steps",
    "With eta = o(N^(-1/2)) MNEM's MSE over the whole sample's goes to one as N grows; with a fixed eta it does not",
)
def _efficient(results: Results) -> Evidence:
    here = {"method": "mnem", "spread": SORTED, "network": "circle", "labelled": 0.0}
    sizes, steps = (3000, 12000, 48000), (0.03, 0.0106, 0.00375)
    shrinking = [
        results.mse_ratio(results.one(**here, rows=N, eta=eta)).value for N, eta in zip(sizes, steps, strict=True)
    ]
    fixed = [results.mse_ratio(results.one(**here, rows=N, eta=0.03)).value for N in sizes]
    shown = [", ".join(f"{ratio:.3f}" for ratio in ratios) for ratios in (shrinking, fixed)]
    yield (
        shrinking[0] > shrinking[1] > shrinking[2] and shrinking[2] < 1.1,
        f"eta as N^(-3/4): {shown[0]} for N {sizes}",
    )
    yield fixed[0] < fixed[1] < fixed[2], f"eta .03: {shown[1]}"


@claim(
    "nnem-consistent-only-where-homogeneous",
    "NNEM's MSE falls with N where sites are alike, and not where they differ",
)
def _consistent(results: Results) -> Evidence:
    for spread in ("homogeneous", SORTED):
        cells = [results.one(method="nnem", spread=spread, rows=N, labelled=0.0) for N in (3000, 12000, 48000)]
        values = [results.log_mse(cell).value for cell in cells]
        falls = bool(values[2] < values[1] - 0.5 < values[0] - 1.0)
        shown = ", ".join("collapsed" if np.isnan(value) else f"{value:.2f}" for value in values)
        yield falls == (spread == "homogeneous"), f"{spread}: log MSE {shown}"

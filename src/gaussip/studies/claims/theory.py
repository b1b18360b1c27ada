"""What Theorems 1 and 2, and the paper's section 2, say; and what is claimed of exact network EM."""

from itertools import pairwise
from typing import Any

import numpy as np

from gaussip.networks import imbalance, mixing_weights
from gaussip.studies.claims.base import SORTED, Evidence, claim, height
from gaussip.studies.costs import arrivals
from gaussip.studies.results import Results

SMALL: dict[str, Any] = {"rows": 6000, "labelled": 0.0}
STEP: dict[str, Any] = {"method": "mnem", "eta": 0.01, **SMALL}


@claim(
    "bias-proportional-to-eta",
    "On sorted data MNEM's distance from the whole sample's estimate is proportional to eta",
)
def _bias(results: Results) -> Evidence:
    cells = [results.cell(method="mnem", spread=SORTED, network="circle", eta=eta, **SMALL)
             for eta in (0.005, 0.01, 0.02, 0.04)]  # fmt: skip
    pairs = [(cell.method.eta, results.distance(cell).value) for cell in cells]
    slope = float(np.polyfit(np.log([eta for eta, _ in pairs]), np.log([distance for _, distance in pairs]), 1)[0])
    shown = ", ".join(f"{eta:g}: {distance:.4f}" for eta, distance in pairs)
    yield 0.85 < slope < 1.15, f"distance by eta {shown}; slope of the logarithms {slope:.3f}, allowed .85 to 1.15"


@claim(
    "labels-scale-contraction", "Labels on a fraction r of the rows multiply L_max, and EM's rate, by 1 - r (to 5%)"
)
def _contraction(results: Results) -> Evidence:
    bare = results.cell(method="em", spread=SORTED, rows=48000, labelled=0.0)
    for cell in results.all(method="em", rows=48000, spread=SORTED):
        r = cell.setting.labelled
        if isinstance(r, float) and r:
            for name, measure in (("L_max", results.norm), ("rate", results.contraction)):
                ratio = measure(cell).value / measure(bare).value
                yield (
                    abs(ratio / (1 - r) - 1) < 0.05,
                    f"r = {r:g}: {name} {ratio:.4f} of the unlabelled, 1 - r = {1 - r:g}",
                )


@claim("error-grows-with-heterogeneity", "On every network MNEM's distance grows with the sites' heterogeneity SE(F)")
def _heterogeneity(results: Results) -> Evidence:
    for cell in results.others(spread=SORTED, **STEP):
        cells = [
            results.cell(**STEP, network=cell.network, spread=spread)
            for spread in ("homogeneous", "dirichlet", SORTED)
        ]
        pairs = [(results.heterogeneity(other).value, results.distance(other).value) for other in cells]
        shown = ", ".join(f"{se:.3f}: {distance:.4f}" for se, distance in pairs)
        grows = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
        yield grows, f"{cell.network}, distance by SE(F): {shown}"


@claim(
    "error-grows-with-imbalance",
    "On sorted data the distance is largest on the least balanced network, and larger on any unbalanced one than on "
    "the complete network",
)
def _imbalance(results: Results) -> Evidence:
    star, complete = (
        results.distance(results.cell(**STEP, spread=SORTED, network=name)).value for name in ("star", "complete")
    )
    for cell in results.others(spread=SORTED, **STEP):
        distance = results.distance(cell).value
        W = mixing_weights(cell.network, range(cell.setting.n_sites), cell.mixing, results.design.seed)
        balance = imbalance(W)
        if cell.network != "star":
            yield distance < star, f"{cell.network}, SE(W) {balance:.2f}: {distance:.3f}; star: {star:.3f}"
        if balance > 1e-9:
            yield (
                distance > complete,
                f"{cell.network}, SE(W) {balance:.2f}: {distance:.3f}; complete: {complete:.3f}",
            )


@claim(
    "error-shrinks-with-the-gap",
    "Of balanced networks, those that mix faster leave MNEM nearer the whole sample's estimate",
)
def _gap(results: Results) -> Evidence:
    for slow, fast in pairwise(("circle", "circle(3)", "complete")):
        far, near = (
            results.distance(results.cell(**STEP, spread=SORTED, network=name)).value for name in (slow, fast)
        )
        yield near < far, f"{slow}: {far:.4f}; {fast}: {near:.4f}"


@claim(
    "efficient-for-small-steps",
    "With eta = o(N^(-1/2)) MNEM's MSE over the whole sample's goes to one as N grows (to 1.1 at the largest); with "
    "a fixed eta it grows",
)
def _efficient(results: Results) -> Evidence:
    here = {"method": "mnem", "spread": SORTED, "network": "circle", "labelled": 0.0}
    sizes = (3000, 12000, 48000)
    for name, steps in (("eta as N^(-3/4)", (0.03, 0.0106, 0.00375)), ("eta .03", (0.03,) * 3)):
        cells = [results.cell(**here, rows=N, eta=eta) for N, eta in zip(sizes, steps, strict=True)]
        ratios = [results.mse_ratio(cell) for cell in cells]
        first, last = ratios[0], ratios[-1]
        sure = 2 * float(np.hypot(first.error, last.error))
        shown = ", ".join(f"{ratio.value:.3f} (s.e. {ratio.error:.3f})" for ratio in ratios)
        if name == "eta .03":
            holds = last.value > first.value + sure
        else:
            holds = last.value < first.value - sure and last.value < 1.1
        yield holds, f"{name}: {shown} for N = 3000, 12000, 48000"


@claim(
    "nnem-consistent-only-where-homogeneous",
    "NNEM's MSE falls with N where sites are alike, and not where they differ",
)
def _consistent(results: Results) -> Evidence:
    for spread in ("homogeneous", SORTED):
        cells = [results.cell(method="nnem", spread=spread, rows=N, labelled=0.0) for N in (3000, 12000, 48000)]
        values = [height(results, cell) for cell in cells]
        falls = all(more < fewer - 0.5 for fewer, more in pairwise(values))
        shown = ", ".join("all collapsed" if np.isinf(value) else f"{value:.2f}" for value in values)
        yield falls == (spread == "homogeneous"), f"{spread}: log MSE {shown} for N = 3000, 12000, 48000"


@claim("exact-reaches-the-pooled-estimate", "Exact comes within 1e-6 of the pooled estimate on every data set")
def _reaches(results: Results) -> Evidence:
    for cell in results.others(method="exact"):
        first = arrivals(results, cell, 1e-6)
        there, worst = int(np.isfinite(first).sum()), first.max()
        yield there == first.size, f"{results.describe(cell)}: {there} of {first.size}, worst in round {worst:g}"


@claim("exact-needs-fewest-rounds", "To 1e-2 of the pooled estimate exact needs fewer rounds than MNEM, DEM and NGD")
def _fewest(results: Results) -> Evidence:
    for cell in results.others(method="exact"):
        ours = float(np.median(arrivals(results, cell, 1e-2)))
        rivals = [
            other for other in results.others()
            if other._replace(method=cell.method, rounds=cell.rounds) == cell and other != cell
        ]  # fmt: skip
        for other in rivals:
            theirs = float(np.median(arrivals(results, other, 1e-2)))
            yield ours < theirs, f"{results.describe(other)}: {theirs:g} rounds; exact {ours:g}"

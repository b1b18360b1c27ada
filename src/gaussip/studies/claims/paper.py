"""What the paper says of its figures, in sections 4.2 and 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaussip.studies.claims.base import SORTED, Evidence, behind, claim, said

if TYPE_CHECKING:
    from gaussip.studies.cells import Cell
    from gaussip.studies.results import Results

NEAR = 0.1  # of log MSE: as good as the whole sample's estimate
FAR = 1.0  # of log MSE: another estimate altogether


@claim("mnem-reaches-whole-sample", "At Delta 2 and 4 (semi-)MNEM reaches the whole sample's MSE, sites alike or not")
def _reaches(results: Results) -> Evidence:
    for cell in results.all(method="mnem", delta=[2.0, 4.0]):
        yield abs(behind(results, cell)) < NEAR, f"{said(cell, results)}: {behind(results, cell):+.3f}"


@claim("nnem-fails-where-sites-differ", "NNEM does not reach the whole sample's MSE where sites differ")
def _nnem(results: Results) -> Evidence:
    for cell in results.all(method="nnem", spread=SORTED):
        gone = int((results.collapsed(cell) > 0).sum())
        apart = behind(results, cell)
        yield apart > FAR, f"{said(cell, results)}: {apart:+.2f}, {gone} of {results.design.replicates} collapsed"


@claim("labels-help", "At Delta 1 on sorted data the MSE of (semi-)MNEM falls with the labelled fraction")
def _labels(results: Results) -> Evidence:
    cells = sorted(results.all(method="mnem", delta=1.0, spread=SORTED), key=lambda cell: cell.values["labelled"])
    values = [results.log_mse(cell).value for cell in cells]
    for fewer, more, cell in zip(values, values[1:], cells[1:], strict=False):
        yield more < fewer, f"r = {cell.values['labelled']:g}: {more:.3f} after {fewer:.3f}"


@claim(
    "mnem-wins-where-sites-differ",
    "At Delta 2 and 4 on sorted data MNEM comes to the whole sample's MSE; DEM and NGD do not",
)
def _wins(results: Results) -> Evidence:
    for cell in results.all(spread=SORTED, delta=[2.0, 4.0]):
        apart = behind(results, cell)
        near = cell.method.algorithm == "mnem"
        yield (abs(apart) < NEAR) == near, f"{said(cell, results)}: {apart:+.3f}"


@claim(
    "nothing-converges-unlabelled", "At Delta 1 on sorted data nothing unsupervised comes to the whole sample's MSE"
)
def _nothing(results: Results) -> Evidence:
    for cell in results.all(spread=SORTED, delta=1.0, labelled=0.0):
        yield behind(results, cell) > NEAR, f"{said(cell, results)}: {behind(results, cell):+.3f}"


@claim(
    "homogeneous-ranking",
    "At Delta 2 and 4 on alike sites DEM ends highest, the others near the whole sample; MNEM is as fast as NGD with "
    "eta .15 and faster than with .05",
)
def _ranking(results: Results) -> Evidence:
    for delta in (2.0, 4.0):
        here = {"spread": "homogeneous", "delta": delta}
        cells = [results.one(**here, **which) for which in
                 ({"method": "mnem"}, {"method": "ngd", "eta": 0.05}, {"method": "ngd", "eta": 0.15})]  # fmt: skip
        dem = results.one(**here, method="dem")
        others = [behind(results, cell) for cell in cells]
        highest = behind(results, dem)
        shown = ", ".join(f"{apart:+.3f}" for apart in others)
        yield highest > max(others), f"Delta {delta:g}: DEM {highest:+.3f}; MNEM, NGD .05, NGD .15: {shown}"
        yield max(others) < NEAR, f"Delta {delta:g}: the others lie within {NEAR}"
        mnem, slow, fast = (arrival(results, cell) for cell in cells)
        yield mnem <= 2 * fast, f"Delta {delta:g}: MNEM arrives in round {mnem:g}, NGD .15 in {fast:g}"
        yield mnem < slow, f"Delta {delta:g}: MNEM arrives in round {mnem:g}, NGD .05 in {slow:g}"


def arrival(results: Results, cell: Cell) -> float:
    """The first round looked at after which the log MSE stays within 0.1 of the whole sample's; infinite if none."""
    near = np.abs(results.log_mse_curve(cell) - results.log_mse(cell.pooled).value) < NEAR
    stays = np.logical_and.accumulate(near[::-1])[::-1]
    return float(results.rounds(cell)[np.argmax(stays)]) if stays.any() else np.inf


@claim("mse-falls-then-rises", "The MSE of MNEM at Delta 1 falls, then rises")
def _falls(results: Results) -> Evidence:
    for cell in results.all(method="mnem", delta=1.0, labelled=0.0):
        curve, rounds = results.log_mse_curve(cell), results.rounds(cell)
        low = int(np.nanargmin(curve))
        rise = curve[-1] - curve[low]
        turn = f"from {curve[0]:.2f} to {curve[low]:.2f} in round {rounds[low]}, then to {curve[-1]:.2f}"
        yield low > 0 and rise > 0.05, f"{said(cell, results)}: {turn}"


@claim("semi-mnem-is-best", "With a tenth of the rows labelled semi-MNEM ends lowest of all methods on sorted data")
def _best(results: Results) -> Evidence:
    for delta in (1.0, 2.0, 4.0):
        mnem = results.one(method="mnem", delta=delta, spread=SORTED)
        for cell in results.all(delta=delta, spread=SORTED):
            if cell != mnem:
                ours, theirs = results.log_mse(mnem).value, results.log_mse(cell).value
                yield not theirs <= ours, f"{said(cell, results)}: {theirs:.3f}; semi-MNEM {ours:.3f}"


@claim("star-is-worst", "On sorted data the star's MSE is the largest of the networks', whatever eta")
def _star(results: Results) -> Evidence:
    for star in results.all(network="star", spread=SORTED):
        worst = results.log_mse(star).value
        for cell in results.all(spread=SORTED, eta=star.method.eta):
            if cell != star:
                value = results.log_mse(cell).value
                yield worst > value, f"{said(cell, results)}: {value:.3f}; star {worst:.3f}"


@claim(
    "uneven-labels-do-little-harm",
    "Labels spread unevenly over the sites do nearly as well as the same number spread evenly",
)
def _uneven(results: Results) -> Evidence:
    for even in results.all(labelled=0.1):
        for cell in results.all(spread=even.values["spread"]):
            if cell != even:
                apart = results.log_mse(cell).value - results.log_mse(even).value
                yield apart < 0.25, f"{said(cell, results)}: {apart:+.3f}"


@claim(
    "published-start-is-bracketed",
    "The paper's -2.16 without labels lies between those of starts with noise .1 and .3",
)
def _bracketed(results: Results) -> Evidence:
    low, high = (results.log_mse(results.one(labelled=0.0, noise=s, method="mnem"), 3000) for s in (0.1, 0.3))
    slack = 2 * max(low.error, high.error)
    yield (
        low.value - slack <= -2.16 <= high.value + slack,
        f"noise .1: {low}, noise .3: {high} (s.e. {high.error:.3f})",
    )

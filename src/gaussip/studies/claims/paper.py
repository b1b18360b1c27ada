"""What the paper says of its figures, in sections 4.1 and 4.2."""

from itertools import pairwise

import numpy as np

from gaussip.studies.cells import Cell
from gaussip.studies.claims.base import SORTED, Evidence, behind, claim, height
from gaussip.studies.results import Results

NEAR = 0.1  # of log MSE: as good as the whole sample's estimate
FAR = 1.0  # of log MSE: another estimate altogether


@claim("mnem-reaches-whole-sample", "At Delta 2 and 4 (semi-)MNEM reaches the whole sample's MSE, sites alike or not")
def _reaches(results: Results) -> Evidence:
    for cell in results.others(method="mnem", delta=[2.0, 4.0]):
        yield _near(results, cell), f"{results.describe(cell)}: {_apart(results, cell)}"


def _near(results: Results, cell: Cell) -> bool:
    return abs(behind(results, cell)) < NEAR and not results.numbers(cell)["collapsed"].any()


def _apart(results: Results, cell: Cell) -> str:
    """How far a cell lies above the whole sample, and how many data sets it lost."""
    gone = int((results.numbers(cell)["collapsed"] > 0).sum())
    lost = f", {gone} of {results.design.replicates} collapsed" if gone else ""
    return f"log MSE {behind(results, cell):+.3f} from the whole sample's{lost}"


@claim("nnem-fails-where-sites-differ", "NNEM does not come near the whole sample's MSE where sites differ")
def _nnem(results: Results) -> Evidence:
    for cell in results.others(method="nnem", spread=SORTED):
        yield behind(results, cell) > FAR, f"{results.describe(cell)}: {_apart(results, cell)}"


@claim(
    "labels-help", "At Delta 1 on sorted data (semi-)MNEM's MSE falls and its convergence speeds up with the labels"
)
def _labels(results: Results) -> Evidence:
    cells = [
        c for c in results.others(method="mnem", delta=1.0, spread=SORTED) if isinstance(c.setting.labelled, float)
    ]
    cells.sort(key=lambda cell: cell.values["labelled"])
    for fewer, more in pairwise(cells):
        before, after = height(results, fewer), height(results, more)
        yield after < before, f"r = {more.values['labelled']:g}: log MSE {after:.3f} after {before:.3f}"
        slow, fast = settling(results, fewer), settling(results, more)
        yield fast < slow, f"r = {more.values['labelled']:g}: settles in round {fast:g} after {slow:g}"


def settling(results: Results, cell: Cell) -> float:
    """The first round looked at after which the log MSE stays within 0.1 of its last; infinite if none."""
    curve = results.curve(cell)
    stays = np.logical_and.accumulate((np.abs(curve - curve[-1]) < NEAR)[::-1])[::-1]
    return float(results.numbers(cell)["rounds"][np.argmax(stays)]) if stays.any() else np.inf


@claim(
    "mnem-wins-where-sites-differ",
    "At Delta 2 and 4 on sorted data (semi-)MNEM comes to the whole sample's MSE; DEM and NGD stay above it",
)
def _wins(results: Results) -> Evidence:
    for cell in results.others(spread=SORTED, delta=[2.0, 4.0]):
        ours = cell.method.algorithm == "mnem"
        holds = _near(results, cell) if ours else behind(results, cell) > NEAR
        yield holds, f"{results.describe(cell)}: {_apart(results, cell)}"


@claim(
    "nothing-converges-unlabelled",
    "At Delta 1 on sorted data nothing unsupervised comes to the whole sample's MSE in 20,000 rounds",
)
def _nothing(results: Results) -> Evidence:
    for cell in results.others(spread=SORTED, delta=1.0, labelled=0.0):
        results.at(cell, 20_000)  # a shorter run shows nothing
        yield behind(results, cell) > NEAR, f"{results.describe(cell)}: {_apart(results, cell)}"


@claim(
    "homogeneous-ranking",
    "At Delta 2 and 4 on alike sites DEM ends highest and the others near the whole sample; MNEM settles at most "
    "twice as late as NGD with eta .15, and before DEM and NGD with .05",
)
def _ranking(results: Results) -> Evidence:
    for delta in (2.0, 4.0):
        here = {"spread": "homogeneous", "delta": delta}
        dem, mnem = (results.cell(**here, method=name) for name in ("dem", "mnem"))
        slow, fast = (results.cell(**here, method="ngd", eta=eta) for eta in (0.05, 0.15))
        others = [behind(results, cell) for cell in (mnem, slow, fast)]
        shown = ", ".join(f"{apart:+.3f}" for apart in others)
        highest = behind(results, dem)
        yield highest > max(others), f"Delta {delta:g}: DEM {highest:+.3f}; MNEM, NGD .05, NGD .15: {shown}"
        yield max(map(abs, others)) < NEAR, f"Delta {delta:g}: those three lie within {NEAR} of the whole sample"
        rounds = {name: settling(results, cell) for name, cell in
                  (("MNEM", mnem), ("NGD .15", fast), ("NGD .05", slow), ("DEM", dem))}  # fmt: skip
        listed = ", ".join(f"{name} {number:g}" for name, number in rounds.items())
        ours = rounds["MNEM"]
        yield (
            np.isfinite(ours) and ours <= 2 * rounds["NGD .15"],
            f"Delta {delta:g}, against NGD .15, settling in: {listed}",
        )
        yield (
            ours < min(rounds["NGD .05"], rounds["DEM"]),
            f"Delta {delta:g}, against NGD .05 and DEM: the same rounds",
        )


@claim("mse-falls-then-rises", "The MSE of MNEM at Delta 1 falls, then rises")
def _falls(results: Results) -> Evidence:
    for cell in results.others(method="mnem", delta=1.0, labelled=0.0):
        curve, rounds = results.curve(cell), results.numbers(cell)["rounds"]
        low = int(np.nanargmin(curve))
        turn = f"from {curve[0]:.2f} to {curve[low]:.2f} in round {rounds[low]}, then to {curve[-1]:.2f}"
        yield low > 0 and curve[-1] - curve[low] > 0.05, f"{results.describe(cell)}: {turn}"


@claim("semi-mnem-is-best", "With a tenth of the rows labelled semi-MNEM ends lowest of all methods on sorted data")
def _best(results: Results) -> Evidence:
    for delta in (1.0, 2.0, 4.0):
        mnem = results.cell(method="mnem", delta=delta, spread=SORTED)
        ours = height(results, mnem)
        for cell in results.others(delta=delta, spread=SORTED):
            if cell != mnem:
                theirs = height(results, cell)
                yield ours < theirs, f"{results.describe(cell)}: {theirs:.3f}; semi-MNEM {ours:.3f}"


@claim("star-is-worst", "On sorted data the star's MSE is the largest of the networks', whatever eta")
def _star(results: Results) -> Evidence:
    for star in results.others(network="star", spread=SORTED):
        worst = height(results, star)
        for cell in results.others(spread=SORTED, eta=star.method.eta):
            if cell != star:
                value = height(results, cell)
                yield value < worst, f"{results.describe(cell)}: {value:.3f}; star {worst:.3f}"


@claim(
    "uneven-labels-do-little-harm",
    "Labels spread unevenly cost at most 0.25 of log MSE against as many spread evenly",
)
def _uneven(results: Results) -> Evidence:
    for even in results.others(labelled=0.1):
        for cell in results.others(spread=even.values["spread"]):
            if cell != even:
                apart = height(results, cell) - height(results, even)
                yield apart < 0.25, f"{results.describe(cell)}: {apart:+.3f}"


@claim("published-start-is-bracketed", "The paper's -2.16 without labels lies between those of two of the starts")
def _bracketed(results: Results) -> Evidence:
    cells = sorted(results.others(method="mnem", labelled=0.0), key=lambda cell: cell.noise)
    values = [results.log_mse(cell, 3000).value for cell in cells]
    shown = ", ".join(f"{cell.noise:g}: {value:.3f}" for cell, value in zip(cells, values, strict=True))
    if cells:
        yield min(values) < -2.16 < max(values), f"log MSE after 3000 rounds by noise {shown}"


@claim("some-circle-fits", "On a circle of some degree all three published numbers with labels are met to 0.1")
def _circles(results: Results) -> Evidence:
    worst: dict[str, float] = {}
    for published in results.design.published:
        cell = results.cell(**published.where)
        apart = abs(results.log_mse(cell, published.round).value - published.value)
        network = str(published.where["network"])
        worst[network] = max(worst.get(network, 0.0), apart)
    shown = ", ".join(f"{network}: {apart:.3f}" for network, apart in worst.items())
    yield min(worst.values()) < NEAR, f"largest difference by network {shown}"

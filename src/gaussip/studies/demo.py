"""The demonstration: breast-cancer patients at eight sites, most of which have one diagnosis only."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import FileError
from gaussip.mixture.density import responsibilities
from gaussip.mixture.theta import Theta, align, at, distance, reorder
from gaussip.plots import draw_convergence, draw_network, save
from gaussip.rows.problem import prepare
from gaussip.settings import default
from gaussip.simulation.history import Progress
from gaussip.simulation.run import Run
from gaussip.starts.given import Regularised, class_order, found
from gaussip.studies import split
from gaussip.studies.methods import Method, parse_method

N_SITES = 8
LABELLED = 0.1
REG_COVAR = 1e-3
NAMES = ("masked", "semi-masked", "exact", "semi-exact", "mnem", "semi-mnem", "nnem", "local", "semi-em")
METHODS = tuple(parse_method(name, eta=0.01) for name in NAMES)


class Line(NamedTuple):
    """One method's results, averaged over the sites' models."""

    method: str
    log_likelihood: float  #: mean log-density of the hold-out rows
    auc: float  #: of the probability of a malignant tumour, hold-out rows
    distance: float  #: to the pooled estimate with the same labels
    rounds: int
    exchanges: int  #: of messages between neighbours
    collapse: str | None


def run_demo(
    out: Path, max_rounds: int = 3000, watch: Callable[[Method, Progress], None] = lambda method, now: None
) -> tuple[list[Line], list[Path]]:
    """Fit all methods, draw the pictures into ``out``, which is made if need be; their results and files."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{out} cannot be a folder for the pictures: {error.strerror}") from error
    train, test, sites, labels, names = patients()
    semi = prepare(train.X, labels, sites, n_components=2, network="ring")
    free = prepare(train.X, None, sites, n_components=2, network="ring")
    regularised, names_of = Regularised(REG_COVAR, 0.0, default("min_count")), semi.classes.tolist()
    (unsupervised,) = found(free.held, 2, "kmeans", [0], regularised)
    begins = {
        True: found(semi.held, 2, "labels", [0], regularised)[0],
        False: reorder(unsupervised, class_order(semi.held, unsupervised, regularised.min_count, names_of)),
    }
    settings = {"tol": 1e-7, "reg_covar": REG_COVAR, "sites": semi.sites.tolist()}
    rows = {True: semi.rows, False: free.rows}
    pooled = {
        flag: Method("em", 1.0, flag).run(begins[flag], rows[flag], semi.W, max_rounds=20_000, **settings)
        for flag in (False, True)
    }
    lines: list[Line] = []
    curves: dict[str, Any] = {}
    for method in METHODS:
        target = at(pooled[method.semi].theta, 0)
        if method.algorithm == "em":
            lines.append(_line(method, pooled[method.semi], target, test))
            continue
        trace: list[tuple[int, float]] = []

        def follow(now: Progress, method: Method = method, target: Theta = target, trace: Any = trace) -> None:
            trace.append((now.exchanges, distance(now.theta, target)))
            watch(method, now)

        run = method.run(
            begins[method.semi], rows[method.semi], semi.W, max_rounds=max_rounds, watch=follow, **settings
        )
        lines.append(_line(method, run, target, test))
        curves[method.name] = tuple(np.array(part) for part in zip(*trace, strict=True))
    held = np.stack([np.bincount(train.classes[sites == site], minlength=2) for site in semi.sites])
    network = draw_network(
        semi.W, semi.sites.tolist(),
        title="Eight sites on a ring, and whom they see", shares=held, classes=names,
    )  # fmt: skip
    convergence = draw_convergence(
        curves, collapsed=[line.method for line in lines if line.collapse],
        ylabel="distance to the pooled estimate", title="Breast-cancer data, sorted by diagnosis over 8 sites",
    )  # fmt: skip
    return lines, save(network, out / "network.png") + save(convergence, out / "convergence.png")


class Patients(NamedTuple):
    """Some patients."""

    X: NDArray
    classes: NDArray  # 0 malignant, 1 benign


def patients() -> tuple[Patients, Patients, NDArray, NDArray, list[str]]:
    """Training and hold-out patients (70/30), the sites and shown labels of the former, the classes' names."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    X, classes = data.data[:, :10], data.target  # the ten "mean" features
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    cut = round(0.7 * len(X))
    mean, spread = X[order[:cut]].mean(axis=0), X[order[:cut]].std(axis=0)
    train, test = (Patients((X[i] - mean) / spread, classes[i]) for i in (order[:cut], order[cut:]))
    codes = split.heterogeneous(train.classes, split.sizes(cut, N_SITES), rng)
    labels = split.show_labels(train.classes, codes, LABELLED, rng)
    sites = np.array([f"site {m + 1}" for m in range(N_SITES)])[codes]
    return train, test, sites, labels, [str(name) for name in data.target_names]


def _line(method: Method, run: Run, pooled: Theta, test: Patients) -> Line:
    from sklearn.metrics import roc_auc_score

    exchanges = int(run.history.exchanges[-1]) if method.algorithm not in ("em", "local") else 0
    if run.collapse is not None:
        return Line(method.name, np.nan, np.nan, np.nan, run.n_rounds, exchanges, str(run.collapse))
    models = align(run.theta, pooled)
    scored = [responsibilities(test.X, at(models, m)) for m in range(N_SITES)]
    return Line(
        method=method.name,
        log_likelihood=float(np.mean([density.mean() for _, density in scored])),
        auc=float(np.mean([roc_auc_score(test.classes == 0, share[:, 0]) for share, _ in scored])),
        distance=distance(models, pooled),
        rounds=run.n_rounds,
        exchanges=exchanges,
        collapse=None,
    )

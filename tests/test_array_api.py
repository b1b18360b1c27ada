"""The reference runs on any array library: array-api-strict allows nothing but the standard."""

import subprocess
import sys

import array_api_strict as strict
import numpy as np
import pytest

from gaussip.algorithms import REGISTRY, make
from gaussip.kernels import REFERENCE, kernel_for
from gaussip.mixture.theta import Theta
from gaussip.networks import mixing_weights
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from hard_rows import hard, normwise


def strict_rows(dataset):
    values = [strict.asarray(x) for x in dataset.by_site(dataset.X)]
    return Rows.of_sites(values, dataset.by_site(dataset.labels), None, 3)


def test_moments(dataset, rows, start):
    everywhere = Theta(*(np.broadcast_to(part, (*rows.shape, *part.shape)) for part in start))
    wanted = moments(rows, everywhere, 1e-3)
    found = moments(strict_rows(dataset), Theta(*(strict.asarray(part.copy()) for part in everywhere)), 1e-3)
    for part, exact in zip(found[:3], wanted[:3], strict=True):
        np.testing.assert_allclose(np.asarray(part), exact, rtol=1e-13)


def test_moments_of_many_features():
    rows, theta = hard("weighted", 2, 40)
    values, weights = zip(*((strict.asarray(s.values), strict.asarray(s.weights)) for s in rows.sites), strict=True)
    on_strict = Theta(*map(strict.asarray, theta))
    assert kernel_for(on_strict.means).name == "wide"
    result = moments(Rows.of_sites(values, None, weights), on_strict)
    wanted = moments(rows, theta, 0.0, REFERENCE)
    assert normwise(result.sums, wanted.sums) <= 1e-12


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_algorithm(name, dataset, rows, start):
    """On the way; longer steps magnify rounding there, so accelerated runs are compared at their end."""
    W = mixing_weights("ring" if REGISTRY[name].two_way else "circle(2)", range(5))
    on_strict = Theta(*map(strict.asarray, start))
    accelerated = name in ("em", "masked")
    for options, rounds in (({"accelerate": False}, 12), ({}, 300)) if accelerated else (({}, 12),):
        settings = {"max_rounds": rounds, "reg_covar": 1e-3, "weighting": "rows"}
        wanted = simulate(make(name, 0.05, **options), start, rows, W, **settings)
        found = simulate(make(name, 0.05, **options), on_strict, strict_rows(dataset), W, **settings)
        for part, exact in zip(found.theta, wanted.theta, strict=True):
            np.testing.assert_allclose(np.asarray(part), exact, rtol=1e-10, atol=1e-12)


def test_the_core_needs_numpy_scipy_and_networkx_alone(tmp_path):
    """Accelerator machines may have little else: a study runs there, and says once that it could be faster."""
    program = """
import sys
from importlib.abc import MetaPathFinder
ALLOWED = {*sys.stdlib_module_names, "numpy", "scipy", "networkx", "gaussip"}
class Hide(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED and not top.startswith("_sysconfigdata"):  # sysconfig's own
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
import warnings
import gaussip
from gaussip.studies.comparison import Trial, compare
from gaussip.studies.methods import parse_method
from gaussip.studies.simulation_model import Setting
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    methods = [parse_method(name, 0.1) for name in ("em", "semi-mnem", "dem")]
    scores = compare(Trial(Setting(n_rows=600, n_sites=4, labelled=0.2), replicates=2), methods, max_rounds=20)
    from pathlib import Path
    from gaussip.studies.design import load
    from gaussip.studies.run import run
    folder = run(load("figure3", 2, 2), Path(sys.argv[1]), where={"method": "dem", "delta": 4.0})
print(len(scores), len(list(folder.path.glob("cells/*.npz"))), [type(one.message).__name__ for one in said])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "study")], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "3 4 ['SlowKernelWarning']\n", done.stderr

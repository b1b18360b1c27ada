"""Real sites that search for a start and choose the number of components; one of them is killed in the midst."""

from __future__ import annotations

import json
import signal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from command import gaussip
from federations import Federation
from gaussip import NetworkGaussianMixture
from gaussip.mixture.theta import Theta, pack
from gaussip.selection import choose_components
from gaussip.simulation.run import simulate

pytestmark = pytest.mark.filterwarnings("ignore:not converged")


def test_sites_choose_what_a_simulation_chooses(tmp_path):
    choice = {"at_most": 4, "at_least": 1}
    settings = {"components": choice, "intervals": "robust", "tol": 1e-7, "max_rounds": 2000}
    with Federation(tmp_path, 4, algorithm="exact", labels=None, classes=None, **settings) as sites:
        sites.start()
        sites.until(lambda: sites.status("s1").get("exchange", 0) > 200)
        sites.signal("s1", signal.SIGKILL)
        killed = sites.status("s1")["exchange"]
        sites.start("s1")
        sites.finish()
        names = np.array(sites.names)[sites.data.sites]
        found = choose_components(
            sites.data.X, sites=names, at_most=4, reg_covar=sites.settings["reg_covar"], random_state=0
        )
        assert found.n_components == 3
        for name in sites.names:
            told = json.loads((sites.folders / name / "selection.json").read_text())
            assert told["components"] == 3
            assert told["lines"] == [line._asdict() for line in found.lines]
            (agreed,) = sites.events(name, "agreed on a number of components")
            assert agreed["margin"] == found.margin
        assert killed < sites.events("s1", "agreed on a start")[0]["exchange"]  # it was killed in the search
        task = sites.description.task()
        run = simulate(
            task.algorithm, found.theta, sites.problem().rows, task.W, max_rounds=2000, tol=1e-7,
            reg_covar=sites.settings["reg_covar"],
        )  # fmt: skip
        sites.assert_equal_to(run)
        mixture = NetworkGaussianMixture(
            3, weights_init=found.theta.weights, means_init=found.theta.means,
            covariances_init=found.theta.covariances, tol=1e-7, max_rounds=2000, reg_covar=1e-3,
        ).fit(sites.data.X, sites=names)  # fmt: skip
        errors = pack(mixture.uncertainty(sites.data.X, sites=names, robust=True).standard_errors)
        for name in sites.names:
            told = pa.csv.read_csv(sites.folders / name / "intervals.csv")
            np.testing.assert_allclose(told["standard_error"].to_numpy(), errors.ravel(), rtol=1e-5)
            estimates = told["estimate"].to_numpy().reshape(errors.shape)
            np.testing.assert_array_equal(estimates, pack(Theta(*sites.theta(name))))
        secret = sites.folders / "s0" / "runs" / sites.status("s0")["run"] / "secret"
        assert secret.stat().st_mode & 0o077 == 0


def with_two_values(sites):
    """The first feature becomes one of 0 and 1."""
    sites.data.X[:, 0] = sites.data.X[:, 0] > np.median(sites.data.X[:, 0])
    for m, name in enumerate(sites.names):
        here = sites.data.sites == m
        sites.write_table(name, sites.data.X[here], sites.data.labels[here])


def test_sites_never_choose_a_degenerate_k(tmp_path):
    settings = {"components": {"at_most": 3}, "algorithm": "masked", "reg_covar": 1e-6, "max_rounds": 200}
    with Federation(tmp_path, 3, labels=None, classes=None, **settings) as sites:
        with_two_values(sites)
        sites.start()
        sites.finish()
        names = np.array(sites.names)[sites.data.sites]
        columns = {f"x{j}": sites.data.X[:, j] for j in range(3)}
        found = choose_components(pa.table(columns), sites=names, at_most=3, random_state=0)
        assert [line.degenerate for line in found.lines] == ["", "x0", "x0"]
        for name in sites.names:
            told = json.loads((sites.folders / name / "selection.json").read_text())
            assert told["lines"] == [line._asdict() for line in found.lines]
            assert (told["components"], told["margin"]) == (1, None)
            (agreed,) = sites.events(name, "agreed on a number of components")
            assert agreed["degenerate"] == {"2": "x0", "3": "x0"}
            assert sites.theta(name)[0].shape == (1,)


def test_sites_refuse_a_fit_that_is_degenerate(tmp_path):
    """All of them, with one reason; the same command says it again, and so does the status."""
    settings = {"components": 2, "algorithm": "masked", "reg_covar": 1e-6, "max_rounds": 500, "tol": 1e-6}
    with Federation(tmp_path, 3, labels=None, classes=None, **settings) as sites:
        with_two_values(sites)
        sites.start()
        sites.finish(code=2)
        for name in sites.names:
            assert "rows have the same 'x0', or nearly" in sites.output(name)
            assert not (sites.folders / name / "model.npz").exists()
        folder = sites.folders / "s0"
        again = gaussip("site", "run", folder, "--data", tmp_path / "s0.csv", "--json")
        assert again.returncode == 2
        error = json.loads(again.stdout.splitlines()[-1] if again.stdout.count("\n{") else again.stdout)["error"]
        assert (error["type"], error["column"]) == ("CollapseError", "x0")
        assert error["message"].endswith(
            "leave 'x0' out, or use fewer components; degenerate = 'keep' keeps such a fit"
        )
        shown = gaussip("site", "status", folder)
        assert shown.returncode == 2
        assert "rows have the same 'x0', or nearly" in shown.stdout

"""Standard errors as users ask for them: by the command, and of rows that are not those of the fit."""

from __future__ import annotations

import copy
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from typer.testing import CliRunner

from command import gaussip
from gaussip import NetworkGaussianMixture
from gaussip.cli import app
from gaussip.errors import DataError, LabelError, SettingError
from gaussip.inference.information import parameter_names
from gaussip.mixture.theta import pack


def test_other_rows_than_those_of_the_fit(data, by_sites):
    mixture, names, v = by_sites
    with pytest.raises(NotFittedError):
        NetworkGaussianMixture(3).uncertainty(data.X)
    with pytest.raises(LabelError, match="y has no labels, the fit had the classes 0, 1, 2"):
        mixture.uncertainty(data.X, sites=names, sample_weight=v)
    renamed = np.where(names == "Zug", "Olten", names)
    with pytest.raises(DataError, match=r"rows are of sites .*'Olten'.*the fit was of 'Bern', 'Biel'"):
        mixture.uncertainty(data.X, data.labels, sites=renamed)
    with pytest.raises(DataError, match="sites has 3 entries for 1200 rows"):
        mixture.uncertainty(data.X, data.labels, sites=names[:3])
    with pytest.raises(DataError, match="2 features, the fit had 3"):
        mixture.uncertainty({name: data.X[names == name][:, :2] for name in mixture.sites_.tolist()})
    with pytest.warns(ConvergenceWarning, match=r"standard errors from the largest likelihood of these rows"):
        mixture.uncertainty(data.X + 0.2, data.labels, sites=names, sample_weight=v)
    equal = NetworkGaussianMixture(3, algorithm="exact", init_params="labels", weighting="equal")
    equal.fit(data.X, data.labels, sites=names, sample_weight=v)
    with pytest.raises(SettingError, match="weighting='equal'"):
        equal.uncertainty(data.X, data.labels, sites=names, sample_weight=v)


def test_rows_that_are_not_as_many_as_in_the_fit(data, by_sites):
    mixture, names, v = by_sites
    given = {"sites": names, "sample_weight": v}
    with pytest.raises(
        DataError, match=r"site 'Bern' has 200 rows .*the fit had 2\d\d\.\d+, and 5 other sites differ"
    ):
        mixture.uncertainty(data.X, data.labels, sites=names)  # without the weights of the fit
    most = np.flatnonzero(names != "Chur").tolist() + np.flatnonzero(names == "Chur")[:-20].tolist()
    with pytest.raises(DataError, match=r"site 'Chur' has [\d.]+ rows \(by weight\), the fit had [\d.]+; give"):
        mixture.uncertainty(data.X[most], data.labels[most], **{name: of[most] for name, of in given.items()})
    with pytest.raises(DataError, match=r"there are 1200 rows \(by weight\), the fit had"):
        mixture.uncertainty(data.X, data.labels)
    with pytest.warns(ConvergenceWarning, match="are these the rows"):
        mixture.uncertainty(data.X + 0.2, data.labels, **given)


def test_a_real_site_s_model_says_where_its_intervals_are(fitted, table, tmp_path):
    model = tmp_path / "model.npz"
    of_site = copy.copy(fitted)
    of_site.origin_ = "site"
    of_site.save(model)
    refused = CliRunner().invoke(app, ["intervals", str(model), str(table)])
    assert refused.exit_code == 2
    assert "its intervals are in intervals.csv in the site's folder" in refused.output


@pytest.mark.filterwarnings("ignore:not converged", "ignore:the estimate is")
def test_sites_that_are_apart_are_reported(data):
    mixture = NetworkGaussianMixture(3, algorithm="mnem", network="circle", eta=0.2, init_params="labels")
    mixture.fit(data.X, data.labels, sites=data.sites)
    with pytest.warns(ConvergenceWarning, match=r"sites are apart: \w+.* of component \d at site \d is"):
        mixture.uncertainty(data.X, data.labels, sites=data.sites)


def test_the_command(table, columns, tmp_path):
    model, out = tmp_path / "model.npz", tmp_path / "intervals.csv"
    X = pa.table({name: columns[name] for name in ("age", "dose")})
    labels = np.array(columns["diagnosis"], dtype=object)
    mixture = NetworkGaussianMixture(3, init_params="labels", random_state=0)
    mixture.fit(X, labels, sites=columns["hospital"]).save(model)
    wanted = mixture.uncertainty(X, labels, sites=columns["hospital"])
    rows = ["intervals", model, table, "--sites", "hospital", "--labels", "diagnosis", "--out", out]
    done = gaussip(*rows, "--level", "0.9")
    assert done.returncode == 0, done.stderr
    assert "600 rows at 4 sites: standard errors from the information, 90% intervals" in done.stdout
    written = pa.csv.read_csv(out)
    assert written["parameter"].to_pylist() == 3 * parameter_names(["age", "dose"])
    assert written["component"].to_pylist()[::6] == ["mild", "none", "severe"]
    low, high = wanted.intervals(0.9)
    for name, theta in (("standard_error", wanted.standard_errors), ("low", low), ("high", high)):
        np.testing.assert_allclose(written[name].to_numpy(), pack(theta).ravel(), rtol=1e-9)
    refused = gaussip(*rows, "--json")
    assert refused.returncode == 2
    assert "exists; choose another name, or give --force" in json.loads(refused.stdout)["error"]["message"]
    report = json.loads(gaussip(*rows, "--force", "--robust", "--json").stdout)
    assert report["robust"]
    assert report["warnings"] == []
    assert [one["parameter"] for one in report["intervals"][:2]] == ["weight", "mean age"]
    own = CliRunner().invoke(app, [*map(str, rows[:-1]), str(table), "--force"])
    assert own.exit_code == 2
    assert f"{table} is read by this command" in own.output
    lacking = gaussip(*rows[:5], "--out", tmp_path / "b.csv")
    assert lacking.returncode == 2
    assert "name their column with --labels" in lacking.stderr
    assert not (tmp_path / "b.csv").exists()

"""The command `gaussip diagnose`, what it refuses, and its page."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from typer.testing import CliRunner

from faulty_fits import found, quiet, rows_of
from gaussip import NetworkGaussianMixture
from gaussip.cli import app
from gaussip.diagnosis import diagnose
from gaussip.errors import FederationError, ModelFileError
from gaussip.estimator import model_file


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table, and a model of it that ran out of rounds."""
    folder, data = tmp_path_factory.mktemp("diagnosed"), rows_of()
    columns = {"hospital": [f"H{m}" for m in data.sites], **{f"x{j}": data.X[:, j] for j in range(3)}}
    pa.csv.write_csv(pa.table(columns), folder / "rows.csv")
    mixture = NetworkGaussianMixture(3, algorithm="mnem", eta=0.02, max_rounds=400, random_state=0)
    features = pa.table({name: columns[name] for name in ("x0", "x1", "x2")})
    with pytest.warns(ConvergenceWarning):
        mixture.fit(features, sites=columns["hospital"]).save(folder / "model.npz")
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@quiet
def test_the_command(table):
    result = run("diagnose", table / "model.npz", "--plot", table / "why.png")
    assert result.exit_code == 0  # also with findings
    assert "not enough rounds\n  The rounds ran out while the change was still falling" in result.stdout
    assert (table / "why.png").stat().st_size > 10_000
    assert (table / "why.csv").read_text().startswith("round,log_likelihood,change,disagreement")
    assert run("diagnose", table / "model.npz", "--plot", table / "why.png").exit_code == 2
    as_json = json.loads(run("diagnose", table / "model.npz", "--json").stdout)
    finding = as_json["findings"][-1]
    assert finding["name"] == "not enough rounds"
    assert "a site pulls away" in as_json["judged"]
    assert "--features x0,x1,x2 " in finding["remedy"]
    command = finding["remedy"].replace("TABLE", str(table / "rows.csv")).replace("COLUMN", "hospital")
    assert run(*shlex.split(command.replace("NEW.npz", str(table / "new.npz")))[1:]).exit_code == 0
    after = run("diagnose", table / "new.npz")
    assert "converged" in after.stdout
    assert "nothing was found" in after.stdout


def test_what_cannot_be_diagnosed(table, tmp_path):
    arrays, description = model_file.read(table / "model.npz")
    model_file.write(tmp_path / "older.npz", arrays, description | {"format": 1})
    with pytest.raises(ModelFileError, match="model format 1; this version of gaussip reads format 2"):
        diagnose(tmp_path / "older.npz")
    del arrays["site_mass_"]
    model_file.write(tmp_path / "lacking.npz", arrays, description)
    with pytest.raises(ModelFileError, match="not a gaussip model: it holds no 'site_mass_'"):
        diagnose(tmp_path / "lacking.npz")
    assert run("diagnose", tmp_path / "older.npz").exit_code == 2
    assert run("diagnose", tmp_path / "absent.npz").exit_code == 2
    np.savez(tmp_path / "foreign.npz", a=np.zeros(3))
    with pytest.raises(ModelFileError, match="not a gaussip model: gaussip did not write it"):
        diagnose(tmp_path / "foreign.npz")
    (tmp_path / "cut.npz").write_bytes((table / "model.npz").read_bytes()[:5000])
    with pytest.raises(ModelFileError, match=r"cut short or not an \.npz file"):
        diagnose(tmp_path / "cut.npz")
    with pytest.raises(NotFittedError):
        diagnose(NetworkGaussianMixture(3))
    with pytest.raises(FederationError, match=r"no federation\.toml"):
        diagnose(tmp_path)


@quiet
def test_a_remedy_keeps_what_was_asked_for(tmp_path):
    data = rows_of(2)
    frame = pa.table({name: data.X[:, j] for j, name in enumerate(("age", "blood pressure", "crea"))})
    mixture = NetworkGaussianMixture(
        3, algorithm="exact", init_params="search", random_state=7, max_rounds=400, tol=1e-9
    )
    mixture.fit(frame, sites=data.sites).save(tmp_path / "model.npz")
    remedies = {name: shlex.split(one.remedy) for name, one in found(tmp_path / "model.npz").items()}
    words = remedies["too many components"]
    for option, value in {"--features": "age,blood pressure,crea", "--start": "search", "--seed": "7"}.items():
        assert words[words.index(option) + 1] == value
    words = remedies["not enough rounds"]
    assert words[words.index("--start") + 1] == str(tmp_path / "model.npz")
    alone = NetworkGaussianMixture(2, max_rounds=3, warm_start=True).fit(data.X)
    assert found(alone)["not enough rounds"].remedy == "mixture.set_params(max_rounds=1000).fit(X)"
    alone.save(tmp_path / "alone.npz")
    assert "TABLE --components 2 --algorithm em " in found(tmp_path / "alone.npz")["not enough rounds"].remedy


@pytest.mark.slow
@quiet
def test_the_page(tmp_path, monkeypatch, capsys):
    """Every command of the page finds what the page says."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "docs" / "how-to-diagnose.md").read_text(encoding="utf-8")
    tables, twice = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(tables, {})
    blocks = re.findall(r"^\$ gaussip (fit .*)\n\$ gaussip (diagnose .*)\n((?:.*\n)*?)```", text, re.MULTILINE)
    assert len(blocks) == 11
    for fitting, diagnosing, shown in blocks:
        assert run(*shlex.split(fitting)).exit_code == 0
        printed = " ".join(run(*shlex.split(diagnosing)).stdout.split())
        parts = [re.escape(" ".join(part.split())) for part in shown.split("...\n")]  # "..." where some is left out
        assert re.fullmatch(".*".join(parts), printed)
    exec(twice, {})
    assert "['duplicated component'] mixture.set_params(n_components=2)" in capsys.readouterr().out

"""The command `gaussip check`, its figure, its page, and what a real site says of its own rows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from federations import Federation
from gaussip import plots
from gaussip.cli import app
from gaussip.federation.reading import of_text
from gaussip.inspection import check_table
from gaussip.node.own_rows import EVENT, report_facts, report_own
from gaussip.phases.task import make_task
from patients import patients
from programs import NAMES, local_data, run_all, settings

PAGE = Path(__file__).parents[1] / "docs" / "how-to-check-data.md"


def run(*arguments):
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A table with a code at Genf, other units at Chur, a feature of 0 and 1, and a column that is constant."""
    X, sites = patients()
    X.loc[np.flatnonzero(sites == "Genf")[:9], "chol"] = -9
    X.loc[sites == "Chur", "height"] /= 2.54
    X["sex"], X["version"], X["hospital"] = np.arange(len(X)) % 2, 3, sites
    path = tmp_path_factory.mktemp("checked") / "patients.csv"
    X.to_csv(path, index=False)
    return path


def test_a_table_is_looked_at(odd, tmp_path):
    done = run("check", odd, "--sites", "hospital", "--plot", tmp_path / "check.png")
    assert done.exit_code == 0, done.stderr  # also with warnings
    assert done.stdout.startswith("800 rows at 4 sites, 10 features\n")
    assert "code for missing: chol at Genf\n  -9 stands in 9 of " in done.stdout
    assert "other units: height at Chur\n  the values are about 1/2.5" in done.stdout
    assert "few values: sex\n" in done.stdout
    assert re.search(r"^height +Chur +0 +\d+ +[\d.]+ +[\d.]+ +[\d.]+  other units *$", done.stdout, re.MULTILINE)
    assert "4 warnings, of 4 features" in done.stdout
    table = pd.read_csv(tmp_path / "check.csv")
    assert len(table) == 40
    assert table.set_index(["feature", "site"]).loc[("chol", "Genf"), "warnings"] == "code for missing"
    (again,) = re.findall(r"^look again without them: gaussip (.*)$", done.stdout, re.MULTILINE)
    after = run(*shlex.split(again), "--json")
    assert [(one["name"], one["sites"]) for one in json.loads(after.stdout)["concerns"]] == [
        ("other units", ["Chur"])
    ]
    assert run("check", odd, "--sites", "hospital", "--plot", tmp_path / "check.png").exit_code == 2


def test_a_table_with_all_of_it_is_named_and_what_is_chosen_fits(odd, tmp_path):
    table, path = pd.read_csv(odd), tmp_path / "all.csv"
    table.loc[np.random.default_rng(1).random(len(table)) < 0.4, "crp"] = 0
    table.to_csv(path, index=False)
    found = json.loads(run("check", path, "--sites", "hospital", "--json").stdout)["concerns"]
    everywhere = ["Basel", "Bern", "Chur", "Genf"]
    assert [(one["name"], *one["features"], one["sites"]) for one in found] == [
        ("code for missing", "chol", ["Genf"]),
        ("constant", "version", everywhere),
        ("few values", "sex", everywhere),
        ("heap", "crp", everywhere),
        ("other units", "height", ["Chur"]),
    ]
    chosen = run("choose-k", path, "--sites", "hospital", "--max", "4")
    assert chosen.exit_code == 0, chosen.stderr
    (fit,) = re.findall(r"^fit it: gaussip (.*)--out model.npz$", chosen.stdout, re.MULTILINE)
    fitted = run(*shlex.split(fit), "--out", tmp_path / "model.npz")
    assert fitted.exit_code == 0, fitted.stderr  # a degenerate mixture is refused


def test_a_fit_warns_of_codes_alone(odd, tmp_path):
    fit = ["fit", odd, "--sites", "hospital", "--components", "1", "--no-features", "sex,version"]
    done = run(*fit, "--out", tmp_path / "a.npz")
    assert done.exit_code == 0
    assert "warning: 'chol' at site 'Genf': -9 stands in 9 of" in done.stderr
    assert "height" not in done.stderr
    assert "stands" not in run(*fit, "--na-values", "chol=-9", "--out", tmp_path / "b.npz").stderr


def test_one_site_labels_and_a_table_of_which_nothing_is_to_be_said(table, table_data, tmp_path):
    done = run("check", table, "--sites", "hospital", "--labels", "diagnosis")
    assert done.stdout.startswith("600 rows at 4 sites, 2 features, 180 labelled\n")
    assert done.stdout.endswith("\nnothing was found\n")
    assert done.stderr == ""
    as_json = json.loads(run("check", table, "--sites", "hospital", "--labels", "diagnosis", "--json").stdout)
    counts = np.zeros((4, 3), dtype=int)
    known = table_data.labels >= 0
    np.add.at(counts, (table_data.sites[known], table_data.labels[known]), 1)
    assert as_json["labelled"] == counts.tolist()
    assert as_json["concerns"] == []
    pa.csv.write_csv(pa.table({"x": table_data.X[:, 0], "y": [5] * 600}), tmp_path / "Bern.csv")
    alone = json.loads(run("check", tmp_path / "Bern.csv", "--json").stdout)
    assert (alone["sites"], alone["rows"]) == (["Bern"], [600])
    assert [(one["name"], one["features"]) for one in alone["concerns"]] == [("constant", ["y"])]
    refused = run("check", table, "--sites", "hospital")
    assert refused.exit_code == 2
    assert "--labels diagnosis if it holds labels" in refused.stderr


def test_the_figure_shows_features_with_warnings_first():
    X, sites = patients()
    wide = np.concatenate([np.random.default_rng(0).normal(size=(len(X), 40)), X.to_numpy()], axis=1)
    wide[sites == "Chur", 41] *= 2.54
    seen = check_table(wide, sites=sites)
    drawing = plots.draw_cells(seen)
    titles = [axes.get_title(loc="left") for axes in np.ravel(drawing.axes)]
    assert "column 41\nother units" in titles
    assert len([title for title in titles if title]) == 24
    assert len({len(column) for column in drawing.table.values()}) == 1
    assert drawing.table["feature"] == [cells.feature for cells in seen.cells]
    plt.close("all")


# --- real sites


def description(features, **more):
    lines = ['name = "trial"', 'reveals = "site moments"', "components = 3", f"features = {json.dumps(features)}"]
    lines += [f"{key} = {value}" for key, value in more.items()]
    lines += [f'[sites.{name}]\naddress = "127.0.0.1:{7440 + m}"' for m, name in enumerate(NAMES)]
    return of_text("\n".join(lines).replace('Chur]', 'Chur]\nlacks = ["x2"]') + "\n")  # fmt: skip


def test_a_site_logs_what_it_sees_and_all_know_no_more_than_before(dataset):
    """Every site holds its own rows against the totals that it knows anyway."""
    rows = [one._replace(X=one.X + 50) for one in local_data(dataset, labelled=False)]
    rows[1].X[:, 1] *= 18.0
    rows[3].X[:, 0][:5] = -9
    rows[3].X[:, 2] = np.nan
    task = make_task(NAMES, **settings("masked", owners=None, max_rounds=5))
    programs = run_all(task, rows)
    agreed = description(["x0", "x1", "x2"])
    told = {}
    for m, (name, program) in enumerate(zip(NAMES, programs, strict=True)):
        events = []
        logs = SimpleNamespace(event=lambda what, events=events, **details: events.append((what, details)))
        folder = SimpleNamespace(description=agreed, site=name)
        report_own(folder, task, rows[m], logs)
        report_facts(folder, rows[m], program.results["facts"], logs)
        told[name] = [(what, details["feature"], details["why"].split(":")[0]) for what, details in events]
    assert told == {
        "Basel": [], "Bern": [(EVENT, "x1", "other units")], "Biel": [],
        "Chur": [(EVENT, "x0", "code for missing")],  # and nothing of what it lacks
        "Genf": [],
    }  # fmt: skip


def test_real_sites_say_what_they_see_in_their_own_log(tmp_path):
    changes = {"algorithm": "masked", "reveals": None, "labels": None, "classes": None, "max_rounds": 3}
    with Federation(tmp_path, n_sites=3, **changes) as sites:
        for m, name in enumerate(sites.names):
            X = sites.data.X[sites.data.sites == m] + 50
            X[:, 1] *= 18 if name == "s1" else 1
            X[:4, 0] = -9 if name == "s2" else X[:4, 0]
            sites.write_table(name, X, np.full(len(X), -1))
        sites.start()
        sites.finish()
        seen = {name: [(one["feature"], one["why"]) for one in sites.events(name, EVENT)] for name in sites.names}
        assert {name: [feature for feature, _ in found] for name, found in seen.items()} == {
            "s0": [], "s1": ["x1"], "s2": ["x0"],
        }  # fmt: skip
        assert "the values here are about 1" in seen["s1"][0][1]
        assert seen["s2"][0][1] in sites.output("s2")
        assert 'na_values = { "x0" = [-9] }' in sites.output("s2")
        assert all(EVENT not in (sites.folders / name / "audit.jsonl").read_text() for name in sites.names)


# --- the page


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    make, use = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(make, {})
    (command, shown), *_ = re.findall(r"^\$ gaussip (check .*)\n((?:.*\n)*?)```", text, re.MULTILINE)
    done = run(*shlex.split(command))
    assert done.exit_code == 0, done.stderr
    assert [line.rstrip() for line in done.stdout.splitlines()] == shown.splitlines()
    scope = {}
    exec(use, scope)
    assert {one.name for one in scope["seen"].concerns} >= {"other units", "code for missing"}

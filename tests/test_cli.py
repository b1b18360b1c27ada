"""The command line: what it prints, writes and returns."""

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.main import get_command

from command import FIT, PROGRAM, gaussip, on_terminal, read_until
from gaussip import NetworkGaussianMixture
from gaussip.cli import app


def commands(group, name=""):
    """Every command below a group, with its whole name."""
    for part, command in group.commands.items():
        below = f"{name} {part}".strip()
        yield from commands(command, below) if hasattr(command, "commands") else [(below, command)]


COMMANDS = dict(commands(get_command(app)))


def test_version_and_help():
    assert re.fullmatch(r"gaussip \d+\.\d+\.\d+\n", gaussip("--version").stdout)
    overview = gaussip("--help").stdout
    assert all(name.split()[0] in overview for name in COMMANDS)
    shown = gaussip("fit", "--help")
    assert shown.returncode == 0
    assert "Example: gaussip fit" in shown.stdout
    assert "--json" in shown.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_a_help_for_every_option(name):
    command = COMMANDS[name]
    assert f"Example: `gaussip {name}" in command.help
    assert [option.name for option in command.params if not getattr(option, "help", None)] == []
    assert "--json" in [word for option in command.params for word in option.opts]


def test_fit_then_predict(table, tmp_path, table_data):
    model, predicted = tmp_path / "model.npz", tmp_path / "predicted.parquet"
    done = gaussip("fit", table, *FIT, "--out", model)
    assert done.returncode == 0, done.stderr
    assert "600 rows at 4 sites, 2 features, 180 labelled: converged after" in done.stdout
    assert re.search(r"mild +0\.\d+", done.stdout)
    done = gaussip("predict", model, table, "--out", predicted)
    assert done.returncode == 0, done.stderr
    found = pa.parquet.read_table(predicted)
    assert found.column_names[:4] == ["hospital", "diagnosis", "prediction", "probability of mild"]
    wanted = np.array(["mild", "none", "severe"])[table_data.classes]
    assert np.mean(found["prediction"].to_numpy() == wanted) > 0.98
    on_screen = gaussip("predict", model, table).stdout
    assert on_screen.startswith('"hospital","diagnosis","prediction","probability of mild"')
    assert on_screen.count("\n") == 601


def test_json_is_the_estimator_s_answer(table, tmp_path, table_data, columns):
    model = tmp_path / "model.npz"
    answer = json.loads(gaussip("fit", table, *FIT, "--out", model, "--json").stdout)
    wanted = NetworkGaussianMixture(3, eta=0.1, init_params="labels", random_state=0).fit(
        table_data.X, np.array(columns["diagnosis"], dtype=object), sites=columns["hospital"]
    )
    np.testing.assert_allclose(answer["means"], wanted.means_, rtol=1e-12)
    assert answer["classes"] == ["mild", "none", "severe"]
    assert answer["rounds"] == wanted.n_rounds_
    assert answer["warnings"] == []
    predicted = json.loads(gaussip("predict", model, table, "--json").stdout)
    assert len(predicted["columns"]["prediction"]) == 600


def test_an_interrupt_that_python_ignores_is_not_lost():
    """An error where an object is destroyed is printed and ignored: the command must end all the same."""
    program = """
import os, signal
from gaussip.cli import console
class Lost:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, console.interrupt)
Lost()
print("ignored")
with console.progress(3) as advance:
    advance("working", 1)
print("not interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Exception ignored in: <function Lost.__del__" in done.stderr
    assert (done.stdout.split(), "KeyboardInterrupt" in done.stderr) == (["ignored"], True)
    assert done.returncode != 0


def test_commands_that_start_from_nothing():
    """Not from a prepared process: imports are in an order that works."""
    for words in (["fit", "x.csv", "-k", "2"], ["diagnose", "x.npz"], ["site", "status", "x"], ["check", "x.csv"]):
        done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr


def test_one_table_for_each_site(tmp_path, columns, table):
    whole = pa.table({name: values for name, values in columns.items() if name != "hospital"})
    sites = np.array(columns["hospital"])
    paths = []
    for site in sorted(set(columns["hospital"])):
        paths.append(tmp_path / f"{site}.csv")
        pa.csv.write_csv(whole.filter(sites == site), paths[-1])
    arguments = [a for a in FIT if a not in ("--sites", "hospital")]
    joined = json.loads(gaussip("fit", *paths, *arguments, "--out", tmp_path / "a.npz", "--json").stdout)
    single = json.loads(gaussip("fit", table, *FIT, "--out", tmp_path / "b.npz", "--json").stdout)
    assert joined["sites"] == single["sites"]
    np.testing.assert_allclose(joined["means"], single["means"], rtol=1e-10)
    odd = pa.table({"age": [1.0], "doses": [2.0], "diagnosis": ["mild"]})
    pa.csv.write_csv(odd, paths[2])
    refused = gaussip("fit", *paths, *arguments, "--out", tmp_path / "c.npz")
    assert refused.returncode == 2
    words = "columns of site 'H2' differ from those of site 'H0': it lacks ['dose'] and has also ['doses']"
    assert words in refused.stderr


def test_going_on_from_a_model_and_a_network_of_one_s_own(table, tmp_path):
    model, edges = tmp_path / "model.npz", tmp_path / "edges.csv"
    edges.write_text("sender,hearer\nH0,H1\nH1,H2\nH2,H3\nH3,H0\nH0,H2\n")
    first = gaussip("fit", table, *FIT, "--out", model, "--rounds", "2", "--json")
    assert any("not converged after 2 rounds" in line for line in json.loads(first.stdout)["warnings"])
    again = [a if a != "labels" else str(model) for a in FIT]
    by_sums = json.loads(
        gaussip("fit", table, *again, "--network", edges, "--out", tmp_path / "c.npz", "--json").stdout
    )
    assert by_sums["converged"]
    assert by_sums["disagreement"] == 0
    refused = gaussip("fit", table, *again, "--network", edges, "--out", tmp_path / "b.npz", "--algorithm", "exact")
    assert refused.returncode == 2
    assert "exact needs a two-way network: site 'H0' receives from 'H3', which does not receive" in refused.stderr
    assert "--algorithm masked" in refused.stderr
    again += ["--algorithm", "mnem"]
    second = gaussip("fit", table, *again, "--network", edges, "--out", tmp_path / "b.npz", "--json")
    answer = json.loads(second.stdout)
    assert answer["converged"], second.stderr
    assert any("does not aim at the pooled estimate" in line for line in answer["warnings"])
    assert sorted(NetworkGaussianMixture.load(tmp_path / "b.npz").network) == ["H0", "H1", "H2", "H3"]


def test_network(tmp_path):
    answer = json.loads(gaussip("network", "star", "--sites", "10", "--json").stdout)
    assert answer["se_w"] == pytest.approx(8 / 3)
    shown = gaussip("network", "fixed-degree(3)", "--sites", "9", "--plot", tmp_path / "n.png")
    assert "SE(W), imbalance" in shown.stdout
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "n.csv").read_text().count("\n") == 1 + 27


def test_simulate():
    arguments = ["--rows", "2000", "--sites", "5", "--labelled", "0.2", "--rounds", "50", "--replicates", "2"]
    shown = gaussip("simulate", *arguments, "--algorithms", "semi-em,nnem,ngd=0.003")
    assert shown.returncode == 0, shown.stderr
    for name in ("semi-EM", "NNEM", "NGD"):
        assert name in shown.stdout
    assert "2 of 2" in shown.stdout  # NNEM collapsed, the others went on
    answer = json.loads(gaussip("simulate", *arguments, "--algorithms", "semi-em,nnem", "--json").stdout)
    assert [r["method"] for r in answer["results"]] == ["semi-EM", "NNEM"]
    assert answer["results"][1]["log_mse"] is None


def test_names_are_kept_as_written(tmp_path):
    path = tmp_path / "codes.csv"
    rng = np.random.default_rng(0)
    lines = [f"{code},{rng.normal(k % 2 * 6):.4f}" for k, code in enumerate(["01", "1", "001"] * 40)]
    path.write_text("\n".join(["ward,x", *lines]))
    edges = tmp_path / "edges.csv"
    edges.write_text("sender,hearer\n01,1\n1,001\n001,01\n1,01\n001,1\n01,001\n")
    arguments = ["--sites", "ward", "-k", "2", "--network", edges, "--eta", "0.1", "--out", tmp_path / "m.npz"]
    answer = json.loads(gaussip("fit", path, *arguments, "--json").stdout)
    assert answer["sites"] == ["001", "01", "1"]


def test_numbers_in_text_and_names_that_look_like_markup(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=120) + np.repeat([0, 8], 60)
    classes = np.repeat(["[/x]", ":b:"], 60)
    wards = [f"1234567890123456789{m % 3}" for m in range(120)]
    table, model = tmp_path / "odd.parquet", tmp_path / "m.model"
    columns = {"ward": wards, "size[mm]": [f"{x:.3f}" for x in X], "class": classes}
    pa.parquet.write_table(pa.table(columns), table)
    fit = ["fit", table, "--sites", "ward", "--labels", "class", "-k", "2", "--eta", "0.1"]
    done = gaussip(*fit, "--start", "labels", "--out", model)
    assert done.returncode == 0, done.stderr
    assert "at 3 sites" in done.stdout
    for name in ("[/x]", ":b:", "size[mm]"):
        assert name in done.stdout
    assert '":b:"' in gaussip("predict", model, table).stdout
    again = gaussip(*fit, "--start", model, "--out", tmp_path / "n.npz")  # any file can be a model
    assert again.returncode == 0, again.stderr
    other = gaussip(*[a if a != "2" else "3" for a in fit], "--start", model, "--out", tmp_path / "o.npz")
    assert "the model of --start has 2 components" in other.stderr


def test_classes_and_components_are_named_apart(tmp_path, table_data):
    """Only class 1 is ever labelled: its rows must not come back under another number."""
    path = tmp_path / "one.csv"
    labels = np.where(table_data.labels == 2, "1", "-1")
    pa.csv.write_csv(
        pa.table({"s": table_data.sites, "x": table_data.X[:, 0], "y": table_data.X[:, 1], "l": labels}), path
    )
    model = tmp_path / "m.npz"
    fit = ["--sites", "s", "--labels", "l", "-k", "3", "--eta", "0.1", "--out", model]
    assert re.search(r"^1 .*\ncomponent 1 .*\ncomponent 2 ", gaussip("fit", path, *fit).stdout, re.MULTILINE)
    predicted = json.loads(gaussip("predict", model, path, "--json").stdout)["columns"]
    assert np.mean(np.array(predicted["prediction"])[table_data.classes == 2] == 1) > 0.98
    assert set(predicted["prediction"]) == {1, -1}


def test_a_network_of_one_s_own_is_measured(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("sender,hearer,weight\nBern,Chur,3\nChur,Bern,1\nBasel,Chur,1\nChur,Basel,1\n")
    answer = json.loads(gaussip("network", edges, "--json").stdout)
    assert answer["sites"] == ["Basel", "Bern", "Chur"]
    np.testing.assert_allclose(answer["stationary"], [0.125, 0.375, 0.5])
    assert gaussip("network", "ring").returncode == 2


def test_a_progress_bar_and_a_clean_interrupt():
    with on_terminal("simulate", "--rounds", "100000", "--algorithms", "mnem=0.0001") as (process, terminal):
        assert b"MNEM" in read_until(terminal, b"/100000")
        process.send_signal(signal.SIGINT)
        shown = read_until(terminal, b"interrupted")
        assert process.wait(timeout=60) == 130
    assert b"interrupted" in shown
    assert b"Traceback" not in shown


def test_a_model_takes_the_table_of_a_site_that_lacks_a_column(tmp_path):
    rng = np.random.default_rng(0)
    for name in "abc":
        columns = {"x": rng.normal(size=60), "y": rng.normal(size=60)}
        if name == "c":
            del columns["y"]
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
    model, out = tmp_path / "model.npz", tmp_path / "out.csv"
    fitted = gaussip("fit", *(tmp_path / f"{name}.csv" for name in "abc"), "-k", "1", "--out", model)
    assert fitted.returncode == 0, fitted.stderr
    for command in ("predict", "impute"):
        done = gaussip(command, model, tmp_path / "c.csv", "--out", out, "--force")
        assert done.returncode == 0, done.stderr
        assert "c.csv has no column 'y', which the model has: all its cells are taken for missing" in done.stderr
        assert len(pd.read_csv(out)) == 60
    pd.DataFrame({"z": [1.0]}).to_csv(tmp_path / "other.csv", index=False)
    refused = gaussip("predict", model, tmp_path / "other.csv")
    assert (refused.returncode, "the table has no column 'x'" in refused.stderr) == (2, True)


def test_codes_and_constants_are_warned_of_by_every_command_that_takes_rows(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(60, 9, 200).round(), "flat": 3.0, "site": np.arange(200) % 4})
    clean, odd, model = tmp_path / "clean.csv", tmp_path / "odd.csv", tmp_path / "model.npz"
    frame.drop(columns="flat").to_csv(clean, index=False)
    assert gaussip("fit", clean, "--sites", "site", "-k", "1", "--out", model).stderr == ""
    frame.loc[:9, "age"] = -9
    frame.to_csv(odd, index=False)
    chosen = gaussip("choose-k", odd, "--sites", "site", "--max", "1")
    assert "'flat': 3 in all 200 cells; leave it out: --no-features flat" in chosen.stderr
    for command in (["choose-k", odd, "--sites", "site", "--max", "1"], ["predict", model, odd]):
        assert "-9 stands in 10 of 200 cells" in gaussip(*command).stderr

"""What the command line refuses: exit code 2, a plain message, and nothing written."""

import json
import os
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from command import FIT, gaussip
from gaussip import NetworkGaussianMixture
from gaussip.cli import app
from gaussip.cli.options import as_option
from gaussip.errors import Text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--sites", "clinic"], "no column 'clinic'; it has hospital, age, dose, diagnosis"),
        (["--components", "2"], "the column of --labels has 3 classes ('mild', 'none', 'severe') but --components 2"),
        (["--labels", "ward"], "no column 'ward'"),
        (
            ["--features", "age,hospital"],
            "column 'hospital' holds 'H0' in row 1 (counted from 1), which is not a number",
        ),
        (["--network", "wheel"], "there is no network 'wheel'"),
        (["--network", "missing.csv"], "there is no file missing.csv"),
        (["--start", "missing.npz"], "there is no file 'missing.npz'"),
        (["--eta", "3"], "--eta 3.0 must be a number in (0, 1]"),
        (["--device", "cuda"], "--device cuda"),
    ],
)
def test_bad_input_exits_with_2_and_writes_nothing(table, tmp_path, change, words):
    arguments = dict(zip(FIT[::2], FIT[1::2], strict=True)) | dict([change])
    flat = [part for pair in arguments.items() for part in pair]
    if change[0] == "--device" and _has_gpu():
        pytest.skip("this machine has a GPU")
    done = gaussip("fit", table, *flat, "--out", tmp_path / "model.npz", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
    as_json = json.loads(gaussip("fit", table, *flat, "--out", tmp_path / "m.npz", "--json", cwd=tmp_path).stdout)
    assert words in as_json["error"]["message"]


def _has_gpu():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "hospital,age,dose,diagnosis\nH0,1,2,mild\nH1,,3,none\nH1,,4,severe\n",
            "2 sites have no row left without those with missing cells that fewer than min_count=5 rows",
        ),
        ("hospital,age,dose,diagnosis\n", "has no rows"),
        ("", "cannot be read"),
        ("hospital,age,dose,diagnosis\n,1,2,mild\nH1,2,3,none\nH1,2,4,severe\n", "1 rows have no site"),
        ("hospital,age,dose,diagnosis\nH0,1,2,mild\nH0,2,3,none\nH1,inf,4,severe\n", "1 infinite values"),
        ("hospital,age,age,diagnosis\nH0,1,2,mild\n", "more than one column named 'age'"),
        ("hospital,age,dose,diagnosis\nZ\xfcrich,1,2,mild\n", "UTF-8"),
        ("hospital,age,d\xf6se,diagnosis\nH0,1,2,mild\n", "UTF-8"),
        ("hospital,age,dose,diagnosis\nH0,1,2,\nH1,3,4,\n", "column 'diagnosis' holds no labels"),
        ("hospital,age,dose,diagnosis\nH0,1,2,mild\nH1,3,oops,none\n", "column 'dose' holds 'oops' in row 2"),
        ("hospital,age,dose,diagnosis\nH0,1,2,mild\nH1,3,1e200,none\n", "1 values beyond 1e+100: 1 in 'dose'"),
    ],
)
def test_bad_tables(tmp_path, text, words):
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="latin-1")
    done = gaussip("fit", path, *FIT, "--out", tmp_path / "model.npz")
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "model.npz").exists()


def test_nothing_is_overwritten_unless_asked(table, tmp_path):
    model = tmp_path / "model.npz"
    model.write_text("precious")
    assert gaussip("fit", table, *FIT, "--out", model).returncode == 2
    assert model.read_text() == "precious"
    assert gaussip("fit", table, *FIT, "--out", model, "--force").returncode == 0
    refused = gaussip("fit", table, *FIT, "--out", tmp_path / "nowhere" / "model.npz")
    assert refused.returncode == 2
    assert "there is no folder" in refused.stderr
    assert gaussip("fit", table.with_suffix(".xlsx"), *FIT, "--out", tmp_path / "x.npz").returncode == 2
    assert gaussip("predict", table, table).returncode == 2
    assert gaussip("fit", table, "--components", "2", "--out", tmp_path / "y.npz").returncode == 2  # no sites
    assert gaussip("fit").returncode == 2


def test_what_is_read_is_never_overwritten(table, table_data, tmp_path):
    """Whatever is forced; and without force nobody is told to."""
    patients, edges = tmp_path / "patients.csv", tmp_path / "edges.csv"
    patients.write_bytes(table.read_bytes())
    edges.write_text("sender,hearer\nH0,H1\nH1,H2\nH2,H3\nH3,H0\n")
    model, basis = tmp_path / "model.npz", tmp_path / "basis.npz"
    picture = tmp_path / "patients.png"
    pa.csv.write_csv(
        pa.table({name: table_data.X[:, j] for j, name in enumerate(("age", "dose"))}), tmp_path / "x.csv"
    )
    NetworkGaussianMixture(3, random_state=0).fit(table_data.X).save(model)
    reduced = ["reduce", patients, "--sites", "hospital", "--features", "age,dose", "--keep", "1", "--basis", basis]
    assert CliRunner().invoke(app, [*map(str, reduced), "--out", str(tmp_path / "r.csv")]).exit_code == 0
    (tmp_path / "link.csv").symlink_to(patients)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    rows = ["--sites", "hospital", "--labels", "diagnosis"]
    for command in (
        ["choose-k", patients, *rows, "--plot", picture],
        ["choose-eta", patients, *rows, "-k", "3", "--plot", picture],
        ["choose-eta", patients, *rows, "-k", "3", "--network", edges, "--plot", tmp_path / "edges.png"],
        ["fit", patients, *FIT, "--out", patients],
        ["fit", patients, *FIT, "--out", tmp_path / "link.csv"],
        ["fit", patients, *FIT, "--network", edges, "--out", edges],
        ["predict", model, tmp_path / "x.csv", "--out", tmp_path / "x.csv"],
        ["predict", model, tmp_path / "x.csv", "--out", model],
        [*reduced, "--out", patients],
        ["reduce", patients, "--basis", basis, "--out", patients],
        ["network", edges, "--plot", tmp_path / "edges.png"],
    ):
        told = CliRunner().invoke(app, [*map(str, command), "--force"])
        assert told.exit_code == 2, command
        assert "is read by this command, and would be overwritten by it" in told.output
    told = CliRunner().invoke(app, [*map(str, command)])
    assert told.exit_code == 2
    assert "--force" not in told.output
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    going_on = ["fit", str(patients), *FIT[:6], "--out", str(tmp_path / "m.npz"), "--rounds", "5"]
    assert CliRunner().invoke(app, going_on).exit_code == 0
    assert CliRunner().invoke(app, [*going_on, "--start", going_on[-3], "--force"]).exit_code == 0


def test_a_column_of_words_is_answered_by_what_it_may_be(table):
    runner = CliRunner()
    told = runner.invoke(app, ["choose-k", str(table), "--sites", "hospital"]).output
    assert "column 'diagnosis' holds" in told
    assert (
        "give --labels diagnosis if it holds labels, --na-values WORD if that stands for a missing cell, "
        "--no-features diagnosis to leave it out, or correct it" in told
    )
    told = runner.invoke(app, ["choose-k", str(table)]).output
    assert "name the column that holds each row's site with --sites" in told
    told = runner.invoke(app, ["choose-k", str(table), "--sites", "hospital", "--features", "age,diagnosis"]).output
    assert "which is not a number; correct it" in told


def test_choose_k_says_what_it_wrote_and_what_to_run(table, tmp_path):
    rows = ["choose-k", str(table), "--sites", "hospital", "--labels", "diagnosis"]
    asked = [*rows, "--plot", str(tmp_path / "k.png")]
    told = CliRunner().invoke(app, [*asked, "--max", "4", "--reg-covar", "0.001", "--seed", "4"])
    assert told.exit_code == 0, told.output
    assert f"written: {', '.join(str(tmp_path / f'k.{kind}') for kind in ('png', 'svg', 'csv'))}" in told.output
    assert "--reg-covar 0.001 --seed 4 --components 3 --start search" in told.output
    assert "BIC counts Gaussians" in told.output
    told = CliRunner().invoke(app, [*rows, "--max", "4", "--seed", "3"])  # a fourth component gets two rows
    assert "no mixture of 4 components was found: every start lost a component, or left one to fewer" in told.output
    assert "try fewer components or a larger --reg-covar" in told.output
    assert "K = 3 is the only one that was looked at" in told.output
    (tmp_path / "k.png").unlink()
    (tmp_path / "k.csv").unlink()
    told = CliRunner().invoke(app, [*asked, "--max", "3"])
    assert told.exit_code == 2
    assert "k.svg exists" in told.output
    told = CliRunner().invoke(app, [*asked, "--max", "3", "--force"])
    assert "K = 3 is the only one that was looked at: there was nothing to compare it with" in told.output
    assert "BIC counts" not in told.output


@pytest.mark.parametrize(
    ("library", "command"),
    [
        ("try a larger {reg_covar}", "try a larger --reg-covar"),
        ("{max_rounds:0} ends", "--rounds 0 ends"),
        ("{extra:{value!r}} must be", "--extra -1.0 must be"),
        ("{y} has {n} classes", "the column of --labels has 3 classes"),
        ("give {y}, or use {init_params:'kmeans'}", "give the column of --labels, or use --start kmeans"),
        ("use {warm_start:False}", "use another --start"),
        ("{normalise:'x'} is not", "normalise x is not"),
    ],
)
def test_a_message_names_settings_as_options(library, command):
    assert Text(library, n=3, value=-1.0).worded(as_option) == command


def test_an_error_of_a_column_says_which_in_json(table, tmp_path):
    wrong = ["fit", str(table), "--sites", "hospital", "-k", "3", "--out", str(tmp_path / "m.npz"), "--json"]
    error = json.loads(CliRunner().invoke(app, wrong).stdout)["error"]
    assert (error["column"], error["row"]) == ("diagnosis", 1)
    error = json.loads(CliRunner().invoke(app, [*wrong, "--labels", "diagnosis", "--tol", "-1"]).stdout)["error"]
    assert (error["setting"], error["message"]) == ("tol", "--tol -1.0 must be a number of at least 0")


def test_work_that_takes_long_prints_nothing_where_nobody_looks(tmp_path):
    """A bar is for terminals: standard error in a file stays empty."""
    script = (
        "import threading\nfrom gaussip.cli.console import progress\n"
        "with progress(2, after=0) as advance:\n"
        "    for thread in threading.enumerate():\n"
        "        if isinstance(thread, threading.Timer):\n            thread.join()\n"
        "    advance('half', 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_model_without_names_says_how_many_columns_it_needs(tmp_path, table_data, table):
    NetworkGaussianMixture(3, random_state=0).fit(table_data.X).save(tmp_path / "m.npz")
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1,2,3\n")
    refused = gaussip("predict", tmp_path / "m.npz", path)
    assert refused.returncode == 2
    assert "the model has 2 features, the table 3 columns" in refused.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sender,hearer\n1,2\n2,3\n3,x\n", "site '1' hears nobody"),
        ("sender,hearer\n1,2\n,1\n", "no sender or no hearer"),
        ("sender,hearer,weight\n1,2,1\n2,1,1\n1,2,5\n", "stands there twice"),
        ("from,to\n1,2\n", "columns sender and hearer"),
    ],
)
def test_bad_edges(tmp_path, text, words):
    path = tmp_path / "edges.csv"
    path.write_text(text)
    refused = gaussip("network", path)
    assert refused.returncode == 2
    assert re.search(words, refused.stderr)
    clash = gaussip("network", path, "--plot", tmp_path / "edges.png", "--force")
    assert clash.returncode == 2
    assert path.read_text() == text


def test_impossible_simulations_are_refused():
    for wrong in (["--labelled", "nan"], ["--delta", "nan"], ["--noise", "inf"], ["--replicates", "0"]):
        refused = gaussip("simulate", *wrong, "--json")
        assert refused.returncode == 2
        assert "error" in json.loads(refused.stdout)


def test_drawings_overwrite_nothing(tmp_path):
    precious = tmp_path / "patients.csv"
    precious.write_text("precious")
    refused = gaussip("network", "ring", "--sites", "5", "--plot", tmp_path / "patients.png")
    assert refused.returncode == 2
    assert "patients.csv exists" in refused.stderr
    assert precious.read_text() == "precious"
    assert not (tmp_path / "patients.png").exists()
    for wrong, words in (("n.xyz", "pictures are .png"), ("nowhere/n.png", "there is no folder")):
        refused = gaussip("network", "ring", "--sites", "5", "--plot", tmp_path / wrong)
        assert refused.returncode == 2
        assert words in refused.stderr
    assert gaussip("demo", "--out", precious).returncode == 2
    fifo = tmp_path / "pipe.npz"
    os.mkfifo(fifo)
    refused = gaussip("fit", precious, "-k", "2", "--out", fifo, "--force")
    assert "not an ordinary file" in refused.stderr

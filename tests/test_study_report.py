"""Reports: figures with their tables, published numbers, claims, and the page."""

import json
import math
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib import image
from typer.testing import CliRunner

from gaussip.cli import app
from gaussip.studies.claims import verdicts
from gaussip.studies.design import ORDER, load, of_text
from gaussip.studies.folder import Folder
from gaussip.studies.page import Page
from gaussip.studies.report import comparisons, report
from study_files import figure, rows_of

TOML = """
title = "A & B"
about = "Two methods."
replicates = 12
rounds = 1000
claims = ["mnem-reaches-whole-sample", "nnem-fails-where-sites-differ", "labels-help"]

[[cells]]
delta = [1, 2]
labelled = [0, 0.1]
methods = ["mnem", "nnem"]

[[published]]
where = { delta = 2, labelled = 0, method = "mnem" }
round = 1000
value = -4.05
within = 0.1
source = "here"

[[published]]
where = { delta = 2, labelled = 0.1, method = "mnem" }
value = -4.5
within_errors = 2
source = "there"

[[published]]
where = { delta = 1, labelled = 0, method = "em" }
value = -3.0
source = "elsewhere"
note = "for the record"

[[published]]
where = { delta = 1, labelled = 0, method = "mnem" }
round = 500
value = -3.0
source = "elsewhere"
"""
TOML += figure("both", columns="delta", rows="labelled")
TOML += figure("by-labels", "MSE ratio", measure="mse_ratio", along="labelled", lines="delta", methods=["mnem"])
LEVEL = {"em": -4.0, "mnem": -4.02, "nnem": 2.0}


@pytest.fixture
def made(tmp_path):
    """Cells whose numbers are known: each data set's MSE is exp(level) times 1 + 0.1, 1 - 0.1, ..."""
    design = of_text(TOML, "mine")
    folder = Folder.for_run(tmp_path / "mine", design)
    for cell in design.cells:
        rounds = np.array([0, 1, 10, 100, 1000])  # a run that did not look at round 500
        helped = cell.setting.labelled > 0 and cell.setting.delta == 1
        level = LEVEL[cell.method.algorithm] - 0.3 * helped
        above = np.array([3.0, 2.0, 1.0, 0.0, 0.0] if helped else [3.0, 2.0, 1.0, 0.5, 0.0])
        mse = np.exp(level + above)[:, None] * np.tile([1.1, 0.9], 6)
        gone = np.zeros(12, dtype=int)
        gone[-1] = 12 if cell.method.algorithm == "nnem" else 0
        mse = np.where((gone > 0) & (rounds[:, None] >= gone), np.nan, mse)
        psi = {"psi": np.zeros((12, 3, 28)), "se_f": np.ones(12)} if cell.method.algorithm == "em" else {}
        folder.write(
            cell, {"rounds": rounds, "mse": mse, "distance": mse / 2, "bytes": 672 * rounds, "collapsed": gone, **psi}
        )
    return folder


def test_numbers_beside_published_ones(made):
    near, errors, bare, missing = comparisons(made.results())
    assert near.verdict == "reproduced"
    assert near.measured == pytest.approx(-4.02)
    assert near.difference == pytest.approx(0.03)
    # the log's standard error: standard deviation over mean, over the root of twelve
    assert near.standard_error == pytest.approx(np.std([1.1, 0.9] * 6, ddof=1) / math.sqrt(12))
    assert errors.verdict == "not reproduced"
    assert errors.allowed == pytest.approx(2 * errors.standard_error)
    assert (bare.verdict, bare.note) == ("reported", "for the record")
    assert math.isnan(bare.allowed)
    assert missing.verdict == "round not reached"
    assert math.isnan(missing.measured)


def test_claims_are_kept_or_refuted_by_the_numbers(made):
    reach, fails, labels = verdicts(made.results())
    assert [item.verdict for item in (reach, fails, labels)] == ["kept", "kept", "kept"]
    assert fails.evidence[0] == (
        "NNEM (delta 1, labelled 0): log MSE +6.000 from the whole sample's, 1 of 12 collapsed"
    )
    cell = next(c for c in made.design.cells if c.method.algorithm == "mnem" and c.setting.delta == 2)
    result = made.read(cell)
    made.write(cell, {**result, "mse": result["mse"] * np.exp(0.2)})
    assert verdicts(made.results())[0].verdict == "refuted"
    assert "(fails)" in "".join(verdicts(made.results())[0].evidence)
    for cell in made.design.cells:
        if cell.method.algorithm == "mnem":
            made.file_of(cell).unlink()
    assert [item.verdict for item in verdicts(made.results())] == ["not run", "kept", "not run"]


def test_a_method_that_lost_data_sets_does_not_reach_and_one_that_lost_all_is_worst(made):
    for cell in made.design.cells:
        if cell.method.algorithm == "mnem" and cell.setting.delta == 2:
            result = made.read(cell)
            result["collapsed"][0] = 7
            result["mse"][1:, 0] = np.nan
            made.write(cell, result)
    reach = verdicts(made.results())[0]
    assert reach.verdict == "refuted"
    assert "1 of 12 collapsed (fails)" in reach.evidence[0]
    # the same data sets are compared: what is left has lost as much as the whole sample's
    assert reach.evidence[0].startswith("MNEM (delta 2, labelled 0): log MSE -0.020")


def test_distances_along_rounds(tmp_path):
    toml = TOML.replace("title = 'log MSE'", 'title = "distance"\nmeasure = "distance"')
    folder = Folder.for_run(tmp_path / "mine", of_text(toml, "mine"))
    cell = next(c for c in folder.design.cells if c.method.algorithm == "mnem")
    numbers = {"rounds": np.array([0, 1, 10]), "mse": np.ones((3, 12)), "bytes": np.zeros(3, dtype=int)}
    apart = np.array([[4.0], [2.0], [0.5]]) * np.ones(12)
    folder.write(cell, {**numbers, "distance": apart, "collapsed": np.zeros(12, dtype=int)})
    report(folder)
    assert [row["distance"] for row in rows_of(folder.path / "report" / "both.csv")] == ["2.0", "0.5"]


def test_tables(made):
    report(made)
    out = made.path / "report"
    summary = rows_of(out / "summary.csv")
    assert len(summary) == len(made.design.cells) == 12
    mnem = next(r for r in summary if (r["method"], r["delta"], r["labelled"]) == ("mnem", "2", "0"))
    assert float(mnem["log_mse"]) == pytest.approx(-4.02)
    assert float(mnem["mse_ratio"]) == pytest.approx(np.exp(-0.02))
    assert {r["collapsed"] for r in summary if r["method"] == "nnem"} == {"1"}
    curves = pq.read_table(out / "curves.parquet").to_pylist()
    assert len(curves) == len(rows_of(out / "curves.csv")) == 12 * 5
    late = [r for r in curves if r["method"] == "nnem" and r["round"] == 1000]
    assert {r["data_sets_left"] for r in late} == {11}
    assert {r["eta"] for r in late} == {None}


def test_figures_have_their_tables_and_are_pictures(made):
    done = report(made)
    out = made.path / "report"
    assert {path.name for path in done.files} >= {"both.png", "both.svg", "both.csv", "by-labels.csv", "report.html"}
    drawn = rows_of(out / "both.csv")
    lines = {(r["row"], r["column"], r["line"]) for r in drawn}
    assert ("r = 0", "Delta = 2", "MNEM, eta = 0.01") in lines
    assert ("r = 0.1", "Delta = 1", "semi-EM (whole sample)") in lines
    assert len(lines) == 4 * 3
    assert min(int(r["round"]) for r in drawn) == 1  # the start has no place on a logarithmic axis
    picture = image.imread(out / "both.png")
    assert picture.shape[0] > 400
    assert picture.std() > 0.05
    ratios = rows_of(out / "by-labels.csv")
    assert [r["r"] for r in ratios] == ["0.0", "0.1", "0.0", "0.1"]
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    report(made)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_what_collapsed_at_once_is_a_cross(made):
    for cell in made.design.cells:
        if cell.method.algorithm == "nnem":
            result = made.read(cell)
            result["collapsed"][:] = 1
            result["mse"][1:] = np.nan
            made.write(cell, result)
    report(made)
    drawn = [r for r in rows_of(made.path / "report" / "both.csv") if r["line"] == "NNEM" and r["row"] == "r = 0"]
    assert [(r["round"], float(r["log MSE"])) for r in drawn] == [("1", pytest.approx(5.0))] * 2


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.images = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag == "img":
            self.images.append(dict(attributes)["src"])
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page(made):
    report(made)
    out = made.path / "report"
    markdown, html = ((out / f"report.{ending}").read_text(encoding="utf-8") for ending in ("md", "html"))
    reader = Reader()
    reader.feed(html)
    assert not reader.open
    assert all((out / file).exists() for file in reader.images)
    assert "<h1>A &amp; B</h1>" in html
    assert "# A & B" in markdown
    assert markdown.count("not reproduced") == 1
    assert "Kept: NNEM does not come near" in markdown
    assert "`gaussip study run mine.toml --replicates 12`" in markdown
    assert "reduced" not in markdown
    assert "://" not in html  # nothing is fetched


@pytest.mark.skipif(not shutil.which("chromium"), reason="no Chromium on this machine")
def test_a_browser_shows_the_page(made, tmp_path):
    report(made)
    page = (made.path / "report" / "report.html").as_uri()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"]
    shown = subprocess.run(["chromium", *options, page], capture_output=True, text=True, timeout=120).stdout
    assert "not reproduced" in shown
    assert "<table>" in shown


def test_text_that_looks_like_markup():
    page = Page("a < b")
    page.paragraph("see `x < 1` & more")
    page.table(["<i>"], [[float("nan")], [1.23456], ["a|b"]])
    assert "<code>x &lt; 1</code> &amp; more" in page.html
    assert "<th>&lt;i&gt;</th>" in page.html
    assert "| 1.235 |" in page.markdown
    assert "a\\|b" in page.markdown


def test_the_commands(tmp_path):
    def call(*words):
        result = CliRunner().invoke(app, ["study", *words])
        return result.exit_code, result.stdout, result.stderr

    code, printed, _ = call("list", "--json")
    assert code == 0
    assert [item["name"] for item in json.loads(printed)["studies"]] == [*ORDER, "xray"]
    code, printed, _ = call("show", "figure3")
    assert code == 0
    assert of_text(printed, "figure3").settings == load("figure3").settings
    assert len(json.loads(call("show", "figure3", "--json")[1])["cells"]) == 30
    (tmp_path / "mine.toml").write_text("rows = 600\nsites = 3\n" + TOML)
    out, small = str(tmp_path / "out"), ("--replicates", "2", "--rounds", "20")
    code, printed, errors = call("run", str(tmp_path / "mine.toml"), "--out", out, *small, "--json")
    assert code == 0, errors
    result = json.loads(printed)
    assert result["missing"] == 0
    assert {item["verdict"] for item in result["published"]} == {"round not reached", "reported"}
    assert len(result["claims"]) == 3
    assert result["reduced"]
    assert len(result["cells"]) == 12
    code, printed, _ = call("report", out)
    assert code == 0
    assert "published and measured log MSE: 0 of 4 reproduced" in printed
    assert "a reduced run" in printed
    assert "reduced run" in (tmp_path / "out" / "report" / "report.md").read_text()
    for words, says in (
        (("run", "figure9"), "there is no study 'figure9'"),
        (("run", "figure2", "--where", "age=2"), "write column=value"),
        (("run", "figure2", "--device", "tpu", "--out", str(tmp_path / "new")), "not known"),
        (("run", "figure2", "--out", out), "choose another --out"),
        (("report", str(tmp_path / "none")), "holds no study"),
    ):
        code, _, errors = call(*words)
        assert code == 2
        assert says in " ".join(errors.split())
    assert not (tmp_path / "new").exists()


def test_networks_are_drawn_without_a_run(tmp_path):
    folder = Folder.for_run(tmp_path / "one", load("figure1"))
    result = report(folder)
    assert {"star.png", "star.svg", "circle.csv", "fixed-degree-3.png"} <= {path.name for path in result.files}
    # SE(W) of the star is (M - 2) / sqrt(M - 1)
    assert f"| star | {18 / math.sqrt(19):.3f} |" in (tmp_path / "one" / "report" / "report.md").read_text()

"""Results that print as tables, and become data frames."""

import builtins
import io
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from gaussip import NetworkGaussianMixture
from gaussip.cli.console import drawn
from gaussip.errors import SettingError
from gaussip.inference.intervals import Uncertainty
from gaussip.selection import choose_components
from gaussip.tabular import MOST, Table


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_a_table_prints_and_becomes_a_frame(wide):
    table = Table(
        {"site": ["Bern", "<Chur>"], "rows": [5, 1200], "mean": [np.float64(1.23456), None]},
        head="two sites", formats={"mean": ".2f"}, marked=1,
    )  # fmt: skip
    assert str(table) == repr(table) == (
        "two sites\n"
        "\n"
        "site      rows  mean\n"
        "Bern         5  1.23\n"
        "<Chur> *  1200"
    )  # fmt: skip
    turned = Table(table.columns, turned=True)
    assert str(turned) == "site   Bern  <Chur>\nrows      5    1200\nmean  1.235"
    frame = table.to_frame()
    assert frame.to_dict("list")["rows"] == [5, 1200]
    assert frame["mean"][0] == 1.23456  # all digits
    above, shown = ElementTree.fromstring(f"<div>{table._repr_html_()}</div>")
    assert above.text == "two sites"
    cells = [[cell.text or "" for cell in row] for row in shown.iter("tr")]
    assert cells == [["site", "rows", "mean"], ["Bern", "5", "1.23"], ["<Chur> *", "1200", ""]]


def test_a_wide_table_is_cut_into_blocks(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    table = Table({"name": ["a", "b"], **{f"feature{j}": [1.5, 2.5] for j in range(7)}})
    blocks = str(table).split("\n\n")
    assert all(len(line) <= 30 for block in blocks for line in block.splitlines())
    heads = [block.splitlines()[0].split() for block in blocks]
    assert [name for head in heads for name in head[1:]] == [f"feature{j}" for j in range(7)]
    assert {head[0] for head in heads} == {"name"}
    assert {block.splitlines()[2].split()[0] for block in blocks} == {"b"}


def test_a_long_table_says_that_there_is_more():
    table = Table({"n": list(range(MOST + 7))})
    assert str(table).endswith("and 7 more lines: to_frame() has all")
    assert len(table.to_frame()) == MOST + 7
    assert table._repr_html_().count("<tr>") == MOST + 1


def test_without_pandas_a_frame_is_refused(monkeypatch):
    true_import = builtins.__import__

    def without(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return true_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingError, match=r"needs pandas.*install pandas, or take \.columns"):
        Table({"n": [1]}).to_frame()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_summary_of_a_model(data, wide):
    frame = pd.DataFrame(data.X, columns=["age", "dose", "ct"])
    names = np.where(data.labels >= 0, np.minimum(data.labels, 1), -1)
    y = np.where(names < 0, None, np.array(["well", "ill"])[names])
    mixture = NetworkGaussianMixture(
        4, components_per_class={"ill": 2}, init_params="kmeans", random_state=0, max_rounds=5
    ).fit(frame, y, sites=data.sites)  # fmt: skip
    found = mixture.summary().to_frame()
    assert found["component"].tolist() == ["ill 1", "ill 2", "well", "component 3"]
    assert found["class"].tolist()[:3] == ["ill", "ill", "well"]
    assert found["class"].isna().tolist() == [False, False, False, True]
    np.testing.assert_array_equal(found["weight"], mixture.weights_)
    np.testing.assert_array_equal(found[["mean age", "mean dose", "mean ct"]], mixture.means_)
    deviations = np.sqrt([np.diag(covariance) for covariance in mixture.covariances_])
    np.testing.assert_allclose(found[["sd age", "sd dose", "sd ct"]], deviations, rtol=1e-15)
    text = str(mixture.summary())
    assert text.startswith("masked, 1200 rows at 6 sites: not converged after 5 rounds, log-likelihood")
    assert f"{mixture.lower_bound_:.6g} per row" in text
    (line,) = re.findall(r"^mean dose +(.*)$", text, re.MULTILINE)
    assert line.split() == [f"{mean:.4g}" for mean in mixture.means_[:, 1]]
    alone = NetworkGaussianMixture(2, random_state=0, tol=1e-3).fit(data.X)
    assert str(alone.summary()).startswith("em, 1200 rows: converged")
    assert alone.summary().to_frame().columns.tolist()[:3] == ["component", "weight", "mean column 0"]


def test_a_choice_and_its_command_print_the_same(data, wide):
    found = choose_components(data.X, sites=data.sites, at_most=3, random_state=0)
    frame = found.to_frame()
    assert frame["BIC"].tolist() == [line.bic for line in found.lines]
    assert frame["K"].tolist() == [1, 2, 3]
    assert str(found) == repr(found) == str(found.table())
    marked = [line for line in str(found).splitlines() if " * " in line]
    assert [int(line.split()[0]) for line in marked] == [found.n_components]
    assert found._repr_html_().count("<tr>") == 4
    printed = io.StringIO()
    Console(file=printed, width=200).print(drawn(found.table()))
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == str(found).splitlines()


def test_intervals_print_by_name(data, fitted):
    sites = np.array(["Genf", "Bern", "Chur", "Biel", "Thun", "Zug"])[data.sites]
    found = fitted.uncertainty(data.X, data.labels, sites=sites)
    frame = found.to_frame(0.9).set_index(["component", "parameter"])
    low, high = found.intervals(0.9)
    row = frame.loc[("1", "mean column 2")]
    assert (row["low"], row["estimate"], row["high"]) == (low.means[1, 2], fitted.means_[1, 2], high.means[1, 2])
    assert row["standard_error"] == found.standard_errors.means[1, 2]
    assert str(found).startswith("standard errors from the information, 95% intervals\n\ncomponent")
    assert str(found) == repr(found) == str(found.table(0.95))
    assert "<th>standard_error</th>" in found._repr_html_()
    nameless = Uncertainty(found.theta, found.covariance, found.away, found.robust)
    assert nameless.to_frame()["component"].unique().tolist() == ["component 0", "component 1", "component 2"]

"""Designs in TOML: what they stand for, and what is refused with its line."""

import pytest

from gaussip.errors import DesignError, SettingError
from gaussip.files.toml import Source
from gaussip.studies.cells import LONG, parse_where
from gaussip.studies.design import ORDER, load, of_text

SMALL = """
title = "Small"
replicates = 3
rounds = 40
rows = 600
sites = 4

[[cells]]
labelled = [0, 0.2]
eta = [0.05, 0.1]
network = ["circle", "ring"]
methods = ["mnem", "nnem", "local"]
"""

BARE = "[[cells]]\nmethods = ['em']\n"
FIGURE = f"{BARE}[[figures]]\nname = 'a'\ntitle = 'a'\n"


@pytest.mark.parametrize("name", ORDER)
def test_those_that_come_with_gaussip(name):
    design = load(name)
    assert design.title
    assert design.about
    assert design.drawing or design.figures
    assert len({design.name_of(cell) for cell in design.cells}) == len(design.cells)
    assert all(cell.pooled in design.cells for cell in design.cells)


def test_the_paper_s_figures():
    """Settings of the paper's section 4: p, K, N, M, R, Delta, r, eta, T."""
    cells = load("figure2").cells
    assert {(c.setting.n_features, c.setting.n_components, c.setting.n_rows, c.setting.n_sites) for c in cells} == {
        (6, 3, 30_000, 20)
    }
    mnem = [c for c in cells if c.method.algorithm == "mnem"]
    assert {(c.setting.delta, c.setting.labelled, c.setting.spread) for c in mnem} == {
        (delta, r, spread)
        for delta in (1, 2, 4)
        for r in (0, 0.05, 0.1, 0.5, 1)
        for spread in ("homogeneous", "heterogeneous")
    }
    assert {(c.method.eta, c.rounds, c.network, c.weighting) for c in mnem} == {(0.01, 3000, "circle", "equal")}
    ngd = [c for c in load("figure4").cells if c.method.algorithm == "ngd"]
    assert {(c.setting.spread, c.method.eta, c.rounds, c.method.semi) for c in ngd} == {
        ("homogeneous", 0.05, 20_000, True),
        ("homogeneous", 0.15, 20_000, True),
        ("heterogeneous", 0.001, 20_000, True),
        ("heterogeneous", 0.003, 20_000, True),
    }
    assert all(load(name).replicates == 100 for name in ORDER if name not in ("figure1", "theory", "exact"))


def test_every_combination_once():
    design = of_text(SMALL, "small")
    count = {name: sum(c.method.algorithm == name for c in design.cells) for name in ("em", "local", "nnem", "mnem")}
    # labels for all; networks for those that hear; steps for those that have one
    assert count == {"em": 2, "local": 2, "nnem": 4, "mnem": 8}
    assert [c.method.algorithm for c in design.cells[:2]] == ["em", "em"]
    assert {c.rounds for c in design.cells if c.method.algorithm == "em"} == {LONG}
    assert {c.method.semi for c in design.cells if c.setting.labelled} == {True}
    assert design.varying == ["labelled", "network", "method", "eta"]
    assert of_text(SMALL, "small", replicates=2, most_rounds=7).replicates == 2
    assert {c.rounds for c in of_text(SMALL, "small", most_rounds=7).cells} == {7, LONG}


def test_what_does_not_matter_makes_no_cells():
    toml = 'concentration = [0.1, 1]\nspread = ["dirichlet", "homogeneous"]\n[[cells]]\nmethods = ["em"]\n'
    assert len(of_text(toml, "mine").cells) == 3


def test_published_numbers_of_fractions_in_turn():
    toml = """
[[cells]]
labelled = [0.2, [0, 0.2]]
methods = ["mnem"]

[[published]]
where = { labelled = [[0, 0.2]], method = "mnem" }
value = 1
source = "here"
"""
    assert of_text(toml, "mine").published[0].where == {"labelled": ["0 0.2"], "method": "mnem"}


def test_fractions_in_turn():
    design = of_text('sites = 6\n[[cells]]\nlabelled = [[0, 0.5, 0.1]]\nmethods = ["mnem"]', "mine")
    assert design.cells[0].setting.labelled == (0, 0.5, 0.1, 0, 0.5, 0.1)
    assert design.cells[0].values["labelled"] == "0 0.5 0.1"
    assert design.cells[0].method.semi


@pytest.mark.parametrize(
    ("line", "text", "says"),
    [
        (3, "labelled = 1.5", "labelled = 1.5 must be a fraction in [0, 1]"),
        (3, "labelled = [0, [0.1, 2]]", "labelled = 2 must be a fraction"),
        (3, "eta = 0", "eta = 0 must be a step in (0, 1]"),
        (3, "eta = [0.01, -0.2]", "eta = -0.2 must be a step"),
        (3, 'network = "fixed-degree(9)"', "fixed-degree(9) over 4 sites: the degree must lie in 1..3"),
        (3, 'network = "web"', "there is no network 'web'"),
        (3, "delta = 'far'", "delta = 'far' must be a number"),
        (3, "delta = true", "must be a number"),
        (3, "delta = nan", "must be a number"),
        (3, f"delta = {10**400}", "must be a number"),
        (3, "delta = []", "delta = [] gives no value"),
        (3, "rows = 30.5", "rows = 30.5 must be a whole number"),
        (3, 'spread = "odd"', "odd"),
        (3, "speed = 3", "unknown key 'speed'; there are rows"),
        (3, "rounds = 0", "rounds = 0 must be a whole number of at least 1"),
        (2, "rows = 5", "5 rows are too few for 4 sites"),
    ],
)
def test_errors_name_the_line(line, text, says):
    with pytest.raises(DesignError) as refused:
        of_text(f'sites = 4\n[[cells]]\n{text}\nmethods = ["mnem"]\n', "mine")
    assert f"mine.toml, line {line}: " in str(refused.value)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sites = 4\nsitse = 4\n", "line 2: unknown key 'sitse'; there are title"),
        ("sites = [\n", "mine.toml is not TOML"),
        ("title = 'x'\n", "no [[cells]]"),
        ("[[cells]]\nsites = 4\n", "line 1: methods are missing"),
        ("[[cells]]\nmethods = ['best']\n", "line 2: there is no algorithm 'best'"),
        ("[[cells]]\nmethods = ['semi-mnem']\n", "write 'mnem' for 'semi-mnem'"),
        ("[[cells]]\nmethods = [3]\n", "line 2: methods: 3 is not a method"),
        ("replicates = 2\nseed = -1\n[[cells]]\nmethods = ['em']\n", "line 2: seed = -1 must be a whole number"),
        ("claims = [['x']]\n[[cells]]\nmethods = ['em']\n", "line 1: claims = ['x'] must be a text"),
        ("[drawing]\nnetworks = [3]\nsites = 5\n", "line 2: networks = 3 must be a text"),
        (BARE + "[[figures]]\nname = 3\ntitle = 'a'\n", "line 4: name = 3 must be a text"),
        (FIGURE + "methods = ['mnem']\n", "line 6: methods: 'mnem' is not run; there are em"),
        (BARE + "[[figures]]\nname = 'curves'\ntitle = 'a'\nmethods = ['em']\n", "line 4: name = 'curves' is taken"),
        (FIGURE, "line 3: no cell is drawn"),
        (FIGURE + "methods = ['em']\nwhere = { delta = 7 }\n", "line 3: no cell is drawn"),
        ("delta = [1, 2]\n" + FIGURE + "methods = ['em']\n", "line 4: cells differ in delta too: add it to rows"),
        (FIGURE + "along = 'rounds'\n", "'rounds' is not a column; there are round, rows"),
        (FIGURE + "where = { method = 'semi-em' }\n", "line 6: where: write method = 'em'"),
        (FIGURE + "measure = 'mse_ratio'\n", "along round there are log_mse, dist"),
        (FIGURE + "along = 'delta'\nmeasure = 'contraction'\n", "needs contraction ="),
        ("delta = [1, 2]\n" + BARE + "[[published]]\nvalue = 1\nsource = 's'\nwhere = {}\n", "they differ in delta"),
        (BARE + "[[published]]\nvalue = 1\nsource = 's'\nwhere = {labelled = [0, 1]}\n", "give one value for each"),
        ("[[cells]]\nmethods = ['em=0.1']\n", "em has no step; write em"),
        (BARE + "[[published]]\nvalue = 1\nsource = 's'\nround = 25\nwhere = {delta = 2}\n", "line 6: round 25"),
        ("sites = 4\n[[cells]]\nmethods = ['em']\nlabelled = [[0, 0, 0, 0, 1]]\n", "5 fractions in turn for 4 sites"),
        ("replicates = 0\n[[cells]]\nmethods = ['em']\n", "line 1: replicates = 0 must be a whole number of"),
        ("replicates = 'ten'\n[[cells]]\nmethods = ['em']\n", "line 1: replicates = 'ten' must be a whole number"),
        ("claims = ['mine']\n[[cells]]\nmethods = ['em']\n", "line 1: there is no claim 'mine'"),
        ("cells = 3\n", "cells are tables"),
        ("[drawing]\nnetworks = ['circle(30)']\nsites = 5\n", "line 2: circle(30) over 5 sites"),
        ("[drawing]\nsites = 5\n", "line 1: networks is missing"),
        (FIGURE + "rows = 'age'\n", "line 6: rows = 'age' is not a"),
        (BARE + "[[figures]]\nname = 'a/b'\ntitle = 'a'\n", "line 4: name = 'a/b' must be"),
        (FIGURE + "measure = 'x'\n", "line 6: measure = 'x'"),
        (BARE + "[[published]]\nvalue = 1\nsource = 's'\nwhere = {delta = 9}\n", "line 6: where = "),
        (BARE + "[[published]]\nvalue = 1\nsource = 's'\nwhere = {age = 9}\n", "'age' is not a column"),
    ],
)  # fmt: skip
def test_what_is_refused(text, says):
    with pytest.raises(DesignError) as refused:
        of_text(text, "mine")
    assert says in str(refused.value)


def test_lines_of_keys_after_long_values():
    source = Source(
        'a = """\nb = 1\n[c]\n"""\nlist = [\n  1,  # ]\n  "]",\n]\nb = 2\n[[t]]\nx = 1\n[[t]]\nx = 2\n',
        "f.toml",
        DesignError,
    )
    result = [str(source.error("no", path)) for path in (("list",), ("b",), ("t", 1, "x"), ("t", 0, "y"))]
    assert result == [f"f.toml, line {n}: no" for n in (5, 9, 13, 10)]


@pytest.mark.parametrize(
    "text", ['"""\n# b = 2"""', '"""\nit is "quoted"\n"""', '"""a \\""" [\n"""', "'''\n#'''", '"#["']
)
def test_lines_after_texts_of_every_kind(text):
    source = Source(f"a = {text}\nb = 1\n", "f.toml", DesignError)
    assert str(source.error("no", ("b",))) == f"f.toml, line {text.count(chr(10)) + 2}: no"


def test_names_and_files_that_are_not_there(tmp_path):
    with pytest.raises(DesignError, match=r"no study 'figure9'; there are: figure1"):
        load("figure9")
    with pytest.raises(DesignError, match="cannot read"):
        load(tmp_path / "none.toml")
    (tmp_path / "mine.toml").write_text(SMALL)
    assert load(tmp_path / "mine.toml").name == "mine"
    with pytest.raises(SettingError, match="replicates = 0 must be a whole number of at least 1"):
        load("figure2", replicates=0)


def test_where():
    assert parse_where("delta=2, spread=heterogeneous") == {"delta": 2.0, "spread": "heterogeneous"}
    assert parse_where("") == {}
    for wrong in ("age=3", "delta", "delta=", "delta=1,2", "delta=1,delta=2"):
        with pytest.raises(SettingError, match="write column=value"):
            parse_where(wrong)

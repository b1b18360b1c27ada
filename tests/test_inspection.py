"""A look at the rows before a fit: what it must find, by name and site, and tables of which it must say nothing."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from gaussip.errors import DataError, MissingCellsWarning
from gaussip.inspection import check_table, warn_of_columns
from gaussip.inspection.own import own_concerns, own_units
from gaussip.inspection.units import Place, ratio_of_units
from gaussip.inspection.values import KNOWN_CODES, Values
from gaussip.studies import split
from gaussip.studies.simulation_model import Setting, draw
from patients import SITES, patients


def seen(X, sites, **more):
    """The name, the features and the sites of what is found."""
    return [(one.name, one.features, one.sites) for one in check_table(X, sites=sites, **more).concerns]


def test_what_is_counted_is_what_numpy_counts():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 100):
        cells = np.round(rng.normal(size=(2, n)), 1)
        parts = [Values.of(np.append(row, np.nan)) for row in cells]
        joined = Values.joined(parts)
        assert joined.n == 2 * n
        assert len(joined) == len(set(cells.ravel()))
        for level in (0, 0.05, 0.3, 0.5, 0.95, 1):
            np.testing.assert_allclose(joined.quantile(level), np.quantile(cells, level), atol=1e-12)
            np.testing.assert_allclose(parts[0].quantile(level), np.quantile(cells[0], level), atol=1e-12)
    assert np.isnan(Values.of(np.array([np.nan])).quantile(0.5))


def test_cells_of_a_table():
    X, sites = patients()
    X.loc[sites == "Chur", "age"] = np.nan
    X.loc[0, "height"] = np.nan
    labels = np.where(np.arange(len(X)) % 3, -1, np.arange(len(X)) % 2)
    found = check_table(X, labels, sites=sites)
    assert found.features == list(X.columns)
    assert found.sites == SITES.tolist()
    np.testing.assert_array_equal(found.rows, [(sites == name).sum() for name in SITES])
    np.testing.assert_array_equal(found.labelled, pd.crosstab(sites, labels)[[0, 1]])
    grouped = X.groupby(sites)
    assert len(found.cells) == 4 * X.shape[1]
    for cells in found.cells:
        column = grouped.get_group(cells.site)[cells.feature]
        assert cells.missing == column.isna().sum()
        assert cells.distinct == column.nunique()
        expected = [column.min(), column.quantile(0.05), column.median(), column.quantile(0.95), column.max()]
        np.testing.assert_allclose([cells.least, cells.low, cells.median, cells.high, cells.largest], expected)
    assert [one.name for one in found.concerns] == ["never recorded"]


# --- what must be found


@pytest.mark.parametrize(
    ("column", "code", "times"),
    [
        ("chol", -9, 3), ("chol", -9, 1), ("chol", 0, 6), ("chol", 999, 1), ("chol", 9999, 4), ("age", -1, 4),
        ("age", -99, 1), ("age", 999, 3), ("age", 0, 5), ("crp", -9, 3), ("crp", 999.9, 3), ("score", -9, 4),
        ("score", 99, 1), ("temperature", 99.9, 3), ("temperature", 0, 3), ("weight", -8, 3),
    ],
)  # fmt: skip
def test_codes_for_missing_cells(column, code, times):
    X, sites = patients()
    X.loc[np.flatnonzero(sites == "Genf")[:times], column] = code
    assert seen(X, sites) == [("code for missing", (column,), ("Genf",))]
    concern = check_table(X, sites=sites).concerns[0]
    assert concern.evidence["codes"] == [code]
    assert concern.evidence["cells"] == times
    assert concern.remedy.endswith(f"--na-values {column}={code}")
    with pytest.warns(
        MissingCellsWarning, match=re.escape(f"'{column}' at site 'Genf': {code:g} stands in {times} ")
    ):
        warn_of_columns(X, sites)


def test_several_codes_and_codes_that_are_all_a_site_has():
    X, sites = patients()
    genf, bern = (np.flatnonzero(sites == name) for name in ("Genf", "Bern"))
    X.loc[genf[:4], "chol"], X.loc[genf[4:8], "chol"], X.loc[bern[:3], "chol"] = -9, -8, 999
    X.loc[genf[:60], "age"], X.loc[genf[60:120], "age"] = -9, 999  # each hides how far the other lies
    X.loc[sites == "Basel", "weight"] = 0
    assert seen(X, sites) == [
        ("code for missing", ("age",), ("Genf",)),
        ("code for missing", ("weight",), ("Basel",)),
        ("code for missing", ("chol",), ("Bern", "Genf")),
    ]
    chol = next(one for one in check_table(X, sites=sites).concerns if one.features == ("chol",))
    assert chol.evidence["codes"] == [-9, -8, 999]
    assert "chol=-9,chol=-8,chol=999" in chol.remedy


def test_a_number_that_others_have_too_is_not_taken_from_them():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(100, 5, 200).round(), rng.normal(300, 20, 200).round()])
    x[:10] = 0
    x[200:] -= x[200:].min()  # the other site measures zeros
    (concern,) = [one for one in check_table(x[:, None], sites=np.repeat([0, 1], 200)).concerns if one.sites == (0,)]
    assert concern.name == "code for missing"
    assert concern.remedy == 'if that means "not measured", leave these cells empty there'


def test_few_values_and_constants():
    X, sites = patients()
    rng = np.random.default_rng(1)
    X["sex"] = rng.integers(2, size=len(X))
    X["grade"] = rng.integers(1, 6, size=len(X))
    X.loc[np.flatnonzero(sites == "Bern")[:5], "grade"] = 9
    X["version"] = 3
    X.loc[sites == "Chur", "score"] = 0.5
    X.loc[sites == "Genf", "age"] = X["age"].round(-1)
    everywhere = tuple(SITES)
    assert seen(X, sites) == [
        ("code for missing", ("grade",), ("Bern",)),
        ("constant", ("score",), ("Chur",)),
        ("constant", ("version",), everywhere),
        ("few values", ("age",), ("Genf",)),
        ("few values", ("sex",), everywhere),
        ("few values", ("grade",), everywhere),
    ]
    remedies = {one.features: one.remedy for one in check_table(X, sites=sites).concerns}
    assert remedies["version",] == "leave it out: --no-features version"
    assert remedies["score",] == "if it was filled in, leave the cells empty there"


def test_the_pixels_of_digits():
    """Three of the 64 pixels are never inked, and some in few shades; most others are blank in many images."""
    X = datasets.load_digits().data
    found = check_table(X, sites=np.arange(len(X)) % 4).concerns
    by_kind = {kind: {one.features[0] for one in found if one.name == kind} for kind in {one.name for one in found}}
    shades = pd.DataFrame(X).nunique()
    assert by_kind["constant"] == {f"column {j}" for j in np.flatnonzero(X.std(axis=0) == 0)}
    assert by_kind["few values"] == {f"column {j}" for j in np.flatnonzero((shades > 1) & (shades <= 8))}
    blank = {f"column {j}" for j in np.flatnonzero((X == 0).mean(axis=0) > 0.5)}
    assert by_kind["heap"] >= blank - by_kind["constant"] - by_kind["few values"]
    assert {*by_kind} <= {"constant", "few values", "heap"}


def test_heaps():
    X, sites = patients()
    rng = np.random.default_rng(1)
    X["oldpeak"] = np.where(rng.random(len(X)) < 0.4, 0, np.abs(rng.normal(1.5, 1, len(X))).round(1))
    X.loc[(sites == "Bern") & (rng.random(len(X)) < 0.5), "score"] = 0
    assert seen(X, sites) == [("heap", ("score",), ("Bern",)), ("heap", ("oldpeak",), tuple(SITES))]
    (concern,) = [one for one in check_table(X, sites=sites).concerns if one.features == ("oldpeak",)]
    assert concern.evidence["shares"] == [(X["oldpeak"] == 0).mean()]


@pytest.mark.parametrize(
    ("column", "convert", "hint"),
    [
        ("height", lambda x: x * 2.54, "inches"),
        ("height", lambda x: np.round(x / 2.54), "inches"),
        ("height", lambda x: x / 100, "cm and m"),
        ("glucose", lambda x: np.round(0.0555 * x, 1), "glucose"),
        ("chol", lambda x: np.round(x / 38.67, 1), "cholesterol"),
        ("weight", lambda x: np.round(2.2046 * x), "pounds"),
        ("temperature", lambda x: np.round(1.8 * x + 32, 1), "Fahrenheit"),
        ("age", lambda x: 1000 * x, "mg and g"),
        ("score", lambda x: 1000 * x, ""),
        ("crp", lambda x: 1000 * x, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", [0, 1])
def test_a_site_in_other_units(column, convert, hint, seed):
    X, sites = patients(seed)
    X[column] = np.where(sites == "Chur", convert(X[column]), X[column])
    assert seen(X, sites) == [("other units", (column,), ("Chur",))]
    assert hint in check_table(X, sites=sites).concerns[0].sentence


def test_two_of_four_sites_in_other_units_are_both_named():
    X, sites = patients()
    X["height"] = np.where(np.isin(sites, ["Basel", "Chur"]), X["height"] / 2.54, X["height"])
    (concern,) = check_table(X, sites=sites).concerns
    assert {*concern.sites, *re.findall(r"'(\w+)'", concern.sentence)} == {*SITES}
    assert len(concern.sites) == 2
    assert max(concern.evidence["factor"], 1 / concern.evidence["factor"]) == pytest.approx(2.54, rel=0.05)


def test_features_apart_never_recorded_and_few_labels():
    X, sites = patients()
    X.loc[sites != "Bern", "age"] = np.nan
    X.loc[sites == "Bern", "chol"] = np.nan
    X["nothing"] = np.nan
    labels = np.full(len(X), None)
    labels[:20], labels[20:23] = "well", "ill"
    found = check_table(X, labels, sites=sites)
    assert [(one.name, one.features, one.sites) for one in found.concerns[:4]] == [
        ("never recorded", ("age",), ("Basel", "Chur", "Genf")),
        ("never recorded", ("chol",), ("Bern",)),
        ("never recorded", ("nothing",), tuple(SITES)),
        ("never observed together", ("age", "chol"), ()),
    ]
    assert found.concerns[4].sentence == (
        "the class 'ill' has 3 labelled rows at all sites together, fewer than min_count=5"
    )


# --- what must not be found


def real_tables():
    for name in ("breast_cancer", "iris", "wine", "diabetes"):
        table = getattr(datasets, f"load_{name}")(as_frame=True, **({"scaled": False} if name == "diabetes" else {}))
        classes = table.target.to_numpy() if name != "diabetes" else (table.target > 140).to_numpy().astype(int)
        yield name, table.data, classes


@pytest.mark.parametrize("name", ["breast_cancer", "iris", "wine", "diabetes"])
def test_real_tables_dealt_over_sites(name):
    """The sex of the diabetes data is 1 or 2, and its s4 a quotient that is 2, 3, 4 or 5 in most rows."""
    (X, classes), = ((X, y) for one, X, y in real_tables() if one == name)  # fmt: skip
    true = {("few values", ("sex",)), ("heap", ("s4",))} if name == "diabetes" else set()
    rng = np.random.default_rng(0)
    dealt = [np.zeros(len(X), dtype=int), classes]
    for n_sites in (2, 3, 4, 5, 8):
        dealt.append(np.argsort(np.argsort(classes, kind="stable")) * n_sites // len(X))
        dealt += [rng.integers(n_sites, size=len(X)) for _ in range(4)]
        sizes = split.sizes(len(X), n_sites, 1.0)
        dealt += [split.dirichlet(classes, sizes, 0.5, rng) for _ in range(2)]
    for sites in dealt:
        assert {(kind, features) for kind, features, _ in seen(X, sites)} == true


@pytest.mark.parametrize("spread", ["homogeneous", "heterogeneous", "dirichlet"])
@pytest.mark.parametrize(("n_sites", "n_rows"), [(20, 3000), (8, 2000), (3, 90)])
def test_the_simulation_model(spread, n_sites, n_rows):
    for seed, delta in enumerate((2, 3, 5)):
        data = draw(Setting(n_rows=n_rows, n_sites=n_sites, n_features=3, delta=delta, spread=spread), seed)
        tables = [data.X, data.X + 10, data.X + 50, np.round(50 + 5 * data.X)]
        tables += [np.exp(data.X / 2)] if delta < 5 else []  # ten standard deviations of logarithms are like units
        assert [seen(X, data.sites) for X in tables] == [[] for _ in tables]


@pytest.mark.parametrize("seed", range(4))
def test_continuous_tables_of_different_patients(seed):
    """Skewed, rounded and heavy-tailed features, sites whose patients differ by up to some standard deviations."""
    assert seen(*patients(seed)) == []
    rng = np.random.default_rng(seed)
    m = rng.integers(5, size=1000)
    z, apart = rng.normal(size=1000), np.linspace(-1.5, 1.5, 5)[m]
    columns = {f"log-normal {sd}": np.exp(3 + sd * (z + apart)) for sd in (0.1, 0.2, 0.3, 0.5, 0.8, 1.0)}
    columns |= {f"rounded {name}": values.round(1) for name, values in columns.items()}
    columns |= {
        "counts": rng.poisson(20, 1000), "few counts": rng.poisson(6, 1000), "t": rng.standard_t(4, 1000) + apart,
        "exponential": rng.exponential(2 + apart), "ages": np.clip(np.round(60 + 12 * z + 9 * apart), 30, 90),
        "narrow ages": np.round(55 + 10 * rng.random(1000) + 10 * m), "uniform": rng.integers(100, size=1000),
        "pressure": np.where(z > 0, np.round(130 + 18 * rng.normal(size=1000), -1), np.round(130 + 18 * z)),
    }  # fmt: skip
    assert seen(pd.DataFrame(columns), m) == []


def test_units_that_all_sites_share_and_rows_in_any_order():
    X, sites = patients()
    X.loc[sites == "Chur", "height"] /= 2.54
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    for change, where in ((X * 1000, sites), (X / 18, sites), (X.iloc[order], sites[order])):
        assert seen(change, where) == seen(X, sites) == [("other units", ("height",), ("Chur",))]


def test_rows_of_weight_zero_are_left_out_and_bad_input_is_refused():
    X, sites = patients()
    X.loc[:9, "chol"] = -9
    weights = np.ones(len(X))
    weights[:10] = 0
    assert seen(X, sites, sample_weight=weights) == []
    with pytest.raises(DataError, match=r"Genf.*weight zero"):
        check_table(X, sites=sites, sample_weight=(sites != "Genf").astype(float))
    with pytest.raises(DataError, match="X must be a table of numbers"):
        check_table([["a"]])
    with pytest.raises(DataError, match="infinite values"):
        check_table([[np.inf]])


# --- a real site alone


def test_a_site_looks_at_its_own_rows():
    X, _ = patients()
    X.loc[:4, "chol"], X["version"], X["sex"] = -9, 3, np.arange(len(X)) % 2
    X["oldpeak"] = np.where(np.arange(len(X)) % 5 < 2, 0, X["score"])
    found = own_concerns(X.to_numpy(dtype=float), None, list(X.columns), "Bern")
    assert [(one.name, one.features) for one in found] == [
        ("code for missing", ("chol",)), ("constant", ("version",)), ("few values", ("sex",)), ("heap", ("oldpeak",)),
    ]  # fmt: skip
    assert 'na_values = { "chol" = [-9] } in federation.toml' in found[0].remedy
    assert not any("--" in one.remedy for one in found)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_site_holds_its_rows_against_the_totals_of_all(weighted):
    X, sites = patients()
    rows, mine = X.to_numpy(dtype=float, copy=True), sites == "Chur"
    rows[mine, 1] /= 2.54
    rows[mine, 3] *= 0.0555
    rows[::7, 4] = np.nan
    v = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else np.ones(len(X))

    def totals(few):
        there = ~np.isnan(rows[few])
        seen = v[few] @ there
        mean = v[few] @ np.nan_to_num(rows[few]) / seen
        return seen, mean, v[few] @ np.nan_to_num((rows[few] - mean) ** 2) / seen

    def found(name):
        here = sites == name
        return own_units(rows[here], v[here] if weighted else None, list(X.columns), *totals(np.full(len(X), True)))

    height, glucose = found("Chur")
    assert (height.features, glucose.features) == (("height",), ("glucose",))
    _, mean, variance = totals(~mine)
    assert height.evidence["location of others"] == pytest.approx(mean[1], rel=1e-12)
    assert glucose.evidence["spread of others"] == pytest.approx(np.sqrt(variance[3]), rel=1e-9)
    assert "1/2.5" in height.sentence
    for name in ("Basel", "Bern", "Genf"):
        assert found(name) == []


def test_known_codes_and_ratios():
    assert {-9, -99, -999, 9, 99, 999, 9999, 0, -1, 99.9} <= {*KNOWN_CODES.tolist()}
    assert not {1, 2, 5, 10, 100, -2} & {*KNOWN_CODES.tolist()}
    one, other = Place(100.0, 10.0, 0.1), Place(10.0, 1.0, 0.1)
    there, back = ratio_of_units(one, other), ratio_of_units(other, one)
    assert there is not None
    assert back is not None
    assert there.factor == pytest.approx(1 / back.factor)
    assert ratio_of_units(one, Place(10.0, 10.0, 0.1)) is None  # other patients: the spread is the same
    assert ratio_of_units(one, one) is None

"""Data frames as people have them: sites, labels and weights in columns, which are not features."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from gaussip import NetworkGaussianMixture
from gaussip.errors import DataError
from gaussip.preprocessing import NetworkPCA, NetworkStandardScaler
from gaussip.rows.frames import names_of, selected
from gaussip.selection import agreed_criteria, choose_components
from gaussip.step_size import choose_eta

FEATURES = ["age", "dose", "ct"]
KINDS = ["pandas", "polars", "arrow"]
MAKE = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.fixture(scope="module")
def cells(data):
    """The columns of a table of patients, in an order of its own."""
    sites = np.array(["Bern", "Biel", "Chur", "Genf", "Thun", "Zug"])[data.sites].tolist()
    words = np.array(["mild", "none", "severe"])[data.classes].tolist()
    return {
        "hospital": sites,
        "age": data.X[:, 0],
        "diagnosis": [w if k else None for w, k in zip(words, data.labels >= 0, strict=True)],
        "dose": data.X[:, 1],
        "count": np.random.default_rng(0).uniform(0.5, 2, len(words)),
        "ct": data.X[:, 2],
    }


@pytest.fixture(scope="module", params=KINDS)
def frame(request, cells):
    made = MAKE[request.param](cells)
    return made.set_index(np.arange(1000, 1000 + len(made))[::-1]) if request.param == "pandas" else made


BY_NAME = {"y": "diagnosis", "sites": "hospital", "sample_weight": "count"}


@pytest.fixture(scope="module")
def by_value(cells):
    return {argument: cells[name] for argument, name in BY_NAME.items()}


@pytest.fixture(scope="module")
def plain(data, by_value):
    return NetworkGaussianMixture(3, init_params="labels").fit(data.X, **by_value)


def test_columns_by_name_are_those_columns(frame, data, plain, by_value):
    mixture = clone(plain).fit(frame, **BY_NAME)
    np.testing.assert_array_equal(mixture.site_covariances_, plain.site_covariances_)
    assert mixture.feature_names_in_.tolist() == FEATURES
    assert mixture.sites_.tolist() == plain.sites_.tolist()
    assert clone(plain).fit_predict(frame, **BY_NAME).tolist() == plain.predict(data.X).tolist()


def test_a_fitted_model_takes_its_features_out_of_a_frame(frame, data, plain):
    mixture = clone(plain).fit(frame, **BY_NAME)
    for method in ("predict", "predict_proba", "component_proba", "score_samples", "score", "bic"):
        np.testing.assert_array_equal(getattr(mixture, method)(frame), getattr(plain, method)(data.X), err_msg=method)
    with pytest.raises(ValueError, match=r"missing(.|\n)*ct"):
        mixture.predict(
            frame[["hospital", "age", "dose"]] if hasattr(frame, "loc") else frame.select(["age", "dose"])
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_everything_that_takes_sites_takes_them_by_name(frame, data, plain, by_value):
    sites, only = by_value["sites"], {"y": "diagnosis", "sites": "hospital", "sample_weight": "count"}
    fitted = clone(plain).fit(frame, **BY_NAME)
    np.testing.assert_array_equal(
        fitted.uncertainty(frame, **only).covariance, plain.uncertainty(data.X, **by_value).covariance
    )
    assert agreed_criteria(fitted, frame, **only) == agreed_criteria(plain, data.X, **by_value)
    X = selected(frame, ["hospital", *FEATURES])
    found = choose_components(X, sites="hospital", at_most=2, random_state=0)
    assert found.lines == choose_components(data.X, sites=sites, at_most=2, random_state=0).lines
    mnem = NetworkGaussianMixture(3, algorithm="mnem", network="circle", init_params="labels")
    assert choose_eta(mnem, frame, **only).eta == choose_eta(mnem, data.X, **by_value).eta
    for transformer in (NetworkPCA(2), NetworkStandardScaler()):
        there = clone(transformer).fit(data.X, sites=sites)
        here = clone(transformer).fit(X, sites="hospital")
        np.testing.assert_array_equal(here.transform(X), there.transform(data.X))
        labelled = clone(transformer).fit(frame, "diagnosis", sites="hospital")
        assert labelled.n_features_in_ == 4  # the weights are a feature where nobody says otherwise


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"sites": "clinic"}, "there is no column 'clinic', which sites names; the columns are hospital, age"),
        ({"y": "label"}, "there is no column 'label', which y names"),
        (
            {"sites": "hospital"},
            r"column 'diagnosis' holds '\w+' in row \d+ .*, which is not a number",
        ),
        ({}, "column 'hospital' holds 'Bern' in row 1 .*say so .sites='hospital'., else leave it out"),
    ],
)
def test_columns_that_cannot_be_used_are_named(cells, given, text):
    for kind in KINDS:
        with pytest.raises(DataError, match=text) as error:
            NetworkGaussianMixture(3).fit(MAKE[kind](cells), **given)
        assert error.value.column in (*given.values(), "diagnosis", "hospital")
        with pytest.raises(DataError, match=text):
            choose_components(MAKE[kind](cells), **given)


def test_a_name_needs_a_frame(data):
    for X in (data.X, {"a": data.X}):
        with pytest.raises(DataError, match="sites='hospital' names a column, and X has no columns with names"):
            NetworkGaussianMixture(3).fit(X, sites="hospital")
    with pytest.raises(DataError, match="no column is left for features beside hospital"):
        NetworkPCA().fit(pd.DataFrame({"hospital": ["a", "b"]}), sites="hospital")


def test_nullable_columns_and_dates(cells):
    frame = pd.DataFrame(cells).drop(columns=["count", "diagnosis"])
    whole = frame.assign(age=frame["age"].round().where(frame["age"] < 2).astype("Int64"))
    floats = whole.assign(age=whole["age"].astype(float))
    settings = {"sites": "hospital", "at_most": 2, "random_state": 0}
    assert choose_components(whole, **settings).lines == choose_components(floats, **settings).lines
    with pytest.raises(DataError, match=r"column 'age' holds .*2020.* in row 1"):
        NetworkGaussianMixture(2).fit(frame.assign(age=pd.Timestamp("2020-01-01")), sites="hospital")


@pytest.mark.parametrize("kind", KINDS)
def test_impute_gives_a_frame_back(cells, data, plain, kind):
    gone = np.random.default_rng(1).random(data.X.shape) < 0.2
    gone[:, 1] = False
    X = np.where(gone, np.nan, data.X)
    columns = {**cells, **dict(zip(FEATURES, X.T, strict=True))}
    if kind != "pandas":  # there missing cells are null
        columns = {n: pa.array(v, from_pandas=True) if kind == "arrow" else pl.Series(v, nan_to_null=True)
                   for n, v in columns.items()}  # fmt: skip
    frame = MAKE[kind](columns)
    if kind == "pandas":
        frame = frame.set_index(np.arange(len(frame))[::-1] * 2)
        frame["dose"] = frame["dose"].astype("float32")
    mixture = clone(plain).fit(MAKE[kind](cells), **BY_NAME)
    filled, wanted = mixture.impute(frame), plain.impute(np.asarray([frame[name] for name in FEATURES], float).T)
    assert type(filled.values) is type(filled.deviations) is type(frame)
    assert names_of(filled.values) == names_of(frame) == list(cells)
    assert names_of(filled.deviations) == FEATURES
    for j, name in enumerate(FEATURES):
        np.testing.assert_array_equal(np.asarray(filled.values[name], float), wanted.values[:, j])
        np.testing.assert_array_equal(np.asarray(filled.deviations[name], float), wanted.deviations[:, j])
    assert np.asarray(filled.values["hospital"]).tolist() == cells["hospital"]
    draws = mixture.impute_draws(frame, 2, random_state=3)
    plain_draws = plain.impute_draws(np.asarray([frame[name] for name in FEATURES], float).T, 2, random_state=3)
    for mine, theirs in zip(draws, plain_draws, strict=True):
        np.testing.assert_array_equal(np.asarray(mine["age"], float), theirs[:, 0])
    if kind == "pandas":
        assert filled.values.index.equals(frame.index)
        assert filled.deviations.index.equals(frame.index)
        assert filled.values["dose"].dtype == "float32"  # nothing was missing there
        assert frame["age"].isna().any()  # the frame itself stays as it was


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_transformers_set_their_output(cells, data, kind):
    frame = MAKE[kind](cells)
    X = frame.drop(columns=["diagnosis", "count"]) if kind == "pandas" else frame.drop(["diagnosis", "count"])
    for transformer, names in (
        (NetworkPCA(2), ["networkpca0", "networkpca1"]), (NetworkStandardScaler(), FEATURES)
    ):  # fmt: skip
        transformer.set_output(transform=kind)
        made = transformer.fit_transform(X, sites="hospital")
        assert isinstance(made, MAKE[kind])
        assert list(made.columns) == transformer.get_feature_names_out().tolist() == names
        wanted = clone(transformer).set_output(transform="default").fit(data.X, sites=cells["hospital"])
        np.testing.assert_array_equal(np.asarray(made), wanted.transform(data.X))
        if kind == "pandas":
            shuffled = X.sample(frac=1, random_state=0)
            assert transformer.transform(shuffled).index.equals(shuffled.index)

"""Choosing how many components each class has, by labels that the fits do not see."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss

from command import gaussip
from gaussip import NetworkGaussianMixture
from gaussip.errors import LabelError, MissingCellsWarning, SettingError, StartError
from gaussip.selection import choose_per_class, labelled_folds


@pytest.fixture(scope="module")
def table():
    """The ill are on both sides of the well; three in ten rows are labelled."""
    rng = np.random.default_rng(0)
    n = 900
    truth = np.where(rng.random(n) < 0.5, "ill", "well")
    side = np.where(truth == "ill", rng.choice([-3, 3], n), 0.0)
    X = side[:, None] + rng.normal(size=(n, 2))
    labels = np.where(rng.random(n) < 0.3, truth.astype(object), None)
    return pd.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "hospital": np.array([*"ABC"])[np.arange(n) % 3], "ill": labels}
    ), truth


@pytest.fixture(scope="module")
def choice(table):
    return choose_per_class(
        NetworkGaussianMixture(random_state=3), table[0], "ill", sites="hospital", candidates=(1, 2, 4)
    )


def test_it_finds_the_two_sides(choice, table):
    assert choice.components_per_class == {"ill": 2, "well": 2}
    assert choice.n_components == 4
    frame, truth = table
    accuracy = {}
    for line in choice.lines[:2]:
        fitted = NetworkGaussianMixture(
            line.n_components, components_per_class=line.components_per_class, random_state=3
        )
        fitted.fit(frame, "ill", sites="hospital")
        accuracy[line.n_components] = (fitted.predict(frame) == truth).mean()
    assert accuracy[4] > accuracy[2] + 0.05


def test_a_line_is_what_scikit_learn_makes_of_that_fit(choice, table):
    frame = table[0].copy()
    truth = frame["ill"].to_numpy(object)
    held = labelled_folds(truth, 4, random_state=3).test_fold == 0
    frame.loc[held, "ill"] = None
    fitted = NetworkGaussianMixture(2, random_state=3).fit(frame, "ill", sites="hospital")
    line = choice.lines[0]
    proba = fitted.predict_proba(frame)[held]
    ill = truth[held] == "ill"
    assert line.brier == pytest.approx(2 * brier_score_loss(ill, proba[:, 0]), rel=1e-12)  # of both classes
    assert line.accuracy == accuracy_score(truth[held].tolist(), fitted.predict(frame)[held].tolist())
    assert choice.held_out == held.sum()


def test_the_settings_are_left_alone_and_the_choice_prints(choice, table):
    mixture = NetworkGaussianMixture(random_state=3)
    again = choose_per_class(mixture, table[0], "ill", sites="hospital", candidates=(1, 2, 2, 1, 4))
    assert mixture.get_params() == NetworkGaussianMixture(random_state=3).get_params()
    assert again.lines == choice.lines
    assert "4 *" in str(choice)
    assert list(choice.to_frame().columns) == ["K", "ill", "well", "Brier score", "accuracy"]


def test_a_class_has_no_more_components_than_its_labels_allow(table):
    frame = table[0].copy()
    ill = np.flatnonzero(frame["ill"] == "ill")
    frame.loc[ill[60:], "ill"] = None
    chosen = choose_per_class(
        NetworkGaussianMixture(random_state=0), frame, "ill", sites="hospital", candidates=(1, 4)
    )
    assert chosen.lines[1].components_per_class == {"ill": 2, "well": 4}  # 45 of 60 are left, twenty each


def test_rows_that_do_not_count_are_not_judged(table):
    """As if they were not there: of weight zero, or without any cell."""
    frame = table[0]
    rng = np.random.default_rng(1)
    garbage = pd.DataFrame({
        "a": rng.normal(size=300), "b": 50.0, "hospital": "A", "ill": rng.choice(["ill", "well"], 300),
    })  # fmt: skip
    empty = garbage.assign(a=np.nan, b=np.nan)
    both = pd.concat([frame, garbage, empty], ignore_index=True)
    weights = np.concatenate([np.ones(len(frame)), np.zeros(300), np.ones(300)])
    settings = {"sites": "hospital", "candidates": (1, 2)}
    with pytest.warns(MissingCellsWarning):
        found = choose_per_class(
            NetworkGaussianMixture(random_state=3), both, "ill", sample_weight=weights, **settings
        )
    wanted = choose_per_class(NetworkGaussianMixture(random_state=3), frame, "ill", **settings)
    assert (found.held_out, found.components_per_class) == (wanted.held_out, wanted.components_per_class)
    assert found.lines[1].brier == pytest.approx(wanted.lines[1].brier, rel=0.25)  # other labels are hidden
    cells = frame[["a", "b"]].to_numpy().tolist()
    listed = choose_per_class(
        NetworkGaussianMixture(random_state=3),
        cells,
        frame["ill"],
        sites=frame["hospital"],
        candidates=np.array([1, 2]),
    )
    assert listed.lines == wanted.lines
    assert type(listed.components_per_class["ill"]) is int


def test_a_candidate_without_a_fit_is_reported_and_not_chosen():
    X = np.random.default_rng(0).normal(size=(240, 2))
    y, sites = np.repeat([0, 1], 120), np.arange(240) % 4
    X[y == 0] = np.array([[0, 0], [0, 3], [3, 0]])[np.arange(120) % 3]  # no four groups
    mixture = NetworkGaussianMixture(random_state=0)
    chosen = choose_per_class(mixture, X, y, sites=sites, candidates=(1, 4))
    assert chosen.n_components == 2
    assert chosen.lines[1].failed
    assert f"no fit with 0 4, 1 4: {chosen.lines[1].failed}" in str(chosen)
    with pytest.raises(StartError, match="no candidate could be fitted"):
        choose_per_class(mixture, X, y, sites=sites, candidates=(4,))


@pytest.mark.parametrize(
    ("labels", "candidates", "error", "text"),
    [
        ([None] * 8, (1, 2), LabelError, "no row has a label"),
        ([*"aaaabb", None, None], (1, 2), LabelError, "class 'b' has 2 labelled rows.*; label at least 4"),
        ([*"aaaabbbb"], (), SettingError, "candidates must name at least one"),
        ([*"aaaabbbb"], (1, 0), SettingError, "candidates has 0, which is not a whole number"),
        ([*"aaaabbbb"], 3, SettingError, "candidates=3 must be whole numbers"),
        (None, (1, 2), LabelError, "no row has a label"),
    ],
)
def test_refusals(labels, candidates, error, text):
    X = np.random.default_rng(0).normal(size=(8, 2))
    with pytest.raises(error, match=text):
        choose_per_class(
            NetworkGaussianMixture(random_state=0), X, labels, sites=[0, 1, 2, 3] * 2, candidates=candidates
        )


def test_the_command(tmp_path, table):
    path = tmp_path / "rows.csv"
    table[0].to_csv(path, index=False)
    named = (path, "--sites", "hospital", "--labels", "ill")
    shown = gaussip("choose-per-class", *named, "--candidates", "1,2")
    assert shown.returncode == 0, shown.stderr
    assert "ill 2, well 2: comes nearest to the labels held out" in shown.stdout
    assert "try --candidates 2,4" in shown.stdout
    (fit,) = [
        line.removeprefix("fit it: gaussip ") for line in shown.stdout.splitlines() if line.startswith("fit it")
    ]
    fitted = gaussip(*fit.replace("model.npz", str(tmp_path / "model.npz")).split())
    assert fitted.returncode == 0, fitted.stderr
    answer = json.loads(gaussip("choose-per-class", *named, "--candidates", "1,2", "--json").stdout)
    assert answer["components_per_class"] == {"ill": 2, "well": 2}
    for given, text in (
        (named[:3], "with --labels"),
        ((*named, "--candidates", "1,x"), "--candidates '1,x' must be whole numbers"),
    ):
        refused = gaussip("choose-per-class", *given)
        assert (refused.returncode, text in refused.stderr) == (2, True), refused.stderr

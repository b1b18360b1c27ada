"""Tables as people have them: separators, decimal commas, codes for missing cells, labels that are sets."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from command import gaussip
from gaussip import NetworkGaussianMixture
from gaussip.errors import DataError, GaussipError, MissingCellsWarning
from gaussip.federation.reading import of_text
from gaussip.mixture.conditional import imputed
from gaussip.node.local_data import read_local
from gaussip.rows.missing_codes import Codes
from gaussip.rows.table_files import read_table, write_table
from gaussip.rows.tables import pick, read_sites

ROWS = [("01", 1.5, -2.0), ("02", 2.25, 0.5)]


@pytest.mark.parametrize(
    ("name", "between", "point"),
    [("a.csv", ",", "."), ("a.csv", ";", "."), ("a.csv", ";", ","), ("a.tsv", "\t", "."), ("a.txt", "\t", ",")],
)
def test_separators_and_decimal_commas(tmp_path, name, between, point):
    lines = [between.join(["ward", "x", "y"])]
    lines += [between.join([ward, *(str(v).replace(".", point) for v in numbers)]) for ward, *numbers in ROWS]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    table = read_table(tmp_path / name, ["ward"])
    assert table.to_pylist() == [dict(zip(["ward", "x", "y"], row, strict=True)) for row in ROWS]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet"])
def test_a_table_is_read_as_it_was_written(tmp_path, name):
    columns = {"word": ["a,b", "c\td"], "x": [1.5, None]}
    write_table(tmp_path / name, columns)
    assert read_table(tmp_path / name).to_pydict() == columns


def test_codes_for_missing_cells():
    codes = Codes.of_text("-9, unknown, chol=0, chol=?")
    table = pa.table({"age": ["50", "-9", "unknown"], "chol": ["0", "200.5", "?"], "bp": [0.0, -9.0, 5.0]})
    X = pick(table, codes=codes).X
    np.testing.assert_array_equal(X["age"].to_numpy(), [50, np.nan, np.nan])
    np.testing.assert_array_equal(X["chol"].to_numpy(), [np.nan, 200.5, np.nan])
    np.testing.assert_array_equal(X["bp"].to_numpy(), [0, np.nan, 5])
    assert codes == Codes.of_description({"*": [-9, "unknown"], "chol": [0, "?"]})
    with pytest.raises(DataError, match=r"codes for missing cells of 'chol', which is not a feature; .* are age, bp"):
        pick(table.drop_columns("chol"), codes=codes)
    with pytest.raises(DataError, match=r"'chol' holds '\?' in row 3"):
        pick(table, codes=Codes.of_text("-9, unknown, chol=0"))


def test_a_site_may_lack_a_column_and_may_not_write_it_otherwise(tmp_path):
    pa.csv.write_csv(pa.table({"x": [1.0, 2.0], "y": [3.0, 4.0]}), tmp_path / "Bern.csv")
    pa.csv.write_csv(pa.table({"x": [5.0]}), tmp_path / "Genf.csv")
    paths = [tmp_path / "Genf.csv", tmp_path / "Bern.csv"]
    with pytest.warns(MissingCellsWarning, match="site 'Genf' has no column 'y': all its cells are missing"):
        joined, of_row = read_sites(paths)
    assert of_row.tolist() == ["Genf", "Bern", "Bern"]
    assert joined.to_pydict() == {"x": [5.0, 1.0, 2.0], "y": [None, 3.0, 4.0]}
    pa.csv.write_csv(pa.table({"x": [5.0], "Y": [1.0]}), tmp_path / "Genf.csv")
    with pytest.raises(DataError, match=r"'Genf' differ from .* 'Bern'|'Bern' differ from .* 'Genf'"):
        read_sites(paths)


def test_labels_that_are_sets():
    def labels(cells):
        return pick(pa.table({"x": np.zeros(len(cells)), "l": cells}), labels="l").labels.tolist()

    assert labels(["mild", "mild|severe", None]) == ["mild", frozenset({"mild", "severe"}), None]
    assert labels(["1", "2 | 1", None]) == [1, frozenset({1, 2}), None]


@pytest.fixture(scope="module")
def incomplete(tmp_path_factory):
    """Patients with ids, missing cells written as -9, and some diagnoses narrowed down to two."""
    rng = np.random.default_rng(0)
    classes = rng.integers(3, size=600)
    X = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[classes] + rng.normal(size=(600, 2))
    names = np.array(["mild", "none", "severe"])[classes]
    word = rng.random(600)
    diagnosis = np.where(word < 0.2, names, np.where(word < 0.4, "", names))
    for i in np.flatnonzero((word > 0.4) & (word < 0.7)):
        diagnosis[i] = ""
    two = np.array([f"{name}|none" if name != "none" else "mild|none" for name in names])
    diagnosis = np.where(word > 0.9, two, np.where(word > 0.2, "", diagnosis))
    gone = rng.random(X.shape) < 0.15
    gone[gone.all(axis=1), 0] = False
    table = pa.table(
        {
            "id": [f"p{i}" for i in range(600)],
            "hospital": [f"H{i % 4}" for i in range(600)],
            "age": np.where(gone[:, 0], -9.0, X[:, 0]),
            "dose": np.where(gone[:, 1], -9.0, X[:, 1]),
            "diagnosis": diagnosis.tolist(),
        }
    )
    path = tmp_path_factory.mktemp("tables") / "patients.csv"
    pa.csv.write_csv(table, path)
    return path, names, gone


FIT = ["--sites", "hospital", "--labels", "diagnosis", "-k", "3", "--no-features", "id", "--na-values", "-9"]


def test_fit_predict_and_impute_a_table_with_missing_cells(incomplete, tmp_path):
    path, names, gone = incomplete
    model, out = tmp_path / "m.npz", tmp_path / "p.csv"
    done = gaussip("fit", path, *FIT, "--out", model)
    assert done.returncode == 0, done.stderr
    done = gaussip("predict", model, path, "--na-values", "-9", "--out", out)
    assert done.returncode == 0, done.stderr
    found = pa.csv.read_csv(out)
    assert found.column_names[:4] == ["id", "hospital", "diagnosis", "prediction"]
    assert np.mean(found["prediction"].to_numpy() == names) > 0.9
    filled = tmp_path / "f.csv"
    done = gaussip("impute", model, path, "--na-values", "-9", "--deviations", "--out", filled)
    assert done.returncode == 0, done.stderr
    assert f"600 rows, {gone.sum()} missing cells" in done.stdout
    table = pa.csv.read_csv(filled)
    assert table.column_names == ["id", "hospital", "diagnosis", "age", "dose", "sd of age", "sd of dose"]
    mixture = NetworkGaussianMixture.load(model)
    X = np.column_stack([pa.csv.read_csv(path)[name].to_numpy() for name in ("age", "dose")])
    X = np.where(gone, np.nan, X)
    wanted = imputed(X, mixture._theta(), mixture.component_proba(pa.table({"age": X[:, 0], "dose": X[:, 1]})))
    np.testing.assert_allclose(np.column_stack([table["age"], table["dose"]]), wanted.values, rtol=1e-12)
    np.testing.assert_allclose(np.column_stack([table["sd of age"], table["sd of dose"]]), wanted.deviations)
    drawn = tmp_path / "d.parquet"
    answer = gaussip("impute", model, path, "--na-values", "-9", "--draws", "3", "--out", drawn, "--json")
    assert json.loads(answer.stdout)["missing"] == {"age": gone[:, 0].sum(), "dose": gone[:, 1].sum()}
    table = pa.parquet.read_table(drawn)
    assert np.bincount(table["draw"].to_numpy()).tolist() == [0, 600, 600, 600]
    ages = table["age"].to_numpy().reshape(3, 600)
    assert (np.ptp(ages, axis=0) > 0).tolist() == gone[:, 0].tolist()
    proper = tmp_path / "proper.csv"
    fitted = ["--sites", "hospital", "--labels", "diagnosis", "--na-values", "-9"]
    done = gaussip("impute", model, path, "--draws", "3", "--parameters", *fitted, "--out", proper)
    assert done.returncode == 0, done.stderr
    assert pa.csv.read_csv(proper).num_rows == 1800
    for wrong in (
        ["--draws", "3", "--deviations"],
        ["--parameters", *fitted],
        ["--draws", "3", "--sites", "hospital"],
    ):
        assert gaussip("impute", model, path, *wrong, "--out", tmp_path / "no.csv").returncode == 2
    assert not (tmp_path / "no.csv").exists()


def test_prediction_says_none_where_a_component_is_of_no_class(incomplete, tmp_path):
    path, names, _ = incomplete
    table = pa.csv.read_csv(path)
    known = pa.array(["severe" if cell == "severe" else "" for cell in table["diagnosis"].to_pylist()])
    other = tmp_path / "one.csv"
    place = table.column_names.index("diagnosis")
    pa.csv.write_csv(table.set_column(place, "diagnosis", known), other)
    model = tmp_path / "m.npz"
    done = gaussip("fit", other, *FIT, "--out", model)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[3:6]] == ["severe", "component", "component"]
    answer = json.loads(gaussip("predict", model, other, "--na-values", "-9", "--json").stdout)
    predicted = np.array(answer["columns"]["prediction"])
    assert set(predicted) == {"severe", "none"}
    assert np.mean((predicted == "severe") == (names == "severe")) > 0.9


def test_components_of_each_class_by_name(incomplete, tmp_path):
    path, _, _ = incomplete
    model = tmp_path / "m.npz"
    several = [*FIT[:5], "4", *FIT[6:], "--shrinkage", "0.3", "--components-per-class", "mild=2, severe=1"]
    done = gaussip("fit", path, *several, "--out", model)
    assert done.returncode == 0, done.stderr
    names = [line.split("  ")[0].strip() for line in done.stdout.splitlines()[3:7]]
    assert names == ["mild 1", "mild 2", "none", "severe"]
    assert NetworkGaussianMixture.load(model).components_per_class == {"mild": 2, "severe": 1}
    for wrong, why in (
        ("bad=2", "'bad', which no row is labelled with"),
        ("mild", "as in ill=4,well=2"),
        ("2", "use --components 6"),
    ):
        done = gaussip("fit", path, *several[:-1], wrong, "--out", tmp_path / "no.npz")
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (",,ill,1\n,,well,1", r"column 'x' of .* is empty; leave the column out, and agree on lacks = \[\"x\"\]"),
        ("1,,,0\n,2,,0\n,,ill,1", "all rows of .* that have an observed cell have weight zero"),
        (",,ill,1\n1,2,well,0", "all rows of .* that have an observed cell have weight zero"),
        ("1,2,ill|,1", "row 1 .* has the label '', which is not among"),
    ],
)
@pytest.mark.filterwarnings("ignore::gaussip.errors.MissingCellsWarning")
def test_a_site_s_table_without_rows_is_refused(tmp_path, cells, text):
    sites = "".join(f'[sites.{name}]\naddress = "127.0.0.1:700{m}"\n' for m, name in enumerate("abc"))
    description = of_text(
        'name = "trial"\ncomponents = 2\nfeatures = ["x", "y"]\nlabels = "state"\nweights = "w"\n'
        f'classes = ["ill", "well"]\n{sites}'
    )
    path = tmp_path / "a.csv"
    path.write_text(f"x,y,state,w\n{cells}\n", encoding="utf-8")
    with pytest.raises(GaussipError, match=text):
        read_local(path, description, "a")

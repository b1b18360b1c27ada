"""Sites that agree on principal components first: as processes of their own, and killed on the way."""

from __future__ import annotations

import json
import signal

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from command import gaussip
from federations import Federation
from gaussip import NetworkGaussianMixture
from gaussip.errors import FederationError
from gaussip.exchange import wire
from gaussip.federation import reading
from gaussip.node.journal import Entry, Journal, packed
from gaussip.phases.program import NAMES, longest_message
from gaussip.phases.task import LocalData, Reduction, make_task
from gaussip.preprocessing import NetworkPCA
from gaussip.rows.basis import load
from gaussip.studies.simulation_model import Setting, draw
from identities import identities, programs_of, transcript
from programs import settings


@pytest.mark.filterwarnings("ignore:not converged")
def test_sites_reduce_fit_and_predict_and_a_kill_on_the_way_changes_nothing(tmp_path):
    settings = {"algorithm": "mnem", "mixing": "metropolis", "shrinkage": 0.1, "unlabelled_weight": 0.5,
                "start": "labels", "reduce": {"keep": 0.97}}  # fmt: skip
    with Federation(tmp_path, 4, n_features=6, n_rows=80, **settings) as sites:
        sites.start("s0", "s1", "s3")  # s0 meets its neighbours, but s1 and s3 wait for s2: s0 stays in exchange 1
        sites.until(lambda: sites.events("s0", "met"))
        sites.until(lambda: (sites.folders / "s0" / "audit.jsonl").exists())
        sites.signal("s0", signal.SIGKILL)
        assert not sites.events("s0", "agreed on a basis")
        sites.start("s0", "s2")
        sites.finish()
        named = np.array(sites.names)[sites.data.sites]
        pca = NetworkPCA(0.97).fit(sites.data.X, sites=named)
        agreed = [sites.events(name, "agreed on a basis")[0] for name in sites.names]
        assert {event["digest"] for event in agreed} == {pca.digest_[:12]}
        assert {event["components"] for event in agreed} == {pca.n_components_}
        reduced = np.empty((len(named), pca.n_components_))
        for name in sites.names:
            reduced[named == name] = pca.transform(sites.data.X[named == name])
        mixture = NetworkGaussianMixture(
            3, algorithm="mnem", mixing="metropolis", eta=0.05, tol=0.0, max_rounds=60, reg_covar=1e-3,
            init_params="labels", shrinkage=0.1, unlabelled_weight=0.5,
        ).fit(reduced, sites.data.labels, sites=named)  # fmt: skip
        for m, name in enumerate(sites.names):
            np.testing.assert_array_equal(sites.theta(name)[2], mixture.site_covariances_[m])
        folder = sites.folders / "s2"
        basis, features = load(folder / "basis.npz")
        assert features == [f"x{j}" for j in range(6)]
        assert basis.digest() == pca.digest_
        made = gaussip("reduce", tmp_path / "s2.csv", "--basis", folder / "basis.npz", "--out", tmp_path / "r.csv")
        assert made.returncode == 0, made.stderr
        assert f"{pca.n_components_} components in place of 6 features" in made.stdout
        told = gaussip("predict", folder / "model.npz", tmp_path / "r.csv", "--out", tmp_path / "p.csv")
        assert told.returncode == 0, told.stderr
        assert pyarrow.csv.read_csv(tmp_path / "p.csv").num_rows == 80
        stored = NetworkGaussianMixture.load(folder / "model.npz")
        np.testing.assert_array_equal(stored.shrinkage_target_, mixture.shrinkage_target_)
        raw = gaussip("predict", folder / "model.npz", tmp_path / "s2.csv")
        assert "reduce its rows first, with gaussip reduce" in raw.stderr
        for name in sites.names:  # from a checkpoint on: the basis and the target are the first run's
            assert gaussip("site", "go-on", sites.folders / name, "--from", "60").returncode == 0
        sites.start()
        sites.finish()
        mixture.set_params(warm_start=True).fit(reduced, sites.data.labels, sites=named)  # keeps the target too
        for m, name in enumerate(sites.names):
            assert load(sites.folders / name / "basis.npz")[0].digest() == pca.digest_
            np.testing.assert_allclose(sites.theta(name)[2], mixture.site_covariances_[m], rtol=1e-9, atol=1e-12)
            stored = NetworkGaussianMixture.load(sites.folders / name / "model.npz")
            np.testing.assert_array_equal(stored.shrinkage_target_, mixture.shrinkage_target_)


@pytest.mark.parametrize(("p", "keep"), [(4, 1), (12, 3), (20, 5), (30, 10), (50, 40), (30, 0.9)])
@pytest.mark.parametrize("network", ["ring", "star"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_every_record_of_a_run_fits_the_journal(p, keep, network, missing, tmp_path):
    """The room for a phase is set before its first exchange, for the longest memory and message that may come."""
    rng = np.random.default_rng(p)
    X = rng.normal(size=(400, p)) * np.arange(1, p + 1)
    X[rng.random(len(X)) < missing, 1] = np.nan
    X[:, 0] = np.nan_to_num(X[:, 0])
    reduction = Reduction(keep, False, keep if isinstance(keep, int) else p)
    found = {"n_features": p, "owners": None, "reduction": reduction, "intervals": "robust", "tol": 10.0}
    task = make_task(tuple("abcd"), **settings("masked", **found | {"network": network, "n_components": 2}))
    rows = [LocalData(part, None, None) for part in np.split(X, 4)]
    programs = programs_of(task, rows, identities(tmp_path, "abcd"))
    (tmp_path / "run").mkdir()
    journal, seen = Journal(tmp_path / "run", NAMES, 32, task.network.longest_sum), set()

    def write(programs, sides):
        phase, number = programs[1].phase, programs[1].exchanges + 1
        data = wire.encode(wire.Round(bytes(8), 1, number, wire.parts_of(sides[1].message)))
        assert len(data) <= phase.longest <= longest_message(task)
        journal.write(
            Entry(number, phase.name, data, sides[1].to, 0, packed(phase.memory)), phase.longest, phase.room
        )
        seen.add(phase.name)

    transcript(programs, write)
    journal.close()
    assert seen == {"keys", "groups", "basis", "facts", "start", "fit", "information", "closing"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("reduce = { keep = 9 }", "9 is neither a number of components, 1 to 2"),
        ("reduce = { keep = 1.5 }", "nor a share of the variance between 0 and 1"),
        ("reduce = { keep = 1, most = 2 }", "unknown key 'most'; there are: keep, standardise, at_most"),
        ("reduce = { keep = 0.5, at_most = 0 }", "at_most must be at least 1"),
        ("shrinkage = 1.0", "shrinkage must be a number in"),
        ("unlabelled_weight = 0.0", "unlabelled_weight = 0 leaves no rows"),
        (
            "reduce = { keep = 1 }\nstart = { weights = [1], means = [[0]], covariances = [[[1]]] }",
            "yet to be agreed on",
        ),
    ],
)
def test_a_description_that_cannot_work_is_refused_with_its_line(line, why):
    head = 'name = "trial"\ncomponents = 1\nfeatures = ["a", "b"]\n'
    tail = '\n[sites]\nx = { address = "127.0.0.1:7447" }\ny = {}\nz = {}\n'
    with pytest.raises(FederationError, match=r"federation.toml, line [4-5].*") as refused:
        reading.of_text(head + line + tail)
    assert why in str(refused.value)


def test_reduce_from_the_command_line(tmp_path):
    data = draw(Setting(n_rows=300, n_sites=3, n_features=6), 3)
    columns = {f"x{j}": data.X[:, j] for j in range(6)} | {"hospital": np.array(list("abc"))[data.sites]}
    columns["code"] = np.arange(300)
    pyarrow.csv.write_csv(pyarrow.table(columns), tmp_path / "rows.csv")
    words = ["reduce", tmp_path / "rows.csv", "--sites", "hospital", "--no-features", "code", "--keep", "0.9",
             "--basis", tmp_path / "basis.npz", "--out", tmp_path / "reduced.parquet"]  # fmt: skip
    made = gaussip(*words, "--json")
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    pca = NetworkPCA(0.9).fit(data.X, sites=columns["hospital"])
    assert (told["components"], told["digest"]) == (pca.n_components_, pca.digest_)
    table = pyarrow.parquet.read_table(tmp_path / "reduced.parquet")
    assert table.column_names == ["hospital", "code", *(f"pc{k + 1}" for k in range(pca.n_components_))]
    np.testing.assert_allclose(table["pc1"].to_numpy(), pca.transform(data.X)[:, 0])
    again = gaussip(*words)
    assert again.returncode == 2
    assert "exists" in again.stderr
    refused = {
        ("--basis", "none.npz", "--out", "x.csv"): "there is no file",
        ("--basis", "rows.csv", "--out", "x.csv"): "is not a basis",
        ("--basis", "basis.npz", "--out", "x.csv", "--standardise"): "leave --features, --no-features, --standardise",
        ("--basis", "x.csv", "--out", "x.csv", "--keep", "2"): "name the same file",
        ("--basis", "b.npz", "--out", "x.xls", "--keep", "2"): "tables are .csv, .tsv or .parquet files",
        ("--basis", "b.npz", "--out", "x.csv", "--keep", "2", "--no-features", "cod"): "no column 'cod'",
        ("--basis", "b.npz", "--out", "x.csv", "--keep", "1.0", "--sites", "hospital"): "1.0 is neither a number",
        ("--basis", "b.npz", "--out", "x.csv", "--keep", "2"): "name the column of sites with --sites",
    }
    for options, why in refused.items():
        told = gaussip("reduce", "rows.csv", *options, cwd=tmp_path)
        assert told.returncode == 2
        assert why in told.stderr
    assert not (tmp_path / "x.csv").exists()
    assert not (tmp_path / "b.npz").exists()
    told = gaussip("reduce", "rows.csv", "--sites", "hospital", "--keep", "1", "--basis", "b.npz", "--out", "x.csv",
                   cwd=tmp_path)  # fmt: skip
    assert "'code' alone has" in told.stdout
    fitted = gaussip("fit", "x.csv", "--sites", "hospital", "-k", "2", "--no-features", "cod", "--out", "m.npz",
                     cwd=tmp_path)  # fmt: skip
    assert "no column 'cod'" in fitted.stderr
    swapped = gaussip("predict", "b.npz", "x.csv", cwd=tmp_path)
    assert "is a basis, not a model" in swapped.stderr

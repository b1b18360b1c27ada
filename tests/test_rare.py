"""Rows with the same cells missing, of which there are too few: found, left out everywhere alike, and why."""

from __future__ import annotations

import signal
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from federations import Federation
from gaussip import NetworkGaussianMixture
from gaussip.errors import DataError, MissingCellsWarning
from gaussip.exchange.questions import answered
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import pack, unvech
from gaussip.phases.base import Resumed
from gaussip.phases.program import Program
from gaussip.phases.summing import SumsPhase
from gaussip.phases.task import LocalData, Reduction, make_task
from gaussip.rows.rare import Grouped
from gaussip.selection import choose_components
from gaussip.selection.criteria import agreed_criteria
from gaussip.starts.rare import ask_rare
from programs import run_all, run_together, settings

SITES = ("Basel", "Bern", "Chur", "Genf", "Zug")
HIDDEN = 777  # the row of which a cell is missing


def one_cell_missing(value=1.5):
    """A thousand rows of three features in two groups, one of them without its second cell; by site."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 3)) + 8 * rng.integers(2, size=(1000, 1))).round(2)
    X[HIDDEN] = value, np.nan, -value
    return X, np.repeat(np.arange(5), 200)


def seen_by_the_first(task, rows, monkeypatch):
    """The totals of a run that the first site, as any, gets to know: by phase, with the mixture of each round."""
    programs = [Program(task, m, local) for m, local in enumerate(rows)]
    seen = []

    def watched(kind):
        take = kind._take

        def taking(phase, total):
            if phase is programs[0].phase:
                rounds = (phase.state.inner.theta, phase._counting, phase._summed()) if phase.name == "fit" else None
                seen.append((phase.name, np.array(total), rounds))
            take(phase, total)

        return taking

    with monkeypatch.context() as patched:
        for kind in {type_ for type_ in _kinds(SumsPhase) if "_take" in vars(type_)}:
            patched.setattr(kind, "_take", watched(kind))
        for program in programs:
            program.start()
        run_together(programs)
    return programs, seen


def _kinds(kind):
    return [kind, *(below for other in kind.__subclasses__() for below in _kinds(other))]


def found_from(programs, seen):
    """The other cells of the one row without its second, from the sums of several rounds at one component.

    Over all rows the filled-in cells E_t sum to a constant plus E_t, and their products with feature i to a constant
    plus E_t x_i: x_i is the slope.
    """
    filled, products = [], []
    for name, total, rounds in seen:
        if name != "fit" or rounds[1]:
            continue
        theta, _, summed = rounds
        pooled = summed.pooled(total)
        mass, mean = float(pooled.mass[0]), np.asarray(theta.means)[0, 0]
        first = pooled.psi[0, 0, 1:4] * mass
        second = unvech(pooled.psi[0, 0, 4:]) * mass
        filled.append(first[1] + mass * mean[1])
        products.append(second[1] + first[1] * mean + first * mean[1] + mass * mean[1] * mean)
    filled, products = np.array(filled), np.array(products)
    apart = filled - filled.mean()
    return (apart @ (products - products.mean(axis=0)) / (apart @ apart))[[0, 2]]


def test_one_row_with_a_missing_cell_is_found_exactly_unless_it_is_left_out(monkeypatch):
    """The attack works where min_count allows it. Else nothing that anybody sees depends on the row's cells."""
    X, sites = one_cell_missing()

    def rows(X):
        return [LocalData(X[sites == m], None, None) for m in range(5)]

    changed = {"owners": None, "n_components": 1, "max_rounds": 60, "reg_covar": 0.0, "start": "kmeans"}
    task = make_task(SITES, **settings("masked", **changed, min_count=1))
    np.testing.assert_allclose(found_from(*seen_by_the_first(task, rows(X), monkeypatch)), [1.5, -1.5], atol=1e-4)

    safe = make_task(SITES, **settings("masked", **changed | {"n_components": 2}, min_count=5))
    here, there = (seen_by_the_first(safe, rows(one_cell_missing(value)[0]), monkeypatch) for value in (1.5, -40.0))
    assert here[0][0].results["groups"].rows == 1
    assert len(here[1]) == len(there[1]) > 10
    for one, other in zip(here[1], there[1], strict=True):
        np.testing.assert_array_equal(one[1], other[1])


groups = st.lists(
    st.tuples(st.integers(0, 15), st.integers(-1, 3), st.integers(0, 4), st.booleans()), min_size=1, max_size=120
)


@given(groups, st.integers(2, 9))
@limits(max_examples=60, deadline=None)
def test_rows_left_out_are_those_of_groups_with_too_few_rows(rows, min_count):
    """Against a count of the groups themselves; labels are two classes (0, 1) and two sets of them (2, 3)."""
    values = np.array([[np.nan if pattern >> j & 1 else 1.0 for j in range(4)] for pattern, *_ in rows])
    labels = np.array([label for _, label, _, _ in rows])
    site, counts = np.array([row[2] for row in rows]), np.array([float(row[3]) for row in rows])
    sets = ((0, 1), (0, 2))
    held = [Grouped.of(values[site == m], labels[site == m], sets, 2, counts[site == m]) for m in range(5)]
    there = Counter((row[0], row[1]) for row in rows if row[3])
    unlike = any((row[0] or row[1] >= 2) and row[3] for row in rows)
    wanted = np.array([unlike and 0 < there[row[0], row[1]] < min_count for row in rows])
    emptied = [m for m in range(5) if not (counts[site == m] * ~wanted[site == m]).any()]
    if emptied and (wanted & (counts > 0)).any():
        with pytest.raises(DataError, match=rf"^{len(emptied)} sites? ha.* no row left"):
            answered(ask_rare(min_count), held, 5)
        return
    rare = answered(ask_rare(min_count), held, 5)
    left = np.concatenate([np.flatnonzero(site == m)[~one.kept(rare.few)] for m, one in enumerate(held)])
    assert rare.rows == (wanted & (counts > 0)).sum()
    np.testing.assert_array_equal(np.sort(left), np.flatnonzero(wanted))


def test_too_many_different_sets_of_missing_cells_are_refused():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((3000, 30)) < 0.3, np.nan, rng.normal(size=(3000, 30)))
    with pytest.raises(
        DataError, match=r"rows have too many different sets of missing cells \(more than about 819\)"
    ):
        NetworkGaussianMixture(1).fit(X, sites=np.arange(3000) % 4)


def incomplete(seed=3):
    """Rows of which some share their missing cells with few others, with labels, some of them sets; by site."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=900)
    X = np.array([[0, 0, 0], [6, 0, 3], [0, 6, -3]])[group] + rng.normal(size=(900, 3))
    X[rng.random(900) < 0.2, 1] = np.nan
    X[rng.choice(900, 3, replace=False), 2] = np.nan
    labels = np.where(rng.random(900) < 0.3, group, -1)
    labels[rng.choice(900, 4, replace=False)] = 3  # classes 0 and 1
    return X, labels, np.arange(900) % 5


def as_given(labels):
    cells = np.empty(len(labels), dtype=object)
    for i, code in enumerate(labels.tolist()):
        cells[i] = [None, 0, 1, 2, {0, 1}][code + 1]
    return cells


@pytest.mark.parametrize("start", ["kmeans", "labels", "search"])
def test_sites_and_the_simulation_leave_out_the_same_rows(start):
    X, labels, sites = incomplete()
    mixture = NetworkGaussianMixture(3, random_state=3, init_params=start, network="ring")
    with pytest.warns(MissingCellsWarning, match=r"\d+ rows are left out: fewer than min_count=5 rows of all sites"):
        mixture.fit(X, as_given(labels), sites=np.array(SITES)[sites])
    assert 7 <= 900 - mixture.site_mass_.sum() < 20
    task = make_task(
        SITES, **settings("masked", owners=Owners.one_each(3), start=start, tol=1e-6, max_rounds=1000, min_count=5)
    )
    local = [LocalData(X[sites == m], labels[sites == m], None, ((0, 1),)) for m in range(5)]
    for program in run_all(task, local):
        np.testing.assert_array_equal(pack(program.estimate()), pack(mixture._theta()))
    held = [Grouped.of(one.X, one.labels, one.sets, 3, None) for one in local]
    few = answered(ask_rare(5), held, 5).few
    stay = np.ones(900, dtype=bool)
    for m, one in enumerate(held):
        stay[np.flatnonzero(sites == m)] = one.kept(few)
    again = NetworkGaussianMixture(3, random_state=3, init_params=start, network="ring")
    again.fit(X[stay], as_given(labels)[stay], sites=np.array(SITES)[sites][stay])
    np.testing.assert_array_equal(pack(again._theta()), pack(mixture._theta()))
    with pytest.warns(MissingCellsWarning, match="rows are left out"):
        whole = mixture.uncertainty(X, as_given(labels), sites=np.array(SITES)[sites])
    with pytest.warns(MissingCellsWarning, match="rows are left out"):
        line = agreed_criteria(mixture, X, as_given(labels), sites=np.array(SITES)[sites])
    assert line.rows == mixture.site_mass_.sum()
    rest = mixture.uncertainty(X[stay], as_given(labels)[stay], sites=np.array(SITES)[sites][stay])
    np.testing.assert_array_equal(whole.table().columns["estimate"], rest.table().columns["estimate"])


def test_the_choice_of_k_and_a_reduction_leave_them_out_too():
    X, labels, sites = incomplete()
    with pytest.warns(MissingCellsWarning, match="rows are left out"):
        chosen = choose_components(X, as_given(labels), sites=sites, at_most=3, random_state=0)
    assert chosen.lines[-1].rows < 900
    task = make_task(SITES, **settings("masked", owners=None, start="kmeans", reduction=Reduction(3, True, 3)))
    programs = run_all(task._replace(min_count=5), [LocalData(X[sites == m], None, None) for m in range(5)])
    assert programs[0].results["groups"].rows == 3
    assert float(programs[0].results["basis"].n_rows) == 897


def test_a_run_that_goes_on_in_a_basis_leaves_out_the_same_rows():
    """Else the difference of both runs' sums would be those rows."""
    X, _, sites = incomplete()
    rows = [LocalData(X[sites == m], None, None) for m in range(5)]
    task = make_task(SITES, **settings("masked", owners=None, reduction=Reduction(2, True, 2), min_count=5))
    first = run_all(task, rows)[0]
    resumed = Resumed(first.estimate(), first.results["start"].target, first.results["basis"])
    again = run_all(task, rows, [resumed] * 5)[0]
    assert again.results["groups"].rows == first.results["groups"].rows == 3
    assert again.results["fit"].mass == first.results["fit"].mass == 897
    assert len(again.local.X) == len(first.local.X)
    assert again.local.X.shape[1] == 2


def test_light_rows_do_not_shield_another():
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[:5, 1] = np.nan
    weights = np.where((np.arange(300) > 0) & (np.arange(300) < 5), 0.01, 1.0)
    settings = {"sites": np.arange(300) % 3, "sample_weight": weights}
    with pytest.warns(MissingCellsWarning, match="5 rows are left out"):
        NetworkGaussianMixture(1).fit(X, **settings)


LIES = {
    "unlike": lambda words: words - 2**60,
    "a bin": lambda words: words - np.arange(len(words)),
    "left out": lambda words: words - 2**60 * (len(words) == 2),
    "emptied": lambda words: words - 2**60 * np.array([0, 1]) if len(words) == 2 else words,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_counts_that_no_rows_have_are_refused(lie):
    X, labels, sites = incomplete()
    held = [Grouped.of(X[sites == m], labels[sites == m], ((0, 1),), 3, None) for m in range(5)]

    def spoiled():
        """The first total that the lie changes is the one that is noticed."""
        computation = ask_rare(5)
        ask = next(computation)
        while True:
            words = ask.code.encode(ask.part(held), 5).sum(axis=0)
            ask = computation.send(ask.code.decode(lie(words)))

    with pytest.raises(DataError, match="the sum over all sites cannot be that of rows"):
        spoiled()


def test_only_sums_need_it_and_min_count_can_switch_it_off():
    X, _, sites = incomplete()
    for changes in ({"min_count": 1}, {"algorithm": "exact"}, {"algorithm": "em"}):
        mixture = NetworkGaussianMixture(3, random_state=0, max_rounds=3000, **changes).fit(X, sites=sites)
        assert mixture.site_mass_.sum() == 900


@pytest.mark.filterwarnings("ignore:not converged")
def test_real_sites_leave_rows_out_and_say_so_and_a_kill_changes_nothing(tmp_path):
    with Federation(tmp_path, 3, n_features=3, n_rows=80, algorithm="masked", start="labels") as federation:
        name = federation.names[1]
        X = federation.data.X[federation.data.sites == 1].copy()
        X[:2, 1] = np.nan
        federation.write_table(name, X, federation.data.labels[federation.data.sites == 1])
        federation.start()
        federation.until(lambda: federation.events(name, "left rows out"))
        federation.signal(name, signal.SIGKILL)
        federation.start(name)
        federation.finish()
        logged = {site: federation.events(site, "left rows out") for site in federation.names}
        assert [logged[site][0]["own"] for site in federation.names] == [0, 2, 0]
        assert all("2 rows are left out: fewer than min_count" in logged[site][0]["why"] for site in federation.names)
        model = NetworkGaussianMixture.load(federation.folders / name / "model.npz")
        assert model.site_mass_.tolist() == [78]
        sites = np.array(federation.names)[federation.data.sites]
        values = federation.data.X.copy()
        values[np.flatnonzero(federation.data.sites == 1)[:2], 1] = np.nan
        labels = np.array([None, "c0", "c1", "c2"], dtype=object)[federation.data.labels + 1]
        mixture = NetworkGaussianMixture(
            3, init_params="labels", network="ring", tol=0.0, max_rounds=60, reg_covar=1e-3
        )
        with pytest.warns(MissingCellsWarning, match="2 rows are left out"):
            mixture.fit(values, labels, sites=sites)
        for site in federation.names:
            for part, wanted in zip(federation.theta(site), mixture._theta(), strict=True):
                np.testing.assert_array_equal(part, wanted)

"""Every kernel against the reference, on random and on hard rows."""

import importlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest

from gaussip.arrays import registry
from gaussip.errors import DataError, SettingError, SlowKernelWarning
from gaussip.kernels import REFERENCE, WIDE, kernel_for
from gaussip.kernels.cpu import compiling, threads
from gaussip.kernels.cpu import few_features as cpu
from gaussip.kernels.cpu import many_features as tiled
from gaussip.mixture.theta import Theta
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from hard_rows import HARD, hard, normwise

COMPILED = {"fused": kernel_for(np.zeros((2, 3))), "tiled": kernel_for(np.zeros((2, 40))), "wide": WIDE}


def test_which_kernel_serves():
    assert kernel_for(np.zeros((3, 6))).name == "fused"
    assert kernel_for(np.zeros((3, 95))).name == "tiled"
    assert kernel_for(np.zeros((200, 6))).name == "tiled"
    assert kernel_for(np.zeros((3, 6), dtype=np.float32)).name == "reference"
    assert kernel_for(np.zeros((3, 95), dtype=np.float32)).name == "wide"


@pytest.mark.parametrize("kernel", sorted(COMPILED))
@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize(("K", "p"), [(3, 6), (1, 1), (5, 2)])
def test_hard_rows(kernel, case, K, p):
    rows, theta = hard(case, K, p)
    wanted = moments(rows, theta, 1e-3, REFERENCE)
    result = moments(rows, theta, 1e-3, COMPILED[kernel])
    assert normwise(result.sums, wanted.sums) <= 1e-12
    np.testing.assert_allclose(result.log_likelihood, wanted.log_likelihood, rtol=1e-11)


@pytest.mark.parametrize(("module", "kernel"), [(cpu, "fused"), (tiled, "tiled")])
def test_helpers_ask_for_no_memory(monkeypatch, module, kernel):
    """Python's allocator is not safe without its lock (CPython issue 128679: tracemalloc)."""
    again = numba.njit(nogil=True, error_model="numpy")(module._sums.py_func)
    monkeypatch.setattr(module, "_sums", again)
    rows, theta = hard("labelled and weighted", 3, 6)
    moments(rows, theta, 0.0, COMPILED[kernel])
    (code,) = again.inspect_llvm().values()
    assert "NRT_MemInfo_alloc" not in code


@pytest.mark.parametrize("p", [2, 3, 4, 5, 7, 8, 12, 20, 32])
def test_fused_for_every_width(p):
    """Tiles of every shape."""
    rows, theta = hard("labelled and weighted", 3, p)
    assert kernel_for(theta.means).name == "fused"
    assert normwise(moments(rows, theta).sums, moments(rows, theta, 0.0, REFERENCE).sums) <= 1e-12


@pytest.mark.parametrize("p", [1, 7, 8, 15, 16, 23, 24, 31, 33, 47, 63, 95])
@pytest.mark.parametrize("K", [1, 4])
def test_products_for_every_width(p, K):
    """Tiles of every breadth, with and without a rest."""
    rows, theta = hard("labelled and weighted", K, p)
    wanted = moments(rows, theta, 0.0, REFERENCE)
    for kernel in (COMPILED["tiled"], WIDE):
        assert normwise(moments(rows, theta, 0.0, kernel).sums, wanted.sums) <= 1e-12


def test_many_components():
    rows, theta = hard("random", 40, 3)
    assert kernel_for(theta.means).name == "tiled"
    assert normwise(moments(rows, theta).sums, moments(rows, theta, 0.0, REFERENCE).sums) <= 1e-12


@pytest.mark.parametrize("kernel", ["reference", "wide"])
def test_single_precision(kernel):
    rows, theta = hard("random", 3, 6)
    single = Rows.of_sites([site.values.astype(np.float32) for site in rows.sites])
    at = Theta(*(part.astype(np.float32) for part in theta))
    result = moments(single, at, 0.0, REFERENCE if kernel == "reference" else WIDE)
    assert result.sums.dtype == np.float32
    assert normwise(result.sums, moments(rows, theta).sums) <= 1e-5


@pytest.mark.parametrize("kernel", sorted(COMPILED))
def test_a_bad_theta_gives_nan_at_its_site_only(kernel):
    rows, theta = hard("random", 3, 6)
    theta.covariances[1, 2] = -np.eye(6)
    theta.weights[2, 0] = -0.1
    theta.covariances[3, 0, 0, 0] = np.nan
    with np.errstate(invalid="ignore"):
        result = moments(rows, theta, 0.0, COMPILED[kernel])
    lost = [False, True, True, True] + [False] * (len(rows.sites) - 4)
    assert np.isnan(result.log_likelihood).tolist() == lost
    assert np.isnan(result.sums).all(axis=(-2, -1)).tolist() == lost


@pytest.mark.parametrize("p", [6, 40])
def test_bits_depend_neither_on_threads_nor_on_the_sites_beside(p, monkeypatch):
    rng = np.random.default_rng(0)
    rows = Rows.of_sites([rng.standard_normal((n, p)) for n in (5000, 1, 12_345, 300, 8)])
    theta = Theta(
        np.full((5, 2), 0.5), rng.standard_normal((5, 2, p)), np.broadcast_to(np.eye(p), (5, 2, p, p))
    )  # fmt: skip
    kernel = kernel_for(theta.means)
    results = []
    for count in ("1", "2", "5"):
        monkeypatch.setenv(threads.VARIABLE, count)
        results += [moments(rows, theta, 0.0, kernel) for _ in range(5)]
    for result in results[1:]:
        np.testing.assert_array_equal(result.sums, results[0].sums)
        np.testing.assert_array_equal(result.log_likelihood, results[0].log_likelihood)
    for m in range(5):
        alone = moments(rows.site(m), Theta(*(part[m] for part in theta)), 0.0, kernel)
        np.testing.assert_array_equal(alone.sums, results[0].sums[m])


def test_threads_of_the_caller_and_forked_processes_may_compute_at_once():
    program = """
import os, threading
import numpy as np
from gaussip.rows.moments import moments
from gaussip.mixture.theta import Theta
from gaussip.rows.rows import Rows
rng = np.random.default_rng(0)
rows = Rows.of_sites([rng.standard_normal((4000, 6)) for _ in range(8)])
theta = Theta(np.full((8, 2), .5), rng.standard_normal((8, 2, 6)), np.broadcast_to(np.eye(6), (8, 2, 6, 6)).copy())
wanted = moments(rows, theta).sums
def check():
    for _ in range(200):
        assert (moments(rows, theta).sums == wanted).all()
together = [threading.Thread(target=check) for _ in range(4)]
[t.start() for t in together]; [t.join() for t in together]
child = os.fork()
if child == 0:
    check(); os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("same")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300,
        env={**os.environ, "GAUSSIP_THREADS": "3"},
    )  # fmt: skip
    assert done.stdout == "same\n", done.stderr


def test_work_that_no_helper_came_to_is_forgotten():
    """On a busy machine helpers come late or never: rows of work that is over do not stay in memory."""
    helpers, taken, release = threads._Helpers(), threading.Event(), threading.Event()

    def busy():
        taken.set()
        release.wait()

    helpers.call(busy, 1)
    taken.wait()
    rows = [np.zeros(1) for _ in range(50)]
    alive = [weakref.ref(one) for one in rows]
    while rows:
        helpers.call(partial(len, rows.pop()), 1)
    assert sum(one() is not None for one in alive) == 1  # the last, which a helper may still come to
    release.set()


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_an_impossible_number_of_threads_is_refused(monkeypatch, text):
    monkeypatch.setenv(threads.VARIABLE, text)
    with pytest.raises(SettingError, match="GAUSSIP_THREADS"):
        threads.n_threads()


def test_without_numba_numpy_serves_and_says_so_once(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'numba'")

    monkeypatch.setattr(registry, "import_module", missing)
    registry.on_cpu.cache_clear()
    try:
        with pytest.warns(SlowKernelWarning, match="No module named 'numba'.*install numba"):
            assert kernel_for(np.zeros((3, 6))).name == "reference"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert kernel_for(np.zeros((3, 6))).name == "reference"
            assert kernel_for(np.zeros((3, 60))).name == "wide"
            assert registry.compiled(np.zeros(2)) is None
    finally:
        registry.on_cpu.cache_clear()


def test_compiled_code_is_as_fresh_as_all_sources(tmp_path, monkeypatch):
    """A changed instruction in one file makes another file's functions compile again; files have a process's name."""
    (tmp_path / "doubling.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    double = importlib.import_module("doubling").double
    hits = []
    for stamp in ("before", "before", "after"):
        monkeypatch.setattr(compiling, "STAMP", stamp)
        function = compiling.compiled()(double)
        function(1)
        hits.append(bool(function.stats.cache_hits))
    names = [file.name for file in Path(function.stats.cache_path).glob("doubling.*.nbc")]
    named = [compiling.PROCESS in name for name in names]
    assert (hits, named) == ([False, True, False], [True] * max(1, len(names))), (
        f"Numba {numba.__version__} does not use the private attributes that gaussip.kernels.cpu.compiling sets: "
        "change that file, or lower the bound of numba in pyproject.toml"
    )


@pytest.mark.parametrize(
    ("rows", "theta"),
    [
        (Rows.of_sites([np.zeros((9, 2))] * 3), Theta(np.ones((1, 1)), np.zeros((1, 1, 2)), np.ones((1, 1, 2, 2)))),
        (Rows.of_sites([np.zeros((9, 2))]), Theta(np.ones((1, 1)), np.zeros((1, 1, 3)), np.ones((1, 1, 3, 3)))),
        (Rows.of_sites([np.zeros((9, 2))]), Theta(np.ones((1, 1)), np.zeros((1, 1, 2)), np.ones((1, 1, 3, 3)))),
        (
            Rows.of_sites([np.zeros((9, 2))], [np.zeros(9, dtype=int)], None, 2),
            Theta(np.ones((1, 1)), np.zeros((1, 1, 2)), np.ones((1, 1, 2, 2))),
        ),
    ],
)
def test_a_theta_of_other_rows_is_refused(rows, theta):
    with pytest.raises(DataError, match="theta has"):
        moments(rows, theta)


def test_sites_with_and_without_weights_together():
    rng = np.random.default_rng(0)
    X, v = rng.standard_normal((50, 2)), rng.uniform(0, 3, 50)
    theta = Theta(np.ones((2, 1)), np.zeros((2, 1, 2)), np.broadcast_to(np.eye(2), (2, 1, 2, 2)))
    for rows in (Rows.of_sites([X, X], None, [v, None]), Rows.of_sites([X, X], None, [v, np.ones(50)])):
        np.testing.assert_allclose(moments(rows, theta).S0[:, 0], [v.sum(), 50])


def test_rows_that_count_nothing_may_lie_anywhere():
    rng = np.random.default_rng(0)
    X, v = rng.standard_normal((50, 2)), np.ones(50)
    X[7], v[7] = 1e12, 0.0
    theta = Theta(np.ones((1, 1)), np.zeros((1, 1, 2)), np.eye(2)[None, None])
    wanted = moments(Rows.of_sites([np.delete(X, 7, axis=0)]), theta)
    np.testing.assert_allclose(moments(Rows.of_sites([X], None, [v]), theta).sums, wanted.sums, rtol=1e-12)


def test_rows_survive_pickling_and_whole_numbers():
    rows = Rows.of_sites(
        [np.arange(20).reshape(10, 2), np.arange(6).reshape(3, 2)], None, [np.arange(10), np.ones(3)]
    )
    theta = Theta(np.ones((2, 1)), np.ones((2, 1, 2)), np.broadcast_to(9 * np.eye(2), (2, 1, 2, 2)))
    result = moments(rows, theta)
    assert rows.mass.dtype == np.float64
    again = pickle.loads(pickle.dumps(rows))
    np.testing.assert_array_equal(moments(again, theta).sums, result.sums)


def test_an_interrupt_leaves_the_next_pass_right():
    """Interrupted in the midst of a pass, again and again, the same rows still give the same numbers."""
    rng = np.random.default_rng(0)
    rows = Rows.of_sites([rng.standard_normal((4000, 6)) for _ in range(8)])
    theta = Theta(
        np.full((8, 2), 0.5), rng.standard_normal((8, 2, 6)), np.broadcast_to(np.eye(6), (8, 2, 6, 6))
    )  # fmt: skip
    wanted = moments(rows, theta).sums

    def interrupt(number, frame):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for n in range(200):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + (n % 20) * 2e-5)
                moments(rows, theta)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            np.testing.assert_array_equal(moments(rows, theta).sums, wanted)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert interrupted

"""The hot function against the definition, computed row by row in extended precision."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gaussip.kernels import REFERENCE, kernel_for
from gaussip.kernels.array import reference
from gaussip.mixture.theta import Theta, broadcast, unpack
from gaussip.rows.moments import moments, summary
from gaussip.rows.rows import Rows

K, P = 3, 4


def mixture(rng, offset=0.0):
    root = rng.standard_normal((K, P, P + 3))
    return Theta(
        np.array([0.2, 0.5, 0.3]),
        offset + 2 * rng.standard_normal((K, P)),
        root @ root.swapaxes(-1, -2) / P,
    )


def by_definition(X, theta, labels=None, weights=None):
    """S0, S1, S2 and the log-likelihood, straight from their formulas, in long double where it matters."""
    n = len(X)
    X = X.astype(np.longdouble)
    mu = theta.means.astype(np.longdouble)
    v = np.ones(n) if weights is None else weights
    log_joint = np.empty((n, K))
    for k in range(K):
        apart = np.asarray(X - mu[k], dtype=float)
        log_joint[:, k] = math.log(theta.weights[k]) + multivariate_normal(np.zeros(P), theta.covariances[k]).logpdf(
            apart
        )
    log_likelihood = np.logaddexp.reduce(log_joint, axis=1)
    pi = np.exp(log_joint - log_likelihood[:, None])
    if labels is not None:
        known = labels >= 0
        pi[known] = np.eye(K)[labels[known]]
        log_likelihood = np.where(known, log_joint[np.arange(n), np.maximum(labels, 0)], log_likelihood)
    r = (v[:, None] * pi).astype(np.longdouble)
    S2 = np.stack([((X - mu[k]) * r[:, [k]]).T @ (X - mu[k]) for k in range(K)])
    return r.sum(axis=0), r.T @ X, S2, (v * log_likelihood).sum()


def compare(found, wanted, rtol):
    S0, S1, S2, log_likelihood = wanted
    for part, exact in zip(unpack(found.sums), (S0, S1, S2), strict=True):
        exact = np.asarray(exact, dtype=float)
        assert np.linalg.norm(part - exact) <= rtol * np.linalg.norm(exact)
    assert found.log_likelihood == pytest.approx(float(log_likelihood), rel=rtol * 10)


@pytest.mark.parametrize("n", [1, 2, 7, 500])
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_definition(n, labelled, weighted):
    rng = np.random.default_rng(n)
    theta = mixture(rng)
    X = 3 * rng.standard_normal((n, P))
    labels = rng.integers(-1, K, n) if labelled else None
    weights = rng.uniform(0, 2, n) if weighted else None
    rows = Rows.of_sites([X], None if labels is None else [labels], None if weights is None else [weights], K).site(0)
    found = moments(rows, theta)
    compare(found, by_definition(X, theta, labels, weights), 1e-12)
    assert found.mass == pytest.approx(n if weights is None else weights.sum())


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
def test_large_offsets_cost_no_accuracy_beyond_the_data_s_own_rounding(offset):
    rng = np.random.default_rng(5)
    theta = mixture(rng, offset)
    X = offset + 3 * rng.standard_normal((800, P))
    found = moments(Rows.of_sites([X]).site(0), theta)
    compare(found, by_definition(X, theta), 1e-12)


def test_far_rows_underflow_without_harm():
    rng = np.random.default_rng(6)
    theta = mixture(rng)
    X = np.concatenate([rng.standard_normal((20, P)), 200 + rng.standard_normal((20, P))])  # densities below e^-10000
    found = moments(Rows.of_sites([X]).site(0), theta)
    compare(found, by_definition(X, theta), 1e-10)


def test_regularisation_goes_inside():
    rng = np.random.default_rng(7)
    theta = mixture(rng)
    rows = Rows.of_sites([rng.standard_normal((50, P))]).site(0)
    plain, ridged = moments(rows, theta), moments(rows, theta, reg_covar=0.25)
    np.testing.assert_allclose(ridged.S2, plain.S2 + 0.25 * plain.S0[:, None, None] * np.eye(P), rtol=1e-13)
    np.testing.assert_array_equal(ridged.sums[..., : 1 + P], plain.sums[..., : 1 + P])


@pytest.mark.parametrize("hold", [0, 2**28])
def test_blocks_and_holding_change_nothing_but_rounding(monkeypatch, hold):
    rng = np.random.default_rng(8)
    theta = mixture(rng)
    X, labels, weights = rng.standard_normal((1000, P)), rng.integers(-1, K, 1000), rng.uniform(0, 1, 1000)
    whole = moments(Rows.of_sites([X], [labels], [weights], K).site(0), theta, kernel=REFERENCE)
    monkeypatch.setattr(reference, "BLOCK_BYTES", 8 * 15 * 32)
    monkeypatch.setattr(reference, "HOLD_BYTES", hold)
    rows = Rows.of_sites([X], [labels], [weights], K).site(0)
    laid = rows.laid_out(REFERENCE)
    assert (laid[0].held is None) == (hold == 0)
    assert len(list(laid[0].blocks())) > 5
    for part, wanted in zip(moments(rows, theta, kernel=REFERENCE)[:3], whole[:3], strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["reference", "compiled"])
def test_no_temporary_exceeds_a_few_megabytes(monkeypatch, name):
    import tracemalloc

    monkeypatch.setattr(reference, "HOLD_BYTES", 0)
    rng = np.random.default_rng(9)
    p = 20
    X = rng.standard_normal((60_000, p))  # features of all rows at once would take 110 MB
    rows = Rows.of_sites([X]).site(0)
    theta = Theta(np.full(2, 0.5), rng.standard_normal((2, p)), np.broadcast_to(np.eye(p), (2, p, p)))
    kernel = REFERENCE if name == "reference" else kernel_for(theta.means)
    moments(rows, theta, kernel=kernel)  # lay out, compile
    tracemalloc.start()
    moments(rows, theta, kernel=kernel)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_a_bad_theta_gives_nan_at_its_site_only():
    rng = np.random.default_rng(10)
    theta = mixture(rng)
    stacked = Theta(*(np.stack([part] * 4) for part in theta))
    stacked.covariances[1, 2] = -np.eye(P)
    stacked.weights[3, 0] = -0.1
    rows = Rows.of_sites([rng.standard_normal((30, P)) for _ in range(4)])
    with np.errstate(invalid="ignore"):
        found = moments(rows, stacked)
    assert np.isfinite(found.log_likelihood).tolist() == [True, False, True, False]
    alone = moments(rows.site(2), theta)
    np.testing.assert_array_equal(found.S2[2], alone.S2)


def test_a_site_s_bits_do_not_depend_on_the_sites_beside_it(rows, start):
    everywhere = broadcast(start, rows.shape)
    together = moments(rows, everywhere)
    for m in range(rows.shape[0]):
        for part, alone in zip(together[:3], moments(rows.site(m), start)[:3], strict=True):
            np.testing.assert_array_equal(part[m], alone)


def test_summary_divides_by_the_mass(rows, start):
    everywhere = broadcast(start, rows.shape)
    A = summary(moments(rows, everywhere))[..., 0]
    np.testing.assert_allclose(A.sum(axis=-1), 1.0, rtol=1e-13)

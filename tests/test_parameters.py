import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussip.mixture.covariance_types import n_parameters
from gaussip.mixture.theta import (
    Theta,
    align,
    overall,
    pack,
    per_replicate,
    reorder,
    to_psi,
    to_theta,
    unpack,
    unvech,
    vech,
)


def random_theta(rng: np.random.Generator, leading: tuple[int, ...], K: int, p: int) -> Theta:
    root = rng.standard_normal((*leading, K, p, p + 2))
    return Theta(
        rng.dirichlet(np.ones(K) * 5, size=leading),
        rng.standard_normal((*leading, K, p)),
        root @ root.swapaxes(-1, -2),
    )


def test_vech_is_the_upper_triangle_row_by_row():
    matrix = np.array([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]])
    assert vech(matrix).tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(unvech(vech(matrix)), matrix)


@settings(deadline=None)  # the first call may compile
@given(
    seed=st.integers(0, 2**32 - 1),
    leading=st.sampled_from([(), (4,), (2, 3)]),
    K=st.integers(1, 5),
    p=st.integers(1, 6),
)
def test_conversions_are_inverse(seed, leading, K, p):
    theta = random_theta(np.random.default_rng(seed), leading, K, p)
    rows = pack(theta)
    assert rows.shape == (*leading, K, (p + 1) * (p + 2) // 2)
    for one, other in zip(unpack(rows), theta, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(to_theta(to_psi(theta)), theta, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_psi_is_homogeneous():
    theta = random_theta(np.random.default_rng(0), (3,), 2, 4)
    heavier = to_psi(theta) * np.array([0.1, 1.0, 7.0])[:, None, None]
    for one, other in zip(to_theta(heavier), theta, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_paper_packs_component_by_component():
    theta = Theta(np.array([0.3, 0.7]), np.array([[1.0], [2.0]]), np.array([[[4.0]], [[5.0]]]))
    assert pack(theta).ravel().tolist() == [0.3, 1, 4, 0.7, 2, 5]
    assert n_parameters("full", 2, 1) == 5


def test_align_undoes_any_renumbering_at_every_site():
    rng = np.random.default_rng(1)
    reference = random_theta(rng, (), 5, 3)
    orders = [rng.permutation(5) for _ in range(6)]
    shuffled = per_replicate([reorder(reference, order) for order in orders])
    for part, wanted in zip(align(shuffled, reference), reference, strict=True):
        np.testing.assert_array_equal(part, np.broadcast_to(wanted, part.shape))


def test_align_minimises_the_squared_distance():
    rng = np.random.default_rng(2)
    reference, other = random_theta(rng, (), 4, 2), random_theta(rng, (), 4, 2)
    from itertools import permutations

    def gap(theta: Theta) -> float:
        return float(((pack(theta) - pack(reference)) ** 2).sum())

    best = min(gap(reorder(other, np.array(order))) for order in permutations(range(4)))
    assert gap(align(other, reference)) == pytest.approx(best)


def test_overall_mean_and_covariance_match_a_large_sample():
    from gaussip.mixture.sampling import sample

    rng = np.random.default_rng(3)
    theta = random_theta(rng, (), 3, 2)
    X, _ = sample(theta, 400_000, rng)
    mean, covariance = overall(theta)
    np.testing.assert_allclose(mean, X.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(covariance, np.cov(X.T), rtol=0.05, atol=0.05)

import numpy as np
import pytest
from scipy import sparse

from gaussip.exchange import Stacked
from gaussip.networks import mixing_weights


@pytest.mark.parametrize("name", ["circle", "star", "complete", "fixed-degree(3)", "grid"])
@pytest.mark.parametrize("leading", [(), (4,)])
def test_it_is_the_matrix_product(name, leading):
    W = mixing_weights(name, range(10), seed=0)
    values = np.random.default_rng(0).standard_normal((*leading, 10, 7))
    for weights in (W, W.toarray(), sparse.coo_array(W)):
        heard = Stacked(weights, site_axis=len(leading))({"mean": values})["mean"]
        np.testing.assert_allclose(heard, W.toarray() @ values, rtol=1e-13)


def test_a_site_is_untouched_by_what_it_does_not_hear():
    W = mixing_weights("chain", range(5))
    values = np.zeros((5, 3))
    values[0] = np.nan
    assert np.isnan(Stacked(W)({"mean": values})["mean"]).any(axis=1).tolist() == [False, True, False, False, False]


def test_an_unknown_channel_is_refused():
    with pytest.raises(KeyError, match="median"):
        Stacked(mixing_weights("ring", range(3)))({"median": np.zeros((3, 2))})


def test_sums_run_over_the_neighbours_in_sorted_order():
    """What a site would add up from its neighbours' messages, one after the other, to the last bit."""
    rng = np.random.default_rng(1)
    W = mixing_weights("erdos-renyi(0.5)", range(12), "metropolis", seed=3)
    values = rng.standard_normal((12, 50)) * 10.0 ** rng.integers(-8, 8, (12, 50))
    heard = Stacked(W)({"mean": values})["mean"]
    for m in range(12):
        total = np.zeros(50)
        for q in range(12):
            if W[m, q] > 0:
                total = total + W[m, q] * values[q]
        np.testing.assert_array_equal(heard[m], total)


@pytest.mark.parametrize(
    ("name", "mixing", "messages"), [("circle", "row", 6), ("star", "row", 10), ("ring", "metropolis", 12)]
)
def test_bytes_count_one_copy_to_every_neighbour_and_none_to_oneself(name, mixing, messages):
    exchange = Stacked(mixing_weights(name, range(6), mixing), site_axis=1)
    exchange({"mean": np.zeros((3, 6, 3, 28))})  # three replicates: the count is for each
    assert exchange.bytes_sent == messages * 84 * 8
    exchange({"mean": np.zeros((3, 6, 84), np.float32)})
    assert exchange.bytes_sent == messages * 84 * 12
    exchange({})
    assert exchange.bytes_sent == messages * 84 * 12

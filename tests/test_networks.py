import tracemalloc

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from gaussip import networks
from gaussip.algorithms import make
from gaussip.errors import NetworkError, SettingError
from gaussip.mixture.theta import Theta
from gaussip.networks import (
    balance,
    by_name,
    degree_shares,
    degrees,
    graphs,
    is_two_way,
    listening,
    mixing_weights,
    stationary_weights,
)
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate

EVERY = ["star", "circle", "circle(3)", "fixed-degree(4)", "complete", "ring", "chain", "grid"]
EVERY += ["erdos-renyi(0.4)", "random-regular(4)", "fixed-degree-both(2)"]
TWO_WAY = [
    "star",
    "complete",
    "ring",
    "chain",
    "grid",
    "erdos-renyi(0.4)",
    "random-regular(4)",
    "fixed-degree-both(2)",
]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("M", [6, 12])
def test_every_network_reaches_everyone_and_averages(name, M):
    graph = by_name(name, M, seed=1)
    assert isinstance(graph, nx.DiGraph)
    assert sorted(graph) == list(range(M))
    assert nx.is_strongly_connected(graph)
    W = mixing_weights(name, range(M), seed=1)
    np.testing.assert_allclose(W.sum(axis=1), 1.0, rtol=1e-14)
    assert (W.diagonal() == 0).all()
    for m in graph:  # W's row m is what m hears: its predecessors
        assert sorted(graph.predecessors(m)) == sorted(W[[m]].nonzero()[1])


@pytest.mark.parametrize("name", TWO_WAY)
def test_metropolis_is_symmetric_and_doubly_stochastic(name):
    W = mixing_weights(name, range(12), "metropolis", seed=1).toarray()
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W.sum(axis=0), 1.0)
    assert (W >= 0).all()
    found = networks.measures(W)
    assert found.se_w == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(found.stationary, 1 / 12)


def test_conventions_of_direction():
    graph = graphs.circle(5, 2)  # site m hears m+1 and m+2
    assert sorted(graph.predecessors(0)) == [1, 2]
    W = mixing_weights(graph, range(5)).toarray()
    np.testing.assert_array_equal(W, nx.to_numpy_array(graph, nodelist=range(5)).T / 2)


@pytest.mark.parametrize("M", [3, 8, 20, 51])
def test_star_imbalance_is_the_paper_s(M):
    W = mixing_weights("star", range(M))
    assert networks.imbalance(W) == pytest.approx((M - 2) / np.sqrt(M - 1), rel=1e-12)
    np.testing.assert_allclose(networks.stationary_weights(W), [0.5, *[0.5 / (M - 1)] * (M - 1)])


def test_circle_is_balanced_and_degree_one_is_a_permutation():
    W = mixing_weights("circle", range(9))
    assert networks.imbalance(W) == 0
    assert balance.sigma(W) == pytest.approx(1)  # W is a permutation: only damping mixes
    assert balance.spectral_gap(W) == pytest.approx(0)
    assert balance.spectral_gap(mixing_weights("circle(2)", range(9))) > 0.01


def test_fixed_degree_has_the_paper_s_expected_imbalance():
    M, D = 20, 8  # large enough that no draw is repeated
    draws = (graphs.fixed_degree(M, D, seed) for seed in range(400))
    squares = []
    for graph in draws:
        A = nx.to_numpy_array(graph, nodelist=range(M)).T
        assert (A.sum(axis=1) == D).all()
        squares.append(networks.imbalance(A / D) ** 2)
    error = np.std(squares) / np.sqrt(len(squares))
    assert abs(np.mean(squares) - (1 / D - 1 / (M - 1))) < 4 * error


def test_sigma_bounds_the_mixing_of_a_doubly_stochastic_w():
    W = mixing_weights("grid", range(12), "metropolis").toarray()
    assert balance.sigma(W) == pytest.approx(np.sort(np.abs(np.linalg.eigvalsh(W)))[-2])


def test_degree_tells_the_stationary_weights_on_two_way_row_normalised_networks():
    for name in TWO_WAY:
        W = mixing_weights(name, range(12), seed=2)
        np.testing.assert_allclose(networks.degree_shares(W), 12 * networks.stationary_weights(W), rtol=1e-9)
    assert (networks.degree_shares(mixing_weights("fixed-degree(3)", range(12), seed=2)) == 1).all()
    assert (networks.degree_shares(mixing_weights("star", range(12), "metropolis")) == 1).all()


def test_a_user_s_graph_and_matrix():
    names = ["Basel", "Lyon", "Turin"]
    graph = nx.DiGraph([("Lyon", "Basel"), ("Turin", "Lyon"), ("Basel", "Turin"), ("Turin", "Basel")])
    wanted = np.array([[0, 0.5, 0.5], [0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(mixing_weights(graph, names).toarray(), wanted)
    np.testing.assert_array_equal(mixing_weights(wanted, names).toarray(), wanted)
    np.testing.assert_array_equal(mixing_weights(sparse.coo_array(wanted), names).toarray(), wanted)
    graph["Lyon"]["Basel"]["weight"] = 3.0
    np.testing.assert_allclose(mixing_weights(graph, names).toarray()[0], [0, 0.75, 0.25])
    undirected = nx.path_graph(3)  # an undirected edge is heard both ways
    np.testing.assert_array_equal(mixing_weights(undirected, names).toarray()[1], [0.5, 0, 0.5])


def without(graph, *edges):
    graph.remove_edges_from(edges)
    return graph


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ("cirkle", "there is no network 'cirkle'"),
        ("fixed-degree", "write fixed-degree"),
        ("fixed-degree(x)", "write fixed-degree"),
        ("ring(3)", "not understood"),
        ("circle(4)", "degree must lie in 1..3"),
        ("erdos-renyi(2)", "probability"),
        ("random-regular(4)", "degree must lie"),
        (without(graphs.circle(4), (1, 0)), "site 'a' hears nobody"),
        (without(graphs.complete(4), (2, 0), (2, 1), (2, 3)), "site 'c' is heard by nobody"),
        (nx.disjoint_union(graphs.complete(2), graphs.complete(2)), "falls into 2 parts"),
        (graphs.ring(5), "nodes are not the sites"),
        (nx.DiGraph([(0, 0), (0, 1), (1, 2), (2, 3), (3, 0)]), "to itself"),
        (np.eye(4)[[1, 2, 3, 0]] * 0.9, "sum to 0.9, not to one"),
        (np.eye(3)[[1, 2, 0]], "3 x 3, but there are 4 sites"),
        (np.array([[0, 2.0, -1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]), "negative"),
        (np.full((4, 4), np.nan), "not finite"),
    ],
)
def test_refusals_name_what_is_wrong(network, words):
    with pytest.raises(NetworkError, match=words):
        mixing_weights(network, ["a", "b", "c", "d"])


def test_more_refusals():
    with pytest.raises(NetworkError, match="two-way"):
        mixing_weights("circle", range(4), "metropolis")
    with pytest.raises(SettingError, match="must be one of row, metropolis"):
        mixing_weights("circle", range(4), "best")
    twice = nx.MultiDiGraph([(0, 1), (0, 1), (1, 2), (2, 0), (2, 1)])  # parallel edges add up
    np.testing.assert_allclose(mixing_weights(twice, range(3)).toarray()[1], [2 / 3, 0, 1 / 3])
    with pytest.raises(NetworkError, match="at least 2"):
        graphs.star(1)
    with pytest.raises(NetworkError, match="must be even"):
        graphs.random_regular(5, 3)
    with pytest.raises(NetworkError, match="none of 1000 draws"):
        graphs.fixed_degree(30, 1, seed=0)
    weighted = nx.Graph()
    weighted.add_weighted_edges_from([(0, 1, 2.0), (1, 2, 1.0), (2, 0, 1.0)])
    with pytest.raises(NetworkError, match="sets its own weights"):
        mixing_weights(weighted, range(3), "metropolis")
    weighted[0][1]["weight"] = -1.0
    with pytest.raises(NetworkError, match="not positive"):
        mixing_weights(weighted, range(3))


def test_random_networks_follow_their_seed():
    for name in ("fixed-degree(3)", "erdos-renyi(0.3)", "random-regular(3)"):
        same = [sorted(by_name(name, 10, seed=5).edges) for _ in range(2)]
        assert same[0] == same[1]
        assert same[0] != sorted(by_name(name, 10, seed=6).edges)


def test_thousands_of_sites_take_no_square_table():
    M = 4000
    rng = np.random.default_rng(0)
    rows = Rows.of_sites(list(rng.normal(size=(M, 5, 2))))
    start = Theta(np.full(2, 0.5), np.array([[-1.0, 0.0], [1.0, 0.0]]), np.stack([np.eye(2)] * 2))
    W = mixing_weights("ring", range(M), "metropolis")
    tracemalloc.start()
    try:
        run = simulate(make("mnem", 0.1), start, rows, W, max_rounds=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert run.n_rounds == 2
    assert peak < 4 * M * M  # bytes: half a square table of float64
    with pytest.raises(SettingError, match=r"algorithm='exact' runs with at most 1000 sites.*use algorithm='masked'"):
        simulate(make("exact", 0.1), start, rows, W, max_rounds=2)


@pytest.mark.parametrize("network", ["ring", "circle", "star", "fixed-degree(3)", "erdos-renyi(0.5)"])
def test_who_hears_whom_is_read_off_the_weights(network):
    W = mixing_weights(network, range(8), seed=3)
    dense = (W.toarray() > 0).astype(float)
    np.fill_diagonal(dense, 0)
    np.testing.assert_array_equal(listening(W).toarray(), dense)
    np.testing.assert_array_equal(listening(W.toarray()).toarray(), dense)
    np.testing.assert_array_equal(degrees(W), dense.sum(axis=1))
    assert is_two_way(W) == bool((dense == dense.T).all())
    shares = degree_shares(W)
    if is_two_way(W) and not W.diagonal().any():
        np.testing.assert_allclose(shares, 8 * stationary_weights(W), rtol=1e-10)
    else:
        np.testing.assert_array_equal(shares, np.ones(8))

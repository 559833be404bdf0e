import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse.csgraph import shortest_path

from delome.memory import curvature
from delome.memory.curvature import balanced_forman, blocks, undirected


def graph_of(edges):
    source, target = np.array(edges).T
    nodes = int(np.max(edges)) + 1
    return undirected(sp.csr_array((np.ones(len(edges), dtype=bool), (source, target)), (nodes, nodes)))


def clique(*nodes):
    return [(i, j) for i in nodes for j in nodes if i < j]


def cycle(nodes):
    return [(k, (k + 1) % nodes) for k in range(nodes)]


def path(nodes):
    return [(k, k + 1) for k in range(nodes - 1)]


def ric(edges, i, j, four_cycles=True):
    (value,) = balanced_forman(graph_of(edges), np.array([i]), np.array([j]), four_cycles)
    return value


def ric_by_sets(adjacency, i, j, four_cycles):
    """Word by word: □ᵢ are the k beside i, not beside j, that have a neighbour w beside j and not beside i."""
    beside = [set(np.flatnonzero(row)) for row in adjacency.toarray()]
    d_i, d_j = len(beside[i]), len(beside[j])
    if min(d_i, d_j) == 1:
        return 0.0
    common = len(beside[i] & beside[j])
    value = 2 / d_i + 2 / d_j - 2 + 2 * common / max(d_i, d_j) + common / min(d_i, d_j)
    only_i, only_j = beside[i] - beside[j], beside[j] - beside[i]
    square_i = {k for k in only_i - {j} if (beside[k] & beside[j]) - beside[i] - {i}}
    square_j = {w for w in only_j - {i} if (beside[w] & beside[i]) - beside[j] - {j}}
    if four_cycles and square_i:
        gamma = max(
            max(len(beside[k] & only_j) - 1 for k in square_i), max(len(beside[w] & only_i) - 1 for w in square_j)
        )
        value += (len(square_i) + len(square_j)) / (gamma * max(d_i, d_j))
    return value


def ollivier(adjacency, i, j, idleness):
    """1 − W₁ of two random walkers that stay with probability ``idleness`` and else step to a neighbour."""
    distance = shortest_path(adjacency, unweighted=True)
    nodes = adjacency.shape[0]
    walkers = []
    for start in (i, j):
        steps = adjacency.toarray()[start]
        walkers.append(np.where(np.arange(nodes) == start, idleness, (1 - idleness) * steps / steps.sum()))
    near = [np.flatnonzero(walker) for walker in walkers]
    ways = distance[np.ix_(*near)]
    leave = np.kron(np.eye(len(near[0])), np.ones(len(near[1])))
    arrive = np.kron(np.ones(len(near[0])), np.eye(len(near[1])))
    masses = np.concatenate([walker[nodes] for walker, nodes in zip(walkers, near, strict=True)])
    return 1 - linprog(ways.ravel(), A_eq=np.vstack([leave, arrive]), b_eq=masses).fun


@st.composite
def random_graphs(draw, nodes=12):
    nodes = draw(st.integers(2, nodes))
    density = draw(st.floats(0.1, 0.9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    upper = np.triu(rng.random((nodes, nodes)) < density, 1)
    upper[0, 1] = True
    return undirected(sp.csr_array(upper))


@pytest.mark.parametrize("nodes", [3, 4, 5, 9])
def test_edges_of_a_clique_are_curved_by_n_over_n_minus_1(nodes):
    assert ric(clique(*range(nodes)), 0, 1) == pytest.approx(nodes / (nodes - 1), abs=1e-12)


def test_a_square_is_curved_by_its_4_cycle_alone():
    assert ric(cycle(4), 0, 1) == pytest.approx(1, abs=1e-12)
    assert ric(cycle(4), 0, 1, four_cycles=False) == pytest.approx(0, abs=1e-12)


def test_long_cycles_and_paths_are_flat():
    assert ric(cycle(5), 0, 1) == pytest.approx(0, abs=1e-12)
    assert ric(cycle(9), 0, 1) == pytest.approx(0, abs=1e-12)
    assert ric(path(6), 2, 3) == pytest.approx(0, abs=1e-12)


def test_the_edge_to_a_leaf_is_flat():
    star = [(0, leaf) for leaf in range(1, 8)]
    assert ric(star, 0, 3) == 0
    assert ric(star, 3, 0) == 0


def test_a_bridge_between_two_nodes_of_degree_3_is_a_bottleneck():
    edges = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)]
    assert ric(edges, 0, 1) == pytest.approx(-2 / 3, abs=1e-12)


def test_two_cliques_and_their_bridge():
    edges = [*clique(0, 1, 2, 3), *clique(4, 5, 6, 7), (3, 4)]
    for mate in (0, 1, 2):
        assert ric(edges, 3, mate) == pytest.approx(0.5 + 2 / 3 - 2 + 1 + 2 / 3, abs=1e-12)  # 0.8333
    assert ric(edges, 3, 4) == pytest.approx(-1, abs=1e-12)


def test_the_inside_of_a_grid_is_flat():
    side = 6
    node = np.arange(side * side).reshape(side, side)
    across = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], axis=1)
    down = np.stack([node[:-1].ravel(), node[1:].ravel()], axis=1)
    assert ric(np.concatenate([across, down]), node[2, 2], node[2, 3]) == pytest.approx(0, abs=1e-12)


@given(random_graphs(), st.booleans())
def test_curvature_is_that_of_the_definition_by_sets(adjacency, four_cycles):
    i, j = adjacency.nonzero()
    expected = [ric_by_sets(adjacency, *edge, four_cycles) for edge in zip(i, j, strict=True)]
    np.testing.assert_allclose(balanced_forman(adjacency, i, j, four_cycles), expected, atol=1e-12)


@given(random_graphs(nodes=15), st.integers(20, 500))
def test_blocks_do_not_change_the_curvature(adjacency, size):
    i, j = adjacency.nonzero()
    whole = balanced_forman(adjacency, i, j)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curvature, "BLOCK_SIZE", size)
        np.testing.assert_array_equal(balanced_forman(adjacency, i, j), whole)


@given(random_graphs(nodes=30))
def test_curvature_is_symmetric_and_of_each_edge_by_itself(adjacency):
    i, j = adjacency.nonzero()
    whole = balanced_forman(adjacency, i, j)
    np.testing.assert_array_equal(balanced_forman(adjacency, j, i).round(9), whole.round(9))
    some = np.random.default_rng(0).permutation(len(i))[:5]
    np.testing.assert_array_equal(balanced_forman(adjacency, i[some], j[some]), whole[some])


def test_the_ollivier_curvature_of_a_triangle_is_one_half():
    assert ollivier(graph_of(clique(0, 1, 2)), 0, 1, idleness=0) == pytest.approx(0.5)


@given(random_graphs(nodes=8))
def test_balanced_forman_is_a_lower_bound_of_ollivier(adjacency):
    """Of the limit of κ_α / (1 − α) for α → 1, that is: 2 κ_½, since κ_α is linear from α = 1 / (max d + 1) on.

    κ₀ is not bounded: a triangle has κ₀ = ½ but balanced Forman curvature 3/2.
    """
    i, j = adjacency.nonzero()
    lower = balanced_forman(adjacency, i, j)
    without_four_cycles = balanced_forman(adjacency, i, j, four_cycles=False)
    assert (without_four_cycles <= lower + 1e-12).all()
    upper = [2 * ollivier(adjacency, *edge, idleness=0.5) for edge in zip(i, j, strict=True)]
    assert (lower <= np.array(upper) + 1e-9).all()


def test_no_edges_have_no_curvature():
    none = np.zeros(0, dtype=np.int64)
    assert balanced_forman(graph_of(cycle(4)), none, none).shape == (0,)


def test_undirected_lists_each_edge_both_ways_once():
    adjacency = sp.csr_array(np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]], dtype=bool))
    assert undirected(adjacency).toarray().tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 100))
def test_blocks_cut_a_sequence_into_parts_that_weigh_little(weights, limit):
    parts = list(blocks(np.array(weights, dtype=np.int32), limit))
    assert [k for part in parts for k in range(part.start, part.stop)] == list(range(len(weights)))
    assert all(part.stop > part.start and sum(weights[part][1:]) <= limit for part in parts)

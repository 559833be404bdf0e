from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from delome import Graph
from delome.graph.sparse import to_dense
from delome.memories import MemoryBank, subgraph
from delome.memories.subgraph import Curvature, Subgraphs, degree, retained_pairs, uniform
from delome.persistence.state import State
from delome.streams.tasks import Observation

RULES = [uniform, degree, Curvature("bfc"), Curvature("bfc3")]
every_rule = pytest.mark.parametrize("rule", RULES, ids=["uniform", "degree", "bfc", "bfc3"])
BUILDERS = {
    "uniform": Subgraphs(budget=6, neighbours="uniform"),
    "degree": Subgraphs(budget=6, neighbours="degree"),
    "bfc": Subgraphs(budget=6, neighbours="curvature", curvature="bfc"),
    "bfc3": Subgraphs(budget=6, neighbours="curvature", curvature="bfc3"),
}
every_builder = pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)


def graph_of(edges, nodes=None, undirected=True):
    nodes = int(np.max(edges)) + 1 if nodes is None else nodes
    return Graph(np.array(edges).T, np.random.default_rng(0).normal(size=(nodes, 3)), undirected=undirected)


def clique(*nodes):
    return [(i, j) for i in nodes for j in nodes if i < j]


def keeping(builder, first, second):
    """The builder with other numbers of neighbours."""
    return replace(builder, neighbours_first=first, neighbours_second=second)


def retained(graph, centres, neighbours, rule, seed=0):
    """For each centre the nodes that it retains, itself first, then the first hop."""
    owner, node = retained_pairs(graph, np.array(centres), neighbours, rule, np.random.default_rng(seed))
    return [node[owner == c].tolist() for c in range(len(centres))]


def observe(graph, train, labels):
    """A task of the given training nodes."""
    classes = tuple(sorted(set(labels)))
    return Observation(0, classes, len(classes), np.array(train), np.array(labels), graph.num_features, graph)


def stored_nodes(memory, graph):
    """Ids in the task graph of the stored nodes, found by their features."""
    features, stored = to_dense(graph.features), to_dense(memory.graph.features)
    return np.array([np.flatnonzero((features == row).all(axis=1))[0] for row in stored])


@st.composite
def random_graphs(draw):
    nodes, density = draw(st.integers(2, 25)), draw(st.floats(0.05, 0.5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    edges = np.argwhere(rng.random((nodes, nodes)) < density)
    return Graph(edges.T, rng.normal(size=(nodes, 3)), undirected=draw(st.booleans()))


@every_builder
def test_centres_are_distinct_training_nodes_with_their_own_labels(build, toy_stream, builder):
    task = toy_stream[1]
    memory = build(builder, task)
    centres = stored_nodes(memory, task.graph)[memory.rows]
    assert set(centres) <= set(task.train)
    assert len(set(centres)) == 12
    assert memory.task == 1
    assert memory.graph.labels is None
    np.testing.assert_array_equal(memory.labels, task.graph.labels[centres])
    assert np.bincount(memory.labels).tolist() == [0, 0, 6, 6]


def test_a_class_smaller_than_the_budget_is_kept_whole(build, toy_stream):
    observation = toy_stream[0].observation()
    memory = build(Subgraphs(budget=1000), observation)
    assert len(memory.rows) == len(observation.train)


@every_builder
def test_the_memory_is_the_induced_subgraph_of_a_part_of_the_task(build, toy_stream, builder):
    task = toy_stream[0]
    memory = build(builder, task)
    nodes = stored_nodes(memory, task.graph)
    assert (np.diff(nodes) > 0).all()
    assert memory.graph.num_nodes <= 12 * 11
    np.testing.assert_array_equal(
        memory.graph.adjacency.toarray(), task.graph.adjacency.toarray()[np.ix_(nodes, nodes)]
    )


@given(random_graphs(), st.sampled_from(RULES), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2**32))
def test_each_centre_retains_new_in_neighbours_within_its_budgets(graph, rule, first, second, seed):
    adjacency = graph.adjacency.toarray()
    centres = np.arange(graph.num_nodes)
    for centre, nodes in zip(centres, retained(graph, centres, (first, second), rule, seed), strict=True):
        assert nodes[0] == centre
        assert len(set(nodes)) == len(nodes)
        beside = set(np.flatnonzero(adjacency[centre]))
        one = min(first, len(beside))
        hop = nodes[1 : 1 + one]
        assert set(hop) <= beside
        beyond = {int(u) for p in hop for u in np.flatnonzero(adjacency[p])} - {centre, *hop}
        assert len(nodes) == 1 + one + min(second, len(beyond))
        assert set(nodes[1 + one :]) <= beyond


def test_a_hub_retains_distinct_leaves():
    star = graph_of([(0, leaf) for leaf in range(1, 9)])
    for rule in RULES:
        (nodes,) = retained(star, [0], (3, 0), rule)
        assert len(set(nodes)) == 4


def test_uniform_gives_each_candidate_the_same_chance_however_many_ways_lead_to_it():
    # node 3 sends to both nodes of the frontier {1, 2}, node 4 to one of them
    graph = graph_of([(1, 0), (2, 0), (3, 1), (3, 2), (4, 1)], undirected=False)
    owner, node = retained_pairs(graph, np.zeros(20_000, dtype=int), (2, 1), uniform, np.random.default_rng(0))
    assert len(owner) == 4 * 20_000
    assert np.mean(node == 3) * 4 == pytest.approx(0.5, abs=0.015)


def test_degree_prefers_a_node_of_degree_99_to_one_of_degree_1_in_99_of_100_draws():
    edges = [(1, 0), (2, 0), *[(k, 1) for k in range(3, 101)]]  # 98 edges into node 1, and its self-loop
    graph = graph_of(edges, undirected=False)
    _, node = retained_pairs(graph, np.zeros(20_000, dtype=int), (1, 0), degree, np.random.default_rng(0))
    assert np.mean(node[20_000:] == 1) == pytest.approx(0.99, abs=0.003)


def test_degree_draws_one_after_the_other_without_replacement():
    # nodes 1, 2, 3 count 1, 2 and 4 edges with their self-loops
    graph = graph_of([(1, 0), (2, 0), (3, 0), (4, 2), (4, 3), (5, 3), (6, 3)], undirected=False)
    draws = 40_000
    owner, node = retained_pairs(graph, np.zeros(draws, dtype=int), (2, 0), degree, np.random.default_rng(0))
    left_out = 6 - np.bincount(owner, weights=node).astype(int)
    expected = [0, 2 / 7 * 4 / 5 + 4 / 7 * 2 / 3, 1 / 7 * 4 / 6 + 4 / 7 * 1 / 3, 1 / 7 * 2 / 6 + 2 / 7 * 1 / 5]
    np.testing.assert_allclose(np.bincount(left_out, minlength=4) / draws, expected, atol=0.01)


@pytest.mark.parametrize("kind", ["bfc", "bfc3"])
def test_curvature_drops_the_bridge_and_keeps_the_clique(kind):
    graph = graph_of([*clique(0, 1, 2, 3), *clique(4, 5, 6, 7), (3, 4)])
    for seed in range(10):
        (nodes,) = retained(graph, [3], (3, 0), Curvature(kind), seed)
        assert sorted(nodes) == [0, 1, 2, 3]


@pytest.fixture
def square_and_path():
    """Nodes 1 and 4 are in a square with node 0, node 2 is on a path; their degrees are the same."""
    return graph_of([(0, 1), (1, 3), (3, 4), (4, 0), (0, 2), (2, 5), (5, 6)])


def picks(graph, kind):
    """Neighbours of node 0 that are chosen sooner or later."""
    return {retained(graph, [0], (1, 0), Curvature(kind), seed)[0][1] for seed in range(40)}


def test_curvature_counts_4_cycles_if_asked_to(square_and_path):
    assert picks(square_and_path, "bfc") == {1, 4}
    assert picks(square_and_path, "bfc3") == {1, 2, 4}


def test_4_cycles_are_counted_up_to_so_many_paths_of_two_edges(square_and_path, monkeypatch):
    assert picks(square_and_path, "auto") == {1, 4}
    # degrees 3, 2, 2, 2, 2, 2, 1: their squares add up to 30
    monkeypatch.setattr(subgraph, "PATHS_COUNTED", 30)
    assert picks(square_and_path, "auto") == {1, 4}
    monkeypatch.setattr(subgraph, "PATHS_COUNTED", 29)
    assert picks(square_and_path, "auto") == {1, 2, 4}
    assert picks(square_and_path, "bfc") == {1, 4}


def test_curvature_is_the_best_over_the_frontier():
    # node 3 makes a triangle with frontier node 1; its edge to frontier node 2 is worse than that of node 4
    edges = [(0, 1), (0, 2), (1, 3), (1, 5), (3, 5), (2, 3), (2, 4), (4, 6)]
    for seed in range(10):
        (nodes,) = retained(graph_of(edges), [0], (2, 2), Curvature("bfc3"), seed)
        assert sorted(nodes) == [0, 1, 2, 3, 5]


def test_curvature_ties_fall_at_random():
    star = graph_of([(0, leaf) for leaf in range(1, 5)])
    _, node = retained_pairs(star, np.zeros(8000, dtype=int), (1, 0), Curvature(), np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(node[8000:], minlength=5) / 8000, [0, 0.25, 0.25, 0.25, 0.25], atol=0.02)


@every_rule
def test_candidates_of_a_directed_graph_are_in_neighbours(rule):
    graph = graph_of([(1, 0), (0, 2), (3, 1), (1, 4)], undirected=False)
    assert retained(graph, [0], (5, 5), rule) == [[0, 1, 3]]


@every_builder
def test_without_neighbours_only_centres_and_their_edges_are_stored(build, toy_stream, builder):
    task = toy_stream[0]
    memory = build(keeping(builder, 0, 0), task)
    assert memory.graph.num_nodes == len(memory.rows) == 12
    centres = stored_nodes(memory, task.graph)
    np.testing.assert_array_equal(
        memory.graph.adjacency.toarray(), task.graph.adjacency.toarray()[np.ix_(centres, centres)]
    )


def test_all_rules_draw_the_same_centres(build, toy_stream):
    task = toy_stream[0]
    memories = [build(builder, task) for builder in BUILDERS.values()]
    centres = [stored_nodes(memory, task.graph)[memory.rows] for memory in memories]
    np.testing.assert_array_equal(centres, [centres[0]] * len(RULES))


@every_builder
def test_one_step_of_propagation_is_exact_where_two_whole_hops_are_kept(build, toy_stream, builder):
    """The centre's row of S X needs the degrees of its neighbours, so their neighbours too."""
    task = toy_stream[0]
    memory = build(keeping(builder, 1000, 1000), task)
    centres = stored_nodes(memory, task.graph)[memory.rows]
    np.testing.assert_allclose(memory.graph.propagate(1)[memory.rows], task.graph.propagate(1)[centres], atol=1e-6)


@every_builder
def test_two_steps_of_propagation_are_exact_where_the_graph_ends_after_two_hops(build, builder):
    tree = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (2, 6), (3, 7), (3, 8)]
    graph = graph_of([*tree, (9, 10)])
    memory = build(keeping(builder, 10, 10), observe(graph, train=[0], labels=[0]))
    assert memory.graph.num_nodes == 9
    np.testing.assert_allclose(memory.graph.propagate(2)[memory.rows], graph.propagate(2)[[0]], atol=1e-6)


@every_builder
def test_the_same_generator_builds_the_same_memory(build, toy_stream, builder):
    one, same, other = (build(builder, toy_stream[0], seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.graph.features, same.graph.features)
    np.testing.assert_array_equal(one.rows, same.rows)
    assert one.graph.num_nodes != other.graph.num_nodes or (one.graph.features != other.graph.features).any()


@every_builder
def test_sparse_features_stay_sparse_and_survive_saving(build, sparse_stream, builder):
    memory = build(builder, sparse_stream[0])
    assert sp.issparse(memory.graph.features)
    bank = MemoryBank()
    bank.append(memory)
    state = State({}, {})
    bank.save(state)
    width = memory.graph.num_features
    (loaded,) = MemoryBank.load(state, tasks=1, columns=2, width=width).memories
    np.testing.assert_array_equal(to_dense(loaded.graph.propagate(2)), to_dense(memory.graph.propagate(2)))
    np.testing.assert_array_equal(loaded.rows, memory.rows)


@every_builder
def test_a_graph_without_edges_leaves_the_centres_alone(build, builder):
    graph = Graph(np.zeros((2, 0), dtype=int), np.eye(6))
    memory = build(builder, observe(graph, train=[1, 3, 4], labels=[0, 0, 1]))
    assert memory.graph.num_nodes == 3
    assert memory.graph.num_edges == 0
    assert memory.labels.tolist() == [0, 0, 1]


def test_blocks_of_centres_do_not_change_what_is_retained(toy_graph, monkeypatch):
    def highest_number(graph, candidates, rng):
        return candidates.nodes.astype(float)  # nothing is left to chance

    centres = np.arange(toy_graph.num_nodes)
    whole = retained(toy_graph, centres, (2, 3), highest_number)
    monkeypatch.setattr(subgraph, "BLOCK_SIZE", 50)
    assert retained(toy_graph, centres, (2, 3), highest_number) == whole


def test_neighbours_are_chosen_as_the_builder_says():
    rules = [Subgraphs(neighbours=name).rule() for name in ("uniform", "degree", "curvature")]
    assert rules == [uniform, degree, Curvature("auto")]
    assert Subgraphs(neighbours="curvature", curvature="bfc3").rule() == Curvature("bfc3")


def test_each_hop_has_its_own_number_of_neighbours(build):
    # node 0 hears four nodes, each of which hears four more
    edges = [(leaf, 0) for leaf in range(1, 5)] + [(4 * leaf + k, leaf) for leaf in range(1, 5) for k in range(1, 5)]
    observation = observe(graph_of(edges, undirected=False), train=[0], labels=[0])
    for first, second in ((1, 3), (3, 1), (0, 4), (4, 0)):
        memory = build(keeping(Subgraphs(), first, second), observation)
        heard = np.diff(memory.graph.adjacency.indptr)
        assert heard[memory.rows[0]] == first
        assert memory.graph.num_nodes == 1 + first + (second if first else 0)

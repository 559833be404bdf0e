from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from delome import Graph
from delome.errors import GraphError

FLOAT32: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}
NO_EDGES = np.zeros((2, 0), dtype=np.int64)


@st.composite
def raw_graphs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Edges (self-loops and repetitions among them) and features, many of them zero."""
    nodes = draw(st.integers(1, 12))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    features = rng.normal(size=(nodes, 6)) * (rng.random((nodes, 6)) < draw(st.sampled_from([0.05, 0.3, 1.0])))
    return np.array(edges, dtype=np.int64).reshape(-1, 2).T, features.astype(np.float32)


def dense_operator(edges: np.ndarray, nodes: int) -> np.ndarray:
    """S of METHODS 2.1 written out: entry (v, u) for an edge u → v, in-degrees that count one self-loop."""
    adjacency = np.eye(nodes)
    for source, target in edges.T:
        adjacency[target, source] = 1
    degree = adjacency.sum(axis=1)
    return adjacency / np.sqrt(np.outer(degree, degree))


def edge_set(graph: Graph) -> set[tuple[int, int]]:
    coo = graph.adjacency.tocoo()
    return set(zip(coo.col.tolist(), coo.row.tolist(), strict=True))


def test_two_steps_on_a_path_give_the_hand_computed_values() -> None:
    path = Graph([[0, 1], [1, 2]], [[1.0], [0.0], [0.0]], undirected=True)
    np.testing.assert_allclose(path.propagate(2).ravel(), [0.416667, 0.340207, 0.166667], atol=1e-6)


def test_two_steps_along_a_directed_edge_give_the_hand_computed_values() -> None:
    arrow = Graph([[0], [1]], [[1.0], [0.0]], undirected=False)
    np.testing.assert_allclose(arrow.propagate(2).ravel(), [1, 1.060660], atol=1e-6)


def test_without_edges_propagation_changes_nothing() -> None:
    features = np.array([[1.5, -2.0], [0.25, 7.0]], dtype=np.float32)
    assert np.array_equal(Graph(NO_EDGES, features).propagate(2), features)
    assert np.array_equal(Graph.edgeless(features).propagate(2), features)


@given(raw_graphs(), st.integers(0, 3))
def test_propagation_equals_the_dense_computation(raw: tuple[np.ndarray, np.ndarray], hops: int) -> None:
    edges, features = raw
    expected = np.linalg.matrix_power(dense_operator(edges, len(features)), hops) @ features
    directed = Graph(edges, features, undirected=False)
    np.testing.assert_allclose(directed.propagate(hops), expected, **FLOAT32)


@given(raw_graphs())
def test_sparse_and_dense_features_propagate_alike(raw: tuple[np.ndarray, np.ndarray]) -> None:
    edges, features = raw
    from_sparse = Graph(edges, sp.csr_array(features)).propagate(2)
    from_sparse = from_sparse.toarray() if sp.issparse(from_sparse) else from_sparse
    np.testing.assert_allclose(from_sparse, Graph(edges, features).propagate(2), **FLOAT32)


def test_sparse_features_stay_sparse_while_they_are_thin() -> None:
    ring = np.arange(100)
    graph = Graph(np.stack([ring, (ring + 1) % 100]), sp.eye_array(100), undirected=True)
    propagated = graph.propagate(2)
    assert isinstance(propagated, sp.csr_array)
    assert propagated.nnz == 5 * 100


def test_sparse_features_become_dense_when_propagation_fills_them() -> None:
    ring = np.arange(100)
    edges = np.concatenate([np.stack([ring, (ring + step) % 100]) for step in range(1, 8)], axis=1)
    graph = Graph(edges, sp.eye_array(100), undirected=True)
    assert isinstance(graph.propagate(1), np.ndarray)


def test_propagation_is_computed_once() -> None:
    graph = Graph([[0], [1]], [[1.0], [2.0]])
    assert graph.propagate(2) is graph.propagate(2)


def test_the_operator_has_exactly_one_self_loop_at_every_node() -> None:
    graph = Graph([[0, 0, 1, 1], [0, 1, 1, 2]], np.ones((3, 1)), undirected=False)
    operator = graph.operator()
    assert operator.nnz == graph.num_edges + 3
    np.testing.assert_allclose(operator.diagonal(), [1, 1 / 2, 1 / 2], atol=1e-7)


def test_self_loops_are_removed_on_entry() -> None:
    graph = Graph([[0, 1, 1], [0, 1, 2]], np.ones((3, 1)), undirected=False)
    assert edge_set(graph) == {(1, 2)}
    assert graph.num_edges == 1


def test_repeated_edges_count_once() -> None:
    graph = Graph([[0, 0, 0], [1, 1, 1]], np.ones((2, 1)), undirected=False)
    assert graph.num_edges == 1
    np.testing.assert_allclose(graph.operator().toarray(), dense_operator(np.array([[0], [1]]), 2), **FLOAT32)


def test_edges_are_taken_in_both_directions_unless_asked() -> None:
    both = Graph([[0, 2], [1, 1]], np.ones((3, 1)))
    assert edge_set(both) == {(0, 1), (1, 0), (2, 1), (1, 2)} and both.undirected
    directed = Graph([[0, 2], [1, 1]], np.ones((3, 1)), undirected=False)
    assert edge_set(directed) == {(0, 1), (2, 1)} and not directed.undirected


def test_a_row_of_the_adjacency_lists_the_sources_of_incoming_edges() -> None:
    graph = Graph([[0, 2], [1, 1]], np.ones((3, 1)), undirected=False)
    assert graph.adjacency[[1]].indices.tolist() == [0, 2]


@given(raw_graphs(), st.data())
def test_a_subgraph_is_what_a_loop_over_all_pairs_finds(
    raw: tuple[np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    edges, features = raw
    nodes = data.draw(st.lists(st.integers(0, len(features) - 1), unique=True, min_size=1))
    labels = np.arange(len(features)) % 3
    graph = Graph(edges, features, labels, undirected=False)
    part = graph.subgraph(np.array(nodes))
    present = set(map(tuple, edges.T.tolist()))
    expected = {
        (i, j) for i, u in enumerate(nodes) for j, v in enumerate(nodes) if (u, v) in present and u != v
    }  # fmt: skip
    assert edge_set(part) == expected
    assert np.array_equal(part.features, features[nodes])
    assert part.labels is not None and part.labels.tolist() == labels[nodes].tolist()


def test_a_subgraph_keeps_sparse_features_sparse() -> None:
    part = Graph([[0], [1]], sp.eye_array(3)).subgraph(np.array([2, 0]))
    assert sp.issparse(part.features)
    assert part.features.toarray().tolist() == [[0, 0, 1], [1, 0, 0]]


@given(raw_graphs())
def test_a_round_trip_through_pyg_changes_nothing(raw: tuple[np.ndarray, np.ndarray]) -> None:
    edges, features = raw
    graph = Graph(edges, features, np.arange(len(features)))
    back = Graph.from_pyg(graph.to_pyg())
    assert edge_set(back) == edge_set(graph)
    assert np.array_equal(back.features, graph.features)
    assert back.labels is not None and graph.labels is not None
    assert np.array_equal(back.labels, graph.labels)


def test_pyg_data_arrives_with_its_edges_features_and_labels() -> None:
    data = Data(
        x=torch.tensor([[1.0], [2.0], [3.0]]), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1])
    )
    graph = Graph.from_pyg(data)
    assert edge_set(graph) == {(0, 1), (1, 2), (1, 0), (2, 1)}
    assert graph.features.ravel().tolist() == [1, 2, 3]
    assert graph.labels.tolist() == [0, 1, 1]
    assert edge_set(Graph.from_pyg(data, undirected=False)) == {(0, 1), (1, 2)}


def test_pyg_data_leaves_as_directed_edges_from_source_to_target() -> None:
    data = Graph([[0, 2], [1, 1]], [[1.0], [2.0], [3.0]], [0, 1, 0], undirected=False).to_pyg()
    assert data.edge_index.tolist() == [[0, 2], [1, 1]]
    assert data.x.dtype == torch.float32 and data.x.ravel().tolist() == [1, 2, 3]
    assert data.y.tolist() == [0, 1, 0]
    data.validate(raise_on_error=True)


def test_sparse_features_leave_for_pyg_as_dense_ones() -> None:
    assert Graph(NO_EDGES, sp.eye_array(2)).to_pyg().x.tolist() == [[1, 0], [0, 1]]


def test_pyg_data_without_edges_is_a_graph_without_edges() -> None:
    assert Graph.from_pyg(Data(x=torch.ones(2, 1), y=torch.tensor([0, 1]))).num_edges == 0


def test_labels_in_a_single_column_are_accepted() -> None:
    graph = Graph.from_pyg(Data(x=torch.ones(2, 1), y=torch.tensor([[3], [1]])))
    assert graph.labels.tolist() == [3, 1]


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_tensors_become_sparse_features(layout: str) -> None:
    tensor = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    graph = Graph(NO_EDGES, tensor.to_sparse() if layout == "coo" else tensor.to_sparse_csr())
    assert sp.issparse(graph.features)
    assert graph.features.toarray().tolist() == [[0, 2], [0, 0]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.bool])
def test_features_of_any_number_type_become_float32(dtype: torch.dtype) -> None:
    graph = Graph(NO_EDGES, torch.tensor([[1, 0], [0, 1]]).to(dtype))
    assert graph.features.dtype == np.float32
    assert graph.features.tolist() == [[1, 0], [0, 1]]


def test_repeated_entries_of_sparse_features_add_up() -> None:
    repeated = sp.csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2, 2])), shape=(2, 1))
    graph = Graph(NO_EDGES, repeated)
    assert graph.features.toarray().ravel().tolist() == [3, 0]
    assert repeated.nnz == 2, "the caller's matrix was changed"


def test_read_only_features_are_propagated_without_a_warning() -> None:
    features = np.ones((2, 1), dtype=np.float32)
    features.flags.writeable = False
    np.testing.assert_allclose(Graph([[0, 1], [1, 0]], features).propagate(1), [[1], [1]], **FLOAT32)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        ([[1.0], [np.nan]], "features contain 1 NaN or infinite values: replace them before loading"),
        ([[np.inf], [-np.inf]], "features contain 2 NaN or infinite values: replace them before loading"),
        ([[1e300], [0.0]], "features contain 1 NaN or infinite values: replace them before loading"),
        (sp.csr_array([[np.nan], [1.0]]), "features contain 1 NaN or infinite values: replace them before loading"),
        (sp.csr_array([[1e300], [1.0]]), "features contain 1 NaN or infinite values: replace them before loading"),
        (np.zeros((0, 3)), "the graph is empty: its features have shape (0, 3)"),
        (np.zeros((2, 0)), "the graph is empty: its features have shape (2, 0)"),
        (sp.csr_array((0, 3)), "the graph is empty: its features have shape (0, 3)"),
        ([1.0, 2.0], "features must be a table of nodes × features, not 1-dimensional"),
        (np.ones((2, 1, 1)), "features must be a table of nodes × features, not 3-dimensional"),
        ([["a"], ["b"]], "features must be numbers, not <U1"),
        ([[1j], [0j]], "features must be numbers, not complex128"),
        (sp.csr_array([[1j], [0j]]), "features must be numbers, not complex128"),
        ([[1.0], [1.0, 2.0]], "features, edges and labels must be rectangular arrays of numbers"),
    ],
)
def test_unusable_features_are_refused(features: object, sentence: str) -> None:
    with pytest.raises(GraphError) as error:
        Graph(NO_EDGES, features)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("edges", "sentence"),
    [
        ([[0], [7]], "edges name node 7, but nodes are 0 to 1"),
        ([[0], [2]], "edges name node 2, but nodes are 0 to 1"),
        ([[-1], [0]], "edges name node -1, but nodes are 0 to 1"),
        ([[0.0], [1.0]], "edges must be whole numbers, not float64"),
        ([["a"], ["b"]], "edges must be whole numbers, not <U1"),
        ([[0, 1, 0]], "edges must have shape 2 × E (sources, targets), not (1, 3)"),
        (np.ones((3, 2), dtype=int), "edges must have shape 2 × E (sources, targets), not (3, 2)"),
        ([0, 1], "edges must have shape 2 × E (sources, targets), not (2,)"),
        ([[0], [1, 0]], "features, edges and labels must be rectangular arrays of numbers"),
    ],
)
def test_unusable_edges_are_refused(edges: object, sentence: str) -> None:
    with pytest.raises(GraphError) as error:
        Graph(edges, np.ones((2, 1)))
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([0], "there must be one label for each of the 2 nodes, but labels have shape (1,)"),
        ([0, 1, 1], "there must be one label for each of the 2 nodes, but labels have shape (3,)"),
        ([[0, 1], [1, 0]], "there must be one label for each of the 2 nodes, but labels have shape (2, 2)"),
        (0, "there must be one label for each of the 2 nodes, but labels have shape ()"),
        ([0.0, 1.0], "labels must be whole numbers, or text, not float64"),
        ([0, np.nan], "labels must be whole numbers, or text, not float64"),
        (["a", 1], "labels must be whole numbers, or text, not <U21"),
        ([None, None], "labels must be whole numbers, or text, not object"),
        ([True, False], "labels must be whole numbers, or text, not bool"),
        ([-1, -2], "labels must not be negative, except -1 for unknown ones, but -2 occurs"),
        (np.array([0, 2**63], dtype=np.uint64), f"labels must fit into 64 bits with a sign, but {2**63} occurs"),
    ],
)
def test_unusable_labels_are_refused(labels: object, sentence: str) -> None:
    with pytest.raises(GraphError) as error:
        Graph(NO_EDGES, np.ones((2, 1)), labels)
    assert str(error.value) == sentence


def test_pyg_data_without_features_is_refused() -> None:
    with pytest.raises(GraphError, match="the PyG data has no node features"):
        Graph.from_pyg(Data(y=torch.tensor([0])))


def test_pyg_data_without_labels_is_a_graph_to_predict_on() -> None:
    assert Graph.from_pyg(Data(x=torch.ones(2, 1))).labels is None


def test_a_graph_does_not_change_with_the_callers_array() -> None:
    features = np.ones((2, 1), dtype=np.float32)
    graph = Graph([[0], [1]], features, [0, 1])
    features[0] = np.nan
    assert (graph.features == 1).all()


def test_too_few_class_names_are_refused() -> None:
    with pytest.raises(GraphError) as error:
        Graph(NO_EDGES, np.ones((2, 1)), [0, 3], class_names=["cat", "dog"])
    assert str(error.value) == "there are 2 class names but label 3 occurs: give one name for each label from 0 on"


def test_class_names_stay_with_the_graph_and_its_subgraphs() -> None:
    graph = Graph(NO_EDGES, np.ones((2, 1)), [0, 1], class_names=["cat", "dog"])
    assert graph.class_names == ("cat", "dog")
    assert graph.subgraph(np.array([1])).class_names == ("cat", "dog")


def test_hidden_labels_leave_nodes_edges_and_computed_results() -> None:
    graph = Graph([[0], [1]], [[1.0], [2.0]], [0, 1])
    hidden = graph.with_labels(None)
    assert hidden.labels is None
    assert graph.labels.tolist() == [0, 1]
    assert edge_set(hidden) == edge_set(graph)
    assert hidden.propagate(2) is graph.propagate(2)
    assert hidden.to_pyg().y is None


def test_the_representation_counts_nodes_edges_features_and_classes() -> None:
    graph = Graph([[0, 1], [1, 2]], np.ones((3, 4)), [0, 5, 5])
    assert repr(graph) == "Graph(nodes=3, edges=4, features=4, classes=2)"
    assert repr(graph.with_labels(None)) == "Graph(nodes=3, edges=4, features=4, classes=hidden)"


def test_unknown_labels_are_no_class() -> None:
    graph = Graph(NO_EDGES, np.ones((4, 1)), [-1, 2, 0, -1], class_names=["a", "b", "c"])
    assert repr(graph) == "Graph(nodes=4, edges=0, features=1, classes=2)"
    assert graph.labels is not None
    assert graph.labels.tolist() == [-1, 2, 0, -1]
    assert graph.to_pyg().y.tolist() == [-1, 2, 0, -1]
    assert repr(Graph(NO_EDGES, np.ones((1, 1)), [-1], class_names=[])).endswith("classes=0)")


def test_weights_take_part_in_propagation() -> None:
    # S = D^-1/2 (A + I) D^-1/2 with weighted in-degrees 4 and 4: one step spreads 1/4 and 3/4
    graph = Graph([[0], [1]], [[1.0], [0.0]], edge_weight=[3.0])
    assert graph.weighted
    np.testing.assert_allclose(graph.operator().toarray(), [[1 / 4, 3 / 4], [3 / 4, 1 / 4]], rtol=1e-6)
    np.testing.assert_allclose(graph.propagate(1).ravel(), [1 / 4, 3 / 4], rtol=1e-6)


def test_weights_of_one_are_no_weights() -> None:
    edges, features = [[0, 1, 3], [1, 2, 1]], np.eye(4)
    plain, weighted = Graph(edges, features), Graph(edges, features, edge_weight=[1, 1, 1])
    assert np.array_equal(plain.operator().toarray(), weighted.operator().toarray())


@given(raw_graphs())
def test_weighted_propagation_equals_the_dense_computation(raw: tuple[np.ndarray, np.ndarray]) -> None:
    edges, features = raw
    weights = np.random.default_rng(0).random((edges.shape[1],))
    nodes = len(features)
    adjacency = np.zeros((nodes, nodes))
    for (source, target), weight in zip(edges.T, weights, strict=True):
        adjacency[target, source] += weight * (source != target)
    adjacency += np.eye(nodes)
    scale = adjacency.sum(axis=1) ** -0.5
    expected = np.linalg.matrix_power(scale[:, None] * adjacency * scale, 2) @ features
    graph = Graph(edges, features, edge_weight=weights, undirected=False)
    np.testing.assert_allclose(graph.propagate(2), expected, **FLOAT32)


def test_weights_of_repeated_edges_add_up_and_of_two_directions_the_larger_counts() -> None:
    graph = Graph([[0, 0, 1, 2, 2], [1, 1, 0, 1, 0]], np.ones((3, 1)), edge_weight=[1, 2, 5, 0.5, 0])
    assert graph.adjacency.toarray().tolist() == [[0, 5, 0], [5, 0, 0.5], [0, 0.5, 0]]
    directed = Graph([[0, 0, 1], [1, 1, 0]], np.ones((2, 1)), edge_weight=[1, 2, 5], undirected=False)
    assert directed.adjacency.toarray().tolist() == [[0, 5], [3, 0]]
    assert directed.unweighted().adjacency.toarray().tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([-1.0, 1.0], "edge weights must be finite and not negative"),
        ([np.nan, 1.0], "edge weights must be finite and not negative"),
        ([1e39, 1.0], "edge weights must be finite and not negative"),
        ([1.0], "there are 1 edge weights for 2 edges"),
        ([[1.0, 2.0]], "edge weights must be one number for each edge, not of shape (1, 2)"),
        (["a", "b"], "edge weights must be one number for each edge, not of shape (2,)"),
        ([3e38, 3e38], "the weights of repeated edges add up to more than a number can hold: scale them down"),
    ],
)
def test_unusable_weights_are_refused(weights: object, sentence: str) -> None:
    with pytest.raises(GraphError) as error:
        Graph([[0, 0], [1, 1]], np.ones((2, 1)), edge_weight=weights)
    assert str(error.value) == sentence


def test_pyg_weights_are_read_and_attributes_that_nobody_uses_are_refused() -> None:
    parts = {"x": torch.ones(2, 1), "edge_index": torch.tensor([[0], [1]])}
    for weights in ({"edge_weight": torch.tensor([2.0])}, {"edge_attr": torch.tensor([[2.0]])}):
        graph = Graph.from_pyg(Data(**parts, **weights))
        assert graph.adjacency.toarray().tolist() == [[0, 2], [2, 0]]
        assert graph.to_pyg().edge_weight.tolist() == [2, 2]
    with pytest.raises(GraphError, match="3 attributes for each edge, which no network here uses"):
        Graph.from_pyg(Data(**parts, edge_attr=torch.ones(1, 3)))
    with pytest.raises(GraphError, match="has edge_weight and edge_attr"):
        Graph.from_pyg(Data(**parts, edge_attr=torch.ones(1), edge_weight=torch.ones(1)))


def test_masks_arrive_stay_with_subgraphs_and_leave_for_pyg() -> None:
    train = torch.tensor([True, False, False])
    graph = Graph.from_pyg(Data(x=torch.ones(3, 1), y=torch.tensor([0, 1, 1]), train_mask=train, test_mask=~train))
    assert {name: mask.tolist() for name, mask in graph.masks.items()} == {
        "train": [True, False, False],
        "test": [False, True, True],
    }
    assert graph.subgraph(np.array([2, 0])).masks["train"].tolist() == [False, True]
    assert graph.to_pyg().train_mask.tolist() == [True, False, False]
    assert graph.hidden().masks == {} and graph.hidden().labels is None


def test_text_labels_come_back_as_text() -> None:
    graph = Graph(NO_EDGES, np.ones((4, 1)), ["bee", None, "ape", "bee"])
    assert graph.labels is not None and graph.labels.tolist() == [1, -1, 0, 1]
    assert graph.class_names == ("ape", "bee")
    assert graph.user_labels is not None and graph.user_labels.tolist() == ["bee", "", "ape", "bee"]
    named = Graph(NO_EDGES, np.ones((2, 1)), np.array(["bee", ""]), class_names=["cat", "bee"])
    assert named.labels is not None and named.labels.tolist() == [1, -1]
    with pytest.raises(GraphError, match="label 'dog' is not among the class names"):
        Graph(NO_EDGES, np.ones((1, 1)), ["dog"], class_names=["cat"])


def test_graphs_share_a_fingerprint_exactly_if_they_are_equal() -> None:
    edges, features = [[0, 1], [1, 2]], np.arange(3.0)[:, None]
    mask = np.array([True, False, False])
    variants = [
        Graph(edges, features, [0, 0, 1]),
        Graph(edges, features, [0, 0, 1], undirected=False),
        Graph(edges, features, [0, 0, 1], edge_weight=[1, 2]),
        Graph(edges, features, [0, 1, 1]),
        Graph(edges, features + 1, [0, 0, 1]),
        Graph(edges, features, [0, 0, 1], class_names=["a", "b"]),
        Graph(edges, features, ["a", "a", "b"]),
        Graph(edges, features, [0, 0, 1], train_mask=mask),
        Graph(edges, features, [0, 0, 1], val_mask=mask),
        Graph(edges, features),
    ]
    assert len({graph.fingerprint() for graph in variants}) == len(variants)
    assert variants[0].fingerprint() == Graph(edges, features, [0, 0, 1]).fingerprint()
    content = [graph.content_fingerprint() for graph in variants]
    assert len(set(content)) == 4 and {content[0]} == {content[k] for k in (3, 5, 6, 7, 8, 9)}

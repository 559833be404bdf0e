"""Graphs side by side."""

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph, load_graph
from delome.errors import GraphError
from delome.graph import disjoint_union
from delome.streams import Domains


def graph(labels, **options):
    return Graph([[0, 1], [1, 2]], np.arange(3.0)[:, None], labels, **options)


def test_no_edge_joins_two_graphs_and_each_propagates_as_before():
    graphs = [load_graph("synthetic", nodes=30, classes=3, features=4, seed=seed) for seed in range(3)]
    union = disjoint_union(graphs)
    assert union.attributes["node_domain"].tolist() == [0] * 30 + [1] * 30 + [2] * 30
    np.testing.assert_array_equal(union.propagate(2), np.concatenate([each.propagate(2) for each in graphs]))
    for number, each in enumerate(graphs):
        own = union.subgraph(np.arange(30 * number, 30 * number + 30))
        assert own.fingerprint() == each.fingerprint()


def test_directions_weights_and_sparse_features_stay():
    features = sp.csr_array(np.eye(3, dtype=np.float32))
    directed = Graph([[0], [1]], features, [0, 1, 1], edge_weight=[2.0], undirected=False)
    union = disjoint_union([directed, directed])
    assert union.weighted and not union.undirected and union.num_edges == 2
    assert union.adjacency.toarray()[4, 3] == 2.0 and sp.issparse(union.features)


def test_equal_labels_are_the_same_class_also_as_text():
    assert disjoint_union([graph([0, 1, -1]), graph([1, 2, 2])]).user_labels.tolist() == [0, 1, -1, 1, 2, 2]
    union = disjoint_union([graph(["b", "a", None]), graph(["c", "b", "b"])])
    assert union.class_names == ("a", "b", "c") and union.user_labels.tolist() == ["b", "a", "", "c", "b", "b"]
    assert union.labels.tolist() == [1, 0, -1, 2, 1, 1]


def test_what_not_every_graph_has_is_left_out():
    mask = [True, False, False]
    both = graph([0, 1, 1], train_mask=mask, node_attributes={"node_year": [1, 2, 3]})
    union = disjoint_union([both, graph(None)])
    assert union.labels is None and union.masks == {} and union.attributes.keys() == {"node_domain"}
    twice = disjoint_union([both, both])
    assert twice.masks["train"].tolist() == mask * 2 and twice.attributes["node_year"].tolist() == [1, 2, 3] * 2


@pytest.mark.parametrize(
    ("graphs", "sentence"),
    [
        ([], "a union needs at least one graph"),
        ([graph([0, 1, 1]), Graph([[0], [1]], np.ones((2, 3)), [0, 1])], r"must agree in num_features, .* \[1, 3\]"),
        ([graph([0, 1, 1]), graph([0, 1, 1], undirected=False)], "must agree in undirected"),
        ([graph([0, 1, 1]), graph(["a", "b", "b"])], "must all be numbers, or all be text"),
        ([graph([0, 1, 1], class_names=["a", "b"]), graph([0, 1, 1], class_names=["b", "a"])], "name their classes"),
    ],
)
def test_what_does_not_fit_is_refused(graphs, sentence):
    with pytest.raises(GraphError, match=sentence):
        disjoint_union(graphs)


def test_graphs_are_the_domains_of_their_union():
    graphs = [load_graph("synthetic", nodes=40, classes=2, features=4, seed=seed) for seed in range(2)]
    stream = Domains()(disjoint_union(graphs))
    assert [sorted(task.nodes.tolist()) for task in stream] == [list(range(40)), list(range(40, 80))]
    assert list(stream.names) == ["node_domain 0", "node_domain 1"]

import math

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph
from delome.errors import GraphError
from delome.graph.statistics import GraphStatistics


def test_counts_of_a_small_graph():
    features = sp.csr_array(np.array([[1.0, 0], [0, 0], [0, 2], [3, 4], [0, 0]]))
    found = GraphStatistics.of(Graph([[0, 1, 2], [1, 2, 3]], features, [5, 5, 5, 7, 7], undirected=False))
    assert found == GraphStatistics(
        nodes=5,
        edges=3,
        undirected=False,
        features=2,
        sparse=True,
        density=0.4,
        isolated=1,
        homophily=2 / 3,
        class_sizes={5: 3, 7: 2},
    )


def test_a_symmetric_graph_is_undirected_and_equal_degrees_are_not_enough():
    ring = [[0, 1, 2], [1, 2, 0]]
    assert not GraphStatistics.of(Graph(ring, np.ones((3, 1)), [0, 0, 1], undirected=False)).undirected
    assert GraphStatistics.of(Graph(ring, np.ones((3, 1)), [0, 0, 1], undirected=True)).undirected


def test_without_edges_there_is_no_homophily():
    found = GraphStatistics.of(Graph(np.zeros((2, 0), int), np.ones((3, 1)), [0, 0, 1]))
    assert math.isnan(found.homophily) and found.isolated == 3


def test_hidden_labels_are_refused():
    with pytest.raises(GraphError, match="graph with labels"):
        GraphStatistics.of(Graph.edgeless(np.ones((2, 1), np.float32)))


def test_unknown_labels_are_no_class_and_tell_nothing_about_homophily():
    path = Graph([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]], np.ones((6, 1)), [0, 0, -1, -1, 1, 0])
    found = GraphStatistics.of(path)
    assert found.class_sizes == {0: 3, 1: 1} and found.nodes == 6
    assert found.homophily == 1 / 2, "of the edges 0–1 and 4–5"
    nothing = GraphStatistics.of(Graph([[0], [1]], np.ones((2, 1)), [0, -1]))
    assert math.isnan(nothing.homophily)

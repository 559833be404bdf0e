from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from delome.datasets.sources import digits
from delome.errors import DatasetError


def test_every_image_is_a_node_with_its_pixels_and_its_digit() -> None:
    graph = digits.load()
    images, labels = load_digits(return_X_y=True)
    assert graph.num_nodes == 1797
    np.testing.assert_allclose(graph.features, images / 16, atol=1e-7)
    assert graph.labels is not None and np.array_equal(graph.labels, labels)
    assert graph.class_names == tuple("0123456789")


def test_every_image_is_joined_to_its_nearest_images_in_both_directions() -> None:
    graph = digits.load(neighbours=3)
    adjacency = graph.adjacency.toarray()
    assert np.array_equal(adjacency, adjacency.T)
    for image in (0, 500, 1796):
        distance = ((graph.features - graph.features[image]) ** 2).sum(axis=1)
        distance[image] = np.inf
        assert adjacency[image, np.argsort(distance)[:3]].all()


@pytest.mark.parametrize("neighbours", [1, 8])
def test_the_number_of_neighbours_is_the_smallest_degree(neighbours: int) -> None:
    degree = np.diff(digits.load(neighbours=neighbours).adjacency.indptr)
    assert degree.min() == neighbours


def test_most_edges_join_images_of_the_same_digit() -> None:
    graph = digits.load()
    edges = graph.adjacency.tocoo()
    assert graph.labels is not None
    assert (graph.labels[edges.row] == graph.labels[edges.col]).mean() > 0.9


def test_the_graph_is_the_same_every_time() -> None:
    first, second = digits.load(), digits.load()
    assert np.array_equal(first.features, second.features)
    assert (first.adjacency != second.adjacency).nnz == 0


@pytest.mark.parametrize("neighbours", [0, -1, 1797])
def test_an_impossible_number_of_neighbours_is_refused(neighbours: int) -> None:
    with pytest.raises(DatasetError, match="neighbours"):
        digits.load(neighbours=neighbours)

import numpy as np
import pytest

from delome.graph.sparse import to_dense
from delome.memories import MEMORIES, Centroids


@pytest.mark.parametrize("kind", ["raw", "propagated"])
def test_rows_are_those_of_distinct_training_nodes_of_the_class(build, toy_stream, kind):
    task = toy_stream[0]
    memory = build(MEMORIES[kind](budget=6), task)
    features = task.graph.features if kind == "raw" else task.graph.propagate(2)
    found = []
    for row, label in zip(memory.graph.features, memory.labels, strict=True):
        (node,) = np.flatnonzero((features == row).all(axis=1))
        assert node in task.train
        assert task.graph.labels[node] == label
        found.append(node)
    assert len(set(found)) == 12


def test_centroids_are_means_of_their_nearest_rows(build, toy_stream):
    task = toy_stream[0]
    memory = build(Centroids(budget=3), task)
    rows = task.graph.propagate(2)[task.train[task.graph.labels[task.train] == 0]]
    centroids = memory.graph.features[memory.labels == 0]
    nearest = np.linalg.norm(rows[:, None] - centroids[None], axis=2).argmin(axis=1)
    for number, centroid in enumerate(centroids):
        np.testing.assert_allclose(centroid, rows[nearest == number].mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("kind", ["raw", "propagated", "kmeans"])
def test_sparse_features_are_remembered_too(build, sparse_stream, kind):
    memory = build(MEMORIES[kind](budget=6), sparse_stream[0])
    assert to_dense(memory.graph.features).shape == (12, 300)
    assert np.isfinite(to_dense(memory.graph.features)).all()
    assert np.bincount(memory.labels).tolist() == [6, 6]

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph, Prototypes


def test_scores_are_cosines_with_mean_directions():
    # no edges: rows are the features themselves
    learner = Prototypes(temperature=0.5)
    learner.observe(Graph(np.zeros((2, 0), int), [[3.0, 4.0], [0.0, 2.0], [5.0, 0.0]], [7, 7, 9]))
    # class 7: mean of (0.6, 0.8) and (0, 1); class 9: (1, 0)
    mean = np.array([0.3, 0.9])
    asked = np.array([1.0, 1.0])
    cosine = asked @ mean / np.linalg.norm(asked) / np.linalg.norm(mean)
    found = learner.scores(Graph(np.zeros((2, 0), int), [asked]))
    np.testing.assert_allclose(found, [[cosine / 0.5, np.sqrt(0.5) / 0.5]], rtol=1e-6)


def test_rows_are_propagated(toy_stream):
    learner = Prototypes()
    learner.observe(toy_stream[0])
    task = toy_stream[0]
    rows = task.graph.propagate(2)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    labels = task.graph.labels
    means = [units[task.train][labels[task.train] == column].mean(axis=0) for column in (0, 1)]
    np.testing.assert_allclose(learner.known_means.means.numpy().T, means, rtol=1e-4, atol=1e-6)


def test_a_class_that_comes_in_parts_has_the_mean_of_all(toy_graph):
    whole, parts = Prototypes(), Prototypes()
    whole.observe(toy_graph)
    for k in range(3):
        parts.observe(toy_graph.with_labels(np.where(np.arange(240) % 3 == k, toy_graph.labels, -1)))
    np.testing.assert_allclose(parts.known_means.means, whole.known_means.means, rtol=1e-4, atol=1e-6)
    assert (parts.predict(toy_graph) == whole.predict(toy_graph)).all()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_node_without_any_feature_has_equal_scores(form):
    learner = Prototypes()
    learner.observe(Graph([[], []], form(np.eye(3, dtype=np.float32)), [0, 1, 1]))
    assert learner.scores(Graph([[], []], form(np.zeros((1, 3), dtype=np.float32)))).tolist() == [[0.0, 0.0]]

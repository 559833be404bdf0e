import numpy as np
import pytest
import torch

from delome import SLDA, Graph, TaskStream
from delome.errors import StateError
from delome.learning.class_means import ClassMeans
from delome.methods.slda import discriminants
from delome.testing.subject import same_state


def features_of(learner, graph, nodes):
    return torch.cat(list(learner.random_features(graph.propagate(2), nodes))).double()


def test_discriminants_are_those_of_equal_covariances():
    means = torch.tensor([[1.0, -1.0], [0.0, 2.0]])
    covariance = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
    weights, biases = discriminants(means, covariance, 0.2)
    shrunk = 0.8 * covariance + 0.2 * 1.5 * torch.eye(2)
    for c in range(2):
        expected = torch.linalg.inv(shrunk) @ means[:, c]
        torch.testing.assert_close(weights[:, c], expected)
        torch.testing.assert_close(biases[c], -means[:, c] @ expected / 2)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_means_and_covariance_are_those_of_all_rows_however_they_come(toy_graph, order):
    """Three graphs in which every class is labelled anew, in any order: the same as all rows at once."""
    learner = SLDA(features=24)
    parts = [np.arange(240) % 3 == k for k in order]
    for part in parts:
        learner.observe(toy_graph.with_labels(np.where(part, toy_graph.labels, -1)))
    scatter = torch.zeros(24, 24, dtype=torch.float64)
    for column in range(6):
        rows = features_of(learner, toy_graph, np.flatnonzero(toy_graph.labels == column))
        torch.testing.assert_close(
            learner.known_means.means[:, column].double(), rows.mean(dim=0), rtol=1e-4, atol=1e-5
        )
        scatter += (rows - rows.mean(dim=0)).T @ (rows - rows.mean(dim=0))
    assert learner.known_means.counts == [40] * 6
    torch.testing.assert_close(learner.scatter.double(), scatter, rtol=1e-3, atol=1e-3)


def test_the_order_of_tasks_does_not_matter(toy_graph):
    streams = TaskStream(toy_graph), TaskStream(toy_graph, class_order=[4, 5, 2, 3, 0, 1])
    learners = [SLDA(features=32) for _ in streams]
    for learner, stream in zip(learners, streams, strict=True):
        for task in stream:
            learner.observe(task)
    torch.testing.assert_close(learners[0].scatter, learners[1].scatter, rtol=1e-4, atol=1e-3)
    assert (learners[0].predict(toy_graph) == learners[1].predict(toy_graph)).mean() > 0.99


def test_shrinking_to_the_end_compares_distances_to_means(toy_stream):
    learner = SLDA(features=32, shrinkage=1.0)
    learner.observe(toy_stream[0])
    rows = features_of(learner, toy_stream[0].graph, np.arange(80))
    means = learner.known_means.means.double()
    nearest = torch.cdist(rows, means.T).argmin(dim=1)
    assert (learner.predict(toy_stream[0].graph) == nearest.numpy()).all()


def test_a_single_node_of_each_class_is_enough():
    learner = SLDA(features=16)
    learner.observe(Graph([[0], [1]], [[1.0, 0.0], [0.0, 1.0]], [3, 8], undirected=False))
    assert learner.predict(Graph([[], []], [[2.0, 0.1], [0.1, 2.0]])).tolist() == [3, 8]


def test_a_state_without_a_covariance_is_refused(toy_stream):
    learner = SLDA(features=8)
    learner.observe(toy_stream[0])
    state = learner.state()
    state.tensors["scatter"] = -1000 * torch.ones_like(state.tensors["scatter"])
    with pytest.raises(StateError, match="its 'scatter' is no covariance"):
        SLDA(features=8).load_state(state)


def test_means_of_a_class_that_returns_are_exact_and_leave_saved_ones_alone():
    means = ClassMeans(2, torch.device("cpu"))
    means.add(0, torch.tensor([2.0, 4.0]), 2)
    before = means.means
    step, count = means.add(0, torch.tensor([9.0, 0.0]), 1)
    assert (step.tolist(), count) == ([8.0, -2.0], 2)
    torch.testing.assert_close(means.means[:, 0], torch.tensor([11 / 3, 4 / 3]))
    assert before[:, 0].tolist() == [1.0, 2.0]


def test_the_same_seed_gives_the_same_bits(toy_stream):
    learners = [SLDA(features=16, seed=2) for _ in range(2)]
    for learner in learners:
        learner.observe(toy_stream[0])
    assert same_state(learners[0].state(), learners[1].state())

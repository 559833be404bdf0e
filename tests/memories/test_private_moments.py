import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from delome import CaT, Graph, Replay, TaskStream
from delome.errors import BudgetError, ParameterError
from delome.memories import PrivateMeans, PrivateMoments
from delome.memories.private_moments import LENGTH_SHARE, SHARES, random_directions
from delome.release.gaussian import epsilon_of, mu_of


def test_shares_of_all_that_is_released_add_up():
    assert sum(SHARES) + LENGTH_SHARE == pytest.approx(1)


def test_without_noise_rows_have_the_mean_and_length_of_their_class(toy_stream, build):
    task = toy_stream[0]
    memory = build(PrivateMoments(budget=7, epsilon="inf"), task)
    rows = task.graph.features[task.train].astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    length = np.minimum(lengths, 4.0).mean()  # √16 features
    for column in task.classes:
        units = (rows / lengths[:, None])[task.graph.labels[task.train] == column]
        found = memory.graph.features[memory.labels == column]
        np.testing.assert_allclose(found.mean(axis=0), length * units.mean(axis=0), rtol=1e-3, atol=1e-4)
    assert np.bincount(memory.labels).tolist() == [7, 7]


def test_without_noise_rows_spread_as_asked(toy_stream, build):
    task = toy_stream[0]
    rows = task.graph.features[task.train].astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units, labels = rows / lengths, task.graph.labels[task.train]
    within = sum(np.cov(units[labels == c].T, bias=True) * (labels == c).mean() for c in task.classes)
    memory = build(PrivateMoments(budget=4000, epsilon="inf", spread=0.5), task)
    found = memory.graph.features[memory.labels == 0] / np.minimum(lengths, 4.0).mean()
    np.testing.assert_allclose(np.cov(found.T), 0.25 * within, atol=0.1 * 0.25 * np.trace(within) / 16)


def test_the_baseline_is_the_mean_many_times(toy_stream, build):
    memory = build(PrivateMeans(budget=5, noise="seed"), toy_stream[0])
    for column in toy_stream[0].classes:
        rows = memory.graph.features[memory.labels == column]
        assert (rows == rows[0]).all()


def test_neither_edges_nor_unlabelled_nodes_take_part(toy_graph, build):
    task = TaskStream(toy_graph)[0]
    alone = task.graph.subgraph(task.train)
    learner, other = (Replay(memory=PrivateMoments(budget=3, noise="seed"), epochs=1) for _ in range(2))
    learner.observe(task)
    other.observe(Graph([[], []], alone.features, alone.labels))
    assert np.array_equal(learner.bank.memories[0].graph.features, other.bank.memories[0].graph.features)


def test_the_size_of_a_class_is_not_given_away(toy_graph):
    # three nodes of one class, and as many rows as ever; what is stored is a noisy count
    few = toy_graph.subgraph(np.flatnonzero((toy_graph.labels != 1) | (np.arange(240) % 40 < 5)))
    counts = set()
    for seed in range(4):
        learner = Replay(memory=PrivateMoments(budget=2, noise="seed", epsilon=1.0), epochs=1, seed=seed)
        learner.observe(TaskStream(few)[0])
        (memory,) = learner.bank.memories
        assert np.bincount(memory.labels).tolist() == [2, 2]
        counts.add(memory.stands_for[0])
        again = Replay(memory=PrivateMoments(budget=2, noise="seed", epsilon=1.0), epochs=1, seed=seed)
        again.load_state(learner.state())
        assert again.bank.memories[0].stands_for == memory.stands_for
    assert len(counts) > 1


def test_a_class_that_comes_again_is_accounted_for(toy_graph):
    learner = Replay(memory=PrivateMoments(budget=2, epsilon=1.0, epsilon_total=1.6), epochs=1)
    part = toy_graph.with_labels(np.where(toy_graph.labels < 2, toy_graph.labels, -1))
    other = toy_graph.with_labels(np.where(toy_graph.labels == 3, 3, -1))
    for graph in (part, other, part):
        learner.observe(graph)
    twice = epsilon_of(math.sqrt(2) * mu_of(1.0, 1e-5), 1e-5)
    assert learner.report() == {"epsilon": [pytest.approx(twice)]}
    with pytest.raises(BudgetError, match=r"above epsilon_total = 1\.6"):
        learner.observe(part)
    assert len(learner.bank) == 3


def test_noise_is_secret_unless_asked_otherwise(toy_stream, build):
    first, second = (build(PrivateMoments(budget=2), toy_stream[0]).graph.features for _ in range(2))
    assert not np.array_equal(first, second)
    same = [build(PrivateMoments(budget=2, noise="seed"), toy_stream[0]).graph.features for _ in range(2)]
    assert np.array_equal(*same)


def test_a_network_that_sees_memories_alone_depends_on_nothing_else(toy_graph):
    # two graphs with the same released moments are the same to it: nodes in another order, other edges
    task = TaskStream(toy_graph)[0]
    alone = task.graph.subgraph(task.train)
    networks = []
    for graph in (alone, Graph([[0, 1, 2], [1, 2, 3]], alone.features, alone.labels)):
        learner = CaT(memory=PrivateMoments(budget=3, noise="seed"), epochs=3, hidden=8)
        learner.observe(graph)
        networks.append([each.detach().clone() for each in learner.network.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*networks, strict=True))


def test_long_rows_are_cut_at_a_public_length(sparse_stream, build):
    rows = build(PrivateMeans(budget=1, epsilon="inf", longest=0.5), sparse_stream[0]).graph.features
    assert np.linalg.norm(rows, axis=1).max() <= 0.5
    assert not sp.issparse(rows)


def test_the_length_of_rows_has_the_noise_of_its_share():
    features = np.array([[3.0, 4.0], [0.0, 30.0]])  # of lengths 5 and 30, cut at 10: shares ½ and 1
    builder, mu = PrivateMoments(longest=10.0), 0.8
    for rows in (features, sp.csr_array(features)):
        assert builder._length(rows, math.inf, 4.0, 9.0) == pytest.approx(10 * 1.5 / 4)
        noisy = 10 * (1.5 + 0.5 / (mu * math.sqrt(LENGTH_SHARE))) / 4
        assert builder._length(rows, mu, 4.0, 0.5) == pytest.approx(noisy)


def test_few_rows_spread_as_much_as_many():
    rng, one = np.random.default_rng(0), np.eye(1)
    drawn = np.array([PrivateMoments(budget=2)._deviations(2 * one, one, rng).ravel() for _ in range(4000)])
    assert np.abs(drawn.sum(axis=1)).max() < 1e-12
    assert drawn.var() == pytest.approx(4, rel=0.1)


def test_directions_are_orthonormal_and_public():
    first = random_directions(9, 4)
    np.testing.assert_allclose(first.T @ first, np.eye(4), atol=1e-12)
    assert np.array_equal(first, random_directions(9, 4))


def test_an_impossible_delta_is_refused():
    with pytest.raises(ParameterError, match="delta must be less than 1, not 2"):
        PrivateMoments(delta=2.0)

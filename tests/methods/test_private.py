import math

import numpy as np
import pytest
import torch

from delome import Graph, Private, TaskStream
from delome.errors import BudgetError, ParameterError, StateError
from delome.graph.sparse import to_dense
from delome.methods.private import SHARES, ClassMoments, Discriminant, averaging_operator
from delome.release.gaussian import epsilon_of, mu_of
from delome.release.moments import exact_moments, noise_radius
from delome.release.rows import unit_rows


def learned(stream, **parameters):
    learner = Private(**{"features": 12, "noise": "seed"} | parameters)
    for task in stream:
        learner.observe(task)
    return learner


def moments_of(rows, labels):
    classes = len(np.unique(labels))
    exact = exact_moments(rows, labels, range(classes))
    moments = ClassMoments(rows.shape[1], classes)
    moments.sums[:], moments.counts[:], moments.second[:] = exact.sums, exact.counts, exact.second
    return moments


def test_without_noise_it_is_linear_discriminant_analysis():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [40, 60, 30])
    rows = unit_rows(rng.standard_normal((130, 5)) + 2 * rng.standard_normal((3, 5))[labels])
    found = Discriminant(moments_of(rows, labels), np.zeros(3), 0.0)
    means = [rows[labels == c].mean(axis=0) for c in range(3)]
    within = sum(np.cov(rows[labels == c].T, bias=True) * (labels == c).sum() for c in range(3)) / 130
    inverse = np.linalg.inv(within)
    expected = [[q @ inverse @ m - m @ inverse @ m / 2 for m in means] for q in rows[:7]]
    np.testing.assert_allclose(found.scores(rows[:7]), expected, rtol=1e-3)


def test_means_are_shrunk_by_what_noise_explains():
    # two classes of 10 rows at ±1 on one axis of 2, and noise of variance 20 in their sums
    rows = np.array([[1.0, 0.0]] * 10 + [[-1.0, 0.0]] * 10)
    moments = moments_of(rows, np.repeat([0, 1], 10))
    plain, noisy = Discriminant(moments, np.zeros(2), 0.0), Discriminant(moments, np.full(2, 20.0), 0.0)
    # kept: 1 - (20 / 10²) / ((1² + 0²) / 2) = 0.6; within: diag(0 + (20/10 + 20/10) / 20) = 0.2 instead of the floor
    np.testing.assert_allclose(noisy.weights, np.array([[3.0, -3.0], [0.0, 0.0]]), atol=1e-9)
    np.testing.assert_allclose(noisy.bias, [-0.5 * 0.6**2 / 0.2] * 2)
    assert plain.weights[0, 0] == pytest.approx(1 / 1e-9)


def test_eigenvalues_below_half_the_noise_are_raised():
    rows = np.array([[1.0, 0.0]] * 10 + [[-1.0, 0.0]] * 10)
    found = Discriminant(moments_of(rows, np.repeat([0, 1], 10)), np.zeros(2), radius=8.0)
    np.testing.assert_allclose(found.weights[0], [1 / 0.2, -1 / 0.2])  # ½ · 8 / 20 rows


def test_a_node_is_the_mean_of_itself_and_its_neighbours():
    graph = Graph([[0, 1], [1, 2]], np.eye(3), undirected=True)
    np.testing.assert_allclose(to_dense(averaging_operator(graph)), [[1 / 2] * 2 + [0], [1 / 3] * 3, [0, 1 / 2, 1 / 2]])
    weighted = Graph([[0], [1]], np.eye(2), edge_weight=[3.0])
    np.testing.assert_allclose(to_dense(averaging_operator(weighted)), [[1 / 4, 3 / 4], [3 / 4, 1 / 4]])


def test_queries_are_averaged_over_the_graph_that_is_asked_about(toy_stream):
    graph = toy_stream[0].graph
    learner = learned(toy_stream[:1], hops=2)
    operator = to_dense(averaging_operator(graph))
    expected = operator @ operator @ unit_rows(graph.features, learner.projection)
    np.testing.assert_allclose(learner.inputs(graph, np.arange(5)), expected[:5], atol=1e-6)


def test_learning_uses_no_edges_and_no_other_nodes(toy_graph):
    task = TaskStream(toy_graph)[0]
    alone = task.graph.subgraph(task.train)
    bare = Graph([[], []], alone.features, alone.labels)
    learner, other = Private(noise="seed", features=8), Private(noise="seed", features=8)
    learner.observe(task)
    other.observe(bare)
    assert all(torch.equal(tensor, other.state().tensors[name]) for name, tensor in learner.state().tensors.items())


def test_all_that_one_node_changes_is_the_noisy_moments(toy_graph):
    # no count, fingerprint or other number of the state tells whether a node was there
    graph = toy_graph.with_labels(np.where(toy_graph.labels < 2, toy_graph.labels, -1))
    without = graph.subgraph(np.arange(1, graph.num_nodes))
    first, second = (learned([each]).state() for each in (graph, without))
    assert first.values == second.values
    assert first.tensors.keys() == {"sums", "counts", "second"}
    assert all(not torch.equal(tensor, second.tensors[name]) for name, tensor in first.tensors.items())


def test_noise_is_secret_unless_asked_otherwise(toy_stream):
    first, second = (learned(toy_stream[:1], noise="secret", seed=3).state().tensors for _ in range(2))
    assert not torch.equal(first["counts"], second["counts"])
    assert Private().noise == "secret"


def test_without_noise_the_sums_are_exact(toy_stream):
    learner = learned(toy_stream, epsilon="inf")
    task = toy_stream[1]
    rows = unit_rows(task.graph.features, learner.projection)
    nodes = task.train[task.graph.labels[task.train] == 2]
    np.testing.assert_allclose(learner.moments.sums[2], rows[nodes].sum(axis=0), rtol=1e-4, atol=1e-5)
    assert learner.moments.counts.tolist() == [24.0] * 6
    assert learner.privacy()["epsilon"] == "inf"
    assert learner.report() == {}


def test_less_privacy_is_less_noise(toy_stream):
    exact = learned(toy_stream, epsilon="inf").moments.sums
    errors = [np.abs(learned(toy_stream, epsilon=each).moments.sums - exact).mean() for each in (8.0, 4.0, 1.0)]
    assert errors == sorted(errors)
    ratio = mu_of(8.0, 1e-5) / mu_of(1.0, 1e-5)
    assert errors[2] / errors[0] == pytest.approx(ratio, rel=1e-3)  # the same noise of the seed, scaled


def test_a_class_that_comes_again_is_accounted_for_and_refused_beyond_the_budget(toy_graph):
    def part(*classes):
        return toy_graph.with_labels(np.where(np.isin(toy_graph.labels, classes), toy_graph.labels, -1))

    learner = Private(epsilon=1.0, epsilon_total=1.5, features=8)
    for classes in ((0, 1), (2, 3), (1, 4)):
        learner.observe(part(*classes))
    twice = epsilon_of(math.sqrt(2) * mu_of(1.0, 1e-5), 1e-5)
    assert learner.privacy()["epsilon"] == pytest.approx(twice)
    assert learner.report()["epsilon"] == [pytest.approx(twice)]
    before = learner.state()
    with pytest.raises(BudgetError, match=r"above epsilon_total = 1\.5"):
        learner.observe(part(1, 5))
    assert learner.state().values == before.values
    learner.observe(part(4))  # twice as well
    assert len(learner.privacy()["releases"]) == 4


def test_the_head_knows_the_noise_of_every_release(toy_graph):
    learner = Private(epsilon=2.0, features=8, noise="seed")
    for classes in ((0, 1), (1, 2), (1,)):
        learner.observe(toy_graph.with_labels(np.where(np.isin(toy_graph.labels, classes), toy_graph.labels, -1)))
    deviations = SHARES.deviations(mu_of(2.0, 1e-5))
    variances = deviations.sums**2 * np.array([1, 3, 1])
    expected = Discriminant(learner.moments, variances, noise_radius(deviations.second, 8, 3))
    np.testing.assert_allclose(learner.discriminant.weights, expected.weights)


def test_what_was_spent_comes_from_the_state_not_from_parameters(toy_stream):
    spent = learned(toy_stream[:1], epsilon=8.0)
    other = Private(epsilon=1.0, features=12, noise="seed")
    other.load_state(spent.state())
    assert other.privacy()["epsilon"] == pytest.approx(8.0)


def test_a_state_whose_account_was_changed_is_refused(toy_stream):
    state = learned(toy_stream[:1], epsilon=8.0).state()
    state.values["privacy"] = state.values["privacy"] | {"epsilon": 1.0}
    with pytest.raises(StateError, match="'privacy' does not add up"):
        Private(features=12).load_state(state)


def test_an_impossible_delta_is_refused():
    with pytest.raises(ParameterError, match="delta must be less than 1, not 1"):
        Private(delta=1.0)
    with pytest.raises(ParameterError, match="epsilon must be greater than 0"):
        Private(epsilon=0.0)

import subprocess
import sys

import numpy as np
import pytest
import torch

from delome import Analytic, Graph, TaskStream
from delome.errors import ParameterError, StateError
from delome.learning.random_features import automatic_features
from delome.methods.analytic import ROUNDING_MARGIN, RidgeStatistics, spectral_norm

CPU = torch.device("cpu")


class Double(Analytic):
    """The learner in double precision, nothing rounded."""

    dtype = torch.float64


def observe_all(learner, stream):
    for task in stream:
        learner.observe(task)
    return learner


def joint_ridge(rows: torch.Tensor, labels: torch.Tensor, classes: int, ridge: float) -> torch.Tensor:
    """Weighted ridge regression on one-hot targets, every class with total weight 1, solved in one go."""
    targets = torch.nn.functional.one_hot(labels, classes).double()
    weight = (1 / torch.bincount(labels, minlength=classes).double())[labels]
    moment = rows.T @ (weight[:, None] * rows)
    gamma = ridge * moment.trace() / len(rows)
    return torch.linalg.solve(moment + gamma * torch.eye(len(moment)), rows.T @ (weight[:, None] * targets))


@pytest.mark.parametrize("chunk", [3, 10_000])
def test_weights_equal_joint_class_balanced_ridge(toy_stream, monkeypatch, chunk):
    monkeypatch.setattr("delome.learning.random_features.CHUNK_ROWS", chunk)
    learner = observe_all(Double(features=32), toy_stream)
    rows, labels = [], []
    for task in toy_stream:
        rows += list(learner.random_features(task.graph.propagate(2), task.train))
        labels.append(torch.from_numpy(task.graph.labels[task.train]))
    expected = joint_ridge(torch.cat(rows), torch.cat(labels), 6, learner.ridge)
    torch.testing.assert_close(learner.weights, expected, atol=1e-8, rtol=1e-8)


def test_the_order_of_tasks_does_not_matter(toy_graph):
    # without edges, so that the rows themselves are the same to the bit in both streams
    graph = Graph([], toy_graph.features, toy_graph.labels)
    order = [4, 5, 0, 1, 3, 2]
    in_order = observe_all(Double(features=32), TaskStream(graph))
    shuffled = observe_all(Double(features=32), TaskStream(graph, class_order=order))
    torch.testing.assert_close(shuffled.weights, in_order.weights[:, order], atol=1e-8, rtol=1e-8)


def test_random_features_have_the_stated_form(toy_stream):
    learner = Double(features=32)
    learner.observe(toy_stream[0])
    graph = toy_stream[0].graph
    (got,) = learner.random_features(graph.propagate(2), np.array([3, 4]))
    projected = torch.from_numpy(graph.propagate(2)[[3, 4]]).double() @ learner.projection.double()
    expected = (32**0.5 * projected / projected.norm(dim=1, keepdim=True)).relu()
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_statistics_of_two_classes_have_hand_computed_values():
    statistics = RidgeStatistics(2, torch.float64, CPU)
    statistics.add(0, iter([torch.tensor([[0.0, 2.0]]).double(), torch.tensor([[2.0, 2.0]]).double()]))
    statistics.add(1, iter([torch.tensor([[1.0, 0.0]]).double()]))
    assert statistics.means.tolist() == [[1, 1], [2, 0]]
    assert statistics.scatter.tolist() == [[1, 0], [0, 0]]
    assert statistics.rows == 3
    # A = scatter + M Mᵀ = [[3, 2], [2, 4]], tr(A) / rows = 7/3
    moment = torch.tensor([[3.0, 2.0], [2.0, 4.0]], dtype=torch.float64) + 0.3 * 7 / 3 * torch.eye(2)
    torch.testing.assert_close(statistics.solve(0.3), torch.linalg.solve(moment, statistics.means))


def test_a_strong_ridge_shrinks_the_weights_to_zero(toy_stream):
    weak, strong = (observe_all(Double(features=32, ridge=ridge), toy_stream) for ridge in (0.3, 1e9))
    assert strong.weights.abs().max() < 1e-5 * weak.weights.abs().max()


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_all_tasks_are_learned(toy_stream, setting):
    assert np.mean(observe_all(Analytic(features=256, setting=setting), toy_stream).evaluate(toy_stream)) > 95


def test_one_regression_per_task_forgets_nothing(toy_stream):
    learner = Analytic(features=64, setting="til", per_task=True)
    after = []
    for task in toy_stream:
        learner.observe(task)
        after.append(learner.predict(task.graph, task=task.index))
    for task, before in zip(toy_stream, after, strict=True):
        assert (learner.predict(task.graph, task=task.index) == before).all()


def test_state_has_the_stated_size_and_no_row_of_data(toy_stream):
    learner = observe_all(Analytic(features=64), toy_stream)
    state = learner.state()
    assert sorted((name, tuple(tensor.shape), tensor.dtype) for name, tensor in state.tensors.items()) == [
        ("means", (64, 6), torch.float16),
        ("rounding", (), torch.float64),
        ("scatter", (64 * 65 // 2,), torch.float16),
    ]
    assert learner.storage().bytes == 2 * (64 * 6 + 64 * 65 // 2)
    assert learner.storage().rows == 0


def test_half_precision_of_the_statistics_does_not_change_predictions(toy_stream):
    single, double = (observe_all(kind(features=256), toy_stream) for kind in (Analytic, Double))
    for task in toy_stream:
        agreement = single.predict(task.graph) == double.predict(task.graph)
        assert agreement.mean() > 0.99


def test_automatic_features_grow_with_the_number_of_classes(toy_stream):
    assert [automatic_features(classes) for classes in (1, 40, 41, 70, 82, 10_000)] == [
        2048,
        2048,
        4096,
        4096,
        8192,
        8192,
    ]
    learner = Analytic()
    learner.observe(toy_stream[0])
    assert len(learner.statistics.scatter) == 2048


def test_a_graph_of_another_width_is_refused(toy_stream):
    learner = Analytic(features=8)
    learner.observe(toy_stream[0])
    with pytest.raises(Exception, match="trained on 16 features, but the graph has 2"):
        learner.predict(Graph([[0], [1]], np.ones((3, 2)), [0, 0, 1]))


@pytest.mark.slow
def test_8192_features_fit_in_two_gigabytes_because_rows_come_in_chunks():
    script = """
import re
from delome import Analytic, TaskStream, load_graph
stream = TaskStream(load_graph("synthetic", nodes=20_000, classes=2, features=50, noise=3))
learner = Analytic(features=8192)
learner.observe(stream[0])
assert len(stream[0].train) > 2 * 4096
assert learner.evaluate(stream)[0] > 90
learner.state()
# not ru_maxrss: a new process starts with the peak of the one that started it
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 2e9


def rows_of(rng, count, mean=0.0, width=3):
    return mean + rng.normal(size=(count, width))


def added(*portions):
    """Statistics after (column, rows) have come one after the other."""
    statistics = RidgeStatistics(portions[0][1].shape[1], torch.float64, CPU)
    for column, rows in portions:
        statistics.add(column, iter(torch.from_numpy(rows).split(2)))
    return statistics


def test_more_rows_of_a_known_class_are_merged_by_the_stated_formula():
    rng = np.random.default_rng(0)
    first, second, more = rows_of(rng, 7), rows_of(rng, 4, mean=2), rows_of(rng, 5, mean=-1)
    statistics = added((0, first), (1, second), (0, more))
    scatter = np.cov(first.T, bias=True) + np.cov(second.T, bias=True)
    step = more.mean(axis=0) - first.mean(axis=0)
    scatter = scatter + 5 / 12 * (np.cov(more.T, bias=True) - scatter / 2) + 7 * 5 / 12**2 * np.outer(step, step)
    np.testing.assert_allclose(statistics.scatter.numpy(), scatter, atol=1e-12)
    means = np.stack([np.concatenate([first, more]).mean(axis=0), second.mean(axis=0)], axis=1)
    np.testing.assert_allclose(statistics.means.numpy(), means, atol=1e-12)
    assert statistics.counts == [12, 4] and statistics.rows == 16


def test_merging_is_exact_where_the_classes_have_one_covariance():
    rng = np.random.default_rng(0)
    first = rows_of(rng, 6)
    second = first + np.array([5.0, -3.0, 1.0])
    more = rows_of(rng, 4, mean=1)
    statistics = added((0, first), (1, second), (1, more))
    rows = torch.from_numpy(np.concatenate([first, second, more]))
    labels = torch.tensor([0] * 6 + [1] * 10)
    torch.testing.assert_close(statistics.solve(0.3), joint_ridge(rows, labels, 2, 0.3), atol=1e-8, rtol=1e-6)


def test_a_single_class_may_come_in_any_portions():
    rng = np.random.default_rng(0)
    rows = rows_of(rng, 9)
    whole, portions = added((0, rows)), added((0, rows[:1]), (0, rows[1:2]), (0, rows[2:7]), (0, rows[7:]))
    torch.testing.assert_close(portions.scatter, whole.scatter, atol=1e-12, rtol=0)
    torch.testing.assert_close(portions.means, whole.means, atol=1e-12, rtol=0)
    assert portions.counts == whole.counts == [9]


def only(graph, *classes):
    return graph.with_labels(np.where(np.isin(graph.labels, classes), graph.labels, -1))


def test_columns_of_the_statistics_are_those_of_the_learner(toy_graph):
    learner = Double(features=16)
    for classes in ((5, 3), (4, 3)):
        learner.observe(only(toy_graph, *classes))
    assert learner.classes == [3, 5, 4]
    assert learner.statistics.counts == [80, 40, 40]
    (rows,) = learner.random_features(toy_graph.propagate(2), np.flatnonzero(toy_graph.labels == 5))
    torch.testing.assert_close(learner.statistics.means[:, 1], rows.mean(dim=0), atol=1e-12, rtol=0)


def test_each_task_has_its_own_regression_also_for_classes_they_share(toy_graph):
    graphs = [only(toy_graph, 0, 1), only(toy_graph, 1, 2, 4), only(toy_graph, 0, 4)]
    make = lambda: Analytic(features=64, setting="til", per_task=True)  # noqa: E731
    learner = make()
    after = []
    for task, graph in enumerate(graphs):
        learner.observe(graph)
        after.append(learner.predict(graph, task=task))
    for task, graph in enumerate(graphs):
        alone = make()
        alone.observe(graph)
        assert (learner.predict(graph, task=task) == after[task]).all()
        assert (alone.predict(graph, task=0) == after[task]).all()
    resumed = make()
    resumed.load_state(learner.state())
    assert (resumed.predict(graphs[1], task=1) == after[1]).all()


def test_a_class_is_not_taken_in_twice_when_learning_is_interrupted(toy_graph, monkeypatch):
    learner, undisturbed = Analytic(features=16), Analytic(features=16)
    for each in (learner, undisturbed):
        each.observe(only(toy_graph, 0, 1))
    with monkeypatch.context() as patched:
        patched.setattr(RidgeStatistics, "solve", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            learner.observe(only(toy_graph, 1, 2))
    for each in (learner, undisturbed):
        each.observe(only(toy_graph, 1, 2))
    assert learner.statistics.counts == [40, 80, 40]
    assert torch.equal(learner.weights, undisturbed.weights)


def many_rows(count, classes=2):
    """Many rows of three features: their random features have a covariance of low rank."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % classes
    return Graph([], rng.normal(size=(count, 3)) + 2 * np.eye(classes, 3)[labels], labels)


@pytest.mark.parametrize(("rows", "features"), [(100_000, 128), pytest.param(200_000, 512, marks=pytest.mark.slow)])
def test_rounding_does_not_keep_many_rows_from_being_solved(rows, features):
    graph = many_rows(rows)
    learner = Analytic(features=features)
    learner.observe(graph)
    (strength,) = learner.report()["ridge"]
    assert 0.3 < strength < 10
    # the best that is possible is 92.1 %
    assert (learner.predict(graph) == graph.labels).mean() > 0.91
    resumed = Analytic(features=features)
    resumed.load_state(learner.state())
    assert torch.equal(resumed.weights, learner.weights) and resumed.report() == learner.report()


def test_rounding_changes_nothing_on_an_ordinary_graph(toy_stream, monkeypatch):
    learner = observe_all(Analytic(features=256), toy_stream)
    assert learner.report() == {"ridge": [0.3]}
    assert learner.statistics.rounding > 0
    monkeypatch.setattr("delome.methods.analytic.spectral_norm", lambda *_: 0.0)
    assert torch.equal(observe_all(Analytic(features=256), toy_stream).weights, learner.weights)


def test_nothing_is_reported_before_anything_is_learned():
    assert Analytic().report() == {}


@pytest.mark.parametrize("tasks", [1, 12, 60])
def test_what_rounding_has_changed_is_known(tasks):
    rng, width = np.random.default_rng(0), 128
    projection = rng.normal(size=(3, width))
    rounded, exact = (RidgeStatistics(width, torch.float32, CPU) for _ in range(2))
    for task in range(tasks):
        # every class comes three times, with other rows
        projected = (rng.normal(size=(2000, 3)) + rng.normal(size=3)) @ projection
        rows = torch.from_numpy(projected.clip(min=0).astype(np.float32))
        for statistics in (rounded, exact):
            statistics.add(task // 3, iter([rows]))
        rounded.round_to_half(np.random.default_rng(task))
        exact.means = exact.means.half().float()  # which leaves a scatter positive
    error = torch.linalg.matrix_norm(exact.scatter - rounded.scatter, 2).item()
    assert error <= rounded.rounding <= 1.1 * ROUNDING_MARGIN * error
    # which makes up for what it has taken from the smallest eigenvalues
    assert torch.linalg.eigvalsh(rounded.scatter.double())[0] + rounded.rounding > 0


@pytest.mark.parametrize("seed", range(5))
def test_the_spectral_norm_of_rounding_errors_is_found(seed):
    rng = np.random.default_rng(seed)
    matrix = torch.from_numpy(rng.gamma(1.0, size=(200, 200)).astype(np.float32))
    matrix = matrix + matrix.T
    errors = matrix - matrix.half().float()
    norm = torch.linalg.matrix_norm(errors, 2).item()
    assert 0.85 * norm <= spectral_norm(errors, rng) <= norm * (1 + 1e-6)


def test_the_norm_of_no_errors_is_zero():
    assert spectral_norm(torch.zeros(3, 3), np.random.default_rng(0)) == 0


def test_a_ridge_that_is_too_small_is_told_with_one_that_is_not():
    # a matrix with the eigenvalue -1, as no rows have it but sums in single precision may
    statistics = RidgeStatistics(4, torch.float32, CPU)
    statistics.scatter = torch.diag(torch.tensor([-1.0, 3.0, 5.0, 9.0]))
    statistics.means, statistics.counts = torch.ones(4, 1), [2000]
    with pytest.raises(ParameterError, match=r"ridge 0.3 is too small for 4 random features of 2000 rows") as error:
        statistics.solve(0.3)
    suggested = float(str(error.value).split("try ridge=")[1].split(",")[0])
    assert 50 < suggested < 200
    assert statistics.solve(suggested).isfinite().all()


def test_the_leverage_is_the_mean_diagonal_of_the_hat_matrix():
    rng = np.random.default_rng(0)
    portions = [(column, rows_of(rng, 40, mean=column, width=30)) for column in range(3)]
    statistics = added(*portions)
    rows = torch.from_numpy(np.concatenate([rows for _, rows in portions]))
    moment = rows.T @ rows / 40
    gamma = 0.3 * moment.trace() / 120
    hat = rows @ torch.linalg.solve(moment + gamma * torch.eye(30), rows.T) / 40
    assert statistics.leverage(0.3, rng) == pytest.approx(hat.diagonal().mean().item(), rel=0.05)


def test_a_graph_with_other_features_is_refused_and_changes_nothing():
    learner = Analytic(features=16)
    learner.observe(Graph([[0, 1], [1, 2]], np.eye(4, 5), [0, 0, 1, 1]))
    before = learner.state()
    with pytest.raises(StateError, match="the learner was trained on 5 features, but the graph has 4"):
        learner.observe(Graph([[0, 1], [1, 2]], np.eye(4), [2, 2, 3, 3]))
    assert learner.state().values == before.values and learner.classes == [0, 1]

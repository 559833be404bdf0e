import numpy as np
import pytest
import torch
from torch.nn import functional

from delome import Graph, TaskStream
from delome.columns import LabelColumns
from delome.memory.gradient_matching import GradientMatching, Stacked, class_gradients, gradient_distance
from delome.sparse import to_dense
from delome.tracking import Tracker

CPU = torch.device("cpu")


def network(features: int, hidden: int, classes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(features, hidden, generator=generator, dtype=torch.float64) * features**-0.5
    second = torch.randn(hidden, classes, generator=generator, dtype=torch.float64) * hidden**-0.5
    return first, second


def doubles(rows: int, features: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("loss", ["ce", "nll"])
def test_closed_form_gradients_equal_automatic_differentiation(loss):
    parts = [doubles(7, 6, 0), doubles(3, 6, 1)]
    targets = torch.tensor([2, 0])
    first, second = network(6, 10, 4, 2)
    got_first, got_second = class_gradients(Stacked.of(parts, CPU), first, second, targets, loss)
    for position, (rows, target) in enumerate(zip(parts, targets.tolist(), strict=True)):
        weights = [first.clone().requires_grad_(), second.clone().requires_grad_()]
        logits = (rows @ weights[0]).relu() @ weights[1]
        labels = torch.full((len(rows),), target)
        value = functional.cross_entropy(logits, labels) if loss == "ce" else functional.nll_loss(logits, labels)
        expected = torch.autograd.grad(value, weights)
        torch.testing.assert_close(got_first[position], expected[0], atol=1e-6, rtol=0)
        torch.testing.assert_close(got_second[position], expected[1], atol=1e-6, rtol=0)


@pytest.mark.parametrize("loss", ["ce", "nll"])
def test_gradient_of_the_distance_equals_double_back_propagation(loss):
    real, learned = [doubles(9, 6, 3)], doubles(4, 6, 4).requires_grad_()
    target = torch.tensor([1])
    first, second = network(6, 10, 4, 5)
    wanted = class_gradients(Stacked.of(real, CPU), first, second, target, loss)
    reached = class_gradients(Stacked.of([learned], CPU), first, second, target, loss)
    (gradient,) = torch.autograd.grad(gradient_distance(wanted, reached).sum(), learned)

    weights = [first.clone().requires_grad_(), second.clone().requires_grad_()]

    def parameter_gradients(rows):
        logits, labels = (rows @ weights[0]).relu() @ weights[1], torch.full((len(rows),), 1)
        value = functional.cross_entropy(logits, labels) if loss == "ce" else functional.nll_loss(logits, labels)
        return torch.autograd.grad(value, weights, create_graph=True)

    distance = sum(
        (a - b).square().sum() for a, b in zip(parameter_gradients(real[0]), parameter_gradients(learned), strict=True)
    )
    (expected,) = torch.autograd.grad(distance, learned)
    torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("loss", ["ce", "nll"])
def test_distance_is_zero_when_the_memory_is_the_data_in_any_order(loss):
    rows = doubles(8, 6, 0)
    first, second = network(6, 10, 3, 1)
    gradients = [
        class_gradients(Stacked.of([part], CPU), first, second, torch.tensor([1]), loss)
        for part in (rows, rows.flip(0))
    ]
    assert gradient_distance(*gradients).item() == pytest.approx(0, abs=1e-20)


def test_classes_of_different_size_do_not_disturb_each_other():
    small, large = doubles(2, 6, 0), doubles(9, 6, 1)
    first, second = network(6, 10, 3, 2)
    both = class_gradients(Stacked.of([small, large], CPU), first, second, torch.tensor([0, 2]), "ce")
    alone = class_gradients(Stacked.of([small], CPU), first, second, torch.tensor([0]), "ce")
    torch.testing.assert_close(both[0][:1], alone[0])
    torch.testing.assert_close(both[1][:1], alone[1])


def build(task, **options):
    observation = task.observation()
    builder = GradientMatching(**{"budget": 6, "networks": 30, "hidden": 32, "lr": 1e-2} | options)
    columns = LabelColumns("cil", [task.classes])
    return builder.build(observation, columns, np.random.default_rng(0), Tracker())


@pytest.mark.parametrize("initial", ["raw", "propagated", "noise", "mixture"])
@pytest.mark.parametrize("loss", ["ce", "nll"])
def test_distance_decreases_on_networks_that_were_not_used(toy_stream, initial, loss):
    task = toy_stream[0]
    start = build(task, initial=initial, loss=loss, networks=1, lr=1e-12)
    learned = build(task, initial=initial, loss=loss, networks=100)
    propagated = torch.from_numpy(np.asarray(task.graph.propagate(2)))[task.train]
    labels = task.graph.labels[task.train]
    distances = []
    for memory in (start, learned):
        total = 0.0
        for seed in range(10):
            first, second = (weight.float() for weight in network(propagated.shape[1], 32, 2, seed))
            gradients = [
                class_gradients(
                    Stacked.of([rows[torch.from_numpy(owners == column)] for column in task.classes], CPU),
                    first,
                    second,
                    torch.tensor([0, 1]),
                    loss,
                )
                for rows, owners in (
                    (propagated, labels),
                    (torch.from_numpy(memory.graph.features), memory.labels),
                )
            ]
            total += gradient_distance(*gradients).sum().item()
        distances.append(total)
    assert distances[1] < 0.5 * distances[0]


def test_memory_has_budget_rows_per_class_or_all_there_are(toy_stream):
    task = toy_stream[0]
    train_per_class = np.bincount(task.graph.labels[task.train])
    assert np.bincount(build(task, budget=6).labels).tolist() == [6, 6]
    assert np.bincount(build(task, budget=10_000).labels).tolist() == train_per_class.tolist()


def test_memory_starts_from_distinct_training_nodes_of_its_class(toy_stream):
    task = toy_stream[0]
    memory = build(task, initial="raw", networks=1, lr=1e-12)
    features, train = task.graph.features, task.train
    for row, label in zip(memory.graph.features, memory.labels, strict=True):
        nearest = train[np.abs(features[train] - row).sum(axis=1).argmin()]
        np.testing.assert_allclose(features[nearest], row, atol=1e-6)
        assert task.graph.labels[nearest] == label
    assert len(np.unique(memory.graph.features, axis=0)) == 12


def test_noise_starts_from_nobodys_row(toy_stream):
    task = toy_stream[0]
    memory = build(task, initial="noise", networks=1, lr=1e-12)
    for features in (task.graph.features, task.graph.propagate(2)):
        distances = np.linalg.norm(features[None] - memory.graph.features[:, None], axis=2)
        assert distances.min() > 1e-3


def test_columns_that_no_node_uses_stay_zero(sparse_stream):
    task = sparse_stream[0]
    memory = build(task)
    used = task.graph.features.toarray().any(axis=0)
    assert not used.all()
    features = to_dense(memory.graph.features)
    assert (features[:, ~used] == 0).all()
    assert (features[:, used] != 0).any()


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_networks_are_drawn_like_the_backbone_for_all_columns_that_compete(sparse_stream, monkeypatch, setting):
    drawn = []

    def draw_only(self, real, start, targets, draw_network, rng, tracker):
        drawn.append((targets.tolist(), *draw_network(), *draw_network()))
        return start

    monkeypatch.setattr(GradientMatching, "match", draw_only)
    task = sparse_stream[1]
    columns = LabelColumns(setting, [sparse_stream[0].classes, task.classes])
    GradientMatching(budget=2, hidden=32).build(task.observation(), columns, np.random.default_rng(0), Tracker())
    ((targets, first, second, other_first, other_second),) = drawn
    assert targets == ([0, 1] if setting == "til" else [2, 3])
    used = len(np.unique(task.graph.features.indices))
    assert first.shape == (used, 32) and second.shape == (32, 2 if setting == "til" else 4)
    # columns that no node uses are left out, but count for the scale
    for weights, other, fan_in in ((first, other_first, 300), (second, other_second, 32)):
        assert 0.9 * fan_in**-0.5 < weights.abs().max() <= fan_in**-0.5
        assert not torch.equal(weights, other)


@pytest.mark.parametrize("sizes", [(200, 200), (200, 3)])
def test_every_network_is_shown_other_random_rows_of_a_large_class(monkeypatch, sizes):
    # rows of a class point in one of four directions: no two rows stand for all of them
    labels = np.repeat([0, 1], sizes)
    features = np.eye(8, dtype=np.float32)[4 * labels + np.arange(len(labels)) % 4]
    (task,) = TaskStream(Graph(np.zeros((2, 0), int), features, labels))
    options = {"budget": 4, "networks": 300, "initial": "noise", "lr": 0.02}
    whole = build(task, **options).report["relative_loss"]
    monkeypatch.setattr("delome.memory.gradient_matching.REAL_BATCH", 2)
    in_batches = build(task, **options).report["relative_loss"]
    assert max(whole) < 0.02
    assert max(in_batches) < 0.2  # twice that if rows are always the same

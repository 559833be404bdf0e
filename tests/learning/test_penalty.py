import numpy as np
import pytest
import torch

from delome import FineTune
from delome.learning.penalty import PenaltyTraining
from delome.learning.training import Schedule
from delome.methods import EWC, MAS, TWP
from delome.progress import Tracker


def weights(learner):
    return [parameter.detach().clone() for parameter in learner.network.parameters()]


def training_of(learner, task) -> PenaltyTraining:
    """The training of a task, as it is begun."""
    observation = task.observation()
    return learner.begin(observation, learner.examples(observation), Tracker())


def after_tasks(learner, stream, count):
    for task in list(stream)[:count]:
        learner.observe(task)
    return learner


@pytest.mark.parametrize("method", [EWC, MAS])
@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("batch_size", [2000, 20])
def test_without_strength_it_is_fine_tune_to_the_bit(toy_stream, method, setting, batch_size):
    common = {"epochs": 5, "hidden": 16, "setting": setting, "batch_size": batch_size}
    plain = after_tasks(FineTune(**common), toy_stream, 3)
    penalised = after_tasks(method(strength=0.0, **common), toy_stream, 3)
    for a, b in zip(weights(plain), weights(penalised), strict=True):
        assert torch.equal(a, b)


def test_two_tensors_stand_for_the_sum_over_three_tasks(toy_stream):
    learner = EWC(epochs=5, hidden=8, strength=100.0)
    optima, fishers = [], []
    for task in toy_stream:
        before = [u.clone() for u in learner.importance]
        learner.observe(task)
        optima.append(weights(learner))
        fishers.append(
            [u - v for u, v in zip(learner.importance, before or [torch.tensor(0), torch.tensor(0)], strict=True)]
        )
    moved = [(weight + 0.1).requires_grad_() for weight in weights(learner)]
    naive = sum(
        (f * (p - o).square()).sum()
        for optimum, fisher in zip(optima, fishers, strict=True)
        for p, o, f in zip(moved, optimum, fisher, strict=True)
    )
    expected = torch.autograd.grad(naive, moved)
    for p, u, v, slope in zip(moved, learner.importance, learner.anchor, expected, strict=True):
        torch.testing.assert_close(2 * (u * p - v), slope, atol=1e-5, rtol=1e-3)


def test_ewc_importance_is_strength_times_the_squared_gradient_of_the_task_loss(toy_stream):
    learner = EWC(epochs=5, hidden=8, strength=7.0)
    learner.observe(toy_stream[0])
    training = training_of(learner, toy_stream[0])
    loss = training.task_loss(training.examples)
    for gradient, u in zip(
        torch.autograd.grad(loss, list(learner.network.parameters())), learner.importance, strict=True
    ):
        torch.testing.assert_close(u, 7.0 * gradient.square())


def test_ewc_importance_is_a_mean_over_batches_of_squared_gradients(toy_stream, monkeypatch):
    monkeypatch.setattr("delome.learning.penalty.IMPORTANCE_BATCH", 20)
    learner = EWC(epochs=2, hidden=8, strength=1.0)
    learner.observe(toy_stream[0])
    training = training_of(learner, toy_stream[0])
    batches = list(Schedule(20, 0, 0).one_pass(training.examples, learner.epochs))
    assert len(batches) == 3
    parameters = list(learner.network.parameters())
    squares = [[g.square() for g in torch.autograd.grad(training.task_loss(b), parameters)] for b in batches]
    for u, parts in zip(learner.importance, zip(*squares, strict=True), strict=True):
        torch.testing.assert_close(u, sum(parts) / 3)


def test_ewc_importance_of_columns_never_used_is_zero(toy_stream):
    learner = after_tasks(EWC(epochs=5, hidden=8), toy_stream, 2)
    assert (learner.importance[1][:, 4:] == 0).all()
    assert (learner.importance[1][:, :4] > 0).any()


@pytest.mark.parametrize("method", [EWC, MAS])
def test_at_the_optimum_the_penalty_pulls_nowhere(toy_stream, method):
    learner = method(epochs=5, hidden=8)
    learner.observe(toy_stream[0])
    for p, u, v in zip(weights(learner), learner.importance, learner.anchor, strict=True):
        torch.testing.assert_close(u * p, v)


def test_mas_importance_is_a_mean_weighted_by_training_nodes(toy_stream):
    learner = MAS(epochs=5, hidden=8, strength=1.0)
    learner.observe(toy_stream[0])
    first = [u.clone() for u in learner.importance]
    learner.observe(toy_stream[1])
    n, m = len(toy_stream[0].train), len(toy_stream[1].train)
    assert learner.rows_seen == n + m
    value = learner.squared_output(learner.examples(toy_stream[1].observation()))
    for u, old, slope in zip(
        learner.importance, first, torch.autograd.grad(value, list(learner.network.parameters())), strict=True
    ):
        torch.testing.assert_close(u, (n * old + m * slope.square()) / (n + m))


def test_mas_merges_2_of_10_rows_with_5_of_30_to_4_25(toy_stream, monkeypatch):
    learner = MAS(epochs=1, hidden=8, strength=1.0)
    learner.observe(toy_stream[0])
    learner.importance = [torch.full_like(u, 2.0) for u in learner.importance]
    learner.rows_seen = 10
    training = training_of(learner, toy_stream[0])
    monkeypatch.setattr(training, "squared_gradients", lambda _: [torch.full_like(u, 5.0) for u in learner.importance])
    training.examples = training.examples.select(np.arange(30))
    learner.remember(training)
    assert all((u == 4.25).all() for u in learner.importance)


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_mas_uses_only_columns_a_row_may_use(toy_stream, setting):
    learner = after_tasks(MAS(epochs=2, hidden=8, setting=setting), toy_stream, 2)
    examples = learner.examples(toy_stream[1].observation())
    logits = learner.network(examples.inputs)
    used = logits[:, 2:4] if setting == "til" else logits[:, :4]
    torch.testing.assert_close(learner.squared_output(examples), used.square().mean())


@pytest.mark.parametrize("method", [EWC, MAS])
def test_a_strong_penalty_keeps_important_parameters_where_they_were(toy_stream, method):
    moved = []
    for strength in (0.0, 1e6):
        learner = method(epochs=10, hidden=16, setting="til", strength=strength)
        learner.observe(toy_stream[0])
        optimum = weights(learner)
        judge = method(epochs=10, hidden=16, setting="til", strength=1.0)
        judge.observe(toy_stream[0])
        learner.observe(toy_stream[1])
        change = zip(judge.importance, weights(learner), optimum, strict=True)
        moved.append(sum((u * (now - then).square()).sum().item() for u, now, then in change))
    assert moved[1] < 0.1 * moved[0]


@pytest.mark.parametrize("method", [EWC, MAS, TWP])
@pytest.mark.parametrize("backbone", ["sgc", "gat"])
def test_new_columns_have_no_importance_and_old_ones_keep_theirs(toy_graph, method, backbone):
    learner = method(epochs=2, hidden=8, backbone=backbone)
    learner.observe(toy_graph.with_labels(np.where(toy_graph.labels < 2, toy_graph.labels, -1)))
    before = [*learner.importance, *learner.anchor]
    learner.grow(5)
    parameters = [*learner.network.parameters()] * 2
    assert any((old != 0).any() for old in before)
    for old, new, parameter in zip(before, [*learner.importance, *learner.anchor], parameters, strict=True):
        assert new.shape == parameter.shape
        assert torch.equal(new[..., : old.shape[-1]], old)
        assert (new[..., old.shape[-1] :] == 0).all()

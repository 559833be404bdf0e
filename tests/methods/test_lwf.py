import numpy as np
import pytest
import torch

from delome import FineTune
from delome.backbones.two_layers import TwoLayerNetwork
from delome.methods import LwF
from delome.methods.lwf import distillation


def network_of(learner: LwF) -> TwoLayerNetwork:
    assert isinstance(learner.network, TwoLayerNetwork)
    return learner.network


def test_a_student_equal_to_its_teacher_has_the_hand_computed_loss_and_no_gradient():
    logits = torch.tensor([[2.0, 0.0]], requires_grad=True)
    loss = distillation(logits, logits.detach(), 2.0)
    loss.backward()
    assert loss.item() == pytest.approx(0.582203, abs=1e-6)
    assert logits.grad.abs().max() < 1e-7


def test_a_constant_added_to_a_row_changes_nothing():
    generator = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(4, 3, generator=generator), torch.randn(4, 3, generator=generator)
    torch.testing.assert_close(distillation(logits + 5, targets - 3, 2.0), distillation(logits, targets, 2.0))


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("batch_size", [2000, 20])
def test_without_strength_and_with_the_usual_start_it_is_fine_tune_to_the_bit(toy_stream, setting, batch_size):
    common = {"epochs": 5, "hidden": 16, "setting": setting, "batch_size": batch_size}
    learners = [FineTune(**common), LwF(strength=0.0, kaiming_init=False, **common)]
    for learner in learners:
        for task in toy_stream:
            learner.observe(task)
    for a, b in zip(*(learner.network.parameters() for learner in learners), strict=True):
        assert torch.equal(a, b)


def test_weights_start_normal_with_std_one_over_root_fan_in(toy_stream):
    learner = LwF(hidden=256)
    learner.reset(400, 64)
    assert network_of(learner).first.std().item() == pytest.approx(400**-0.5, rel=0.02)
    assert network_of(learner).second.std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert network_of(learner).first.abs().max() > 2 * 400**-0.5


def naive_distillation(student, teacher, temperature):
    """Row by row, class by class."""
    total = 0.0
    for z, taught in zip(student, teacher, strict=True):
        shares = torch.exp(taught / temperature) / torch.exp(taught / temperature).sum()
        logs = z / temperature - torch.log(torch.exp(z / temperature).sum())
        total = total - sum(share * log for share, log in zip(shares, logs, strict=True))
    return total / len(student)


@pytest.mark.parametrize(("setting", "slices"), [("cil", [slice(0, 4)]), ("til", [slice(0, 2), slice(2, 4)])])
@pytest.mark.parametrize("epochs", [1, 3])
def test_a_step_minimises_the_current_loss_plus_strength_times_the_distillation_of_old_columns(
    uneven_stream, last_step, snapshot, balanced, setting, slices, epochs
):
    learner = LwF(epochs=epochs, hidden=8, lr=0.1, weight_decay=0.0, setting=setting, strength=3.0, temperature=1.5)
    for task in uneven_stream[:2]:
        learner.observe(task)
    teacher, task = snapshot(learner), uneven_stream[2]
    taught = teacher.logits(task.graph, task.train).detach()
    step = last_step(learner, task)
    logits, labels = step.train_logits(task)
    current = balanced(logits[:, 4:], labels - 4) if setting == "til" else balanced(logits, labels)
    distilled = [3 * naive_distillation(logits[:, columns], taught[:, columns], 1.5) for columns in slices]
    if epochs == 1:  # the student is its teacher still: nothing pulls
        assert step.distance(step.gradient(current)) < 1e-3
    else:
        step.assert_minimises(current, *distilled)


def test_drawn_rows_are_distilled_as_all_of_them_are_on_average():
    generator = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(5, 3, generator=generator), torch.randn(5, 3, generator=generator)
    # four rows of one class, of which one is drawn, and the only row of another
    drawn = [[row, 4] for row in range(4)]
    found = [distillation(logits[rows], targets[rows], 2.0, torch.tensor([4.0, 1.0])) for rows in drawn]
    torch.testing.assert_close(torch.stack(found).mean(), naive_distillation(logits, targets, 2.0))


def test_a_step_on_drawn_rows_weighs_each_by_the_rows_it_stands_for(uneven_stream, monkeypatch):
    learner = LwF(epochs=1, hidden=8, batch_size=5)
    learner.observe(uneven_stream[0])
    seen = []

    def record(logits, targets, temperature, weights=None):
        seen.append(weights)
        return distillation(logits, targets, temperature, weights)

    monkeypatch.setattr("delome.methods.lwf.distillation", record)
    learner.observe(uneven_stream[1])
    (weights,) = seen
    assert len(weights.unique()) == 2 and weights.sum().item() == pytest.approx(len(uneven_stream[1].train))


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_columns_of_old_tasks_are_distilled_and_future_ones_are_not(uneven_stream, last_step, setting):
    learner = LwF(epochs=3, hidden=8, weight_decay=0.0, setting=setting, strength=3.0)
    learner.observe(uneven_stream[0])
    slope = last_step(learner, uneven_stream[1]).taken["second"]
    assert (slope[:, :4] != 0).any(dim=0).all()
    assert (slope[:, 4:] == 0).all()


def test_the_teacher_is_the_network_of_the_last_task_and_does_not_move(toy_stream):
    learner = LwF(epochs=3, hidden=8)
    learner.observe(toy_stream[0])
    before = [parameter.clone() for parameter in learner.teacher.parameters()]
    for a, b in zip(before, learner.network.parameters(), strict=True):
        assert torch.equal(a, b)
    teacher = learner.teacher
    learner.observe(toy_stream[1])
    for a, b in zip(before, teacher.parameters(), strict=True):
        assert torch.equal(a, b)


def labelled(graph, *classes):
    return graph.with_labels(np.where(np.isin(graph.labels, classes), graph.labels, -1))


@pytest.mark.parametrize(("setting", "widths"), [("cil", [3]), ("til", [2, 2])])
def test_a_column_that_several_old_tasks_share_is_distilled_once_in_a_term(toy_graph, monkeypatch, setting, widths):
    learner = LwF(epochs=1, hidden=8, setting=setting)
    learner.observe(labelled(toy_graph, 0, 1))
    learner.observe(labelled(toy_graph, 1, 2))
    seen = []

    def record(logits, targets, temperature, weights):
        seen.append(logits.shape[1])
        assert targets.shape == logits.shape
        return distillation(logits, targets, temperature, weights)

    monkeypatch.setattr("delome.methods.lwf.distillation", record)
    learner.observe(labelled(toy_graph, 0, 3))
    assert seen == widths


def test_new_columns_start_normal_as_the_first_ones_do(toy_graph):
    learner = LwF(hidden=256, epochs=1)
    learner.observe(labelled(toy_graph, 0, 1))
    old = network_of(learner).second.detach().clone()
    learner.grow(102)
    assert torch.equal(network_of(learner).second[:, :2], old)
    new = network_of(learner).second[:, 2:]
    assert new.std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert new.abs().max() > 2 * 256**-0.5


def test_with_the_usual_start_new_columns_start_as_those_of_fine_tune(toy_graph):
    common = {"epochs": 2, "hidden": 8}
    learners = [FineTune(**common), LwF(strength=0.0, kaiming_init=False, **common)]
    for learner in learners:
        learner.observe(labelled(toy_graph, 0, 1))
        learner.observe(labelled(toy_graph, 1, 2))
    for a, b in zip(*(learner.network.parameters() for learner in learners), strict=True):
        assert torch.equal(a, b)


def test_a_teacher_with_fewer_columns_than_the_network_is_restored_as_it_was(toy_graph):
    learner, resumed = LwF(epochs=2, hidden=8), LwF(epochs=2, hidden=8)
    learner.observe(labelled(toy_graph, 0, 1))
    learner.grow(4)
    resumed.load_state(learner.state())
    assert resumed.teacher.second.shape == (8, 2) and resumed.network.second.shape == (8, 4)
    for each in (learner, resumed):
        each.observe(labelled(toy_graph, 1, 2))
    for a, b in zip(learner.network.parameters(), resumed.network.parameters(), strict=True):
        assert torch.equal(a, b)

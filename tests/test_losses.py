import math

import pytest
import torch
from torch.nn import functional

from delome.losses import Balanced, Debiased, Plain
from delome.streams.columns import LabelColumns


def one_group(labels):
    return torch.zeros_like(labels)


def test_balanced_loss_is_log_2_on_zero_logits_and_pulls_neither_class():
    labels = torch.tensor([0] * 9 + [1])
    shift = torch.zeros(1, requires_grad=True)
    logits = torch.stack([torch.zeros(10) + shift, torch.zeros(10)], dim=1)
    loss = Balanced()(logits, labels, one_group(labels), torch.ones(2))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2), abs=1e-6)
    assert shift.grad.item() == pytest.approx(0, abs=1e-7)


def test_plain_loss_pulls_towards_the_larger_class():
    labels = torch.tensor([0] * 9 + [1])
    shift = torch.zeros(1, requires_grad=True)
    logits = torch.stack([torch.zeros(10) + shift, torch.zeros(10)], dim=1)
    Plain()(logits, labels, one_group(labels), torch.ones(2)).backward()
    assert shift.grad.item() == pytest.approx(-0.4, abs=1e-6)


def test_balanced_loss_is_the_weighted_cross_entropy_of_torch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(30, 4, generator=generator)
    labels = torch.tensor([0] * 15 + [1] * 10 + [3] * 5)
    weights = 1 / torch.bincount(labels, minlength=4).clamp(min=1)
    expected = functional.cross_entropy(logits, labels, weight=weights)
    torch.testing.assert_close(Balanced()(logits, labels, one_group(labels), torch.ones(4)), expected)


def test_balanced_loss_does_not_change_when_a_class_is_duplicated():
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(6, 2, generator=generator), torch.tensor([0, 0, 0, 1, 1, 1])
    once = Balanced()(logits, labels, one_group(labels), torch.ones(2))
    doubled, twice = torch.cat([logits, logits[3:]]), torch.cat([labels, labels[3:]])
    torch.testing.assert_close(Balanced()(doubled, twice, one_group(twice), torch.ones(2)), once)


def test_a_loss_is_the_sum_over_groups():
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(8, 3, generator=generator), torch.tensor([0, 1, 1, 2, 0, 0, 2, 2])
    groups = torch.tensor([0, 0, 0, 0, 2, 2, 2, 2])
    for loss in (Plain(), Balanced(), Debiased()):
        counts = torch.tensor([3, 2, 9])
        first = loss(logits[:4], labels[:4], one_group(labels[:4]), counts)
        second = loss(logits[4:], labels[4:], one_group(labels[4:]), counts)
        torch.testing.assert_close(loss(logits, labels, groups, counts), first + second)


COUNTS = torch.tensor([2, 2, 6, 10])


def test_adjustment_is_the_log_frequency():
    expected = torch.tensor([-2.302585, -2.302585, -1.203973, -0.693147])
    torch.testing.assert_close(Debiased().adjustment(COUNTS), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("setting", "label", "task", "expected"),
    [("cil", 2, 1, 1.203973), ("cil", 0, 0, 2.302585), ("til", 2, 1, 0.980829), ("til", 0, 0, 0.693147)],
)
def test_debiased_loss_of_zero_logits_has_the_hand_computed_value(setting, label, task, expected):
    columns = LabelColumns(setting, [(0, 1), (2, 3)])
    logits = columns.restrict(torch.zeros(1, 6), torch.tensor([task]))
    loss = Debiased()(logits, torch.tensor([label]), torch.tensor([task]), COUNTS)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_without_strength_or_without_imbalance_debiased_is_plain():
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(5, 4, generator=generator), torch.tensor([0, 1, 2, 3, 0])
    plain = Plain()(logits, labels, one_group(labels), COUNTS)
    torch.testing.assert_close(Debiased(tau=0.0)(logits, labels, one_group(labels), COUNTS), plain)
    torch.testing.assert_close(Debiased()(logits, labels, one_group(labels), torch.full((4,), 7)), plain)


def test_columns_outside_the_task_get_no_gradient_in_til():
    logits = torch.zeros(2, 6, requires_grad=True)
    columns = LabelColumns("til", [(0, 1), (2, 3)])
    tasks, labels = torch.tensor([1, 1]), torch.tensor([2, 3])
    Balanced()(columns.restrict(logits, tasks), labels, tasks, torch.ones(4)).backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[:, [0, 1, 4, 5]] == 0).all()

import math

import pytest
import torch
from torch.nn import functional

from delome.losses import Balanced, Debiased, Mixed, Plain, ScoredRows
from delome.streams.columns import LabelColumns


def scored(logits, labels, tasks=None, counts=None, **more):
    """Rows of one task unless others are given; every class has as many rows as any other unless it is said."""
    counts = torch.ones(logits.shape[1]) if counts is None else counts
    return ScoredRows(logits, labels, torch.zeros_like(labels) if tasks is None else tasks, counts, **more)


def test_balanced_loss_is_log_2_on_zero_logits_and_pulls_neither_class():
    labels = torch.tensor([0] * 9 + [1])
    shift = torch.zeros(1, requires_grad=True)
    logits = torch.stack([torch.zeros(10) + shift, torch.zeros(10)], dim=1)
    loss = Balanced()(scored(logits, labels))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2), abs=1e-6)
    assert shift.grad.item() == pytest.approx(0, abs=1e-7)


def test_plain_loss_pulls_towards_the_larger_class():
    labels = torch.tensor([0] * 9 + [1])
    shift = torch.zeros(1, requires_grad=True)
    logits = torch.stack([torch.zeros(10) + shift, torch.zeros(10)], dim=1)
    Plain()(scored(logits, labels)).backward()
    assert shift.grad.item() == pytest.approx(-0.4, abs=1e-6)


def test_balanced_loss_is_the_weighted_cross_entropy_of_torch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(30, 4, generator=generator)
    labels = torch.tensor([0] * 15 + [1] * 10 + [3] * 5)
    weights = 1 / torch.bincount(labels, minlength=4).clamp(min=1)
    expected = functional.cross_entropy(logits, labels, weight=weights)
    torch.testing.assert_close(Balanced()(scored(logits, labels)), expected)


def test_balanced_loss_does_not_change_when_a_class_is_duplicated():
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(6, 2, generator=generator), torch.tensor([0, 0, 0, 1, 1, 1])
    once = Balanced()(scored(logits, labels))
    doubled, twice = torch.cat([logits, logits[3:]]), torch.cat([labels, labels[3:]])
    torch.testing.assert_close(Balanced()(scored(doubled, twice)), once)


@pytest.mark.parametrize("loss", [Plain(), Balanced(), Debiased()])
def test_a_loss_is_the_sum_over_groups(loss):
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(8, 3, generator=generator), torch.tensor([0, 1, 1, 2, 0, 0, 2, 2])
    tasks, counts = torch.tensor([0, 0, 0, 0, 2, 2, 2, 2]), torch.tensor([3, 2, 9])
    first = loss(scored(logits[:4], labels[:4], counts=counts))
    second = loss(scored(logits[4:], labels[4:], counts=counts))
    torch.testing.assert_close(loss(scored(logits, labels, tasks, counts, one_group=False)), first + second)


@pytest.mark.parametrize("kind", [Plain, Balanced, Debiased])
def test_rows_of_several_tasks_are_one_group_only_if_they_are_pooled_and_may_be(kind):
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(6, 3, generator=generator), torch.tensor([0, 1, 1, 2, 0, 0])
    tasks, counts = torch.tensor([0, 0, 1, 1, 1, 1]), torch.tensor([3, 2, 9])
    apart = kind(pooled=False)(scored(logits, labels, tasks, counts))
    together = kind(pooled=True)(scored(logits, labels, tasks, counts))
    torch.testing.assert_close(together, kind()(scored(logits, labels, counts=counts)))
    torch.testing.assert_close(kind(pooled=True)(scored(logits, labels, tasks, counts, one_group=False)), apart)
    assert together.item() != pytest.approx(apart.item(), rel=0.1)


COUNTS = torch.tensor([2, 2, 6, 10])


def test_adjustment_is_the_log_frequency():
    expected = torch.tensor([-2.302585, -2.302585, -1.203973, -0.693147])
    torch.testing.assert_close(Debiased().adjustment(COUNTS), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("tau", [0.5, 2.0])
def test_the_strength_is_an_exponent_of_the_frequency(tau):
    # shares 0.1, 0.1, 0.3 and 0.5
    expected = torch.tensor([tau * math.log(share) for share in (0.1, 0.1, 0.3, 0.5)])
    torch.testing.assert_close(Debiased(tau=tau).adjustment(COUNTS), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("setting", "label", "task", "expected"),
    [("cil", 2, 1, 1.203973), ("cil", 0, 0, 2.302585), ("til", 2, 1, 0.980829), ("til", 0, 0, 0.693147)],
)
def test_debiased_loss_of_zero_logits_has_the_hand_computed_value(setting, label, task, expected):
    columns = LabelColumns(setting, [(0, 1), (2, 3)])
    logits = columns.restrict(torch.zeros(1, 6), torch.tensor([task]))
    loss = Debiased()(scored(logits, torch.tensor([label]), torch.tensor([task]), COUNTS, one_group=setting == "cil"))
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_without_strength_or_without_imbalance_debiased_is_plain():
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(5, 4, generator=generator), torch.tensor([0, 1, 2, 3, 0])
    plain = Plain()(scored(logits, labels, counts=COUNTS))
    torch.testing.assert_close(Debiased(tau=0.0)(scored(logits, labels, counts=COUNTS)), plain)
    torch.testing.assert_close(Debiased()(scored(logits, labels, counts=torch.full((4,), 7))), plain)


def test_columns_outside_the_task_get_no_gradient_in_til():
    logits = torch.zeros(2, 6, requires_grad=True)
    columns = LabelColumns("til", [(0, 1), (2, 3)])
    tasks, labels = torch.tensor([1, 1]), torch.tensor([2, 3])
    Balanced()(scored(columns.restrict(logits, tasks), labels, tasks, one_group=False)).backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()
    assert (logits.grad[:, [0, 1, 4, 5]] == 0).all()


# logits (0, 0) cost log 2 whatever the label; (log 3, 0) cost log 4/3 with label 0 and log 4 with label 1
CERTAIN = [math.log(3), 0.0]
LOG = {"2": math.log(2), "4/3": math.log(4 / 3), "4": math.log(4)}


def test_mixed_loss_of_the_current_task_and_memory_has_the_hand_computed_value():
    # current: three rows of class 0 and one of class 1; replayed: one of class 0 and two of class 1
    logits = torch.tensor([[0.0, 0.0], [0.0, 0.0], CERTAIN, CERTAIN, CERTAIN, [0.0, 0.0], CERTAIN])
    labels = torch.tensor([0, 0, 0, 1, 0, 1, 1])
    tasks = torch.tensor([1, 1, 1, 1, 0, 0, 0])
    current = ((2 * LOG["2"] + LOG["4/3"]) / 3 + LOG["4"]) / 2
    memory = (LOG["4/3"] + (LOG["2"] + LOG["4"]) / 2) / 2
    beta = 6 / (6 + 4)
    loss = Mixed()(scored(logits, labels, tasks, replayed=3, stored=6))
    assert loss.item() == pytest.approx(beta * current + (1 - beta) * memory, abs=1e-6)


def test_mixed_loss_takes_in_one_old_task_after_the_other_where_each_stands_alone():
    logits = torch.tensor([[0.0, 0.0], CERTAIN, CERTAIN, [0.0, 0.0]])
    labels = torch.tensor([0, 0, 1, 1])
    tasks = torch.tensor([2, 2, 0, 1])
    current, first, second = (LOG["2"] + LOG["4/3"]) / 2, LOG["4"], LOG["2"]
    beta = 3 / (3 + 2)
    expected = beta * (beta * current + (1 - beta) * first) + (1 - beta) * second
    loss = Mixed()(scored(logits, labels, tasks, one_group=False, replayed=2, stored=3))
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_mixed_loss_without_memories_is_the_balanced_one():
    generator = torch.Generator().manual_seed(0)
    rows = scored(torch.randn(5, 3, generator=generator), torch.tensor([0, 0, 0, 1, 2]), stored=4)
    torch.testing.assert_close(Mixed()(rows), Balanced()(rows))


def test_a_row_that_stands_for_several_counts_as_often():
    generator = torch.Generator().manual_seed(0)
    logits, labels, tasks = torch.randn(5, 3, generator=generator), torch.tensor([0, 1, 1, 2, 0]), torch.arange(5) // 3
    weights = torch.tensor([1, 3, 2, 1, 4])
    more = {"replayed": 2, "stored": 7, "one_group": False, "counts": torch.tensor([3, 2, 9])}
    repeated = {"replayed": 5, "stored": 7, "one_group": False, "counts": torch.tensor([3, 2, 9])}
    for loss in (Plain(), Balanced(), Debiased(), Mixed()):
        drawn = scored(logits, labels, tasks, weights=weights.float(), **more)
        rows = [each.repeat_interleave(weights, dim=0) for each in (logits, labels, tasks)]
        torch.testing.assert_close(loss(drawn), loss(scored(*rows, **repeated)))


def test_a_weighted_loss_by_hand():
    logits = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    drawn = scored(logits, torch.tensor([0, 1]), weights=torch.tensor([3.0, 1.0]))
    assert Plain()(drawn).item() == pytest.approx((3 * math.log(4 / 3) + math.log(2)) / 4)
    assert Balanced()(drawn).item() == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)


def test_a_prior_of_weights_counts_a_task_once_however_few_rows_it_has():
    labels, tasks = torch.tensor([0, 1, 2, 2, 2, 3]), torch.tensor([0, 0, 1, 1, 1, 1])
    rows = scored(torch.zeros(6, 4), labels, tasks, counts=torch.tensor([1, 1, 300, 100]), replayed=2)
    share = torch.tensor([0.25, 0.25, 0.375, 0.125])
    expected = (math.log(4) + math.log(4)) / 2 + (3 * math.log(8 / 3) + math.log(8)) / 4
    assert Debiased(prior="weights")(rows).item() == pytest.approx(expected)
    torch.testing.assert_close(Debiased().adjustment(share), share.log())
    # by rows, a remembered one has to make up for log(402) against log(402 / 300)
    assert Debiased()(rows).item() == pytest.approx(math.log(402) + (3 * math.log(402 / 300) + math.log(402 / 100)) / 4)

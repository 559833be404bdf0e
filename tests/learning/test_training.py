import numpy as np
import torch

from delome.backbones.examples import Examples, Schedule, train
from delome.graph.rows import Rows


def numbered(count: int) -> Examples:
    labels = torch.arange(count)
    return Examples(Rows(labels[:, None].float()), labels, torch.zeros_like(labels))


def test_an_epoch_passes_over_every_example_once():
    batches = list(Schedule(batch_size=4, seed=0, task=0).batches(numbered(10), epoch=0))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(torch.cat([batch.labels for batch in batches]).tolist()) == list(range(10))


def test_rows_and_labels_stay_together_when_shuffled():
    for batch in Schedule(batch_size=3, seed=5, task=2).batches(numbered(8), epoch=1):
        assert batch.inputs.content[:, 0].tolist() == batch.labels.tolist()


def test_shuffles_depend_on_the_epoch_and_not_on_what_happened_before():
    schedule = Schedule(batch_size=5, seed=0, task=0)
    first = [batch.labels.tolist() for batch in schedule.batches(numbered(20), 0)]
    second = [batch.labels.tolist() for batch in schedule.batches(numbered(20), 1)]
    assert first != second
    assert first == [batch.labels.tolist() for batch in schedule.batches(numbered(20), 0)]


def test_full_batch_when_everything_fits():
    examples = numbered(6)
    for size in (None, 6, 100):
        (batch,) = Schedule(batch_size=size, seed=0, task=0).batches(examples, 0)
        assert batch is examples


def test_gradients_are_cleared_and_adjusted_before_each_step():
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    seen = []

    def adjust() -> None:
        seen.append(weight.grad.item())
        weight.grad.zero_()

    train(
        numbered(4),
        Schedule(batch_size=2, seed=0, task=0),
        range(3),
        optimizer,
        objective=lambda batch: weight.sum() * len(batch),
        adjust=adjust,
    )
    assert seen == [2.0] * 6
    assert weight.item() == 1.0


def test_batches_are_those_of_the_epochs_that_were_asked_for():
    schedule, weight, seen = Schedule(batch_size=4, seed=0, task=0), torch.nn.Parameter(torch.ones(1)), []

    def objective(batch: Examples) -> torch.Tensor:
        seen.append(batch.labels.tolist())
        return weight.sum()

    train(numbered(10), schedule, [1, 3], torch.optim.SGD([weight], lr=1.0), objective, lambda: None)
    expected = [batch.labels.tolist() for epoch in (1, 3) for batch in schedule.batches(numbered(10), epoch)]
    assert seen == expected


def test_selecting_keeps_tasks():
    labels = torch.tensor([0, 1, 2])
    examples = Examples(Rows(torch.eye(3)), labels, torch.tensor([7, 8, 9]))
    assert examples.select(np.array([2, 0])).tasks.tolist() == [9, 7]

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from delome import FineTune
from delome.backbones.examples import Examples
from delome.errors import DivergenceError
from delome.graph.rows import Rows
from delome.learning import TaskTraining
from delome.learning.training import Checkpointed, Schedule, check_finite, train
from delome.persistence.state import State
from delome.progress import Checkpoint, Tracker


def numbered(count: int) -> Examples:
    labels = torch.arange(count)
    return Examples(Rows(labels[:, None].float()), labels, torch.zeros_like(labels))


class Watched(TaskTraining):
    """A single weight instead of a network; what a step minimises, and what happens to its gradient, is given."""

    def __init__(
        self,
        objective: Callable[[Tensor, Examples], Tensor],
        adjust: Callable[[Tensor, int], None] = lambda weight, epoch: None,
        examples: Examples | None = None,
        tracker: Tracker | None = None,
    ) -> None:
        self.weight = torch.nn.Parameter(torch.ones(1))
        self._objective, self._adjust = objective, adjust
        learner = FineTune(hidden=1)
        learner.reset(1, 1)
        self.learner, self.examples, self.tracker = learner, examples or numbered(4), tracker or Tracker()

    def objective(self, batch: Examples) -> Tensor:
        return self._objective(self.weight, batch)

    def adjust(self, epoch: int) -> None:
        self._adjust(self.weight, epoch)

    def run(self, epochs: int, batch_size: int, lr: float = 1.0) -> Watched:
        def save() -> State:
            return State({"weight": self.weight.detach().clone()})

        @torch.no_grad()
        def load(state: State) -> None:
            self.weight.copy_(state.tensor("weight", (1,)))

        optimizer = torch.optim.SGD([self.weight], lr=lr)
        train(self, optimizer, epochs, Schedule(batch_size, seed=0, task=0), Checkpointed(save, load))
        return self


def test_an_epoch_passes_over_every_example_once():
    batches = list(Schedule(batch_size=4, seed=0, task=0).batches(numbered(10))(0))
    assert [len(batch) for batch in batches] == [4, 3, 3]  # no small rest
    assert sorted(torch.cat([batch.labels for batch in batches]).tolist()) == list(range(10))


def test_rows_and_labels_stay_together_when_shuffled():
    for batch in Schedule(batch_size=3, seed=5, task=2).batches(numbered(8))(1):
        assert isinstance(batch.inputs, Rows)
        assert batch.inputs.dense()[:, 0].tolist() == batch.labels.tolist()


def test_shuffles_depend_on_the_epoch_and_not_on_what_happened_before():
    schedule = Schedule(batch_size=5, seed=0, task=0)
    first = [batch.labels.tolist() for batch in schedule.batches(numbered(20))(0)]
    second = [batch.labels.tolist() for batch in schedule.batches(numbered(20))(1)]
    assert first != second
    assert first == [batch.labels.tolist() for batch in schedule.batches(numbered(20))(0)]


@pytest.mark.parametrize("other", [{"seed": 1}, {"task": 1}])
def test_shuffles_depend_on_the_seed_and_the_task(other):
    usual = Schedule(batch_size=5, seed=0, task=0)
    schedules = [usual, replace(usual, **other)]
    first, second = ([batch.labels.tolist() for batch in each.batches(numbered(20))(0)] for each in schedules)
    assert first != second


def test_full_batch_when_everything_fits():
    examples = numbered(6)
    for size in (None, 6, 100):
        (batch,) = Schedule(batch_size=size, seed=0, task=0).batches(examples)(0)
        assert batch is examples


def test_gradients_are_cleared_and_adjusted_before_each_step():
    seen = []

    def adjust(weight: Tensor, epoch: int) -> None:
        seen.append((epoch, weight.grad.item()))
        weight.grad.zero_()

    training = Watched(lambda weight, batch: weight.sum() * len(batch), adjust).run(epochs=3, batch_size=2)
    assert seen == [(epoch, 2.0) for epoch in (0, 0, 1, 1, 2, 2)]
    assert training.weight.item() == 1.0


def test_every_batch_is_a_step_on_its_objective():
    # each step takes off a tenth of the sum of its labels
    training = Watched(lambda weight, batch: weight.sum() * batch.labels.sum()).run(epochs=2, batch_size=3, lr=0.1)
    assert training.weight.item() == pytest.approx(1 - 2 * 0.1 * (0 + 1 + 2 + 3), abs=1e-6)


def test_interrupted_training_goes_on_with_the_batches_of_the_epochs_that_are_left():
    checkpoints = SimpleNamespace(
        found=lambda phase: Checkpoint(2, 1.5, State({"weight": torch.tensor([7.0])})), reached=lambda *_: None
    )
    seen = []

    def objective(weight: Tensor, batch: Examples) -> Tensor:
        seen.append(batch.labels.tolist())
        return weight.sum()

    training = Watched(objective, examples=numbered(10), tracker=Tracker(checkpoints)).run(epochs=4, batch_size=4)
    schedule = Schedule(batch_size=4, seed=0, task=0)
    assert seen == [batch.labels.tolist() for epoch in (2, 3) for batch in schedule.batches(numbered(10))(epoch)]
    assert training.weight.item() == 7 - 6


def test_what_is_kept_after_an_epoch_is_the_state_then():
    kept = []
    checkpoints = SimpleNamespace(
        found=lambda phase: None, reached=lambda phase, done, total, seconds, save: kept.append((phase, done, save()))
    )
    Watched(lambda weight, batch: weight.sum(), tracker=Tracker(checkpoints)).run(epochs=3, batch_size=2)
    assert [(phase, done) for phase, done, _ in kept] == [("train", 1), ("train", 2), ("train", 3)]
    assert [state.tensors["weight"].item() for *_, state in kept] == [-1, -3, -5]


def test_a_network_that_drops_values_draws_others_in_each_epoch_and_none_afterwards():
    draws: list[list[float]] = []

    def objective(weight: Tensor, batch: Examples) -> Tensor:
        noise = training.network.noise
        draws.append(torch.rand(3, generator=noise).tolist())
        return weight.sum()

    training = Watched(objective)
    training.run(epochs=2, batch_size=4)
    assert draws[0] != draws[1]
    assert training.network.noise is None
    first = list(draws)
    draws.clear()
    training.run(epochs=2, batch_size=4)
    assert draws == first


def test_training_ends_when_the_loss_is_not_finite():
    def objective(weight: Tensor, batch: Examples) -> Tensor:
        return weight.sum() / (weight.sum() + 1)  # -1 after two steps of one

    def adjust(weight: Tensor, epoch: int) -> None:
        weight.grad.fill_(1.0)

    with pytest.raises(DivergenceError, match=r"^the loss of task 0 is not finite in epoch 2: "):
        Watched(objective, adjust).run(epochs=5, batch_size=4)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_one_number_that_is_not_finite_is_enough(bad):
    check_finite(torch.tensor([1.0, -2.0]), "the loss", task=3, epoch=7)
    with pytest.raises(DivergenceError, match="the importance of task 3 is not finite in epoch 7"):
        check_finite(torch.tensor([1.0, bad]), "the importance", task=3, epoch=7)


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_the_usual_objective_is_the_balanced_loss_over_the_columns_a_row_may_use(toy_stream, balanced, setting):
    learner = FineTune(epochs=1, hidden=8, setting=setting)
    for task in toy_stream[:2]:
        learner.observe(task)
    observation = toy_stream[1].observation()
    examples = learner.examples(observation)
    training = learner.begin(observation, examples, Tracker())
    assert training.counts.tolist() == [0, 0, 24, 24]
    logits = learner.network(examples.inputs)
    used = slice(2, 4) if setting == "til" else slice(0, 4)
    torch.testing.assert_close(training.objective(examples), balanced(logits[:, used], examples.labels - used.start))


def test_selecting_keeps_tasks():
    labels = torch.tensor([0, 1, 2])
    examples = Examples(Rows(torch.eye(3)), labels, torch.tensor([7, 8, 9]))
    assert examples.select(np.array([2, 0])).tasks.tolist() == [9, 7]

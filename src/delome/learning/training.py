"""The one training loop that every gradient method shares, and what a method may do in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from delome.backbones import Network
from delome.backbones.examples import Examples, Strata
from delome.errors import DivergenceError
from delome.losses import ScoredRows
from delome.persistence.state import State
from delome.progress import Tracker
from delome.randomness import generator, torch_generator
from delome.streams.columns import LabelColumns
from delome.streams.tasks import Observation

if TYPE_CHECKING:
    from delome.learning.gradient import GradientLearner


class TaskTraining:
    """The training of one task: what a step minimises, what may happen to its gradients, what is left in the end.

    `GradientLearner.begin` makes one for each task. What is needed only during the task lives here and ends with it.
    ``examples`` are passed over in batches; ``counts`` is the number of training rows of each class column.
    """

    def __init__(
        self, learner: GradientLearner, observation: Observation, examples: Examples, tracker: Tracker
    ) -> None:
        self.learner, self.observation, self.examples, self.tracker = learner, observation, examples, tracker
        self.counts = torch.bincount(examples.labels, minlength=learner.columns.seen)

    @property
    def network(self) -> Network:
        return self.learner.network

    @property
    def columns(self) -> LabelColumns:
        """Which columns a row may use while training."""
        return self.learner.columns

    def objective(self, batch: Examples) -> Tensor:
        """What a step on a batch minimises."""
        return self.loss(self.network(batch.inputs), batch)

    def loss(self, logits: Tensor, batch: Examples, replayed: int = 0, stored: int = 0) -> Tensor:
        """Loss of rows with these logits, of which the last ``replayed`` are from memories."""
        return self.learner.row_loss(
            ScoredRows(
                logits=self.columns.restrict(logits, batch.tasks),
                labels=batch.labels,
                tasks=batch.tasks,
                counts=self.counts,
                one_group=self.columns.setting == "cil",
                replayed=replayed,
                stored=stored,
                weights=batch.weights,
            )
        )

    def begin_epoch(self, epoch: int) -> None:
        """Called before the first batch of an epoch."""

    def adjust(self, epoch: int) -> None:
        """Called when the gradients of a batch are known, before the step."""

    def finish(self) -> None:
        """Called after the last step; here a method keeps what it needs of the task."""


@dataclass(frozen=True)
class Schedule:
    """In what portions a task is trained; ``seed`` and ``task`` name the shuffles.

    With ``passes`` an epoch is a pass over all examples in batches of nearly equal size, as few as there can be with at
    most ``batch_size`` in each; otherwise it is one step on about ``batch_size`` drawn examples (see `Strata`).
    """

    batch_size: int | None
    seed: int
    task: int
    passes: bool = True

    def positions(self, count: int, epoch: int) -> Iterator[np.ndarray]:
        """One pass over ``count`` examples: shuffled batches, or everything at once if it fits in one."""
        if self.batch_size is None or count <= self.batch_size:
            yield np.arange(count)
            return
        order = generator(self.seed, "batches", self.task, epoch).permutation(count)
        yield from np.array_split(order, -(-count // self.batch_size))

    def one_pass(self, examples: Examples, epoch: int) -> Iterator[Examples]:
        """One pass over the examples."""
        rng = generator(self.seed, "fanout", self.task, epoch)
        for chosen in self.positions(len(examples), epoch):
            # a single batch is not copied
            yield (examples if len(chosen) == len(examples) else examples.select(chosen)).read(rng)

    def batches(self, examples: Examples) -> Callable[[int], Iterator[Examples]]:
        """The batches of each epoch."""
        if self.passes or self.batch_size is None:
            return lambda epoch: self.one_pass(examples, epoch)
        strata = Strata(examples, self.batch_size)

        def draws(epoch: int) -> Iterator[Examples]:
            drawn = strata.draw(generator(self.seed, "batches", self.task, epoch))
            yield drawn.read(generator(self.seed, "fanout", self.task, epoch))

        return draws


@dataclass(frozen=True)
class Checkpointed:
    """What a loop depends on beside what was there before it: copies of it, and the way back."""

    save: Callable[[], State]
    load: Callable[[State], None]


def train(
    task: TaskTraining, optimizer: torch.optim.Optimizer, epochs: int, schedule: Schedule, checkpointed: Checkpointed
) -> None:
    """Minimises the objective of a task over batches; can be interrupted after any epoch and resumed exactly."""
    network, batches = task.network, schedule.batches(task.examples)
    for epoch in task.tracker.steps("train", epochs, checkpointed.save, checkpointed.load):
        with network.dropout_from(torch_generator(network.device, schedule.seed, "dropout", schedule.task, epoch)):
            task.begin_epoch(epoch)
            for batch in batches(epoch):
                optimizer.zero_grad()
                loss = task.objective(batch)
                check_finite(loss, "the loss", schedule.task, epoch)
                loss.backward()
                task.adjust(epoch)
                optimizer.step()


def check_finite(value: Tensor, name: str, task: int, epoch: int) -> None:
    """Ends the training of a task in which a value has become NaN or infinite."""
    if not value.isfinite().all():
        raise DivergenceError(
            f"{name} of task {task} is not finite in epoch {epoch}: try a smaller lr, or scale the features"
        )

"""The one epoch loop that every gradient method shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from delome.backbones import Inputs
from delome.backbones.sampling import SampledNodes
from delome.errors import DivergenceError
from delome.randomness import generator


@dataclass(frozen=True)
class Examples:
    """Labelled rows a backbone can read: class columns, and the task each row belongs to."""

    inputs: Inputs
    labels: Tensor
    tasks: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, rng: np.random.Generator) -> Examples:
        """The same for a network: sampled neighbourhoods are drawn now."""
        return replace(self, inputs=self.inputs.draw(rng)) if isinstance(self.inputs, SampledNodes) else self

    def select(self, index: np.ndarray) -> Examples:
        positions = torch.from_numpy(index).to(self.labels.device)
        return Examples(self.inputs.select(index), self.labels[positions], self.tasks[positions])


@dataclass(frozen=True)
class Schedule:
    """In what portions a task is trained; ``seed`` and ``task`` name the shuffles."""

    batch_size: int | None
    seed: int
    task: int

    def positions(self, count: int, epoch: int) -> Iterator[np.ndarray]:
        """One pass over so many examples: shuffled batches, or everything at once if it fits in one."""
        if self.batch_size is None or count <= self.batch_size:
            yield np.arange(count)
            return
        order = generator(self.seed, "batches", self.task, epoch).permutation(count)
        yield from (order[start : start + self.batch_size] for start in range(0, count, self.batch_size))

    def batches(self, examples: Examples, epoch: int) -> Iterator[Examples]:
        """One pass over the examples."""
        rng = generator(self.seed, "fanout", self.task, epoch)
        for chosen in self.positions(len(examples), epoch):
            # a single batch is not copied
            yield (examples if len(chosen) == len(examples) else examples.select(chosen)).read(rng)


def train(
    examples: Examples,
    schedule: Schedule,
    epochs: Iterable[int],
    optimizer: torch.optim.Optimizer,
    objective: Callable[[Examples], Tensor],
    adjust: Callable[[], None],
) -> None:
    """Minimises ``objective`` over batches; ``adjust`` may change gradients before each update."""
    for epoch in epochs:
        for batch in schedule.batches(examples, epoch):
            optimizer.zero_grad()
            loss = objective(batch)
            check_finite(loss, "the loss", schedule.task, epoch)
            loss.backward()
            adjust()
            optimizer.step()


def check_finite(value: Tensor, name: str, task: int, epoch: int) -> None:
    """Ends the training of a task in which a value has become NaN or infinite."""
    if not value.isfinite().all():
        raise DivergenceError(
            f"{name} of task {task} is not finite in epoch {epoch}: try a smaller lr, or scale the features"
        )

"""CaT: condense and train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from delome.columns import LabelColumns
from delome.losses import Plain
from delome.memory.distribution_matching import DistributionMatching
from delome.methods.replay import Replay
from delome.parameters import Param
from delome.state import KEEPS_ROWS, Keeps
from delome.stream import Observation
from delome.tracking import Tracker
from delome.training import Examples


@dataclass(kw_only=True)
class CaT(Replay):
    """Condenses each task into ``budget`` rows per class, then trains on condensed rows only (Liu, Qiu, Huang, 2023).

    Rows are learned so that their mean embedding under random encoders is that of their class. Training in memory
    keeps old and new classes in balance: the current task's real nodes are not used any more once it is condensed.
    Training is over all classes seen in either setting; task-incremental evaluation looks at the task's own.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = CaT(budget=20, encoders=50, epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    budget: Annotated[int, Param("memory rows per class", least=1)] = 60
    encoders: Annotated[int, Param("random encoders of distribution matching", least=1)] = 3000
    memory_lr: Annotated[float, Param("Adam's step size of distribution matching", above=0)] = 1e-3
    encoder_width: Annotated[int, Param("units of a random encoder", least=1)] = 512
    encoder_hops: Annotated[int, Param("propagation steps before the encoder", least=0)] = 2
    train_in_memory: Annotated[bool, Param("train on condensed rows only, not on the task's nodes")] = True
    batch_size: Annotated[int | None, Param("rows in a step; none = all", least=1)] = None

    remembers_first: ClassVar[bool] = True
    family: ClassVar[str] = "replay of learned rows"
    keeps: ClassVar[Keeps] = KEEPS_ROWS
    citation: ClassVar[str] = "Liu, Qiu, Huang, 2023"
    summary: ClassVar[str] = "condenses each task by distribution matching and trains on condensed rows alone"

    def memory_builder(self) -> DistributionMatching:
        return DistributionMatching(
            self.budget, self.encoders, self.memory_lr, self.encoder_width, self.encoder_hops, self.torch_device
        )

    def make_loss(self) -> Plain:
        return Plain(pooled=True)

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> Examples:
        self._next = self.remember(observation, tracker)
        if not self.train_in_memory:
            self.replay(self.bank, tracker)
            return examples
        with tracker.phase("prepare"):
            return self._next.examples(self.network)

    def loss_of(self, logits: Tensor, labels: Tensor, tasks: Tensor) -> Tensor:
        seen = LabelColumns("cil", self.columns.tasks)
        return self.loss(seen.restrict(logits, tasks), labels, torch.zeros_like(tasks), self.counts)

"""Replay: train on the current task together with a memory of the old ones. A method is a memory × a loss."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from delome.errors import ParameterError
from delome.isolation import isolated
from delome.memory import Memory, MemoryBank, MemoryBuilder
from delome.memory.merging import merge, with_counts
from delome.methods.gradient import GradientLearner
from delome.parameters import Param
from delome.randomness import generator
from delome.state import State, Storage
from delome.stream import Observation
from delome.tracking import Tracker
from delome.training import Examples


@dataclass(kw_only=True)
class Replay(GradientLearner):
    """Builds a memory of each task and adds the memories' loss to every step of later tasks.

    ``remembers_first``: the memory of a task is built before training on it (else after), and in class-incremental
    learning it is replayed already during its own task, unless that is the first.

    A class may come again, in live data. Its new rows are remembered beside the old ones (``append``), or old and new
    together are as many as one task leaves (``merge``).
    """

    recurring: Annotated[
        Literal["append", "merge"], Param("a class that comes again: budget rows for each time, or in all")
    ] = "append"

    remembers_first: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recurring == "merge" and self.setting == "til":
            raise ParameterError("recurring=merge works in setting cil only: in til each task needs rows of its own")
        self.bank = MemoryBank()
        self.replayed: Examples | None = None
        self._next: MemoryBank | None = None

    @abstractmethod
    def memory_builder(self) -> MemoryBuilder:
        """How a task is remembered."""

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> Examples:
        replayed = self.bank
        if self.remembers_first:
            self._next = self.remember(observation, tracker)
            if len(self.bank) and self.setting == "cil":
                replayed = self._next
        self.replay(replayed, tracker)
        return examples

    def replay(self, bank: MemoryBank, tracker: Tracker) -> None:
        """From now on these memories take part in every step."""
        with tracker.phase("prepare"):
            self.replayed = bank.examples(self.network) if len(bank) else None
            if self.replayed is not None:
                self.counts += torch.bincount(self.replayed.labels, minlength=len(self.counts))

    def objective(self, batch: Examples) -> Tensor:
        return self.loss_of(*self.with_replayed(batch))

    def with_replayed(self, batch: Examples) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, labels and tasks of the batch's rows and below them those of the memories."""
        logits, labels, tasks = self.network(batch.inputs), batch.labels, batch.tasks
        if self.replayed is not None:
            logits = torch.cat([logits, self.network(self.replayed.inputs)])
            labels = torch.cat([labels, self.replayed.labels])
            tasks = torch.cat([tasks, self.replayed.tasks])
        return logits, labels, tasks

    def end(self, observation: Observation, tracker: Tracker) -> None:
        self.replayed = None
        self.bank = self.remember(observation, tracker) if self._next is None else self._next
        self._next = None

    def remember(self, observation: Observation, tracker: Tracker) -> MemoryBank:
        """The memories after a task."""
        builder = self.memory_builder()
        fresh = with_counts(self.build(builder, observation, tracker), observation.labels)
        if self.recurring == "append":
            return MemoryBank([*self.bank.memories, fresh])
        return merge(self.bank, fresh, builder.budget, self.thin, generator(self.seed, "merging", observation.index))

    def build(self, builder: MemoryBuilder, observation: Observation, tracker: Tracker) -> Memory:
        """Memory of a task alone."""
        return builder.build(observation, self.columns, generator(self.seed, "memory", observation.index), tracker)

    def thin(self, memory: Memory, positions: np.ndarray, rng: np.random.Generator) -> Memory:
        """The memory of some of its rows."""
        return memory.select(positions)

    def state(self) -> State:
        state = super().state()
        self.bank.save(state)
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        width = 0 if self.model is None else self.network.first.shape[0]
        gaps = self.recurring == "merge"
        self.bank = MemoryBank.load(state, len(self.columns.tasks), self.columns.seen, width, gaps)

    def storage(self) -> Storage:
        return self.bank.storage()

    def report(self) -> dict[str, list[float]]:
        return dict(self.bank.memories[-1].report) if len(self.bank) else {}

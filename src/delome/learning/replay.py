"""Replay: train on the current task together with a memory of the old ones. A method is a memory × a loss."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from delome.learning.gradient import GradientLearner
from delome.learning.isolation import isolated
from delome.learning.training import Examples
from delome.memories import Memory, MemoryBank, MemoryBuilder
from delome.persistence.state import State, Storage
from delome.progress import Tracker
from delome.randomness import generator
from delome.streams.tasks import Observation


@dataclass(kw_only=True)
class Replay(GradientLearner):
    """Builds a memory of each task and adds the memories' loss to every step of later tasks.

    ``remembers_first``: the memory of a task is built before training on it (else after), and in class-incremental
    learning it is replayed already during its own task, unless that is the first.
    """

    remembers_first: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bank = MemoryBank()
        self.replayed: Examples | None = None
        self._fresh: Memory | None = None

    @abstractmethod
    def memory_builder(self) -> MemoryBuilder:
        """How a task is remembered."""

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> Examples:
        replayed = list(self.bank.memories)
        if self.remembers_first:
            self._fresh = self.remember(observation, tracker)
            if replayed and self.setting == "cil":
                replayed.append(self._fresh)
        self.replay(replayed, tracker)
        return examples

    def replay(self, memories: Sequence[Memory], tracker: Tracker) -> None:
        """From now on these memories take part in every step."""
        with tracker.phase("prepare"):
            self.replayed = MemoryBank(memories).examples(self.network) if memories else None
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
        self.bank.append(self._fresh or self.remember(observation, tracker))
        self._fresh = None

    def remember(self, observation: Observation, tracker: Tracker) -> Memory:
        """Memory of a task."""
        rng = generator(self.seed, "memory", observation.index)
        return self.memory_builder().build(observation, self.columns, rng, tracker)

    def state(self) -> State:
        state = super().state()
        self.bank.save(state)
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        width = 0 if self.model is None else self.network.first.shape[0]
        self.bank = MemoryBank.load(state, len(self.columns.tasks), self.columns.seen, width)

    def storage(self) -> Storage:
        return self.bank.storage()

    def report(self) -> dict[str, list[float]]:
        return dict(self.bank.memories[-1].report) if len(self.bank) else {}

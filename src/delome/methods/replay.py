"""Replay: train on the current task together with a memory of the old ones. A method is a memory × a loss."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from delome.memory import MemoryBank, MemoryBuilder
from delome.methods.gradient import GradientLearner
from delome.randomness import generator
from delome.state import State, Storage
from delome.stream import Observation
from delome.tracking import Tracker
from delome.training import Examples


@dataclass(kw_only=True)
class Replay(GradientLearner):
    """Builds a memory of each finished task and adds the memories' loss to every step of later tasks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bank = MemoryBank()
        self.replayed: Examples | None = None

    @abstractmethod
    def memory_builder(self) -> MemoryBuilder:
        """How a finished task is remembered."""

    def begin(self, observation: Observation, examples: Examples) -> Examples:
        self.replayed = self.bank.examples(self.network) if len(self.bank) else None
        if self.replayed is not None:
            self.counts += torch.bincount(self.replayed.labels, minlength=len(self.counts))
        return examples

    def objective(self, batch: Examples) -> Tensor:
        logits, labels, tasks = self.network(batch.inputs), batch.labels, batch.tasks
        if self.replayed is not None:
            logits = torch.cat([logits, self.network(self.replayed.inputs)])
            labels = torch.cat([labels, self.replayed.labels])
            tasks = torch.cat([tasks, self.replayed.tasks])
        return self.loss_of(logits, labels, tasks)

    def end(self, observation: Observation, tracker: Tracker) -> None:
        self.replayed = None
        rng = generator(self.seed, "memory", observation.index)
        self.bank.append(self.memory_builder().build(observation, self.columns, rng, tracker))

    def state(self) -> State:
        state = super().state()
        self.bank.save(state)
        return state

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self.bank = MemoryBank.load(state)

    def storage(self) -> Storage:
        return self.bank.storage()

    def report(self) -> dict[str, list[float]]:
        return dict(self.bank.memories[-1].report) if len(self.bank) else {}

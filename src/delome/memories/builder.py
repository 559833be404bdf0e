"""What a memory builder is: a value that turns a task that is about to go away into a memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from delome.backbones import Network
from delome.memories.bank import MemoryBank
from delome.memories.memory import Memory
from delome.memories.merging import Earlier, merge, with_counts
from delome.parameters import Component, Param
from delome.progress import Tracker
from delome.randomness import generator
from delome.registry import Registry
from delome.streams.columns import LabelColumns
from delome.streams.tasks import Observation

MEMORIES: Registry[type[MemoryBuilder]] = Registry("memory", "memories", lambda: MemoryBuilder)

USUAL_HIDDEN = 256
"""Hidden units that are assumed of a backbone that does not say how many it has."""


@dataclass(frozen=True)
class Context:
    """What a builder may know beside the task: the network as it is, the columns in use, and where to draw from.

    ``earlier`` is what is remembered of classes that have come before, for a builder that merges by itself.
    """

    network: Network
    columns: LabelColumns
    rng: np.random.Generator
    tracker: Tracker
    earlier: Mapping[int, Earlier] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return self.network.device

    @property
    def hops(self) -> int:
        """Propagation steps after which a memory row without edges stands for a real one."""
        return self.network.backbone.hops

    @property
    def hidden(self) -> int:
        """Hidden units of a network of the kind that is trained."""
        return int(getattr(self.network.backbone, "hidden", USUAL_HIDDEN))


class MemoryBuilder(Component, ABC):
    """Turns a task into a memory of at most ``budget`` rows for each class."""

    budget: Annotated[int, Param("memory rows per class", at_least=1)] = 60

    whole: ClassVar[bool] = False
    """Whether it chooses among the rows of all tasks, whatever their class: then `merge` is asked after every task."""

    @abstractmethod
    def build(self, observation: Observation, context: Context) -> Memory:
        """Memory of a task alone."""

    def privacy(self, tasks: Sequence[tuple[int, ...]]) -> dict[str, Any] | None:
        """What is guaranteed to nodes of tasks with these class columns after memories of them were built, if anything.

        The rows alone are meant; what a network learns of nodes that it is trained on is another matter.
        """
        return None

    def counted(self, memory: Memory, labels: np.ndarray) -> Memory:
        """The memory, which knows how many real rows with these labels it stands for."""
        return with_counts(memory, labels)

    def thin(self, memory: Memory, positions: np.ndarray, rng: np.random.Generator) -> Memory:
        """The memory of those of its rows that have these positions."""
        return memory.select(positions)

    def merge(self, bank: MemoryBank, observation: Observation, context: Context, seed: int) -> MemoryBank:
        """All memories after a task of which some classes may have come before, ``budget`` rows of each in all."""
        fresh = self.counted(self.build(observation, context), observation.labels)
        return merge(bank, fresh, self.budget, self.thin, generator(seed, "merging", observation.index))

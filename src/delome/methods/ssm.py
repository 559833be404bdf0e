"""SSM: sparsified subgraph memory, so that message passing is replayed too."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from delome.memory import Memory
from delome.memory.subgraph import NeighbourRule, SubgraphMemory, degree, uniform
from delome.methods.replay import Replay
from delome.parameters import Param
from delome.state import Keeps


@dataclass(kw_only=True)
class SubgraphReplay(Replay):
    """Stores random training nodes (centres) of each class with a few neighbours of each, hop by hop, and the edges
    among them; only centres carry loss.

    CIL: one class-balanced loss over current nodes and all centres, those of the current task included. TIL: the
    current loss plus one loss for each old task. Methods differ in which neighbours they keep.
    """

    budget: Annotated[int, Param("centres stored per class", least=1)] = 60
    neighbours_first: Annotated[int, Param("neighbours kept of each centre, first hop", least=0)] = 5
    neighbours_second: Annotated[int, Param("and second hop", least=0)] = 5

    remembers_first: ClassVar[bool] = True
    family: ClassVar[str] = "replay of subgraphs"
    keeps: ClassVar[Keeps] = Keeps("≤ 11·b·C", "≤ 11·b·C·F", "≤ 44·b·C·(F + 1) + 4·E + 16·b·C + 4·T")
    citation: ClassVar[str] = "Zhang, Song, Tao, 2022"

    @abstractmethod
    def rule(self) -> NeighbourRule:
        """Which neighbours are kept."""

    def memory_builder(self) -> SubgraphMemory:
        return SubgraphMemory(self.budget, (self.neighbours_first, self.neighbours_second), self.rule())

    def thin(self, memory: Memory, positions: np.ndarray, rng: np.random.Generator) -> Memory:
        return self.memory_builder().thin(memory, positions, rng)


@dataclass(kw_only=True)
class SSMUniform(SubgraphReplay):
    """Sparsified subgraph memory, neighbours uniformly at random (Zhang, Song, Tao, 2022).

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = SSMUniform(budget=5, epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    summary: ClassVar[str] = "replays centres with random neighbours"

    def rule(self) -> NeighbourRule:
        return uniform


@dataclass(kw_only=True)
class SSMDegree(SubgraphReplay):
    """Sparsified subgraph memory, neighbours with probability proportional to their degree (Zhang, Song, Tao, 2022)."""

    summary: ClassVar[str] = "replays centres with neighbours drawn by degree"

    def rule(self) -> NeighbourRule:
        return degree

"""Replay of plain rows: the baselines that show what of DeLoMe's gain is learning and what is propagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from delome.learning.replay import Replay
from delome.losses import Balanced, Debiased, Loss, Plain
from delome.memories.rows import RowKind, RowMemory
from delome.parameters import Param
from delome.persistence.state import KEEPS_ROWS, Keeps


@dataclass(kw_only=True)
class RowReplay(Replay):
    """Replays ``budget`` rows per class under one of the three losses.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = RowReplay(budget=5, memory="kmeans", epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    budget: Annotated[int, Param("memory rows per class", least=1)] = 60
    memory: Annotated[RowKind, Param("random raw rows, random propagated rows, or k-means centroids")] = "propagated"
    weighing: Annotated[Literal["plain", "balanced", "debiased"], Param("loss of current and remembered rows")] = (
        "debiased"
    )

    family: ClassVar[str] = "replay of nodes"
    keeps: ClassVar[Keeps] = KEEPS_ROWS
    citation: ClassVar[str] = "baseline"
    summary: ClassVar[str] = "plain rows (raw, propagated or k-means) × plain, balanced or debiased loss"

    def memory_builder(self) -> RowMemory:
        return RowMemory(self.budget, self.memory)

    def make_loss(self) -> Loss:
        losses: dict[str, Loss] = {"plain": Plain(), "balanced": Balanced(), "debiased": Debiased()}
        return losses[self.weighing]

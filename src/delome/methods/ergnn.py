"""ERGNN: experience replay for graph neural networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from delome.losses import Balanced, weighted
from delome.memory.experience import ExperienceMemory, Sampler
from delome.methods.replay import Replay
from delome.parameters import Param
from delome.state import KEEPS_ROWS, Keeps
from delome.training import Examples


@dataclass(kw_only=True)
class ERGNN(Replay):
    """``L = β L_cur + (1 - β) L_mem`` with β = B / (B + n), for B stored and n current nodes (Zhou and Cao, 2021).

    Stored are raw features of chosen training nodes without edges, so that a backbone does not propagate them. In
    class-incremental learning L_mem is one class-balanced loss over all stored nodes, those of the current task
    included; task-incremental learning mixes in one old task after the other, L ← β L + (1 - β) L_k.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = ERGNN(budget=20, epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    budget: Annotated[int, Param("training nodes stored per class", least=1)] = 60
    sampler: Annotated[
        Sampler, Param("mf: nearest to the class mean; cm: fewest nodes of other classes near; random")
    ] = "cm"
    space: Annotated[
        Literal["raw", "embedding"], Param("where distances are taken: raw features, or hidden units of the network")
    ] = "raw"
    radius: Annotated[float | None, Param("what cm calls near; none = half the median distance", above=0)] = 0.5

    remembers_first: ClassVar[bool] = True
    family: ClassVar[str] = "replay of nodes"
    keeps: ClassVar[Keeps] = KEEPS_ROWS
    citation: ClassVar[str] = "Zhou and Cao, 2021"
    summary: ClassVar[str] = "replays raw features of chosen nodes, weighed by how many there are"

    def memory_builder(self) -> ExperienceMemory:
        embedding = self.network.embed if self.space == "embedding" else None
        return ExperienceMemory(self.budget, self.sampler, self.radius, embedding)

    def objective(self, batch: Examples) -> Tensor:
        if self.replayed is None:
            return self.task_loss(batch)
        logits, labels, tasks = self.with_replayed(batch)
        groups = torch.zeros_like(tasks)
        groups[len(batch) :] = 1 if self.setting == "cil" else 1 + self.replayed.tasks
        stored = len(self.replayed)
        if self.setting == "til" and self._next is not None:
            stored += len(self._next.memories[-1].rows)
        shares = mixing_shares(stored / (stored + len(batch)), int(groups.max())).to(logits.device)
        rows = Balanced().weights(labels, groups, self.columns.seen) * shares[groups]
        return weighted(self.columns.restrict(logits, tasks), labels, rows)


def mixing_shares(beta: float, memories: int) -> Tensor:
    """Weights of the current loss and of each memory's after L ← β L + (1 - β) L_k for every memory k in turn.

    >>> [round(share, 2) for share in mixing_shares(0.2, 2).tolist()]
    [0.04, 0.16, 0.8]
    """
    powers = torch.tensor([beta**k for k in range(memories, -1, -1)])
    return torch.cat([powers[:1], (1 - beta) * powers[1:]])

"""MAS: memory aware synapses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from delome.learning.penalty import PenaltyLearner
from delome.learning.training import Examples, Schedule
from delome.parameters import Param
from delome.persistence.state import Keeps, State
from delome.streams.task_stream import Observation


@dataclass(kw_only=True)
class MAS(PenaltyLearner):
    """``L = L_cur + λ Σ_i Ω_i (θ_i - θ*_i)²`` with θ* of the last task only (Aljundi et al., 2018).

    Ω is the running mean, weighted by training nodes, of the squared gradient of the mean squared output: how
    sensitive the outputs are to a parameter, without labels.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = MAS(epochs=5, setting="til")
    >>> for task in stream:
    ...     learner.observe(task)
    >>> len(learner.evaluate(stream))
    5
    """

    strength: Annotated[float, Param("weight λ of the penalty", least=0)] = 10_000.0

    family: ClassVar[str] = "penalty"
    keeps: ClassVar[Keeps] = Keeps("0", "2·p", "8·p")
    citation: ClassVar[str] = "Aljundi et al., 2018"
    summary: ClassVar[str] = "penalty on parameters the outputs are sensitive to"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rows_seen = 0

    def squared_output(self, batch: Examples) -> Tensor:
        """Mean of z² over training nodes and the columns they may use."""
        logits = self.columns.restrict(self.network(batch.inputs), batch.tasks)
        return logits[torch.isfinite(logits)].square().mean()

    def remember(self, observation: Observation, examples: Examples, schedule: Schedule) -> None:
        sensitivity = self.squared_gradients(examples, schedule, self.squared_output)
        old = self.importance or [torch.zeros_like(omega) for omega in sensitivity]
        rows = self.rows_seen + len(examples)
        self.importance = [
            (self.rows_seen * u + len(examples) * self.strength * omega) / rows
            for u, omega in zip(old, sensitivity, strict=True)
        ]
        self.anchor = [u * p.detach() for u, p in zip(self.importance, self.network.parameters(), strict=True)]
        self.rows_seen = rows

    def state(self) -> State:
        state = super().state()
        state.values["rows_seen"] = self.rows_seen
        return state

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self.rows_seen = state.whole_number("rows_seen")

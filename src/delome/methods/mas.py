"""MAS: memory aware synapses."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from delome.backbones.examples import Examples
from delome.learning import METHODS
from delome.learning.penalty import PenaltyLearner, PenaltyTraining
from delome.parameters import Param
from delome.persistence.state import State


@METHODS.register("mas")
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

    strength: Annotated[float, Param("weight λ of the penalty", at_least=0)] = 100.0

    citation = "Aljundi et al., 2018"
    search = ({"strength": (1e-2, 1.0, 1e2, 1e4)},)
    summary = "penalty on parameters the outputs are sensitive to"

    def forget(self) -> None:
        super().forget()
        self.rows_seen = 0

    def squared_output(self, batch: Examples) -> Tensor:
        """Mean of z² over training nodes and the columns they may use."""
        logits = self.columns.restrict(self.network(batch.inputs), batch.tasks)
        return logits[torch.isfinite(logits)].square().mean()

    def remember(self, task: PenaltyTraining) -> None:
        sensitivity = task.squared_gradients(self.squared_output)
        old = self.importance or [torch.zeros_like(omega) for omega in sensitivity]
        new_rows = len(task.examples)
        rows = self.rows_seen + new_rows
        self.importance = [
            (self.rows_seen * u + new_rows * self.strength * omega) / rows
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

"""TWP: topology-aware weight preserving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from delome.learning.penalty import PenaltyLearner
from delome.learning.training import Examples, Schedule
from delome.parameters import Param
from delome.persistence.state import Keeps
from delome.streams.task_stream import Observation


@dataclass(kw_only=True)
class TWP(PenaltyLearner):
    """``L = L_cur + Σ_k Σ_i (λ_l I^l_k,i + λ_t I^t_k,i) (θ_i - θ*_k,i)²`` (Liu, Yang, Wang, 2021).

    I^l is the squared gradient of the task's loss, I^t that of the norm of the attention between neighbours in the task
    graph: GAT's own, or for SGC and GCN the softmax of LeakyReLU(⟨h_u, tanh h_v⟩) over the edges into v. The original
    also adds β‖∇L_cur‖₁, but computes it from detached gradients, so that it changes nothing; it is left out.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = TWP(epochs=5, setting="til")
    >>> for task in stream:
    ...     learner.observe(task)
    >>> len(learner.evaluate(stream))
    5
    """

    strength: Annotated[float, Param("weight λ_l of the loss importance", least=0)] = 10_000.0
    topology_strength: Annotated[float, Param("weight λ_t of the topology importance", least=0)] = 10_000.0

    family: ClassVar[str] = "penalty"
    keeps: ClassVar[Keeps] = Keeps("0", "2·p", "8·p")
    citation: ClassVar[str] = "Liu, Yang, Wang, 2021"
    summary: ClassVar[str] = "penalty on parameters that matter to the loss or to attention between neighbours"

    def remember(self, observation: Observation, examples: Examples, schedule: Schedule) -> None:
        by_loss = self.squared_gradients(examples, schedule, self.task_loss)
        parameters = list(self.network.parameters())
        by_topology = torch.autograd.grad(
            self.network.topology(observation.graph), parameters, allow_unused=True, materialize_grads=True
        )
        self.accumulate(
            [
                self.strength * squared + self.topology_strength * slope.square()
                for squared, slope in zip(by_loss, by_topology, strict=True)
            ]
        )

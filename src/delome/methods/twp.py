"""TWP: topology-aware weight preserving."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch

from delome.backbones.backbone import offered
from delome.learning import METHODS
from delome.learning.penalty import PenaltyLearner, PenaltyTraining
from delome.parameters import Param


@METHODS.register("twp")
class TWP(PenaltyLearner):
    """``L = L_cur + Σ_k Σ_i (λ_l I^l_k,i + λ_t I^t_k,i) (θ_i - θ*_k,i)²`` (Liu, Yang, Wang, 2021).

    I^l is the squared gradient of the task's loss, I^t that of the norm of the attention between neighbours in the task
    graph: GAT's own, or for SGC and GCN the softmax of LeakyReLU(⟨h_u, tanh h_v⟩) over the edges into v. These are all
    edges of the graph: those between two test nodes change what is learned, too. The original also adds β‖∇L_cur‖₁, but
    computes it from detached gradients, so that it changes nothing; it is left out.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = TWP(epochs=5, setting="til")
    >>> for task in stream:
    ...     learner.observe(task)
    >>> len(learner.evaluate(stream))
    5
    """

    strength: Annotated[float, Param("weight λ_l of the loss importance", at_least=0)] = 10_000.0
    topology_strength: Annotated[float, Param("weight λ_t of the topology importance", at_least=0)] = 100.0

    citation = "Liu, Yang, Wang, 2021"
    learns_from: ClassVar[Literal["training nodes", "all nodes"]] = "all nodes"
    search = ({"strength": (1e4, 1e5), "topology_strength": (1e2, 1e4)},)
    summary = "penalty on parameters that matter to the loss or to attention between neighbours"

    def remember(self, task: PenaltyTraining) -> None:
        by_loss = task.squared_gradients(task.task_loss)
        topology = offered(self.network, "topology", "TWP")(task.observation.graph)
        parameters = list(self.network.parameters())
        by_topology = torch.autograd.grad(topology, parameters, allow_unused=True, materialize_grads=True)
        self.accumulate(
            [
                self.strength * squared + self.topology_strength * slope.square()
                for squared, slope in zip(by_loss, by_topology, strict=True)
            ]
        )

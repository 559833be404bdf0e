"""EWC: elastic weight consolidation."""

from __future__ import annotations

from typing import Annotated

from delome.learning import METHODS
from delome.learning.penalty import PenaltyLearner, PenaltyTraining
from delome.parameters import Param


@METHODS.register("ewc")
class EWC(PenaltyLearner):
    """``L = L_cur + λ Σ_k Σ_i F_k,i (θ_i - θ*_k,i)²`` (Kirkpatrick et al., 2017).

    F_k is the squared gradient of the task's loss at its optimum, a mean over batches, as in the benchmark of the paper
    (Fisher information proper is a mean of per-node squares and far larger).

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = EWC(epochs=5, setting="til")
    >>> for task in stream:
    ...     learner.observe(task)
    >>> len(learner.evaluate(stream))
    5
    """

    strength: Annotated[float, Param("weight λ of the penalty", at_least=0)] = 1_000_000.0

    citation = "Kirkpatrick et al., 2017"
    search = ({"strength": (1e3, 1e4, 1e5, 1e6)},)
    summary = "penalty on parameters with large loss gradients at old optima"

    def remember(self, task: PenaltyTraining) -> None:
        self.accumulate([self.strength * fisher for fisher in task.squared_gradients(task.task_loss)])

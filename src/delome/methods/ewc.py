"""EWC: elastic weight consolidation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from delome.learning.penalty import PenaltyLearner
from delome.learning.training import Examples, Schedule
from delome.parameters import Param
from delome.persistence.state import Keeps
from delome.streams.task_stream import Observation


@dataclass(kw_only=True)
class EWC(PenaltyLearner):
    """``L = L_cur + λ Σ_k Σ_i F_k,i (θ_i - θ*_k,i)²`` (Kirkpatrick et al., 2017).

    F_k is the squared gradient of the task's loss at its optimum, a mean over batches, as in the benchmark of the paper
    (λ is tuned for it; Fisher information proper is a mean of per-node squares and far larger).

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = EWC(epochs=5, setting="til")
    >>> for task in stream:
    ...     learner.observe(task)
    >>> len(learner.evaluate(stream))
    5
    """

    strength: Annotated[float, Param("weight λ of the penalty", least=0)] = 10_000.0

    family: ClassVar[str] = "penalty"
    keeps: ClassVar[Keeps] = Keeps("0", "2·p", "8·p")
    citation: ClassVar[str] = "Kirkpatrick et al., 2017"
    summary: ClassVar[str] = "penalty on parameters with large loss gradients at old optima"

    def remember(self, observation: Observation, examples: Examples, schedule: Schedule) -> None:
        fisher = self.squared_gradients(examples, schedule, self.task_loss)
        self.accumulate([self.strength * f for f in fisher])

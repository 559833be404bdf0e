"""Joint: retrain from scratch on all tasks so far; the upper bound."""

from __future__ import annotations

from torch import Tensor

from delome.backbones.examples import Examples
from delome.learning import METHODS, GradientLearner, TaskTraining
from delome.learning.footprint import FootprintFormula
from delome.losses import Balanced, ScoredRows
from delome.progress import Tracker
from delome.streams.tasks import Observation


@METHODS.register("joint")
class Joint(GradientLearner):
    """The oracle: sees every graph at all times, which no continual learner may.

    A fresh network and optimiser for every task. Full batch: the sum over tasks of each task's class-balanced
    loss. Mini-batches: one class-balanced loss over a batch of nodes of all tasks (per task in TIL).
    """

    batch_size = 2000
    passes = True

    needs_past = True
    family = "bound"
    keeps = FootprintFormula("N", "N·F", "4·N·F + 4·E + 4·N + 4·T")
    citation = "baseline"
    summary = "retrains on all tasks seen so far: the upper bound, keeps every graph"

    def row_loss(self, rows: ScoredRows) -> Tensor:
        return Balanced(pooled=self.batch_size is not None)(rows)

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> TaskTraining:
        if observation.index > 0:
            self.reset(self.width, self.outputs, draw=observation.index)
        with tracker.phase("prepare"):
            parts = [self.examples(past) for past in observation.past()] + [examples]
            return TaskTraining(self, observation, Examples.join(self.network, parts), tracker)

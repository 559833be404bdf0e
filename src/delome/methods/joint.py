"""Joint: retrain from scratch on all tasks so far; the upper bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from delome.backbones.sampling import join
from delome.learning.gradient import GradientLearner
from delome.learning.training import Examples
from delome.losses import Balanced, Loss
from delome.persistence.state import Keeps
from delome.progress import Tracker
from delome.streams.task_stream import Observation


@dataclass(kw_only=True)
class Joint(GradientLearner):
    """The oracle: sees every graph at all times, which no continual learner may.

    A fresh network and optimiser for every task. Full batch: the sum over tasks of each task's class-balanced
    loss. Mini-batches: one class-balanced loss over a batch of nodes of all tasks (per task in TIL).
    """

    needs_past: ClassVar[bool] = True
    family: ClassVar[str] = "bound"
    keeps: ClassVar[Keeps] = Keeps("N", "N·F", "4·N·F + 4·E + 4·N + 4·T")
    citation: ClassVar[str] = "baseline"
    summary: ClassVar[str] = "retrains on all tasks seen so far: the upper bound, keeps every graph"

    def make_loss(self) -> Loss:
        return Balanced(pooled=self.batch_size is not None)

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> Examples:
        if observation.index > 0:
            self.reset(observation.graph.num_features, observation.num_classes, draw=observation.index)
        with tracker.phase("prepare"):
            parts = [self.examples(past) for past in observation.past()] + [examples]
            return Examples(
                join(self.network, [part.inputs for part in parts]),
                torch.cat([part.labels for part in parts]),
                torch.cat([part.tasks for part in parts]),
            )

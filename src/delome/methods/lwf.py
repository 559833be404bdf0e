"""LwF: learning without forgetting."""

from __future__ import annotations

import copy
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from delome.backbones import Network
from delome.backbones.examples import Examples
from delome.errors import StateError
from delome.learning import METHODS, GradientLearner, TaskTraining
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.gradient import load_network, weights_of
from delome.learning.isolation import isolated
from delome.parameters import Param
from delome.persistence.state import State
from delome.progress import Tracker
from delome.randomness import at_most, generator
from delome.streams.tasks import Observation


def distillation(logits: Tensor, targets: Tensor, temperature: float, weights: Tensor | None = None) -> Tensor:
    """Cross-entropy with the teacher's softened outputs: -mean_i Σ_j softmax(z'/τ) log softmax(z/τ), without τ².

    Rows that were drawn from more of them have ``weights`` in the mean: how many rows each stands for.

    >>> distillation(torch.tensor([[2.0, 0.0]]), torch.tensor([[2.0, 0.0]]), 2.0)
    tensor(0.5822)
    """
    soft = (targets / temperature).softmax(dim=1)
    each = (soft * (logits / temperature).log_softmax(dim=1)).sum(dim=1)
    return -each.mean() if weights is None else -(weights * each).sum() / weights.sum()


@METHODS.register("lwf")
class LwF(GradientLearner):
    """``L = L_cur + λ Σ D(z, z')``: distils the network of the last task on the new task's nodes (Li and Hoiem, 2017).

    CIL: one term over all old columns; TIL: one term for the columns of each old task. The last network may have had
    fewer columns than this one.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = LwF(epochs=5, setting="til")
    >>> for task in stream:
    ...     learner.observe(task)
    >>> len(learner.evaluate(stream))
    5
    """

    strength: Annotated[float, Param("weight λ of the distillation", at_least=0)] = 1.0
    temperature: Annotated[float, Param("softening τ of the outputs", above=0)] = 2.0
    kaiming_init: Annotated[bool, Param("normal initial weights of std 1/√fan_in, as in the benchmark")] = True

    family = "distillation"
    keeps = FootprintFormula("0", "p", "4·p")
    citation = "Li and Hoiem, 2017"
    search = ({"strength": (1.0, 10.0), "temperature": (2.0, 20.0)},)
    summary = "distils the last network's outputs on the new task's nodes"

    def forget(self) -> None:
        super().forget()
        self.teacher: Network | None = None
        self.teacher_outputs = 0

    def reset(self, features: int, outputs: int, draw: int = 0) -> None:
        super().reset(features, outputs, draw)
        if self.kaiming_init:
            rng = generator(self.seed, "kaiming", draw)
            for parameter in self.network.parameters():
                if parameter.dim() == 2:
                    _draw_normal(parameter.data, rng)

    def grow(self, outputs: int) -> None:
        known = self.outputs
        before = list(self.network.parameters())
        super().grow(outputs)
        if self.kaiming_init:
            for old, new in zip(before, self.network.parameters(), strict=True):
                if new is not old and new.dim() == 2:
                    _draw_normal(new.data[:, known:], generator(self.seed, "new columns", known))

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> LwFTraining:
        return LwFTraining(self, observation, examples, tracker)

    def state(self) -> State:
        state = super().state()
        state.values["teacher_outputs"] = self.teacher_outputs
        if self.teacher is not None:
            teacher = self.teacher.named_parameters()
            state.tensors |= {f"teacher.{name}": parameter.detach().clone() for name, parameter in teacher}
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        if not self.columns.tasks:
            return
        # it may have fewer columns than the network, which may have grown since
        outputs = state.whole_number("teacher_outputs")
        if not self.columns.seen <= outputs <= self.outputs:
            raise StateError(f"the state does not fit the learner: its teacher has {outputs} columns")
        with at_most(weights_of(state, "teacher")):
            rng = generator(self.seed, "teacher")
            self.teacher = self.backbone.network(self.width, outputs, rng, self.torch_device).requires_grad_(False)
        self.teacher_outputs = outputs
        load_network(self.teacher, state, "teacher")

    def storage(self) -> Footprint:
        floats = sum(parameter.numel() for parameter in self.teacher.parameters()) if self.teacher else 0
        return Footprint(0, floats, 4 * floats)


class LwFTraining(TaskTraining):
    """Adds the distance from the outputs of the teacher, which sees the same nodes."""

    learner: LwF

    def __init__(self, learner: LwF, observation: Observation, examples: Examples, tracker: Tracker) -> None:
        super().__init__(learner, observation, examples, tracker)
        whole = learner.batch_size is None or len(examples) <= learner.batch_size
        same_every_epoch = learner.fanouts is None and whole
        self._taught = self._teach(examples) if learner.teacher is not None and same_every_epoch else None
        *old_tasks, _ = self.columns.tasks
        # a class may be in several old tasks, but its column is distilled once
        all_old = tuple(dict.fromkeys(column for task in old_tasks for column in task))
        self._distilled = old_tasks if learner.setting == "til" else [all_old]

    @torch.no_grad()
    def _teach(self, batch: Examples) -> Tensor:
        assert self.learner.teacher is not None
        return self.learner.teacher(batch.inputs)

    def objective(self, batch: Examples) -> Tensor:
        logits, learner = self.network(batch.inputs), self.learner
        loss = self.loss(logits, batch)
        if learner.teacher is None:
            return loss
        taught = self._teach(batch) if self._taught is None else self._taught
        for columns in self._distilled:
            chosen = list(columns)
            distilled = distillation(logits[:, chosen], taught[:, chosen], learner.temperature, batch.weights)
            loss = loss + learner.strength * distilled
        return loss

    def finish(self) -> None:
        self.learner.teacher = copy.deepcopy(self.network).requires_grad_(False)
        self.learner.teacher_outputs = self.learner.outputs


def _draw_normal(weights: Tensor, rng: np.random.Generator) -> None:
    drawn = rng.standard_normal(tuple(weights.shape), dtype="float32") * weights.shape[0] ** -0.5
    weights.copy_(torch.from_numpy(drawn))

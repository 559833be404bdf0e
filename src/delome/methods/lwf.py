"""LwF: learning without forgetting."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from delome.backbones import BACKBONES, Backbone
from delome.errors import StateError
from delome.isolation import isolated
from delome.methods.gradient import GradientLearner
from delome.parameters import Param
from delome.randomness import generator
from delome.state import Keeps, State, Storage
from delome.stream import Observation
from delome.tracking import Tracker
from delome.training import Examples


def distillation(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Cross-entropy with the teacher's softened outputs: -mean_i Σ_j softmax(z'/τ) log softmax(z/τ), without τ².

    >>> distillation(torch.tensor([[2.0, 0.0]]), torch.tensor([[2.0, 0.0]]), 2.0)
    tensor(0.5822)
    """
    soft = (targets / temperature).softmax(dim=1)
    return -(soft * (logits / temperature).log_softmax(dim=1)).sum(dim=1).mean()


@dataclass(kw_only=True)
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

    strength: Annotated[float, Param("weight λ of the distillation", least=0)] = 1.0
    temperature: Annotated[float, Param("softening τ of the outputs", above=0)] = 2.0
    kaiming_init: Annotated[bool, Param("normal initial weights of std 1/√fan_in, as in the benchmark")] = True

    family: ClassVar[str] = "distillation"
    keeps: ClassVar[Keeps] = Keeps("0", "p", "4·p")
    citation: ClassVar[str] = "Li and Hoiem, 2017"
    summary: ClassVar[str] = "distils the last network's outputs on the new task's nodes"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.teacher: Backbone | None = None

    def reset(self, features: int, classes: int, draw: int = 0) -> None:
        super().reset(features, classes, draw)
        if self.kaiming_init:
            rng = generator(self.seed, "kaiming", draw)
            for parameter in (self.network.first, self.network.second):
                _draw_normal(parameter.data, rng)

    def grow(self, classes: int) -> None:
        known = self.network.second.shape[1]
        super().grow(classes)
        if self.kaiming_init:
            _draw_normal(self.network.second.data[:, known:], generator(self.seed, "new columns", known))

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> Examples:
        self._taught: tuple[Examples, Tensor] | None = None
        same_every_epoch = self.fanouts is None and (self.batch_size is None or len(examples) <= self.batch_size)
        if self.teacher is not None and same_every_epoch:
            self._taught = examples, self._teach(examples)
        return examples

    def _teach(self, batch: Examples) -> Tensor:
        assert self.teacher is not None
        with torch.no_grad():
            return self.teacher(batch.inputs)

    def objective(self, batch: Examples) -> Tensor:
        logits = self.network(batch.inputs)
        loss = self.loss_of(logits, batch.labels, batch.tasks)
        if self.teacher is None:
            return loss
        taught = self._taught[1] if self._taught and self._taught[0] is batch else self._teach(batch)
        *old_tasks, _ = self.columns.tasks
        # a class may be in several old tasks, but its column is distilled once
        slices = old_tasks if self.setting == "til" else [tuple(dict.fromkeys(c for task in old_tasks for c in task))]
        for columns in slices:
            chosen = list(columns)
            loss = loss + self.strength * distillation(logits[:, chosen], taught[:, chosen], self.temperature)
        return loss

    def end(self, observation: Observation, tracker: Tracker) -> None:
        self._taught = None
        self.teacher = copy.deepcopy(self.network).requires_grad_(False)

    def state(self) -> State:
        state = super().state()
        if self.teacher is not None:
            teacher = self.teacher.named_parameters()
            state.tensors |= {f"teacher.{name}": parameter.detach().clone() for name, parameter in teacher}
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        if "teacher.first" in state.tensors:
            # it may have fewer columns than the network, which may have grown since
            columns = state.tensor("teacher.second", (self.hidden, None)).shape[1]
            if not self.columns.seen <= columns <= self.network.second.shape[1]:
                raise StateError(f"the state does not fit the learner: its teacher has {columns} columns")
            self.teacher = BACKBONES[self.backbone](
                len(self.network.first), self.hidden, columns, generator(self.seed, "teacher"), self.torch_device
            ).requires_grad_(False)
            for name, parameter in self.teacher.named_parameters():
                parameter.copy_(state.tensor(f"teacher.{name}", parameter.shape))

    def storage(self) -> Storage:
        floats = sum(parameter.numel() for parameter in self.teacher.parameters()) if self.teacher else 0
        return Storage(0, floats, 4 * floats)


def _draw_normal(weights: Tensor, rng: np.random.Generator) -> None:
    drawn = rng.standard_normal(tuple(weights.shape), dtype="float32") * weights.shape[0] ** -0.5
    weights.copy_(torch.from_numpy(drawn))

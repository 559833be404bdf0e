"""A learner that trains one network by gradient steps: the shared loop and its four hooks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from delome.backbones import BACKBONES, Backbone, Inputs
from delome.backbones.sampling import Fanouts, SampledNodes
from delome.errors import ParameterError, StateError
from delome.graph import Graph
from delome.isolation import isolated
from delome.losses import Balanced, Loss
from delome.methods.learner import Learner, check_width
from delome.parameters import Param
from delome.randomness import generator, torch_generator
from delome.state import State
from delome.stream import Observation
from delome.tracking import Tracker
from delome.training import Examples, Schedule, train


@dataclass(kw_only=True)
class GradientLearner(Learner):
    """Model and optimiser are carried over from task to task.

    Weight decay is *coupled* (part of the gradient, as in the benchmark of the paper) or *decoupled* (AdamW, Loshchilov
    and Hutter, 2019). Adam scales every gradient to the same step size: coupled decay, however small, drives a weight
    that the loss does not touch to zero at full speed, and decoupled decay does not.

    A method changes what it needs of: ``begin``, ``objective``, ``adjust``, ``end``.
    """

    backbone: Annotated[Literal["sgc", "gcn", "gat"], Param("network that classifies nodes")] = "sgc"
    hidden: Annotated[int, Param("hidden units", least=1)] = 256
    epochs: Annotated[int, Param("passes over the training nodes of a task", least=1)] = 200
    lr: Annotated[float, Param("Adam's step size", above=0)] = 0.005
    weight_decay: Annotated[float, Param("how strongly weights shrink", least=0)] = 5e-4
    decay: Annotated[
        Literal["coupled", "decoupled"], Param("weight decay inside Adam's gradient (as in the paper), or beside it")
    ] = "coupled"
    batch_size: Annotated[int | None, Param("training nodes in a step; none = all", least=1)] = 2000

    fanout: Annotated[
        str | None, Param("neighbours drawn at hop 1 and 2 in training, e.g. 25,10; none = all, computed once")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fanouts = None if self.fanout is None else parse_fanout(self.fanout)
        self.loss = self.make_loss()
        self.model: Backbone | None = None
        self.optimizer: torch.optim.Optimizer | None = None

    def make_loss(self) -> Loss:
        """How the rows of a batch are weighed."""
        return Balanced()

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> Examples:
        """Before training on a task; returns the examples to pass over."""
        return examples

    def objective(self, batch: Examples) -> Tensor:
        """What a step on a batch minimises."""
        return self.task_loss(batch)

    def adjust(self) -> None:
        """After the gradients of a batch are known, before the step."""

    def end(self, observation: Observation, tracker: Tracker) -> None:
        """After training on a task."""

    @property
    def network(self) -> Backbone:
        if self.model is None:
            raise StateError("nothing was learned yet: call observe first")
        return self.model

    def task_loss(self, batch: Examples) -> Tensor:
        """Loss of the batch alone."""
        return self.loss_of(self.network(batch.inputs), batch.labels, batch.tasks)

    def loss_of(self, logits: Tensor, labels: Tensor, tasks: Tensor) -> Tensor:
        """Loss of rows with these logits, columns restricted by the setting."""
        pooled = self.setting == "cil" and self.loss.pooled
        groups = torch.zeros_like(tasks) if pooled else tasks
        return self.loss(self.columns.restrict(logits, tasks), labels, groups, self.counts)

    def _learn(self, observation: Observation, tracker: Tracker) -> None:
        # the first optimiser imports this, which takes seconds: they are not this task's
        import_module("torch._dynamo")
        with tracker.phase("prepare"):
            if self.model is None:
                self.reset(observation.graph.num_features, observation.num_classes)
            check_width(observation.graph, self.network.first.shape[0])
            if observation.num_classes > self.network.second.shape[1]:
                self.grow(observation.num_classes)
            current = self.examples(observation)
            self.counts = torch.bincount(current.labels, minlength=self.columns.seen)
        examples = self.begin(observation, current, tracker)
        schedule = Schedule(self.batch_size, self.seed, observation.index)
        assert self.optimizer is not None
        epochs = self._epochs(observation.index, tracker)
        try:
            train(examples, schedule, epochs, self.optimizer, self.objective, self.adjust)
        finally:
            self.network.noise = None
        self.end(observation, tracker)

    def _epochs(self, task: int, tracker: Tracker) -> Iterator[int]:
        """Numbers of the epochs of a task, each with its own dropout."""
        for epoch in tracker.steps("train", self.epochs, self._trained, self._load_trained):
            self.epoch = epoch
            self.network.noise = torch_generator(self.torch_device, self.seed, "dropout", task, epoch)
            yield epoch

    def reset(self, features: int, classes: int, draw: int = 0) -> None:
        """Fresh network and optimiser; ``draw`` numbers the initialisation."""
        rng = generator(self.seed, "init", draw)
        self.model = BACKBONES[self.backbone](features, self.hidden, classes, rng, self.torch_device)
        kind = torch.optim.Adam if self.decay == "coupled" else torch.optim.AdamW
        self.optimizer = kind(self.model.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=True)

    def grow(self, classes: int) -> None:
        """Gives the network more columns; Adam keeps its moments of the old ones, those of new ones start at zero."""
        assert self.optimizer is not None
        old = list(self.network.parameters())
        self.network.grow(classes, generator(self.seed, "new columns", self.network.second.shape[1]))
        new = list(self.network.parameters())
        for before, after in zip(old, new, strict=True):
            if after is before or not (moments := self.optimizer.state.pop(before, {})):
                continue
            self.optimizer.state[after] = {
                name: padded(value, after) if value.dim() else value for name, value in moments.items()
            }
        self.optimizer.param_groups[0]["params"] = new

    def examples(self, observation: Observation) -> Examples:
        """Training rows of an observation, as the backbone reads them."""
        graph, train = observation.graph, observation.train
        if self.fanouts is None:
            inputs: Inputs = self.network.prepare(graph).select(train)
        else:
            inputs = SampledNodes.of(self.network, graph, train, self.fanouts)
        labels = torch.from_numpy(observation.labels).to(self.torch_device)
        return Examples(inputs, labels, torch.full_like(labels, observation.index))

    @property
    def _form_of_inputs(self) -> Hashable:
        return self.backbone, self.torch_device, self.network.first.shape[0]

    def _inputs(self, graph: Graph, nodes: np.ndarray) -> Inputs:
        check_width(graph, self.network.first.shape[0])
        return self.network.prepare(graph).select(nodes)

    @torch.no_grad()
    def _scores(self, inputs: Inputs, task: int) -> Tensor:
        return self.network(inputs)

    def state(self) -> State:
        state = super().state()
        if self.model is not None:
            state.tensors |= self._trained().tensors
        return state

    def _trained(self) -> State:
        """Network and optimiser."""
        state = State()
        assert self.optimizer is not None
        for name, parameter in self.network.named_parameters():
            state.tensors[f"model.{name}"] = parameter.detach().clone()
            for moment, value in self.optimizer.state[parameter].items():
                state.tensors[f"adam.{name}.{moment}"] = value.detach().clone()
        return state

    @torch.no_grad()
    def _load_trained(self, state: State) -> None:
        """Takes back network and optimiser."""
        assert self.optimizer is not None
        for name, parameter in self.network.named_parameters():
            parameter.copy_(state.tensor(f"model.{name}", parameter.shape))
            shapes = {"step": (), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
            self.optimizer.state[parameter] = {
                moment: state.tensor(f"adam.{name}.{moment}", shape).to(self.torch_device, copy=True)
                for moment, shape in shapes.items()
            }

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        if not self.columns.tasks and "model.first" not in state.tensors:
            return
        features, hidden = state.tensor("model.first", (None, None)).shape
        if hidden != self.hidden:
            raise StateError(f"the state has {hidden} hidden units, the learner {self.hidden}")
        columns = state.tensor("model.second", (hidden, None)).shape[1]
        if features < 1 or columns < self.columns.seen:
            raise StateError(
                f"the state does not fit the learner: its network has {features} features and {columns} columns "
                f"for {self.columns.seen} classes"
            )
        self.reset(features, columns)
        self._load_trained(state)


def padded(value: Tensor, parameter: Tensor) -> Tensor:
    """A value for each entry of a parameter that has grown: zero for entries of new columns."""
    return functional.pad(value, (0, parameter.shape[-1] - value.shape[-1]))


def parse_fanout(text: str) -> Fanouts:
    """``"25,10"`` as numbers.

    >>> parse_fanout("25,10")
    (25, 10)
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isdecimal() and len(part) <= 9 for part in parts):
        raise ParameterError(f"fanout must be two whole numbers such as 25,10, not '{text}'")
    return int(parts[0]), int(parts[1])

"""A learner that trains one network by gradient steps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from importlib import import_module
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from delome.backbones import BACKBONES, SGC, Backbone, Inputs, Network
from delome.backbones.examples import Examples
from delome.backbones.sampling import Fanouts, SampledNodes
from delome.errors import ParameterError, StateError
from delome.graph import Graph
from delome.graph.neighbourhood import seen_by
from delome.learning.isolation import isolated
from delome.learning.learner import Learner
from delome.learning.training import Checkpointed, Schedule, TaskTraining, train
from delome.losses import Balanced, ScoredRows
from delome.parameters import Param, Part
from delome.persistence.state import State
from delome.progress import Tracker
from delome.randomness import at_most, generator
from delome.streams.tasks import Observation


class GradientLearner(Learner):
    """Model and optimiser are carried over from task to task.

    A method changes what training on a task is by returning its own `TaskTraining` from `begin`.

    Weight decay is *coupled* (part of the gradient, as in the benchmark of the paper) or *decoupled* (AdamW, Loshchilov
    and Hutter, 2019). Adam scales every gradient to the same step size: coupled decay, however small, drives a weight
    that the loss does not touch to zero at full speed, and decoupled decay does not. In the task-incremental setting no
    later loss touches the columns of an old task, so decay is decoupled there; in the class-incremental one the coupled
    form regularises better (benchmarks/decay.py, on validation nodes).
    """

    backbone: Annotated[Backbone, Part("network that classifies nodes", BACKBONES)] = SGC()
    epochs: Annotated[
        int, Param("steps, or with passes=true passes over the training nodes, of a task", at_least=1)
    ] = 200
    lr: Annotated[float, Param("Adam's step size", above=0)] = 0.005
    weight_decay: Annotated[float, Param("how strongly weights shrink", at_least=0)] = 5e-4
    decay: Annotated[
        Literal["coupled", "decoupled"] | None,
        Param("weight decay in Adam's gradient (as in the paper) or beside it; none = coupled in cil, beside in til"),
    ] = None
    batch_size: Annotated[int | None, Param("most training nodes in a step; none = all", at_least=1)] = 512
    passes: Annotated[
        bool, Param("an epoch is a pass over all training nodes in batches, not one step on nodes that are drawn")
    ] = False
    fanout: Annotated[
        str | None, Param("neighbours drawn at hop 1 and 2 in training, e.g. 25,10; none = all, computed once")
    ] = None

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.fanouts = None if self.fanout is None else parse_fanout(self.fanout)

    def forget(self) -> None:
        super().forget()
        self.outputs = 0
        self.model: Network | None = None
        self.optimizer: torch.optim.Optimizer | None = None

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> TaskTraining:
        """The training of a task, whose training nodes are the ``examples``."""
        return TaskTraining(self, observation, examples, tracker)

    def row_loss(self, rows: ScoredRows) -> Tensor:
        """Loss of scored rows."""
        return Balanced()(rows)

    @property
    def couples_decay(self) -> bool:
        """Whether weight decay is part of the gradient."""
        return (self.decay or ("coupled" if self.setting == "cil" else "decoupled")) == "coupled"

    @property
    def network(self) -> Network:
        if self.model is None:
            raise StateError("nothing was learned yet: call observe first")
        return self.model

    def learn(self, observation: Observation, tracker: Tracker) -> None:
        # the first optimiser imports this, which takes seconds: they are not this task's
        import_module("torch._dynamo")
        with tracker.phase("prepare"):
            if self.model is None:
                self.reset(self.width, observation.num_classes)
            if observation.num_classes > self.outputs:
                self.grow(observation.num_classes)
            examples = self.examples(observation)
        task = self.begin(observation, examples, tracker)
        self.fit(task)
        task.finish()

    def fit(self, task: TaskTraining) -> None:
        """Trains the network on a task."""
        assert self.optimizer is not None
        schedule = Schedule(self.batch_size, self.seed, task.observation.index, self.passes)
        checkpointed = Checkpointed(self.trained, self.load_trained)
        train(task, self.optimizer, self.epochs, schedule, checkpointed)

    def reset(self, features: int, outputs: int, draw: int = 0) -> None:
        """Fresh network and optimiser; ``draw`` numbers the initialisation."""
        rng = generator(self.seed, "init", draw)
        self.outputs = outputs
        self.model = self.backbone.network(features, outputs, rng, self.torch_device)
        kind = torch.optim.Adam if self.couples_decay else torch.optim.AdamW
        self.optimizer = kind(self.model.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=True)

    def grow(self, outputs: int) -> None:
        """Gives the network more columns; Adam keeps its moments of the old ones, those of new ones start at zero."""
        assert self.optimizer is not None
        old = list(self.network.parameters())
        self.network.grow(outputs, generator(self.seed, "new columns", self.outputs))
        self.outputs = outputs
        new = list(self.network.parameters())
        for before, after in zip(old, new, strict=True):
            if after is before or not (moments := self.optimizer.state.pop(before, {})):
                continue
            self.optimizer.state[after] = {
                name: padded(value, after) if value.dim() else value for name, value in moments.items()
            }
        self.optimizer.param_groups[0]["params"] = new

    def examples(self, observation: Observation) -> Examples:
        """Training rows of an observation, as the network reads them."""
        graph, train = observation.graph, observation.train
        if self.fanouts is None:
            inputs: Inputs = self.network.prepare(graph).select(train)
        else:
            inputs = SampledNodes.of(self.network, graph, train, self.fanouts)
        labels = torch.from_numpy(observation.labels).to(self.torch_device)
        return Examples(inputs, labels, torch.full_like(labels, observation.index))

    def inputs_key(self) -> Hashable:
        return self.backbone, self.torch_device, self.width

    def inputs(self, graph: Graph, nodes: np.ndarray) -> Inputs:
        if self.backbone.local:
            graph, nodes = seen_by(graph, nodes, self.backbone.hops)
        inputs: Inputs = self.network.prepare(graph).select(nodes)
        return inputs

    def sees(self) -> int | None:
        return self.backbone.hops if self.backbone.local else None

    def select_inputs(self, inputs: Inputs, index: np.ndarray) -> Inputs:
        return inputs.select(index)

    def join_inputs(self, parts: Sequence[Inputs]) -> Inputs:
        joined: Inputs = self.backbone.join(parts)
        return joined

    @torch.no_grad()
    def logits(self, inputs: Inputs, task: int) -> Tensor:
        return self.network(inputs)

    def state(self) -> State:
        state = super().state()
        state.values["outputs"] = self.outputs
        if self.model is not None:
            state.tensors |= self.trained().tensors
        return state

    def trained(self) -> State:
        """Copies of network and optimiser."""
        state = State()
        assert self.optimizer is not None
        for name, parameter in self.network.named_parameters():
            state.tensors[f"model.{name}"] = parameter.detach().clone()
            for moment, value in self.optimizer.state[parameter].items():
                state.tensors[f"adam.{name}.{moment}"] = value.detach().clone()
        return state

    @torch.no_grad()
    def load_trained(self, state: State) -> None:
        """Takes back network and optimiser."""
        assert self.optimizer is not None
        load_network(self.network, state, "model")
        for name, parameter in self.network.named_parameters():
            shapes = {"step": (), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
            self.optimizer.state[parameter] = {
                moment: state.tensor(f"adam.{name}.{moment}", shape).to(self.torch_device, copy=True)
                for moment, shape in shapes.items()
            }

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        outputs = state.whole_number("outputs")
        if outputs < self.columns.seen:
            raise StateError(
                f"the state does not fit the learner: its network has {outputs} columns for {self.columns.seen} classes"
            )
        if self.columns.tasks:
            with at_most(weights_of(state, "model")):
                self.reset(self.width, outputs)
            self.load_trained(state)


def weights_of(state: State, prefix: str) -> int:
    """Number of weights that a state holds of a network."""
    return sum(tensor.numel() for name, tensor in state.tensors.items() if name.startswith(f"{prefix}."))


@torch.no_grad()
def load_network(network: Network, state: State, prefix: str) -> None:
    """Gives a network the weights that a state holds."""
    for name, parameter in network.named_parameters():
        parameter.copy_(state.tensor(f"{prefix}.{name}", parameter.shape))


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

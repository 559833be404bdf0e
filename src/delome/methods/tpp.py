"""TPP: task profiling and prompting, as published and node by node."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from delome.errors import DivergenceError, ParameterError
from delome.graph import Graph
from delome.graph.lengths import lengths_of
from delome.graph.neighbourhood import seen_by
from delome.graph.rows import Rows, SparseMatrix
from delome.graph.sparse import to_dense
from delome.learning.adam import ResumableAdam
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.grace import Encoder, pretrained
from delome.learning.isolation import isolated
from delome.learning.learner import METHODS, Learner
from delome.learning.training import check_finite
from delome.parameters import Param
from delome.persistence.state import State
from delome.progress import Tracker
from delome.randomness import generator, uniform
from delome.streams.tasks import Observation

SMOOTHING_HOPS, HOPS = 3, 2
MOST_PROMPTS = 10_000
ELSEWHERE = -1e4
"""Score of classes of tasks that a node is not taken to be of."""


def smoothed(graph: Graph, nodes: np.ndarray) -> Tensor:
    """Rows of ``D^-1/2 S³ X``: features of a node's neighbourhood, by which tasks are told apart.

    >>> ring = Graph([[0, 1, 2], [1, 2, 0]], [[6.0], [6.0], [6.0]])
    >>> round(float(smoothed(ring, np.array([1]))), 4)  # 6 / √3
    3.4641
    """
    rows = to_dense(graph.propagate(SMOOTHING_HOPS)[nodes])
    return torch.from_numpy(graph.scale()[nodes][:, None] * rows)


def without_isolated(graph: Graph, rng: np.random.Generator) -> Graph:
    """The graph in which every node without edges is joined to a random one that has some."""
    edges = graph.adjacency.tocoo()
    connected = np.zeros(graph.num_nodes, dtype=bool)
    connected[edges.row] = connected[edges.col] = True
    alone, others = np.flatnonzero(~connected), np.flatnonzero(connected)
    if not len(alone) or not len(others):
        return graph
    chosen = rng.choice(others, len(alone))
    data = np.concatenate([edges.data, np.ones(2 * len(alone), edges.data.dtype)])
    rows, columns = np.concatenate([edges.row, alone, chosen]), np.concatenate([edges.col, chosen, alone])
    return graph._like(adjacency=sp.csr_array((data, (rows, columns)), shape=edges.shape))


@dataclass(frozen=True)
class Asked:
    """What is read of nodes: profiles, propagated rows, and what prompts are added to."""

    profiles: Tensor
    rows: Rows
    graph: Graph
    nodes: np.ndarray


@dataclass(frozen=True)
class TaskHead:
    """What is kept of a task: its profile, its linear head, and its prompts if it has any.

    ``x' = x + Σ_j softmax_j(a_jᵀ x + c_j) p_j``
    """

    profile: Tensor
    weight: Tensor
    bias: Tensor
    prompts: dict[str, Tensor]

    def named(self) -> dict[str, Tensor]:
        return {"profile": self.profile, "weight": self.weight, "bias": self.bias, **self.prompts}


@METHODS.register("tpp")
class TPP(Learner):
    """Task profiling and prompting (Niu et al., 2024) **as published**: all nodes that are asked about at the same time
    are taken to be of one task, the one whose profile is nearest to the mean of theirs.

    A profile is the mean over training nodes of ``D^-1/2 S³ X``. On the first task's graph a network is trained without
    labels (`delome.learning.grace`) and then frozen; each task adds a linear head, and each but the first ``prompts``
    that are added to features. Nothing is replayed and nothing forgotten; a wrong task makes every answer wrong.

    That the nodes asked about come from one task is more than a class-incremental learner may know: `delome check` and
    all tables say so. ``tpp-nodes`` asks for each node's own profile instead.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = TPP(epochs=60, pretrain=20, hidden=64)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 85
    True
    """

    hidden: Annotated[int, Param("units of both layers of the network", at_least=1)] = 256
    prompts: Annotated[int, Param("prompt vectors of a task", at_least=1)] = 3
    pretrain: Annotated[int, Param("steps of training the network without labels", at_least=1)] = 200
    epochs: Annotated[int, Param("steps of training the prompts and the head of a task", at_least=1)] = 200
    lr: Annotated[float, Param("Adam's step size of prompts and heads", above=0)] = 0.005
    weight_decay: Annotated[float, Param("how strongly prompts and heads shrink", at_least=0)] = 5e-4

    judges: ClassVar[Literal["nodes", "batches"]] = "batches"
    learns_from: ClassVar[Literal["training nodes", "all nodes"]] = "all nodes"
    streams: ClassVar[tuple[str, ...]] = ("classes", "time", "domains")
    family = "task inference"
    keeps = FootprintFormula("0", "T·F + (T - 1)·(2·k·F + k) + C·h + C", "4·T·F + 4·(T - 1)·(2·k·F + k) + 4·C·h + 4·C")
    citation = "Niu et al., 2024"
    summary = "guesses one task for all nodes asked about; prompts and a head for each task on a frozen network"

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.prompts > MOST_PROMPTS:
            raise ParameterError(f"prompts must be at most {MOST_PROMPTS}, not {self.prompts}")

    def forget(self) -> None:
        super().forget()
        self.encoder: Encoder | None = None
        self.heads: list[TaskHead] = []

    def learn(self, observation: Observation, tracker: Tracker) -> None:
        graph = observation.graph
        if self.encoder is None:
            start = Encoder.drawn(self.width, self.hidden, generator(self.seed, "encoder"), self.torch_device)
            self.encoder = pretrained(graph, start, self.pretrain, self.seed, tracker)
        with tracker.phase("prepare"):
            profiled = self._profiled(graph, generator(self.seed, "isolated nodes", observation.index))
            profile = smoothed(profiled, observation.train).mean(dim=0).to(self.torch_device)
            if not lengths_of(profile).isfinite():  # distances could not be told from each other
                raise DivergenceError(f"the features of task {observation.index} are too large to add up: scale them")
        self.heads = [*self.heads, self._trained(observation, profile, tracker)]

    def _profiled(self, graph: Graph, rng: np.random.Generator) -> Graph:
        """The graph in which profiles are taken."""
        return without_isolated(graph, rng) if self.judges == "batches" else graph

    def _trained(self, observation: Observation, profile: Tensor, tracker: Tracker) -> TaskHead:
        """Prompts and head of a task; the network stays as it is."""
        assert self.encoder is not None
        rng = generator(self.seed, "head", observation.index)
        classes, width, count = len(observation.classes), self.width, self.prompts
        named = {"weight": uniform(rng, (self.hidden, classes), (6 / (self.hidden + classes)) ** 0.5)}
        named["bias"] = torch.zeros(classes)
        if self.heads:
            bound = (6 / (width + count)) ** 0.5
            named["attention"] = uniform(rng, (width, count), bound)
            named["offset"] = torch.zeros(count)
            named["prompt"] = uniform(rng, (count, width), bound)
        named = {name: tensor.to(self.torch_device) for name, tensor in named.items()}
        adam = ResumableAdam(named, self.lr, self.weight_decay)
        place = {column: position for position, column in enumerate(observation.classes)}
        labels = torch.tensor([place[column] for column in observation.labels.tolist()], device=self.torch_device)
        asked = self._asked(observation.graph, observation.train, profile[None])
        prompts = {name: tensor for name, tensor in named.items() if name not in ("weight", "bias")}
        head = TaskHead(profile, named["weight"], named["bias"], prompts)
        reader = _Reader(asked, self.encoder)
        for epoch in tracker.steps("train", self.epochs, adam.save, adam.load):
            loss = functional.cross_entropy(reader.scores(head), labels)
            check_finite(loss, "the loss", observation.index, epoch)
            adam.step(loss)
        kept = {name: tensor.detach().clone() for name, tensor in head.named().items()}
        return TaskHead(kept.pop("profile"), kept.pop("weight"), kept.pop("bias"), kept)

    def _asked(self, graph: Graph, nodes: np.ndarray, profiles: Tensor) -> Asked:
        return Asked(profiles, Rows.of(graph.propagate(HOPS)[nodes], self.torch_device), graph, nodes)

    def inputs_key(self) -> Hashable:
        return type(self).__name__, self.width, self.torch_device

    def inputs(self, graph: Graph, nodes: np.ndarray) -> Asked:
        if self.judges == "nodes":
            graph, nodes = seen_by(graph, nodes, SMOOTHING_HOPS)
            return self._asked(graph, nodes, smoothed(graph, nodes).to(self.torch_device))
        rng = generator(self.seed, "isolated nodes asked about")
        profiled: Graph = graph.cached(("profiled", self.seed), lambda: self._profiled(graph, rng))
        return self._asked(graph, nodes, smoothed(profiled, nodes).to(self.torch_device))

    @torch.no_grad()
    def logits(self, inputs: Asked, task: int) -> Tensor:
        assert self.encoder is not None
        count = len(inputs.nodes)
        scores = torch.full((count, self.columns.seen), ELSEWHERE, device=self.torch_device)
        of_nodes = torch.full((count,), task, device=self.torch_device)
        if self.setting == "cil":
            of_nodes = self.nearest(inputs.profiles, torch.stack([head.profile for head in self.heads]))
        reader = _Reader(inputs, self.encoder)
        for number in of_nodes.unique().tolist():
            chosen = of_nodes == number
            own = reader.scores(self.heads[number])[chosen].log_softmax(dim=1)
            scores[chosen.nonzero(), torch.tensor(self.columns.tasks[number], device=self.torch_device)] = own
        scores[~inputs.profiles.isfinite().all(dim=1)] = torch.nan
        return scores

    def nearest(self, asked: Tensor, profiles: Tensor) -> Tensor:
        """The task of each node: of all of them the one whose profile is nearest to the mean of theirs."""
        return _nearest(asked.mean(dim=0, keepdim=True), profiles).expand(len(asked))

    def state(self) -> State:
        state = super().state()
        if self.encoder is not None:
            state.tensors |= {
                "encoder.first": self.encoder.first.clone(),
                "encoder.second": self.encoder.second.clone(),
            }
        for number, head in enumerate(self.heads):
            state.tensors |= {f"task.{number}.{name}": each.clone() for name, each in head.named().items()}
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        if not self.columns.tasks:
            return

        def load(name: str, *shape: int) -> Tensor:
            return state.tensor(name, shape).to(self.torch_device, copy=True)

        self.encoder = Encoder(
            load("encoder.first", self.width, self.hidden), load("encoder.second", self.hidden, self.hidden)
        )
        for number, classes in enumerate(self.columns.tasks):
            place, prompts = f"task.{number}.", {}
            if number:
                shapes = {"attention": (self.width, self.prompts), "offset": (self.prompts,)}
                shapes["prompt"] = (self.prompts, self.width)
                prompts = {name: load(place + name, *shape) for name, shape in shapes.items()}
            weight, bias = load(f"{place}weight", self.hidden, len(classes)), load(f"{place}bias", len(classes))
            self.heads.append(TaskHead(load(f"{place}profile", self.width), weight, bias, prompts))

    def storage(self) -> Footprint:
        floats = sum(tensor.numel() for head in self.heads for tensor in head.named().values())
        return Footprint(0, floats, 4 * floats)


@METHODS.register("tpp-nodes")
class TPPNodes(TPP):
    """Task profiling and prompting, node by node: each node is taken to be of the task whose profile is nearest to the
    node's own row of ``D^-1/2 S³ X``. Nodes without edges are left as they are."""

    judges = "nodes"
    streams = ("classes", "time", "domains", "blurry")
    citation = "after Niu et al., 2024"
    summary = "guesses the task of each node by itself; prompts and a head for each task on a frozen network"

    def nearest(self, asked: Tensor, profiles: Tensor) -> Tensor:
        """The task of each node: the one whose profile is nearest to its own."""
        return _nearest(asked, profiles)


class _Reader:
    """Scores of nodes under heads: ``S² X' W₁ = S² X W₁ + (S² A)(p W₁)`` with A the attention of all nodes to prompts,
    of which the first term is the same for all heads."""

    def __init__(self, asked: Asked, encoder: Encoder) -> None:
        self.asked, self.encoder = asked, encoder
        self._hidden = asked.rows.times(encoder.first)
        self._parts: tuple[Rows, SparseMatrix, Tensor] | None = None

    def scores(self, head: TaskHead) -> Tensor:
        hidden, encoder = self._hidden, self.encoder
        if head.prompts:
            spread = self._attention(head)
            hidden = hidden + spread @ (head.prompts["prompt"] @ encoder.first)
        return encoder.second_layer(hidden) @ head.weight + head.bias

    def _attention(self, head: TaskHead) -> Tensor:
        """S² A of the nodes."""
        if self._parts is None:
            graph, device = self.asked.graph, self.encoder.first.device
            nodes = torch.from_numpy(self.asked.nodes).to(device)
            self._parts = Rows.of(graph.features, device), SparseMatrix(graph.operator(), device), nodes
        features, operator, nodes = self._parts
        attention = (features.times(head.prompts["attention"]) + head.prompts["offset"]).softmax(dim=1)
        return operator.times(operator.times(attention)).index_select(0, nodes)


def _nearest(rows: Tensor, profiles: Tensor) -> Tensor:
    """Number of the nearest profile of each row, by differences: products would cancel."""
    distances = torch.stack([(rows - profile).square().sum(dim=1) for profile in profiles])
    return distances.argmin(dim=0)

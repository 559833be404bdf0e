"""HPNs: hierarchical prototype networks."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Sequence
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from delome.errors import ParameterError, StateError
from delome.graph import Graph
from delome.graph.rows import Rows
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.isolation import isolated
from delome.learning.learner import METHODS, Learner
from delome.learning.training import Schedule, check_finite
from delome.memories.prototypes import PrototypeTable, Trained, normalise
from delome.parameters import Param
from delome.persistence.state import State, whole_numbers
from delome.progress import Tracker
from delome.randomness import generator, uniform
from delome.streams.columns import Setting
from delome.streams.tasks import Observation

LEVELS = ("atomic", "node", "class")
PROTOTYPES_READ = {"embeddings": 0, "nodes": 1, "classes": 2}
"""Vectors that each head reads beside the L slots: none, the node prototype, node and class prototype."""
LR_DECAY = 0.01
CLASS_HEAD_WEIGHT = 10
NODES_AT_ONCE = 1024

MOST_WEIGHTS = 10**8
"""Weights of the attention over a node's embeddings beyond which parameters are refused."""


@METHODS.register("hpns")
class HPNs(Learner):
    """``L = CE(h₁(e)) + 10·CE(h₃[p, pᴺ, pᶜ]) + CE(h₂[p, pᴺ]) + MSE(p, e)`` (Zhang, Song, Tao, 2023).

    The slots ``e₁ … e_L`` of a node are its own features and those of sampled neighbours, each mapped by small linear
    extractors and normalised. Every slot is replaced by its nearest atomic prototype p; a weighted sum of these by its
    nearest node prototype pᴺ, and that by its nearest class prototype pᶜ. An embedding far from all prototypes becomes
    a new one. A task gets extractors of its own; with a ``pool`` of so many, as in the original, only while it lasts,
    then those that fit the known prototypes best, which are trained on.
    Only extractors of the task and prototypes that were matched are trained, so what old tasks use is hardly touched;
    the heads hᵢ are shared (output j is the j-th class of a task), so the task of a node must be known.

    During the first ``establish_after`` epochs there are no prototypes and ``L = CE(h₁(e))``; then the step size of
    extractors and heads falls to a hundredth, for each task anew. No term of the loss reaches the weights of the sum
    below pᴺ (matching passes no gradient back): they stay as drawn.

    Neighbours at hop 2 are ends of uniform two-step walks. The nodes such walks reach, which the method draws from
    evenly, are too many to be listed around a hub; a node that is reached in several ways is drawn more often.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = HPNs(epochs=20)
    >>> for task in list(stream)[:2]:
    ...     learner.observe(task)
    >>> min(learner.evaluate(list(stream)[:2])) > 80
    True
    """

    setting: Annotated[Setting, Param("task-incremental (til) only")] = "til"
    dimension: Annotated[int, Param("length d_p of embeddings and prototypes", at_least=1)] = 16
    neighbours_first: Annotated[int, Param("neighbours drawn at hop 1", at_least=0)] = 5
    neighbours_second: Annotated[int, Param("neighbours drawn at hop 2", at_least=0)] = 7
    attribute_extractors: Annotated[int, Param("extractors of a task for the node's own features", at_least=1)] = 1
    relation_extractors: Annotated[int, Param("extractors of a task for its neighbours' features", at_least=1)] = 2
    pool: Annotated[
        int | None, Param("extractors of each kind before tasks have to share them; none = never", at_least=1)
    ] = None
    threshold: Annotated[
        float, Param("1 - cosine beyond which an atomic or node embedding becomes a prototype", above=0)
    ] = 0.2
    class_threshold: Annotated[float, Param("the same for class prototypes", above=0)] = 0.4
    epochs: Annotated[int, Param("passes over the training nodes of a task", at_least=1)] = 90
    establish_after: Annotated[int, Param("epochs before prototypes are made; at most half of all", at_least=0)] = 35
    batch_size: Annotated[int | None, Param("training nodes in a step; none = all", at_least=1)] = 100
    lr: Annotated[float, Param("step size of SGD", above=0)] = 0.1

    settings = ("til",)
    family = "prototypes"
    keeps = FootprintFormula("0", "P·d + A·F·d", "4·P·d + 4·A·F·d")
    search = ({"threshold": (0.2, 0.4), "class_threshold": (0.4, 0.8)},)
    summary = "matches nodes to prototypes that grow in number; new extractors for each task"
    citation = "Zhang, Song, Tao, 2023"

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.pool is not None and self.pool < max(self.attribute_extractors, self.relation_extractors):
            raise ParameterError(f"pool must be at least the number of extractors of a task, not {self.pool}")
        if self.slots**2 * self.dimension > MOST_WEIGHTS:
            raise ParameterError(
                f"{self.slots} embeddings of dimension {self.dimension} for each node are too many: "
                "lower dimension, the neighbours or the extractors of a task"
            )

    @property
    def neighbours(self) -> int:
        """Neighbours that are drawn of a node."""
        return self.neighbours_first + self.neighbours_second

    @property
    def slots(self) -> int:
        """Attribute slots, then the slots of all neighbours for each relation extractor."""
        return self.attribute_extractors + self.relation_extractors * self.neighbours

    def forget(self) -> None:
        super().forget()
        self._start()

    def _start(self) -> None:
        """No task learned yet; nothing is drawn before it is known how many features there are."""
        self.extractors: dict[str, list[Trained]] = {"attribute": [], "relation": []}
        self.extractors_of_tasks: list[dict[str, list[int]]] = []
        self.heads: dict[str, Trained] = {}
        self.tables: dict[str, PrototypeTable] = {}
        self.attention = torch.empty(0)
        if not self.width:
            return
        for name, more in PROTOTYPES_READ.items():
            inputs = (self.slots + more) * self.dimension
            self.heads[name] = Trained(torch.empty(inputs + 1, 0, device=self.torch_device))
        for level in LEVELS:
            row = generator(self.seed, f"first {level} prototype").random((1, self.dimension), dtype=np.float32) / 2
            self.tables[level] = PrototypeTable(Trained(torch.from_numpy(row).to(self.torch_device)))
        self.attention = self._affine("attention", 0, self.slots * self.dimension, self.slots)

    def _affine(self, name: str, number: int, inputs: int, outputs: int) -> Tensor:
        """Random weights of a linear map, the bias in the last row."""
        rng = generator(self.seed, name, number)
        return uniform(rng, (inputs + 1, outputs), 1 / math.sqrt(inputs)).to(self.torch_device)

    def learn(self, observation: Observation, tracker: Tracker) -> None:
        index, graph, train = observation.index, observation.graph, observation.train
        schedule = Schedule(self.batch_size, self.seed, index)
        with tracker.phase("prepare"):
            if not self.heads:
                self._start()
            graph.refuse_weights("HPNs")
            self._widen_heads(len(observation.classes))
            rows = Rows.of(graph.features, self.torch_device)
            position = np.zeros(self.columns.seen, dtype=np.int64)
            position[list(observation.classes)] = np.arange(len(observation.classes))
            labels = torch.from_numpy(position[observation.labels]).to(self.torch_device)
            rng = generator(self.seed, "neighbours", index)
            first = train[next(schedule.positions(len(train), epoch=0))]
            chosen = self._choose_extractors(rows, first, self._neighbours(graph, first, self._draws(len(first), rng)))
            self.extractors_of_tasks[index:] = [chosen]
        establish_after = min(self.establish_after, self.epochs // 2)
        for epoch in tracker.steps("train", self.epochs, self._learned, self._load_learned):
            rng = generator(self.seed, "neighbours", index, epoch)
            for batch in schedule.positions(len(train), epoch):
                nodes = train[batch]
                neighbours = self._neighbours(graph, nodes, self._draws(len(nodes), rng))
                embeddings = self._embed(rows, nodes, neighbours, self._extractors_of(index))
                batch_labels = labels[torch.from_numpy(batch).to(self.torch_device)]
                self._step(index, epoch, embeddings, batch_labels, establish=epoch >= establish_after)

    def _widen_heads(self, classes: int) -> None:
        """Gives every head an output for each class of a task; existing outputs are unchanged."""
        for name, head in self.heads.items():
            inputs, outputs = head.value.shape
            for output in range(outputs, classes):
                head.grow(self._affine(f"head of {name}", output, inputs - 1, 1), dim=1)

    def _draws(self, nodes: int, rng: np.random.Generator) -> np.ndarray:
        """A random number for every step of the walks from each node."""
        return rng.random((nodes, self.neighbours_first + 2 * self.neighbours_second))

    def _neighbours(self, graph: Graph, nodes: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Sampled neighbours of each node: hop 1, then hop 2; with replacement."""
        first, second = self.neighbours_first, self.neighbours_second
        parts = draws[:, :first, None], draws[:, first:].reshape(len(nodes), second, 2)
        return np.concatenate([walk(graph.adjacency, nodes[:, None], part) for part in parts], axis=1)

    def _choose_extractors(self, rows: Rows, nodes: np.ndarray, neighbours: np.ndarray) -> dict[str, list[int]]:
        """Numbers of a task's extractors: unused ones, and once the pool is used up those that fit best."""
        chosen = {}
        kinds = {"attribute": (self.attribute_extractors, nodes), "relation": (self.relation_extractors, neighbours)}
        for kind, (count, sample) in kinds.items():
            made = self.extractors[kind]
            wanted = len(made) + count
            new = range(len(made), wanted if self.pool is None else min(wanted, self.pool))
            chosen[kind] = list(new)
            if len(new) < count:
                best_first = self._fit(rows, sample.ravel(), made).argsort(descending=True, stable=True)
                chosen[kind] += best_first[: count - len(new)].tolist()
            bound = 1 / math.sqrt(self.width)
            for number in new:
                drawn = uniform(generator(self.seed, f"{kind} extractor", number), (self.width, self.dimension), bound)
                made.append(Trained(drawn.to(self.torch_device)))
        return chosen

    @torch.no_grad()
    def _fit(self, rows: Rows, nodes: np.ndarray, extractors: list[Trained]) -> Tensor:
        """For each extractor the mean cosine of its embeddings with their nearest atomic prototypes."""
        fits = [self.tables["atomic"].match(_embeddings(rows, nodes, [each])[:, 0])[0].mean() for each in extractors]
        return torch.tensor(fits)

    def _extractors_of(self, task: int) -> list[Trained]:
        """Extractors of a task, those for the node's own features first."""
        chosen = self.extractors_of_tasks[task]
        return [self.extractors[kind][number] for kind in self.extractors for number in chosen[kind]]

    def _embed(self, rows: Rows, nodes: np.ndarray, neighbours: np.ndarray, extractors: list[Trained]) -> Tensor:
        """e: nodes × slots × dimension, each of length 1."""
        own = self.attribute_extractors
        wanted = np.concatenate([nodes, neighbours.ravel()])
        embeddings = _embeddings(rows, wanted, extractors)
        attributes, relations = embeddings[: len(nodes), :own], embeddings[len(nodes) :, own:]
        relations = relations.reshape(len(nodes), self.neighbours, self.relation_extractors, self.dimension)
        return torch.cat([attributes, relations.transpose(1, 2).flatten(1, 2)], dim=1)

    def _match(self, embeddings: Tensor, establish: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Numbers and directions of each node's prototypes at the three levels; ``establish`` makes missing ones."""

        def nearest(level: str, groups: Sequence[Tensor]) -> Tensor:
            if establish:
                threshold = self.class_threshold if level == "class" else self.threshold
                return self.tables[level].establish(groups, threshold)
            return self.tables[level].match(torch.cat(list(groups)))[1]

        nodes = len(embeddings)
        numbers, found = {}, {}
        # slots of one extractor are a group
        sizes = [1] * self.attribute_extractors + [self.neighbours] * self.relation_extractors
        groups = [part.flatten(0, 1) for part in embeddings.transpose(0, 1).split(sizes)]
        numbers["atomic"] = nearest("atomic", groups)
        found["atomic"] = self.tables["atomic"][numbers["atomic"]].reshape(self.slots, nodes, -1).transpose(0, 1)
        weights = _apply(self.attention, found["atomic"].detach().flatten(1))
        combined = normalise((weights[:, :, None] * found["atomic"].detach()).sum(dim=1))
        numbers["node"] = nearest("node", [combined])
        found["node"] = self.tables["node"][numbers["node"]]
        numbers["class"] = nearest("class", [found["node"].detach()])
        found["class"] = self.tables["class"][numbers["class"]]
        return numbers, found

    def _logits(self, head: str, task: int, *inputs: Tensor) -> Tensor:
        """Output of a head for the classes of a task."""
        classes = len(self.columns.tasks[task])
        return _apply(self.heads[head].value, torch.cat([each.flatten(1) for each in inputs], dim=1))[:, :classes]

    def _loss(self, task: int, embeddings: Tensor, labels: Tensor, found: dict[str, Tensor] | None) -> Tensor:
        """Loss of a batch before there are prototypes, or with those that were found."""
        by_embedding = functional.cross_entropy(self._logits("embeddings", task, embeddings), labels)
        if found is None:
            return by_embedding
        atomic, node, class_ = found["atomic"], found["node"], found["class"]
        by_node = functional.cross_entropy(self._logits("nodes", task, atomic, node), labels)
        by_class = functional.cross_entropy(self._logits("classes", task, atomic, node, class_), labels)
        return by_embedding + CLASS_HEAD_WEIGHT * by_class + by_node + functional.mse_loss(atomic, embeddings)

    def _step(self, task: int, epoch: int, embeddings: Tensor, labels: Tensor, establish: bool) -> None:
        """One gradient step on a batch."""
        trained = [*self._extractors_of(task), self.heads["embeddings"]]
        lr = self.lr
        numbers, found = self._match(embeddings, establish=True) if establish else ({}, None)
        if establish:
            lr *= LR_DECAY
            trained += [self.heads["nodes"], self.heads["classes"]]
        loss = self._loss(task, embeddings, labels, found)
        check_finite(loss, "the loss", task, epoch)
        tables = [self.tables[level] for level in numbers]
        values = [each.value for each in trained] + [table.rows.value for table in tables]
        gradients = iter(torch.autograd.grad(loss, values))
        for each in trained:
            each.step(next(gradients), lr)
        for table, matched in zip(tables, numbers.values(), strict=True):
            table.step(next(gradients), self.lr, matched)

    def inputs_key(self) -> Hashable:
        return "graph", self.width

    def inputs(self, graph: Graph, nodes: np.ndarray) -> tuple[Graph, np.ndarray]:
        graph.refuse_weights("HPNs")
        return graph, nodes

    def select_inputs(self, inputs: tuple[Graph, np.ndarray], index: np.ndarray) -> tuple[Graph, np.ndarray]:
        return inputs[0], inputs[1][index]

    @torch.no_grad()
    def logits(self, inputs: tuple[Graph, np.ndarray], task: int) -> Tensor:
        graph, nodes = inputs
        rows = Rows.of(graph.features, self.torch_device)
        classes = list(self.columns.tasks[task])
        scores = torch.zeros(len(nodes), self.columns.seen, device=self.torch_device)
        blocks = nodes // NODES_AT_ONCE
        for block in np.unique(blocks):
            # the walks of a node depend on its number alone, not on which other nodes are asked for
            draws = self._draws(NODES_AT_ONCE, generator(self.seed, "neighbours of predictions", int(block)))
            members = np.flatnonzero(blocks == block)
            chosen = nodes[members]
            neighbours = self._neighbours(graph, chosen, draws[chosen % NODES_AT_ONCE])
            embeddings = self._embed(rows, chosen, neighbours, self._extractors_of(task))
            found = self._match(embeddings, establish=False)[1]
            logits = self._logits("classes", task, *found.values())
            # an embedding that is not finite is nearest to some prototype all the same
            logits[~embeddings.isfinite().flatten(1).all(dim=1)] = torch.nan
            scores[torch.from_numpy(members).to(self.torch_device)[:, None], classes] = logits
        return scores

    def _trained(self) -> dict[str, Trained]:
        """Everything that is trained, by name."""
        named = {
            f"{kind}.{number}": each for kind in self.extractors for number, each in enumerate(self.extractors[kind])
        }
        named |= {f"head.{name}": head for name, head in self.heads.items()}
        return named | {f"prototypes.{level}": table.rows for level, table in self.tables.items()}

    def state(self) -> State:
        state = super().state()
        state.values["extractors_of_tasks"] = copy.deepcopy(self.extractors_of_tasks)
        if self.heads:
            state.tensors |= self._learned().tensors
        return state

    def _learned(self) -> State:
        """Everything that is trained."""
        state = State()
        for name, each in self._trained().items():
            state.tensors[name] = each.value.detach().clone()
            state.tensors[f"{name}.momentum"] = each.momentum.clone()
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        if self.width:  # what is drawn again has the shapes of what is stored
            state.tensor("prototypes.atomic", (None, self.dimension))
            state.tensor("head.embeddings", (self.slots * self.dimension + 1, None))
        self._start()
        self.extractors_of_tasks = copy.deepcopy(state.value("extractors_of_tasks"))
        if self.width:
            self._load_learned(state)
        used = {"attribute": self.attribute_extractors, "relation": self.relation_extractors}
        for chosen in self.extractors_of_tasks:
            for kind, made in self.extractors.items():
                numbers = whole_numbers(chosen[kind], "extractors_of_tasks")
                if len(numbers) != used[kind] or max(numbers) >= len(made):
                    raise StateError("the state does not fit the learner: a task uses extractors that are not there")
        if len(self.extractors_of_tasks) != len(self.columns.tasks):
            raise StateError("the state does not fit the learner: not every task has extractors")

    def _load_learned(self, state: State) -> None:
        """Takes back everything that is trained."""

        def load(name: str, *shape: int | None) -> Trained:
            value = state.tensor(name, shape)  # a size that is not given is what it has grown to
            momentum = state.tensor(f"{name}.momentum", value.shape)
            return Trained(value.to(self.torch_device, copy=True), momentum.to(self.torch_device, copy=True))

        for level in LEVELS:
            self.tables[level] = PrototypeTable(load(f"prototypes.{level}", None, self.dimension))
        for name, head in self.heads.items():
            self.heads[name] = load(f"head.{name}", len(head.value), None)
        outputs = max((len(classes) for classes in self.columns.tasks), default=0)
        too_few = not all(len(table) for table in self.tables.values())
        too_few |= any(head.value.shape[1] < outputs for head in self.heads.values())
        for kind, made in self.extractors.items():
            count = sum(name.startswith(f"{kind}.") for name in state.tensors) // 2
            too_few |= count < len(made)
            self.extractors[kind] = [load(f"{kind}.{number}", self.width, self.dimension) for number in range(count)]
        if too_few:
            raise StateError("the state does not fit the learner: it lacks prototypes, outputs or extractors")

    def storage(self) -> Footprint:
        """Prototypes, and the extractors that tasks leave."""
        kept = [table.rows for table in self.tables.values()] + [
            each for made in self.extractors.values() for each in made
        ]
        floats = sum(each.value.numel() for each in kept)
        return Footprint(0, floats, 4 * floats)

    def report(self) -> dict[str, list[float]]:
        """How many prototypes there are."""
        return {f"{level} prototypes": [float(len(table))] for level, table in self.tables.items()}


def walk(adjacency: sp.csr_array, starts: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Ends of random walks: a step for each number in the last dimension of ``draws`` (uniform in [0, 1)).

    A step leads to one of the nodes whose messages a node receives; a walk that reaches a dead end stays there.

    >>> path = Graph([[0, 1], [1, 2]], [[1.0], [1.0], [1.0]], undirected=False)
    >>> walk(path.adjacency, np.array([0, 1, 2]), np.zeros((3, 2))).tolist()
    [0, 0, 0]
    """
    nodes = np.broadcast_to(starts, draws.shape[:-1]).copy()
    for draw in np.moveaxis(draws, -1, 0):
        start = adjacency.indptr[nodes].astype(np.int64)
        degree = adjacency.indptr[nodes + 1] - start
        moves = degree > 0
        edge = start + (draw * degree).astype(np.int64)
        nodes[moves] = adjacency.indices[edge[moves]]
    return nodes


def _embeddings(rows: Rows, nodes: np.ndarray, extractors: list[Trained]) -> Tensor:
    """Features of nodes mapped by each extractor, at length 1: nodes × extractors × dimension."""
    weights = torch.cat([each.value for each in extractors], dim=1)
    # a graph with fewer nodes than are wanted is cheaper to map as a whole, and its form for products is made once
    whole = len(nodes) >= len(rows)
    mapped = (rows if whole else rows.select(nodes)).times(weights)
    embeddings = normalise(mapped.unflatten(1, (len(extractors), -1)))
    return embeddings.index_select(0, torch.from_numpy(nodes).to(rows.device)) if whole else embeddings


def _apply(affine: Tensor, inputs: Tensor) -> Tensor:
    """Linear map with the bias in its last row."""
    return torch.addmm(affine[-1], inputs, affine[:-1])

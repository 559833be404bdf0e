"""A memory of one task, and the bank of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from delome.backbones import Backbone
from delome.columns import LabelColumns
from delome.errors import StateError
from delome.graph import Graph
from delome.sparse import Features, checked_csr, int32_indices, stack
from delome.state import State, Storage, whole_numbers
from delome.stream import Observation
from delome.tracking import Tracker
from delome.training import Examples


@dataclass(frozen=True)
class Memory:
    """A small graph that stands for a finished task.

    ``graph`` holds rows without edges (a backbone then reads them as they are) or a sparsified subgraph;
    ``rows`` are the nodes that carry loss, ``labels`` their class columns. Learned rows live in *propagated*
    space: they stand for rows of ``S² X``, not for raw features of anybody.

    ``stands_for`` says for each class how many training rows its rows stand for, if not only for themselves.
    """

    task: int
    graph: Graph
    rows: np.ndarray
    labels: np.ndarray
    report: dict[str, list[float]] = field(default_factory=dict)
    stands_for: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.stands_for:
            object.__setattr__(self, "stands_for", counts_of(self.labels))

    @classmethod
    def of_rows(
        cls, task: int, features: Features, labels: np.ndarray, report: dict[str, list[float]] | None = None
    ) -> Memory:
        """Memory of rows without edges, all of them carrying loss."""
        return cls(task, Graph.edgeless(features), np.arange(len(labels)), labels, report or {})

    def select(self, positions: np.ndarray) -> Memory:
        """The memory of some of its rows; of rows without edges the others are dropped."""
        chosen, labels = self.rows[positions], self.labels[positions]
        stands_for = {column: self.stands_for[column] for column in np.unique(labels).tolist()}
        if self.graph.num_edges:
            return replace(self, rows=chosen, labels=labels, stands_for=stands_for)
        graph = Graph.edgeless(self.graph.features[chosen])
        return replace(self, graph=graph, rows=np.arange(len(labels)), labels=labels, stands_for=stands_for)

    @classmethod
    def join(cls, parts: Sequence[Memory]) -> Memory:
        """Disjoint union of memories, of the task of the first."""
        features = stack([part.graph.features for part in parts])
        graph = Graph.edgeless(features)
        if any(part.graph.num_edges for part in parts):
            union = sp.csr_array(sp.block_diag([part.graph.adjacency for part in parts], format="csr"))
            graph = Graph._trusted(int32_indices(union), features, None)
        offsets = np.cumsum([0, *(part.graph.num_nodes for part in parts[:-1])])
        rows = np.concatenate([part.rows + offset for part, offset in zip(parts, offsets, strict=True)])
        return cls(parts[0].task, graph, rows, np.concatenate([part.labels for part in parts]))


def counts_of(labels: np.ndarray) -> dict[int, int]:
    """How often each label occurs.

    >>> counts_of(np.array([7, 3, 7]))
    {3: 1, 7: 2}
    """
    present, counts = np.unique(labels, return_counts=True)
    return dict(zip(present.tolist(), counts.tolist(), strict=True))


class MemoryBuilder(Protocol):
    """Turns a task that is about to go away into a memory of at most ``budget`` rows for each class."""

    @property
    def budget(self) -> int: ...

    def build(
        self, observation: Observation, columns: LabelColumns, rng: np.random.Generator, tracker: Tracker
    ) -> Memory: ...


class MemoryBank:
    """The memories of all finished tasks."""

    def __init__(self, memories: Sequence[Memory] = ()) -> None:
        self.memories = list(memories)

    def __len__(self) -> int:
        return len(self.memories)

    def append(self, memory: Memory) -> None:
        self.memories.append(memory)

    def examples(self, network: Backbone) -> Examples:
        """All memories as one input of the network."""
        parts = [network.prepare(memory.graph).select(memory.rows) for memory in self.memories]
        labels = torch.from_numpy(np.concatenate([memory.labels for memory in self.memories]))
        tasks = np.repeat([memory.task for memory in self.memories], [len(memory.rows) for memory in self.memories])
        device = network.device
        return Examples(network.join(parts), labels.to(device), torch.from_numpy(tasks).to(device))

    def storage(self) -> Storage:
        """Rows, feature values (non-zeros if sparse) and bytes of features, edges and labels."""
        rows = sum(memory.graph.num_nodes for memory in self.memories)
        floats = sum(memory.graph.features.size for memory in self.memories)
        tensors = [tensor for memory in self.memories for tensor in _tensors(memory).values()]
        return Storage(rows, floats, sum(tensor.numel() * tensor.element_size() for tensor in tensors))

    def save(self, state: State) -> None:
        """Adds the memories to a state."""
        state.values["memory"] = [
            {
                "task": memory.task,
                "nodes": memory.graph.num_nodes,
                "stands_for": [memory.stands_for[column] for column in sorted(memory.stands_for)],
                "report": memory.report,
            }
            for memory in self.memories
        ]
        for memory in self.memories:
            state.tensors |= _tensors(memory)

    @classmethod
    def load(cls, state: State, tasks: int, columns: int, width: int, gaps: bool = False) -> MemoryBank:
        """The bank that was saved; refused unless it holds a memory of each task, or with ``gaps`` of some of them,
        rows of all columns, and features of this width."""
        saved = state.value("memory")
        numbers = whole_numbers([each["task"] for each in saved], "memory")
        known = set(range(tasks))
        if numbers != sorted(set(numbers) & known) or (len(numbers) < tasks and not gaps):
            raise StateError(f"the state does not fit the learner: {tasks} tasks are known, {len(saved)} memories kept")
        bank = cls([_load_memory(state, each, columns, width) for each in saved])
        if {column for memory in bank.memories for column in memory.labels.tolist()} != set(range(columns)):
            raise StateError("the state does not fit the learner: not every class is remembered")
        return bank


def _tensors(memory: Memory) -> dict[str, Tensor]:
    arrays = {"rows": memory.rows, "labels": memory.labels}
    features = memory.graph.features
    if sp.issparse(features):
        arrays |= {f"features.{part}": getattr(features, part) for part in ("data", "indices", "indptr")}
    else:
        arrays["features"] = features
    if memory.graph.num_edges:
        parts = ("data", "indices", "indptr") if memory.graph.weighted else ("indices", "indptr")
        arrays |= {f"edges.{part}": getattr(memory.graph.adjacency, part) for part in parts}
    prefix = f"memory.{memory.task}."
    return {prefix + name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def _load_memory(state: State, saved: dict[str, Any], columns: int, width: int) -> Memory:
    task, nodes = saved["task"], saved["nodes"]
    prefix = f"memory.{task}."

    def csr(part: str, data: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
        indices, indptr = (state.tensors[f"{prefix}{part}.{each}"].numpy() for each in ("indices", "indptr"))
        return checked_csr(sp.csr_array((data, indices, indptr), shape=shape))

    if f"{prefix}features" in state.tensors:
        features: Features = state.tensor(f"{prefix}features", (nodes, width)).numpy()
    else:
        values = state.tensor(f"{prefix}features.data", state.tensors[f"{prefix}features.indices"].shape).numpy()
        features = csr("features", values, (nodes, width))
    graph = Graph.edgeless(features)
    if f"{prefix}edges.indices" in state.tensors:
        count = state.tensors[f"{prefix}edges.indices"].shape
        weighted = f"{prefix}edges.data" in state.tensors
        data = state.tensor(f"{prefix}edges.data", count).numpy() if weighted else np.ones(count, dtype=bool)
        graph = Graph._trusted(csr("edges", data, (nodes, nodes)), features, None)
    size = (len(state.tensors[f"{prefix}rows"]),)
    rows, labels = (state.tensor(f"{prefix}{name}", size, torch.int64).numpy() for name in ("rows", "labels"))
    for numbers, end in ((rows, nodes), (labels, columns)):
        if size[0] == 0 or numbers.min() < 0 or numbers.max() >= end:
            raise StateError(f"the state does not fit the learner: the memory of task {task} names what is not there")
    own, counts = counts_of(labels), whole_numbers(saved["stands_for"], "stands_for")
    if len(counts) != len(own) or any(count < size for count, size in zip(counts, own.values(), strict=True)):
        raise StateError(f"the state does not fit the learner: the memory of task {task} stands for too few rows")
    return Memory(task, graph, rows, labels, saved["report"], dict(zip(own, counts, strict=True)))

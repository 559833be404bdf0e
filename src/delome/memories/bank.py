"""A memory of one task, and the bank of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from delome.backbones import Backbone
from delome.errors import StateError
from delome.graph import Graph
from delome.graph.sparse import Features, checked_csr
from delome.learning.training import Examples
from delome.persistence.state import State, Storage
from delome.progress import Tracker
from delome.streams.columns import LabelColumns
from delome.streams.task_stream import Observation


@dataclass(frozen=True)
class Memory:
    """A small graph that stands for a finished task.

    ``graph`` holds rows without edges (a backbone then reads them as they are) or a sparsified subgraph;
    ``rows`` are the nodes that carry loss, ``labels`` their class columns. Learned rows live in *propagated*
    space: they stand for rows of ``S² X``, not for raw features of anybody.
    """

    task: int
    graph: Graph
    rows: np.ndarray
    labels: np.ndarray
    report: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def of_rows(
        cls, task: int, features: Features, labels: np.ndarray, report: dict[str, list[float]] | None = None
    ) -> Memory:
        """Memory of rows without edges, all of them carrying loss."""
        return cls(task, Graph.edgeless(features), np.arange(len(labels)), labels, report or {})


class MemoryBuilder(Protocol):
    """Turns a task that is about to go away into a memory."""

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
        tensors = [tensor for k in range(len(self)) for tensor in self._tensors(k).values()]
        return Storage(rows, floats, sum(tensor.numel() * tensor.element_size() for tensor in tensors))

    def save(self, state: State) -> None:
        """Adds the memories to a state."""
        state.values["memory"] = [
            {
                "nodes": memory.graph.num_nodes,
                "report": memory.report,
            }
            for memory in self.memories
        ]
        for k in range(len(self)):
            state.tensors |= self._tensors(k)

    def _tensors(self, k: int) -> dict[str, Tensor]:
        memory = self.memories[k]
        arrays = {"rows": memory.rows, "labels": memory.labels}
        features = memory.graph.features
        if sp.issparse(features):
            arrays |= {f"features.{part}": getattr(features, part) for part in ("data", "indices", "indptr")}
        else:
            arrays["features"] = features
        if memory.graph.num_edges:
            parts = ("data", "indices", "indptr") if memory.graph.weighted else ("indices", "indptr")
            arrays |= {f"edges.{part}": getattr(memory.graph.adjacency, part) for part in parts}
        return {f"memory.{k}.{name}": torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    @classmethod
    def load(cls, state: State, tasks: int, columns: int, width: int) -> MemoryBank:
        """The bank that was saved; refused unless it holds a memory of each task, with known columns as labels and
        features of this width."""
        saved = state.value("memory")
        if len(saved) != tasks:
            raise StateError(f"the state does not fit the learner: {tasks} tasks are known, {len(saved)} memories kept")
        return cls([_load_memory(state, k, saved[k], columns, width) for k in range(tasks)])


def _load_memory(state: State, task: int, saved: dict[str, Any], columns: int, width: int) -> Memory:
    prefix, nodes = f"memory.{task}.", saved["nodes"]

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
    return Memory(task, graph, rows, labels, saved["report"])

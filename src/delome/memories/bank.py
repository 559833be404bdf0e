"""The bank: memories of all finished tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from delome.backbones import Network
from delome.backbones.examples import Examples
from delome.errors import StateError
from delome.graph import Graph
from delome.graph.sparse import Features, checked_csr
from delome.memories.memory import Memory, counts_of
from delome.persistence.state import State, whole_numbers


class MemoryBank:
    """The memories of all finished tasks."""

    def __init__(self, memories: Sequence[Memory] = ()) -> None:
        self.memories = list(memories)

    def __len__(self) -> int:
        return len(self.memories)

    def append(self, memory: Memory) -> None:
        self.memories.append(memory)

    def examples(self, network: Network) -> Examples:
        """All memories as one input of the network."""
        parts = [network.prepare(memory.graph).select(memory.rows) for memory in self.memories]
        labels = torch.from_numpy(np.concatenate([memory.labels for memory in self.memories]))
        tasks = np.repeat([memory.task for memory in self.memories], [len(memory.rows) for memory in self.memories])
        device = network.device
        return Examples(network.backbone.join(parts), labels.to(device), torch.from_numpy(tasks).to(device))

    def size(self) -> tuple[int, int, int]:
        """Rows, feature values (non-zeros if sparse) and bytes of features, edges and labels."""
        rows = sum(memory.graph.num_nodes for memory in self.memories)
        floats = sum(memory.graph.features.size for memory in self.memories)
        tensors = [tensor for memory in self.memories for tensor in memory.tensors.values()]
        return rows, floats, sum(tensor.numel() * tensor.element_size() for tensor in tensors)

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
            state.tensors |= memory.tensors

    @classmethod
    def load(
        cls, state: State, tasks: int, columns: int, width: int, gaps: bool = False, all_classes: bool = True
    ) -> MemoryBank:
        """The bank that was saved; refused unless it holds a memory of each task, or with ``gaps`` of some of them,
        rows of ``all_classes``, and features of this width."""
        saved = state.value("memory")
        numbers = whole_numbers([each["task"] for each in saved], "memory")
        known = set(range(tasks))
        if numbers != sorted(set(numbers) & known) or (len(numbers) < tasks and not gaps):
            raise StateError(f"the state does not fit the learner: {tasks} tasks are known, {len(saved)} memories kept")
        bank = cls([_load_memory(state, each, columns, width) for each in saved])
        if all_classes and {column for memory in bank.memories for column in memory.labels.tolist()} != set(
            range(columns)
        ):
            raise StateError("the state does not fit the learner: not every class is remembered")
        return bank


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
        edges = state.tensors[f"{prefix}edges.indices"].shape
        weighted = f"{prefix}edges.data" in state.tensors
        data = state.tensor(f"{prefix}edges.data", edges).numpy() if weighted else np.ones(edges, dtype=bool)
        graph = Graph._trusted(csr("edges", data, (nodes, nodes)), features, None)
    count = (len(state.tensors[f"{prefix}rows"]),)
    rows, labels = (state.tensor(f"{prefix}{name}", count, torch.int64).numpy() for name in ("rows", "labels"))
    for numbers, end in ((rows, nodes), (labels, columns)):
        if count[0] == 0 or numbers.min() < 0 or numbers.max() >= end:
            raise StateError(f"the state does not fit the learner: the memory of task {task} names what is not there")
    own, counts = counts_of(labels), whole_numbers(saved["stands_for"], "stands_for")
    if len(counts) != len(own) or any(count < size for count, size in zip(counts, own.values(), strict=True)):
        raise StateError(f"the state does not fit the learner: the memory of task {task} stands for too few rows")
    return Memory(task, graph, rows, labels, saved["report"], dict(zip(own, counts, strict=True)))

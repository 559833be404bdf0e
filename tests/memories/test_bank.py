import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from delome import Graph
from delome.backbones import SGC
from delome.errors import StateError
from delome.graph.rows import Rows
from delome.memories import Memory, MemoryBank
from delome.persistence.state import State


def dense_memory(task: int = 0) -> Memory:
    features = np.random.default_rng(task).standard_normal((4, 6)).astype(np.float32)
    return Memory.of_rows(task, features, np.array([0, 0, 1, 1]) + 2 * task, {"loss": [0.5]})


def sparse_memory() -> Memory:
    features = sp.random(3, 6, 0.1, format="csr", dtype=np.float32, rng=np.random.default_rng(1))
    return Memory.of_rows(1, sp.csr_array(features), np.array([2, 3, 3]))


def subgraph_memory() -> Memory:
    graph = Graph([[0, 1, 2], [1, 2, 0]], np.eye(3, 6), [0, 0, 0], undirected=True).with_labels(None)
    return Memory(2, graph, np.array([1]), np.array([4]))


def bank(*memories: Memory) -> MemoryBank:
    filled = MemoryBank()
    for memory in memories:
        filled.append(memory)
    return filled


def test_saved_memories_come_back_exactly():
    saved = bank(dense_memory(), sparse_memory(), subgraph_memory())
    state = State()
    saved.save(state)
    loaded = MemoryBank.load(state, tasks=3, columns=5, width=6)
    for before, after in zip(saved.memories, loaded.memories, strict=True):
        assert (before.task, before.report) == (after.task, after.report)
        assert (before.graph.features != after.graph.features).sum() == 0
        assert (before.graph.adjacency != after.graph.adjacency).nnz == 0
        assert before.rows.tolist() == after.rows.tolist()
        assert before.labels.tolist() == after.labels.tolist()
        assert type(before.graph.features) is type(after.graph.features)


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.values["memory"].pop(),
        lambda state: state.values["memory"][0].update(nodes=5),
        lambda state: state.tensors.pop("memory.0.labels"),
        lambda state: state.tensors["memory.0.labels"].fill_(5),
        lambda state: state.tensors["memory.0.labels"].fill_(-1),
        lambda state: state.tensors["memory.2.rows"].fill_(3),
        lambda state: state.tensors.update({"memory.0.rows": torch.arange(3)}),
        lambda state: state.tensors.update({"memory.0.rows": torch.arange(4.0)}),
        lambda state: state.tensors.update({"memory.0.features": torch.zeros(4, 7)}),
        lambda state: state.tensors.update({"memory.0.features": torch.zeros(4, 6).double()}),
        lambda state: state.tensors["memory.1.features.indices"].fill_(6),
        lambda state: state.tensors["memory.1.features.indptr"].fill_(1),
        lambda state: state.tensors.pop("memory.1.features.data"),
        lambda state: state.tensors["memory.2.edges.indices"].fill_(-1),
        lambda state: state.tensors.update({"memory.2.edges.indptr": torch.tensor([0, 9])}),
    ],
)
def test_a_memory_that_names_what_is_not_there_is_not_loaded(damage):
    state = State()
    bank(dense_memory(), sparse_memory(), subgraph_memory()).save(state)
    state = copy.deepcopy(state)
    damage(state)
    with pytest.raises((StateError, ValueError, KeyError)):
        MemoryBank.load(state, tasks=3, columns=5, width=6)


def test_examples_join_all_memories_and_say_whose_they_are():
    network = SGC(hidden=8).network(6, 6, np.random.default_rng(0), torch.device("cpu"))
    examples = bank(dense_memory(), dense_memory(1), subgraph_memory()).examples(network)
    assert examples.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert examples.tasks.tolist() == [0] * 4 + [1] * 4 + [2]
    propagated = subgraph_memory().graph.propagate(2)[1]
    assert isinstance(examples.inputs, Rows)
    torch.testing.assert_close(examples.inputs.dense()[-1], torch.from_numpy(propagated))


def test_the_size_counts_rows_values_and_bytes():
    rows, floats, in_bytes = bank(dense_memory(), subgraph_memory()).size()
    assert rows == 7
    assert floats == 24 + 18
    labels_and_rows = 8 * (4 + 4 + 1 + 1)
    edges = 6 * 4 + 4 * 4
    assert in_bytes == 4 * floats + labels_and_rows + edges

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from delome import Graph, Replay, TaskStream
from delome.backbones import GAT, SGC, Backbone, Network
from delome.errors import ParameterError
from delome.graph.rows import Rows
from delome.memories import MEMORIES, Context, KernelMatching, Memory, MemoryBank, MemoryBuilder, PropagatedRows
from delome.memories.kernel import Kernel
from delome.memories.mmd import relative_loss
from delome.streams.tasks import Observation

CPU = torch.device("cpu")


def observed(index: int, columns: list[int], seed: int = 0) -> Observation:
    """A task of nodes without edges, each of which says in its features which task and class it is of."""
    rng = np.random.default_rng([seed, index])
    labels = np.array(columns)
    features = np.stack([np.full(len(labels), index), labels, rng.random(len(labels))], axis=1)
    graph = Graph(np.zeros((2, 0), int), features)
    return Observation(
        index, tuple(np.unique(labels).tolist()), 9, np.arange(len(labels)), labels, graph.num_features, graph
    )


def test_a_context_knows_the_network_it_is_given() -> None:
    for backbone in (SGC(hidden=24), GAT(hidden=64)):
        network = backbone.network(5, 3, np.random.default_rng(0), CPU)
        context = Context(network, None, None, None)  # type: ignore[arg-type]  # what it knows of the network needs no more
        assert (context.device, context.hops, context.hidden) == (CPU, 2, backbone.hidden)
        assert context.earlier == {}


class Bare(Backbone):
    """Says nothing of hidden units."""

    prepare = join = network = None  # type: ignore[assignment]


def test_a_network_that_does_not_say_how_many_hidden_units_it_has_is_taken_for_a_usual_one() -> None:
    context = Context(SimpleNamespace(backbone=Bare()), None, None, None)  # type: ignore[arg-type]
    assert context.hidden == SGC().hidden == 256


def test_rows_are_propagated_as_many_hops_as_the_backbone_sees(
    toy_stream: TaskStream, context_of: Callable[..., Context]
) -> None:
    class Far(SGC):
        hops = 3

        def prepare(self, graph: Graph, device: torch.device) -> Rows:
            return Rows.of(graph.propagate(3), device)

    task = toy_stream[0]
    network: Network = Far(hidden=8).network(16, 6, np.random.default_rng(0), CPU)
    observation = task.observation()
    memory = PropagatedRows(budget=4).build(observation, context_of(observation, network=network))
    far = {row.tobytes() for row in task.graph.propagate(3)[task.train]}
    near = {row.tobytes() for row in task.graph.propagate(2)[task.train]}
    stored = {row.tobytes() for row in memory.graph.features}
    assert stored <= far and not stored & near


@pytest.mark.parametrize("name", MEMORIES)
def test_builders_are_values(name: str) -> None:
    kind = MEMORIES[name]
    assert kind(budget=5) == kind(budget=5) != kind(budget=6)
    assert hash(kind(budget=5)) == hash(kind(budget=5))
    with pytest.raises(AttributeError):
        kind().budget = 7  # type: ignore[misc]
    with pytest.raises(ParameterError, match="budget must be at least 1, not 0"):
        kind(budget=0)


def test_merging_keeps_the_budget_in_proportion_to_the_nodes_of_each_time(context_of: Callable[..., Context]) -> None:
    builder, bank = PropagatedRows(budget=8), MemoryBank()
    for observation in (observed(0, [0] * 30 + [1] * 5), observed(1, [0] * 10 + [2] * 4)):
        bank = builder.merge(bank, observation, context_of(observation), seed=0)
    first, second = bank.memories
    assert np.bincount(first.labels).tolist() == [0, 5] and first.stands_for == {1: 5}
    assert np.bincount(second.labels).tolist() == [8, 0, 4] and second.stands_for == {0: 40, 2: 4}
    # three quarters of the nodes of class 0 came first
    came = second.graph.features[second.rows[second.labels == 0]][:, 0]
    assert np.bincount(came.astype(int)).tolist() == [6, 2]


def test_what_is_kept_when_merging_depends_on_the_seed_and_the_task(context_of: Callable[..., Context]) -> None:
    def merged(seed: int, index: int) -> list[float]:
        builder, bank = PropagatedRows(budget=8), MemoryBank()
        for number in (0, index):
            observation = observed(number, [0] * 20)
            bank = builder.merge(bank, observation, context_of(observation), seed)
        (memory,) = bank.memories
        return sorted(memory.graph.features[:, 2][memory.graph.features[:, 0] == 0].tolist())

    assert merged(0, 1) == merged(0, 1)
    assert merged(0, 1) != merged(1, 1)
    assert merged(0, 1) != merged(0, 2)


def test_a_builder_may_merge_by_itself(context_of: Callable[..., Context], toy_stream: TaskStream) -> None:
    """Exact matching sees the earlier rows of a class beside its new ones."""
    task = toy_stream[0]
    half = {part: np.flatnonzero(np.arange(len(task.train)) % 2 == part) for part in (0, 1)}
    bank = MemoryBank()
    for part, chosen in half.items():
        whole = task.observation()
        observation = Observation(part, (0, 1), 6, whole.train[chosen], whole.labels[chosen], 0, whole.graph)
        bank = KernelMatching(budget=6).merge(bank, observation, context_of(observation), seed=0)
    (memory,) = bank.memories
    assert memory.stands_for == {0: 24, 1: 24}
    assert np.bincount(memory.labels).tolist() == [6, 6]
    assert task.graph.labels is not None
    labels = task.graph.labels[task.train]
    for column in (0, 1):
        real = task.graph.propagate(2)[task.train[labels == column]]
        rows = memory.graph.features[memory.labels == column]
        assert relative_loss(Kernel.ntk(16, 256), real, rows, np.random.default_rng(0)) < 0.02


class FirstRows(MemoryBuilder):
    """The first nodes of each class, as they are."""

    def build(self, observation: Observation, context: Context) -> Memory:
        chosen = [np.flatnonzero(observation.labels == column)[: self.budget] for column in observation.classes]
        positions = np.concatenate(chosen)
        features = observation.graph.features[observation.train[positions]]
        return Memory.of_rows(observation.index, features, observation.labels[positions])


def test_a_builder_of_ones_own_needs_no_more_than_to_build(toy_graph: Graph) -> None:
    learner = Replay(memory=FirstRows(budget=5), epochs=5, hidden=8, recurring="merge")
    labels = toy_graph.labels
    assert labels is not None
    for _ in range(2):
        learner.observe(toy_graph.with_labels(np.where(labels < 2, labels, -1)))
    (memory,) = learner.bank.memories
    assert np.bincount(memory.labels).tolist() == [5, 5]
    assert memory.stands_for == {0: 80, 1: 80}

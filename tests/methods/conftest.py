"""What a method minimises, seen from outside: the gradient of a step can be read off Adam's moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from delome import Graph, Task, TaskStream, load_graph
from delome.backbones import Backbone
from delome.memory import Memory
from delome.methods import GradientLearner, Replay
from delome.state import State

Weights = dict[str, Tensor]


@pytest.fixture(scope="session")
def uneven_graph() -> Graph:
    """Six classes of 44 to 15 nodes that overlap and share a direction, 8 features."""
    graph = load_graph("synthetic", nodes=160, classes=6, features=8, degree=6, imbalance=3, noise=1.5)
    return Graph(np.stack(graph.adjacency.nonzero())[::-1], graph.features + 0.5, graph.labels)


@pytest.fixture
def uneven_stream(uneven_graph: Graph) -> TaskStream:
    """Three tasks of two classes."""
    return TaskStream(uneven_graph)


@dataclass
class Snapshot:
    """A network with the weights of one moment: its outputs can be differentiated with respect to them."""

    network: Backbone
    weights: Weights

    @classmethod
    def of(cls, network: Backbone, state: State) -> Snapshot:
        names = [name for name, _ in network.named_parameters()]
        return cls(network, {name: state.tensors[f"model.{name}"].clone().requires_grad_() for name in names})

    def logits(self, graph: Graph, nodes: np.ndarray) -> Tensor:
        inputs = self.network.prepare(graph).select(nodes)
        return torch.func.functional_call(self.network, self.weights, (inputs,))

    def train_logits(self, task: Task) -> tuple[Tensor, Tensor]:
        """Logits and class columns of a task's training nodes."""
        return self.logits(task.graph, task.train), torch.from_numpy(task.graph.labels[task.train])

    def memory_logits(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """Logits and class columns of the rows of a memory."""
        return self.logits(memory.graph, memory.rows), torch.from_numpy(memory.labels)

    def gradient(self, loss: Tensor) -> Weights:
        slopes = torch.autograd.grad(
            loss, list(self.weights.values()), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return dict(zip(self.weights, slopes, strict=True))


@dataclass
class Step(Snapshot):
    """The weights before a step, and the gradient that was handed to Adam there."""

    taken: Weights

    def distance(self, expected: Weights) -> float:
        """Largest difference between the gradient and an expected one, in units of the larger of the two."""
        distances = []
        for name, slope in expected.items():
            scale = max(slope.abs().max().item(), self.taken[name].abs().max().item(), 1e-6)
            distances.append((self.taken[name] - slope).abs().max().item() / scale)
        return max(distances)

    def assert_minimises(self, *terms: Tensor) -> None:
        """The gradient is that of the sum of these terms, none of which is so small that half of it would do."""
        assert self.distance(self.gradient(sum(terms))) < 1e-3
        for term in terms:
            assert self.distance(self.gradient(sum(terms) - term / 2)) > 0.02, "half the term would do"


@pytest.fixture
def snapshot() -> Callable[[GradientLearner], Snapshot]:
    """The network of a learner as it is now."""
    return lambda learner: Snapshot.of(learner.network, learner.state())


@pytest.fixture
def last_step() -> Callable[[GradientLearner, Task], Step]:
    """Lets a learner observe a task, and tells the last step of it.

    Adam keeps m ← 0.9 m + 0.1 g, which is in the learner's state: g is known from m before and after. The learner must
    take one step an epoch, without weight decay, and have learned a task unless it has several epochs.
    """

    def observe(learner: GradientLearner, task: Task) -> Step:
        assert learner.weight_decay == 0
        before = learner.state()
        if learner.epochs > 1:
            shorter = replace(learner, epochs=learner.epochs - 1)
            shorter.load_state(before)
            shorter.observe(task)
            before = shorter.state()
        learner.observe(task)
        after = learner.state()
        snapshot = Snapshot.of(learner.network, before)
        taken = {}
        for name in snapshot.weights:
            moment = f"adam.{name}.exp_avg"
            assert after.tensors[f"adam.{name}.step"] == before.tensors[f"adam.{name}.step"] + 1
            taken[name] = (after.tensors[moment] - 0.9 * before.tensors[moment]) / 0.1
        return Step(snapshot.network, snapshot.weights, taken)

    return observe


@pytest.fixture
def memories_of() -> Callable[[Replay], list[Memory]]:
    """The memories of a learner, oldest first."""
    return lambda learner: list(learner.bank.memories)

"""What checks are made on: learners of one method, small enough to be quick, and streams to learn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from delome.datasets import load_graph
from delome.graph import Graph
from delome.learning import Learner
from delome.parameters import has_parameter
from delome.persistence.state import State
from delome.streams.columns import Setting
from delome.streams.task_stream import TaskStream
from delome.streams.tasks import Task

SMALL: dict[str, Any] = {
    "epochs": 8,
    "networks": 10,
    "encoders": 50,
    "encoder_width": 64,
    "budget": 8,
    "hidden": 32,
    "features": 64,
    "pretrain": 8,
}
"""Parameters that make a learner quick, for methods that have them."""


@dataclass(frozen=True)
class Subject:
    """A method in one setting, with parameters of its own if need be."""

    method: type[Learner]
    setting: Setting
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def make(self, **parameters: Any) -> Learner:
        """A new learner; parameters that the method does not have are left out."""
        wanted = {"setting": self.setting, **self.method.repeats_with, **self.parameters}
        plain = self.method(**wanted)
        quick = {name: value for name, value in (SMALL | parameters).items() if has_parameter(plain, name)}
        own = {name.rpartition(".")[2] for name in self.parameters}
        return self.method(**wanted, **{name: value for name, value in quick.items() if name not in own})

    def learned(self, stream: Iterable[Task], **parameters: Any) -> Learner:
        """A learner that has learned a stream."""
        learner = self.make(**parameters)
        for task in stream:
            learner.observe(task)
        return learner

    def graph(self) -> Graph:
        """Six separable classes of 40 nodes, 16 features."""
        return _toy_graph()

    def stream(self) -> TaskStream:
        """Three tasks of two classes."""
        return TaskStream(_toy_graph())

    def overlapping(self, **protocol: Any) -> TaskStream:
        """Three tasks of two classes that overlap: to know the task of a node would help to classify it."""
        return TaskStream(_overlapping_graph(), **protocol)


@cache
def _toy_graph() -> Graph:
    return load_graph("synthetic", nodes=240, classes=6, features=16, degree=6, noise=0.5)


@cache
def _overlapping_graph() -> Graph:
    return load_graph("synthetic", nodes=300, classes=6, features=16, degree=6, noise=2.0)


@cache
def bag_of_words() -> Graph:
    """Four classes of 30 nodes with sparse features: words of the class's own and one common word."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    words = np.where(rng.random((120, 8)) < 0.9, 20 * labels[:, None] + rng.integers(15, size=(120, 8)), 80)
    features = sp.csr_array(
        (np.ones(words.size, np.float32), (np.repeat(np.arange(120), 8), words.ravel())), (120, 300)
    )
    same = 30 * labels[:, None] + rng.integers(30, size=(120, 2))
    return Graph(np.stack([np.repeat(np.arange(120), 2), same.ravel()]), features, labels)


def same_state(first: State, second: State) -> bool:
    """Whether two states agree to the last bit."""
    return (
        first.values == second.values
        and first.tensors.keys() == second.tensors.keys()
        and all(torch.equal(tensor, second.tensors[name]) for name, tensor in first.tensors.items())
    )


def odd_streams() -> dict[str, TaskStream]:
    """Streams that are unlike the usual ones."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 15)
    features = rng.standard_normal((60, 4)) + labels[:, None]
    no_edges = Graph(np.zeros((2, 0), int), features, labels)
    tiny = np.repeat(np.arange(4), [3, 3, 50, 4])
    return {
        "one class a task, no edges": TaskStream(no_edges, 1),
        "a single task": TaskStream(no_edges, 4),
        "a class left over": TaskStream(no_edges, 3),
        "another order of classes": TaskStream(no_edges, class_order=[2, 0, 3, 1]),
        "classes of three nodes": TaskStream(Graph([[0], [1]], features, tiny)),
        "all features zero": TaskStream(Graph([[0], [1]], features * 0, labels)),
        "edges between tasks": TaskStream(
            Graph(rng.integers(60, size=(2, 99)), features, labels), inter_task_edges=True
        ),
        "labels that are text": TaskStream(Graph([[0], [1]], features, np.array(["d", "c", "b", "a"])[labels])),
    }

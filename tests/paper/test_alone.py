from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from delome import Graph, TaskStream
from delome.errors import ParameterError
from delome.paper.alone import MemoryAlone

SMALL: dict[str, Any] = {"memory": "kernel-matching", "budget": 4, "epochs": 5, "hidden": 8}


def learned(stream: TaskStream) -> MemoryAlone:
    learner = MemoryAlone(**SMALL)
    for task in stream[:2]:
        learner.observe(task)
    return learner


def test_a_network_knows_the_memory_of_its_own_task_alone(toy_graph: Graph) -> None:
    plain = learned(TaskStream(toy_graph))
    features = np.array(toy_graph.features)
    assert toy_graph.labels is not None
    features[toy_graph.labels < 2] *= -3  # another first task
    other = learned(TaskStream(toy_graph.with_features(features)))
    for one, two in zip(plain.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(one, two)


def test_it_learns_from_the_memory_and_not_from_the_task(toy_stream: TaskStream) -> None:
    learner = MemoryAlone(**SMALL)
    learner.observe(toy_stream[0])
    memory = learner.bank.memories[0]
    again = MemoryAlone(**SMALL)
    again.reset(learner.width, learner.outputs)
    rows = torch.from_numpy(np.asarray(memory.graph.features))
    labels, optimizer = torch.from_numpy(memory.labels), again.optimizer
    assert optimizer is not None
    for _ in range(5):
        optimizer.zero_grad()
        hidden = (rows @ again.network.first).relu()  # type: ignore[operator]
        torch.nn.functional.cross_entropy((hidden @ again.network.second)[:, :2], labels).backward()  # type: ignore[operator]
        optimizer.step()
    for one, two in zip(learner.network.parameters(), again.network.parameters(), strict=True):
        torch.testing.assert_close(one, two)


def test_it_is_told_the_task() -> None:
    assert MemoryAlone().setting == "til"
    with pytest.raises(ParameterError, match="does not work in setting 'cil'"):
        MemoryAlone(setting="cil")

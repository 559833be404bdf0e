from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch

from delome import Task
from delome.backbones import SGC, Network
from delome.memories import Context, Memory, MemoryBuilder
from delome.memories.merging import Earlier
from delome.progress import Tracker
from delome.streams.columns import LabelColumns, Setting
from delome.streams.tasks import Observation


@pytest.fixture(scope="session")
def context_of() -> Callable[..., Context]:
    """Makes what a builder knows beside a task: by default a network of SGC, and no classes but those of the task."""

    def make(
        observation: Observation,
        *,
        seed: int = 0,
        hidden: int = 256,
        network: Network | None = None,
        setting: Setting = "cil",
        before: tuple[tuple[int, ...], ...] = (),
        tracker: Tracker | None = None,
        earlier: Mapping[int, Earlier] | None = None,
    ) -> Context:
        if network is None:
            width, classes = observation.graph.num_features, observation.num_classes
            network = SGC(hidden=hidden).network(width, classes, np.random.default_rng(0), torch.device("cpu"))
        columns = LabelColumns(setting, [*before, observation.classes])
        return Context(network, columns, np.random.default_rng(seed), tracker or Tracker(), earlier or {})

    return make


@pytest.fixture(scope="session")
def build(context_of: Callable[..., Context]) -> Callable[..., Memory]:
    """Builds the memory of a task, or of an observation; further options are those of ``context_of``."""

    def built(builder: MemoryBuilder, task: Task | Observation, **options: object) -> Memory:
        observation = task.observation() if isinstance(task, Task) else task
        return builder.build(observation, context_of(observation, **options))

    return built

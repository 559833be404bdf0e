"""About how long a run takes, from the products of its training: right to a factor of a few."""

from __future__ import annotations

from delome.experiment.config import RunConfig
from delome.streams.task_stream import TaskStream

FLOPS = 2e10
"""Of one core in products of single precision."""
OVERHEAD = 1e-3
"""Seconds of a step beside its products."""


def expected_seconds(config: RunConfig, stream: TaskStream) -> float:
    """Seconds of one seed on one core: three products of rows × features × hidden units for each step."""
    parameters = config.parameters
    epochs, width = int(parameters.get("epochs") or 1), config.hidden or 256
    features = stream[0].graph.num_features if len(stream) else 0
    seconds, rows_before = 0.0, 0
    for task in stream:
        own = len(task.train)
        replayed = (config.budget or 0) * config.classes_per_task * task.index
        rows = own + (rows_before if config.method == "joint" else replayed)
        rows_before += own
        seconds += epochs * (6 * rows * features * width / FLOPS + OVERHEAD)
    return seconds

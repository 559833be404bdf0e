"""About how long a run takes, from the products of its training: right to a factor of a few."""

from __future__ import annotations

import math

import numpy as np

from delome.experiment.config import RunConfig
from delome.graph import Graph
from delome.graph.sparse import SPARSE_BELOW
from delome.learning import Learner
from delome.parameters import parameter_value
from delome.streams.cut import CutStream

FLOPS = 5e10
"""Of one core in products of single precision."""
OVERHEAD = 1e-3
"""Seconds of a step beside its products."""


def expected_seconds(config: RunConfig, stream: CutStream) -> float:
    """Seconds of one seed on one core: two products of rows × features × hidden units for each step, the gradient of
    the rows themselves not being needed. Nodes that are stored of earlier tasks (GEM) have a step of their own."""
    learner = config.learner(seed=0)
    epochs, width = int(parameter_value(learner, "epochs") or 1), config.hidden or 256
    in_step, most_replayed = (parameter_value(learner, name) or math.inf for name in ("batch_size", "replayed"))
    draws = parameter_value(learner, "passes") is False
    stored = int(parameter_value(learner, "stored") or 0)
    features = _columns(learner, stream[0].graph) if len(stream) else 0
    rows, steps, rows_before, stored_before = 0.0, 0, 0, 0
    for task in stream:
        own = len(task.train) + (rows_before if config.method == "joint" else 0)
        replayed = min(most_replayed, (config.budget or 0) * config.classes_per_task * task.index)
        in_epoch = 1 if draws else math.ceil(own / in_step) or 1
        rows += (min(in_step, own) if draws else own) + in_epoch * replayed + stored_before
        steps += in_epoch + (task.index if stored else 0)
        rows_before += len(task.train)
        stored_before += min(stored, len(task.train))
    return epochs * (4 * rows * features * width / FLOPS + steps * OVERHEAD)


def _columns(learner: Learner, graph: Graph) -> float:
    """Columns of dense rows whose products cost as much as those of propagated rows.

    A row has words of its neighbours' neighbours: about (degree + 1)² times those of a node, each of which costs as
    much as some columns of a dense row.
    """
    width = learner.reading.width(graph.num_features)
    if isinstance(graph.features, np.ndarray) or width < graph.num_features:
        return width
    words = float(graph.features.nnz) / graph.num_nodes * (1 + graph.num_edges / graph.num_nodes) ** 2
    return min(float(width), words / SPARSE_BELOW)

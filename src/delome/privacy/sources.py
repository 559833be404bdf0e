"""Which nodes a memory row was made from, where that can be known."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from delome.graph.sparse import Features, to_dense
from delome.learning import Learner
from delome.learning.replay import Replay
from delome.memories import DistributionMatching, GradientMatching, KernelMatching, MemoryBuilder
from delome.memories.initial import Initial, initial_weights
from delome.randomness import generator
from delome.streams.tasks import Task

FROM_FEW = ("raw", "propagated", "mixture")
"""Ways to begin that take few nodes for a row; noise takes all of them."""


def sources_of(learner: Learner, task: Task) -> dict[int, sp.csr_array] | None:
    """For each class column, the weights of its training nodes in the rows that its memory was begun from.

    Learned rows begin as combinations of nodes that are drawn from the seed, and can be drawn again. None where rows
    were not made so, or began as noise. (Rows that are copies of nodes need no such knowledge.)
    """
    if not isinstance(learner, Replay) or learner.recurring == "merge":
        return None
    begun = _beginning(learner.memory)
    labels = task.graph.user_labels
    if begun is None or labels is None:
        return None
    kind, spawns = begun
    rng, columns = generator(learner.seed, "memory", task.index), learner.known.columns_of(labels[task.train])
    each = rng.spawn(len(task.classes)) if spawns else [rng] * len(task.classes)
    return {
        column: sp.csr_array(initial_weights(kind, int((columns == column).sum()), learner.memory.budget, own))
        for column, own in zip(task.classes, each, strict=True)
    }


def _beginning(builder: MemoryBuilder) -> tuple[Initial, bool] | None:
    """What rows begin as, and whether each class has a generator of its own; none if they are not made of few nodes."""
    found: tuple[Initial, bool] | None = None
    if isinstance(builder, KernelMatching):
        found = builder.init, True
    elif isinstance(builder, GradientMatching):
        found = builder.init, False
    elif isinstance(builder, DistributionMatching):
        found = ("mixture", True) if builder.encoders == "exact" else ("raw", False)
    return found if found is not None and found[0] in FROM_FEW else None


SAME = 1e-5
"""Difference, in units of its largest number, up to which a row is an exact copy."""


def is_copy(rows: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Whether each row is the same as its twin, up to rounding; rows of zeros are nobody's."""
    sizes = np.abs(of).max(axis=1)
    same: np.ndarray = (np.abs(rows - of).max(axis=1) <= SAME * sizes) & (sizes > 0)
    return same


def copied_from(memory: Features, nodes: Features, node: np.ndarray) -> sp.csr_array:
    """Weights of nodes in memory rows that are copies of the ``node`` nearest to each; none in other rows."""
    copies = np.flatnonzero(is_copy(to_dense(memory), to_dense(nodes[node])))
    shape = (memory.shape[0], nodes.shape[0])
    return sp.csr_array((np.ones(len(copies)), (copies, node[copies])), shape=shape)

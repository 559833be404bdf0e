"""Learners that read fixed random features of propagated rows: what closed-form methods share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from delome.errors import StateError
from delome.graph.lengths import lengths_of
from delome.graph.rows import Rows
from delome.graph.sparse import Features
from delome.learning.isolation import isolated
from delome.learning.propagated import HOPS, PropagatedLearner
from delome.parameters import Param
from delome.persistence.state import State
from delome.randomness import generator
from delome.streams.tasks import Observation

CHUNK_ROWS = 4096


class RandomFeatureLearner(PropagatedLearner):
    """Reads ``φ = relu(√D · u / ‖u‖)`` with ``u = (S² X) R``, R a Gaussian matrix drawn from the seed, never stored.

    Rows are propagated before they are projected (the same by linearity), so that a task's D-dimensional rows are never
    all in memory.
    """

    features: Annotated[
        int | None, Param("random features D; none = 50 per class, a power of 2 in 2048…8192", at_least=1)
    ] = None

    dtype: ClassVar[torch.dtype] = torch.float32

    def forget(self) -> None:
        super().forget()
        self.size = 0
        self._projection: Tensor | None = None

    @abstractmethod
    def scored(self, features: Tensor, task: int) -> Tensor:
        """Logits of rows φ."""

    def propagated(self, observation: Observation) -> Features:
        """Rows of all nodes that are observed; the first observation decides how many random features there are."""
        if not self.size:
            self.size = self.features or automatic_features(observation.num_classes)
        return observation.graph.propagate(HOPS)

    def random_features(self, propagated: Features, nodes: np.ndarray) -> Iterator[Tensor]:
        """φ of the nodes, a chunk at a time."""
        projection = self.projection
        size = projection.shape[1]
        for start in range(0, len(nodes), CHUNK_ROWS):
            rows = Rows.of(propagated[nodes[start : start + CHUNK_ROWS]], self.torch_device)
            projected = rows.times(projection).to(self.dtype)
            lengths = lengths_of(projected).clamp(min=torch.finfo(self.dtype).tiny)
            yield projected.div_(lengths).mul_(math.sqrt(size)).relu_()

    @property
    def projection(self) -> Tensor:
        """The Gaussian matrix R, drawn again from the seed when it is needed."""
        if self._projection is None:
            drawn = generator(self.seed, "projection").standard_normal((self.width, self.size), dtype=np.float32)
            self._projection = torch.from_numpy(drawn).to(self.torch_device)
        return self._projection

    def select_inputs(self, inputs: Features, index: np.ndarray) -> Features:
        return inputs[index]

    def logits(self, inputs: Features, task: int) -> Tensor:
        nodes = np.arange(inputs.shape[0])
        return torch.cat([self.scored(chunk, task) for chunk in self.random_features(inputs, nodes)])

    def state(self) -> State:
        state = super().state()
        state.values["random_features"] = self.size
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        self.size = state.whole_number("random_features")
        if self.size and self.features not in (None, self.size):
            raise StateError(f"the state has {self.size} random features, the learner {self.features}")
        if self.columns.tasks and not self.size:
            raise StateError("the state does not fit the learner: tasks were learned without any features")


def automatic_features(classes: int) -> int:
    """50 random features per class, rounded up to a power of two, between 2,048 and 8,192.

    >>> [automatic_features(classes) for classes in (10, 40, 70, 500)]
    [2048, 2048, 4096, 8192]
    """
    return int(min(max(2 ** math.ceil(math.log2(50 * classes)), 2048), 8192))


def lower_triangle(matrix: Tensor) -> Tensor:
    """Mask of the lower triangle, diagonal included."""
    return torch.ones_like(matrix, dtype=torch.bool).tril()

"""Analytic learner: class-balanced ridge regression on random features of propagated rows. No replay, no epochs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from delome.backbones.rows import Rows
from delome.errors import StateError
from delome.graph import Graph
from delome.methods.learner import Learner
from delome.parameters import Param
from delome.randomness import generator
from delome.sparse import Features
from delome.state import State, Storage
from delome.stream import Observation
from delome.tracking import Tracker

CHUNK_ROWS = 4096
HOPS = 2


class RidgeStatistics:
    """What a ridge regression needs of all classes seen: scatter within classes, class means, number of rows.

    With Φ_c the feature rows of class c: ``means[:, c] = mean Φ_c`` and ``scatter = Σ_c cov Φ_c``. Every class counts
    the same, whatever its size, and the result does not depend on the order or portions in which classes come.
    """

    def __init__(self, features: int, dtype: torch.dtype, device: torch.device) -> None:
        self.scatter = torch.zeros(features, features, dtype=dtype, device=device)
        self.means = torch.zeros(features, 0, dtype=dtype, device=device)
        self.rows = 0

    def add_class(self, chunks: Iterator[Tensor]) -> None:
        """Takes in the feature rows of one more class."""
        count = 0
        total = self.scatter.new_zeros(len(self.scatter))
        second = torch.zeros_like(self.scatter)
        for chunk in chunks:
            count += len(chunk)
            total += chunk.sum(dim=0)
            second.addmm_(chunk.T, chunk)
        mean = total / count
        self.scatter += second.div_(count).addr_(mean, mean, alpha=-1)
        self.means = torch.cat([self.means, mean[:, None]], dim=1)
        self.rows += count

    def round_to_half(self) -> None:
        """Rounds what is stored to half precision, so that a saved learner is the same learner."""
        self.scatter = self.scatter.half().to(self.scatter.dtype)
        self.means = self.means.half().to(self.means.dtype)

    def solve(self, ridge: float) -> Tensor:
        """W = (A + γI)⁻¹ M with A = scatter + M Mᵀ and γ = ridge · tr(A) / rows: a noise variance per row."""
        moment = torch.addmm(self.scatter, self.means, self.means.T)
        gamma = ridge * moment.trace() / self.rows
        moment.diagonal().add_(gamma.clamp(min=torch.finfo(moment.dtype).tiny))
        return torch.cholesky_solve(self.means, torch.linalg.cholesky(moment))


@dataclass(kw_only=True)
class Analytic(Learner):
    """Class-incremental ridge regression on propagated random features (in the manner of ACIL, Zhuang et al., 2022).

    ``φ = relu(√D · u / ‖u‖)`` with ``u = (S² X) R``, R a Gaussian matrix drawn from the seed and never stored. Only
    sums over nodes are kept, in half precision; the result equals ridge regression on all tasks at once.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = Analytic(features=512)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 95
    True
    """

    features: Annotated[
        int | None, Param("random features D; none = 50 per class, a power of 2 in 2048…8192", least=1)
    ] = None
    ridge: Annotated[float, Param("ridge strength γ in units of tr(A) / training rows", above=0)] = 0.3
    per_task: Annotated[bool, Param("TIL: one regression per task (no forgetting at all) instead of a shared one")] = (
        False
    )

    summary: ClassVar[str] = "closed-form ridge on propagated features: no replay, no epochs"

    dtype: ClassVar[torch.dtype] = torch.float32

    def __post_init__(self) -> None:
        super().__post_init__()
        self.statistics: RidgeStatistics | None = None
        self.width = 0
        self._projection: Tensor | None = None
        self._weights: Tensor | None = None

    def _learn(self, observation: Observation, tracker: Tracker) -> None:
        with tracker.phase("prepare"):
            propagated = observation.graph.propagate(HOPS)
            if self.statistics is None:
                self.width = observation.graph.num_features
                size = self.features or automatic_features(observation.num_classes)
                self.statistics = RidgeStatistics(size, self.dtype, self.torch_device)
            self._check_width(observation.graph)
        with tracker.phase("train", len(observation.classes)) as step:
            statistics = self.statistics
            if self.per_task:
                statistics = RidgeStatistics(len(self.statistics.scatter), self.dtype, self.torch_device)
            for column in observation.classes:
                nodes = observation.train[observation.labels == column]
                statistics.add_class(self._random_features(propagated, nodes))
                step()
            if self.per_task:
                # the weights themselves are all that a finished task needs
                weights = statistics.solve(self.ridge).half().to(self.dtype)
                self.statistics.means = torch.cat([self.statistics.means, weights], dim=1)
            elif self.dtype is not torch.float64:
                statistics.round_to_half()
            self._weights = None

    def _random_features(self, propagated: Features, nodes: np.ndarray) -> Iterator[Tensor]:
        """φ of the nodes, a chunk at a time."""
        projection = self.projection
        size = projection.shape[1]
        for start in range(0, len(nodes), CHUNK_ROWS):
            rows = Rows.of(propagated[nodes[start : start + CHUNK_ROWS]], self.torch_device)
            projected = rows.times(projection).to(self.dtype)
            lengths = projected.norm(dim=1, keepdim=True).clamp(min=torch.finfo(self.dtype).tiny)
            yield projected.div_(lengths).mul_(math.sqrt(size)).relu_()

    @property
    def projection(self) -> Tensor:
        """The Gaussian matrix R, drawn again from the seed when it is needed."""
        assert self.statistics is not None
        if self._projection is None:
            shape = (self.width, len(self.statistics.scatter))
            drawn = generator(self.seed, "projection").standard_normal(shape, dtype=np.float32)
            self._projection = torch.from_numpy(drawn).to(self.torch_device)
        return self._projection

    @property
    def weights(self) -> Tensor:
        """Regression weights of all classes seen, solved when first needed after a task."""
        assert self.statistics is not None
        if self._weights is None:
            self._weights = self.statistics.means if self.per_task else self.statistics.solve(self.ridge)
        return self._weights

    def _scores(self, graph: Graph, nodes: np.ndarray) -> Tensor:
        self._check_width(graph)
        weights = self.weights
        return torch.cat([chunk @ weights for chunk in self._random_features(graph.propagate(HOPS), nodes)])

    def _check_width(self, graph: Graph) -> None:
        if graph.num_features != self.width:
            raise StateError(
                f"the learner was trained on {self.width} features, but the graph has {graph.num_features}"
            )

    def _stored(self) -> dict[str, Tensor]:
        """Half-precision tensors that are everything the learner keeps."""
        if self.statistics is None:
            return {}
        means = {"means": self.statistics.means.half()}
        if self.per_task:
            return means
        return means | {"scatter": self.statistics.scatter[_lower(len(self.statistics.scatter))].half()}

    def state(self) -> State:
        state = super().state()
        state.tensors |= self._stored()
        if self.statistics is not None:
            size = len(self.statistics.scatter)
            state.values |= {"width": self.width, "rows": self.statistics.rows, "random_features": size}
        return state

    def load_state(self, state: State) -> None:
        super().load_state(state)
        if "means" not in state.tensors:
            return
        size = state.values["random_features"]
        if self.features not in (None, size):
            raise StateError(f"the state has {size} random features, the learner {self.features}")
        self.width, self._projection, self._weights = state.values["width"], None, None
        self.statistics = RidgeStatistics(size, self.dtype, self.torch_device)
        self.statistics.rows = state.values["rows"]
        self.statistics.means = state.tensors["means"].to(self.torch_device, self.dtype)
        if "scatter" in state.tensors:
            scatter = self.statistics.scatter
            scatter[_lower(size)] = state.tensors["scatter"].to(self.torch_device, self.dtype)
            scatter += scatter.tril(-1).T

    def storage(self) -> Storage:
        stored = self._stored().values()
        return Storage(0, sum(tensor.numel() for tensor in stored), sum(tensor.numel() * 2 for tensor in stored))


def _lower(size: int) -> Tensor:
    """Mask of the lower triangle, diagonal included."""
    return torch.ones(size, size, dtype=torch.bool).tril()


def automatic_features(classes: int) -> int:
    """50 random features per class, rounded up to a power of two, between 2,048 and 8,192.

    >>> [automatic_features(classes) for classes in (10, 40, 70, 500)]
    [2048, 2048, 4096, 8192]
    """
    return int(min(max(2 ** math.ceil(math.log2(50 * classes)), 2048), 8192))

"""Analytic learner: class-balanced ridge regression on random features of propagated rows. No replay, no epochs."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from delome.backbones.rows import Rows
from delome.errors import ParameterError, StateError
from delome.graph import Graph
from delome.methods.learner import Learner, check_width
from delome.parameters import Param
from delome.randomness import generator
from delome.sparse import Features
from delome.state import Keeps, State, Storage, whole_numbers
from delome.stream import Observation
from delome.tracking import Tracker

CHUNK_ROWS = 4096
HOPS = 2


class RidgeStatistics:
    """What a ridge regression needs of all classes seen: scatter within classes, class means, rows of each class.

    With Φ_c the feature rows of class c: ``means[:, c] = mean Φ_c`` and ``scatter = Σ_c cov Φ_c``. Every class counts
    the same, whatever its size, and the result does not depend on the order in which classes come.

    When m more rows come of a class that has n, its mean is updated exactly. Its covariance alone is not kept; the mean
    one of the C classes known, ``scatter / C``, takes its place (exact while there is one class). With δ the difference
    of the means of new and old rows: ``scatter += m/(n + m) (cov_new - scatter / C) + n m/(n + m)² δ δᵀ``.
    """

    def __init__(self, features: int, dtype: torch.dtype, device: torch.device) -> None:
        self.scatter = torch.zeros(features, features, dtype=dtype, device=device)
        self.means = torch.zeros(features, 0, dtype=dtype, device=device)
        self.counts: list[int] = []

    @property
    def rows(self) -> int:
        """Rows of all classes."""
        return sum(self.counts)

    def add(self, column: int, chunks: Iterator[Tensor]) -> None:
        """Takes in feature rows of a class: the next one, or more rows of a known one."""
        count = 0
        total = self.scatter.new_zeros(len(self.scatter))
        second = torch.zeros_like(self.scatter)
        for chunk in chunks:
            count += len(chunk)
            total += chunk.sum(dim=0)
            second.addmm_(chunk.T, chunk)
        mean = total / count
        covariance = second.div_(count).addr_(mean, mean, alpha=-1)
        if column == len(self.counts):
            self.scatter += covariance
            self.means = torch.cat([self.means, mean[:, None]], dim=1)
            self.counts.append(count)
            return
        before, step = self.counts[column], mean - self.means[:, column]
        share = count / (before + count)
        self.scatter.add_(covariance.sub_(self.scatter, alpha=1 / len(self.counts)), alpha=share)
        self.scatter.addr_(step, step, alpha=share * (1 - share))
        self.means[:, column] += share * step
        self.counts[column] += count

    def round_to_half(self) -> None:
        """Rounds to half precision, the form that is saved, so that a saved learner is the same learner.

        Double precision, for tests of exactness, is left alone.
        """
        if self.scatter.dtype == torch.float64:
            return
        self.scatter = self.scatter.half().to(self.scatter.dtype)
        self.means = self.means.half().to(self.means.dtype)

    def solve(self, ridge: float) -> Tensor:
        """W = (A + γI)⁻¹ M with A = scatter + M Mᵀ and γ = ridge · tr(A) / rows: a noise variance per row."""
        moment = torch.addmm(self.scatter, self.means, self.means.T)
        gamma = ridge * moment.trace() / self.rows
        moment.diagonal().add_(gamma.clamp(torch.finfo(moment.dtype).tiny, 1e30))
        factor, failed = torch.linalg.cholesky_ex(moment)
        if failed:
            raise ParameterError(f"ridge {ridge:g} is too small to solve for so many features: try 0.3")
        return torch.cholesky_solve(self.means, factor)


@dataclass(kw_only=True)
class Analytic(Learner):
    """Class-incremental ridge regression on propagated random features (in the manner of ACIL, Zhuang et al., 2022).

    ``φ = relu(√D · u / ‖u‖)`` with ``u = (S² X) R``, R a Gaussian matrix drawn from the seed and never stored. Only
    sums over nodes are kept, in half precision; up to that rounding the result equals ridge regression on all tasks
    at once. Rows are propagated before they are projected (the same by linearity), so that a task's D-dimensional rows
    are never all in memory.

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

    family: ClassVar[str] = "closed form"
    keeps: ClassVar[Keeps] = Keeps("0", "D·(D + 1) / 2 + D·C", "D·(D + 1) + 2·D·C")
    citation: ClassVar[str] = "after Zhuang et al., 2022"
    summary: ClassVar[str] = "closed-form ridge on propagated features: no replay, no epochs"

    dtype: ClassVar[torch.dtype] = torch.float32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_task and self.setting == "cil":
            raise ParameterError("per_task needs the task of a node: it works in setting til only")
        self.statistics: RidgeStatistics | None = None
        self.task_weights: list[Tensor] = []
        self.width, self.size = 0, 0
        self._projection: Tensor | None = None

    def _learn(self, observation: Observation, tracker: Tracker) -> None:
        with tracker.phase("prepare"):
            propagated = observation.graph.propagate(HOPS)
            if not self.size:
                self.width = observation.graph.num_features
                self.size = self.features or automatic_features(observation.num_classes)
            check_width(observation.graph, self.width)
        with tracker.phase("train", len(observation.classes) + 1) as step:
            if self.statistics is None or self.per_task:
                statistics = RidgeStatistics(self.size, self.dtype, self.torch_device)
            else:
                # a copy, so that a class is not taken in twice if this is interrupted and called again
                statistics = copy.deepcopy(self.statistics)
            for position, column in enumerate(observation.classes):
                nodes = observation.train[observation.labels == column]
                statistics.add(position if self.per_task else column, self._random_features(propagated, nodes))
                step()
            if self.per_task:
                # its own weights are all that a finished task needs
                self.task_weights.append(statistics.solve(self.ridge).half())
            else:
                statistics.round_to_half()
                self.statistics, self.weights = statistics, statistics.solve(self.ridge)
            step()

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
        if self._projection is None:
            drawn = generator(self.seed, "projection").standard_normal((self.width, self.size), dtype=np.float32)
            self._projection = torch.from_numpy(drawn).to(self.torch_device)
        return self._projection

    @property
    def _form_of_inputs(self) -> Hashable:
        return "propagated", self.width

    def _inputs(self, graph: Graph, nodes: np.ndarray) -> Features:
        check_width(graph, self.width)
        return graph.propagate(HOPS)[nodes]

    def _scores(self, inputs: Features, task: int) -> Tensor:
        nodes = np.arange(inputs.shape[0])
        weights = self._weights_of(task) if self.per_task else self.weights
        return torch.cat([chunk @ weights for chunk in self._random_features(inputs, nodes)])

    def _weights_of(self, task: int) -> Tensor:
        """Weights of a task's own regression in the columns of its classes, which other tasks may have too."""
        weights = torch.zeros(self.size, self.columns.seen, dtype=self.dtype, device=self.torch_device)
        weights[:, list(self.columns.tasks[task])] = self.task_weights[task].to(self.torch_device, self.dtype)
        return weights

    def state(self) -> State:
        state = super().state()
        state.values |= {"width": self.width, "random_features": self.size}
        state.tensors |= {f"weights.{task}": weights.clone() for task, weights in enumerate(self.task_weights)}
        if self.statistics is not None:
            state.values["counts"] = list(self.statistics.counts)
            state.tensors["means"] = self.statistics.means.half()
            state.tensors["scatter"] = self.statistics.scatter[_lower(self.size)].half()
        return state

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self.width, self.size = state.whole_number("width"), state.whole_number("random_features")
        if self.size and self.features not in (None, self.size):
            raise StateError(f"the state has {self.size} random features, the learner {self.features}")
        if self.columns.tasks and not (self.width and self.size):
            raise StateError("the state does not fit the learner: tasks were learned without any features")
        if self.per_task and self.columns.tasks:
            self.task_weights = [
                state.tensor(f"weights.{task}", (self.size, len(classes)), torch.half)
                for task, classes in enumerate(self.columns.tasks)
            ]
        elif self.columns.tasks:
            means = state.tensor("means", (self.size, self.columns.seen), torch.half)
            lower = state.tensor("scatter", (self.size * (self.size + 1) // 2,), torch.half)
            self.statistics = RidgeStatistics(self.size, self.dtype, self.torch_device)
            self.statistics.counts = whole_numbers(state.value("counts"), "counts")
            if len(self.statistics.counts) != self.columns.seen:
                raise StateError("the state does not fit the learner: 'counts' must hold a number for each class")
            self.statistics.means = means.to(self.torch_device, self.dtype)
            scatter = self.statistics.scatter
            scatter[_lower(self.size)] = lower.to(self.torch_device, self.dtype)
            scatter += scatter.tril(-1).T
            self.weights = self.statistics.solve(self.ridge)

    def storage(self) -> Storage:
        floats = sum(weights.numel() for weights in self.task_weights)
        if self.statistics is not None:
            floats += self.statistics.means.numel() + self.size * (self.size + 1) // 2
        return Storage(0, floats, 2 * floats)


def _lower(size: int) -> Tensor:
    """Mask of the lower triangle, diagonal included."""
    return torch.ones(size, size, dtype=torch.bool).tril()


def automatic_features(classes: int) -> int:
    """50 random features per class, rounded up to a power of two, between 2,048 and 8,192.

    >>> [automatic_features(classes) for classes in (10, 40, 70, 500)]
    [2048, 2048, 4096, 8192]
    """
    return int(min(max(2 ** math.ceil(math.log2(50 * classes)), 2048), 8192))

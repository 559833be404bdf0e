"""Analytic learner: class-balanced ridge regression on random features of propagated rows. No replay, no epochs."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from delome.errors import DivergenceError, ParameterError, StateError
from delome.graph import Graph
from delome.graph.lengths import lengths_of
from delome.graph.neighbourhood import seen_by
from delome.graph.rows import Rows
from delome.graph.sparse import Features, stack
from delome.learning.calibration import fitted_temperature
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.isolation import isolated
from delome.learning.learner import METHODS, Learner
from delome.parameters import Param
from delome.persistence.state import State, whole_numbers
from delome.progress import Tracker
from delome.randomness import generator
from delome.streams.tasks import Observation

CHUNK_ROWS = 4096
HOPS = 2
POWER_STEPS, ROUNDING_MARGIN = 10, 1.5
"""So many power iterations find nine tenths of the norm of rounding errors; the margin makes up for the rest, and for
errors of several tasks that are not quite independent."""
TRACE_PROBES = 16


class RidgeStatistics:
    """What a ridge regression needs of all classes seen: scatter within classes, class means, rows of each class.

    With Φ_c the feature rows of class c: ``means[:, c] = mean Φ_c`` and ``scatter = Σ_c cov Φ_c``. Every class counts
    the same, whatever its size, and the result does not depend on the order in which classes come.

    When m more rows come of a class that has n, its mean is updated exactly. Its covariance alone is not kept; the mean
    one of the C classes known, ``scatter / C``, takes its place (exact while there is one class). With δ the difference
    of the means of new and old rows: ``scatter += m/(n + m) (cov_new - scatter / C) + n m/(n + m)² δ δᵀ``.

    ``rounding`` is the spectral norm of what rounding has changed in the scatter, with a margin. Errors of several
    roundings are independent: the squares of their norms add up.
    """

    def __init__(self, features: int, dtype: torch.dtype, device: torch.device) -> None:
        self.scatter = torch.zeros(features, features, dtype=dtype, device=device)
        self.means = torch.zeros(features, 0, dtype=dtype, device=device)
        self.counts: list[int] = []
        self.rounding = 0.0

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
        self.rounding *= 1 - share / len(self.counts)
        self.means[:, column] += share * step
        self.counts[column] += count

    def round_to_half(self, rng: np.random.Generator) -> None:
        """Rounds to half precision, the form that is saved, so that a saved learner is the same learner.

        Double precision, for tests of exactness, is left alone.
        """
        if self.scatter.dtype == torch.float64:
            return
        rounded = self.scatter.half().to(self.scatter.dtype)
        error = ROUNDING_MARGIN * spectral_norm(self.scatter.sub_(rounded), rng)
        self.rounding = math.hypot(self.rounding, error)
        self.scatter = rounded
        self.means = self.means.half().to(self.means.dtype)

    def solve(self, ridge: float) -> Tensor:
        """W = (A + γI)⁻¹ M with A = scatter + M Mᵀ and γ = ridge · tr(A) / rows: a noise variance per row.

        Rounding may have taken as much as ``rounding`` from eigenvalues of A, which γ gives back: it is never less.
        """
        return torch.cholesky_solve(self.means, self._factored(ridge)[0])

    def _factored(self, ridge: float) -> tuple[Tensor, Tensor]:
        """Cholesky factor of A + γI, and γ."""
        moment = torch.addmm(self.scatter, self.means, self.means.T)
        gamma = ridge * moment.trace() / self.rows
        gamma = gamma.clamp(max(self.rounding, torch.finfo(moment.dtype).tiny), 1e30)
        moment.diagonal().add_(gamma)
        factor, failed = torch.linalg.cholesky_ex(moment)
        if failed:
            lacking = -2 * torch.linalg.eigvalsh(moment)[0] / moment.trace() * self.rows
            raise ParameterError(
                f"ridge {ridge:g} is too small for {len(moment)} random features of {self.rows} rows in single "
                f"precision: try ridge={max(0.3, ridge + float(lacking)):.1g}, or fewer features"
            )
        return factor, gamma

    def leverage(self, ridge: float, rng: np.random.Generator) -> float:
        """How much of a training row's score is its own doing, on average: ``tr(A (A + γI)⁻¹) / rows``.

        The trace D - γ tr (A + γI)⁻¹ is estimated by quadratic forms of random signs (Hutchinson, 1989).
        """
        factor, gamma = self._factored(ridge)
        signs = torch.from_numpy(rng.choice([-1.0, 1.0], size=(len(factor), TRACE_PROBES))).to(factor)
        inverse_trace = (signs * torch.cholesky_solve(signs, factor)).sum() / TRACE_PROBES
        return float(len(factor) - gamma * inverse_trace) / self.rows

    def score_model(self, weights: Tensor, columns: list[int]) -> tuple[Tensor, Tensor]:
        """Mean scores of classes, and covariance of scores within a class: ``Mᵀ W`` and ``Wᵀ (scatter / C) W``."""
        chosen = weights[:, columns]
        return self.means[:, columns].T @ chosen, chosen.T @ (self.scatter @ chosen) / len(self.counts)

    def strength(self, ridge: float) -> float:
        """Ridge strength in use, which is more than ``ridge`` if rounding asks for it."""
        trace = self.scatter.trace() + self.means.square().sum()
        return max(ridge, self.rounding * self.rows / float(trace)) if trace > 0 else ridge


@METHODS.register("analytic")
class Analytic(Learner):
    """Class-incremental ridge regression on propagated random features (in the manner of ACIL, Zhuang et al., 2022).

    ``φ = relu(√D · u / ‖u‖)`` with ``u = (S² X) R``, R a Gaussian matrix drawn from the seed and never stored. Only
    sums over nodes are kept, in half precision; up to that rounding the result equals ridge regression on all tasks
    at once. Rows are propagated before they are projected (the same by linearity), so that a task's D-dimensional rows
    are never all in memory.

    Scores of a regression are no logits: `delome.learning.calibration` finds the temperature of their softmax from the
    class means and the scatter. With ``per_task`` that is done while a task is learned, because its statistics are not
    kept.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = Analytic(features=512)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 95
    True
    """

    features: Annotated[
        int | None, Param("random features D; none = 50 per class, a power of 2 in 2048…8192", at_least=1)
    ] = None
    ridge: Annotated[float, Param("ridge strength γ in units of tr(A) / training rows", above=0)] = 0.3
    per_task: Annotated[bool, Param("TIL: one regression per task (no forgetting at all) instead of a shared one")] = (
        False
    )

    family = "closed form"
    keeps = FootprintFormula("0", "D·(D + 1) / 2 + D·C", "D·(D + 1) + 2·D·C")
    citation = "after Zhuang et al., 2022"
    summary = "closed-form ridge on propagated features: no replay, no epochs"

    dtype = torch.float32

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.per_task and self.setting == "cil":
            raise ParameterError("per_task needs the task of a node: it works in setting til only")

    def forget(self) -> None:
        super().forget()
        self.statistics: RidgeStatistics | None = None
        self.task_weights: list[Tensor] = []
        self.temperatures: dict[int, float] = {}
        self.size = 0
        self._projection: Tensor | None = None

    def learn(self, observation: Observation, tracker: Tracker) -> None:
        with tracker.phase("prepare"):
            propagated = observation.graph.propagate(HOPS)
            if not self.size:
                self.size = self.features or automatic_features(observation.num_classes)
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
            if not statistics.means.isfinite().all():
                raise DivergenceError(f"the features of task {observation.index} are too large to add up: scale them")
            if self.per_task:
                # its own weights and their temperature are all that a finished task needs
                weights = statistics.solve(self.ridge)
                columns = tuple(range(len(observation.classes)))
                self.temperatures[observation.index] = self._fitted(statistics, weights, columns, observation.index)
                self.task_weights.append(weights.half())
            else:
                statistics.round_to_half(generator(self.seed, "rounding", observation.index))
                self._take(statistics)
            step()

    def _take(self, statistics: RidgeStatistics) -> None:
        """Predicts from these statistics from now on."""
        self.statistics, self.weights = statistics, statistics.solve(self.ridge)
        self.temperatures = {}

    def _fitted(self, statistics: RidgeStatistics, weights: Tensor, columns: tuple[int, ...], task: int) -> float:
        """Temperature of scores of a task's columns."""
        means, covariance = statistics.score_model(weights, list(columns))
        leverage = statistics.leverage(self.ridge, generator(self.seed, "leverage", task))
        rng = generator(self.seed, "temperature", task)
        return fitted_temperature(means.double().cpu().numpy(), covariance.double().cpu().numpy(), leverage, rng)

    def probabilities(self, scores: Tensor, task: int) -> Tensor:
        if task not in self.temperatures:
            assert self.statistics is not None
            columns = self.columns.allowed(task)
            self.temperatures[task] = self._fitted(self.statistics, self.weights, columns, task)
        return (scores / self.temperatures[task]).softmax(dim=1)

    def _random_features(self, propagated: Features, nodes: np.ndarray) -> Iterator[Tensor]:
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

    def inputs_key(self) -> Hashable:
        return "propagated", self.width

    def inputs(self, graph: Graph, nodes: np.ndarray) -> Features:
        graph, nodes = seen_by(graph, nodes, HOPS)
        return graph.propagate(HOPS)[nodes]

    def sees(self) -> int:
        return HOPS

    def select_inputs(self, inputs: Features, index: np.ndarray) -> Features:
        return inputs[index]

    def join_inputs(self, parts: Sequence[Features]) -> Features | None:
        return None if self.per_task else stack(parts)

    def logits(self, inputs: Features, task: int) -> Tensor:
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
        state.values["random_features"] = self.size
        state.tensors |= {f"weights.{task}": weights.clone() for task, weights in enumerate(self.task_weights)}
        if self.task_weights:
            fitted = [self.temperatures[task] for task in range(len(self.task_weights))]
            state.tensors["temperatures"] = torch.tensor(fitted, dtype=torch.float64, device="cpu")
        if self.statistics is not None:
            state.values["counts"] = list(self.statistics.counts)
            state.tensors["means"] = self.statistics.means.half()
            state.tensors["rounding"] = torch.tensor(self.statistics.rounding, dtype=torch.float64, device="cpu")
            state.tensors["scatter"] = self.statistics.scatter[_lower(self.statistics.scatter)].half()
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        self.size = state.whole_number("random_features")
        if self.size and self.features not in (None, self.size):
            raise StateError(f"the state has {self.size} random features, the learner {self.features}")
        if self.columns.tasks and not self.size:
            raise StateError("the state does not fit the learner: tasks were learned without any features")
        if self.per_task and self.columns.tasks:
            self.task_weights = [
                state.tensor(f"weights.{task}", (self.size, len(classes)), torch.half)
                for task, classes in enumerate(self.columns.tasks)
            ]
            fitted = state.tensor("temperatures", (len(self.columns.tasks),), torch.float64)
            if (fitted <= 0).any():
                raise StateError("the state does not fit the learner: a temperature must be greater than 0")
            self.temperatures = dict(enumerate(fitted.tolist()))
        elif self.columns.tasks:
            means = state.tensor("means", (self.size, self.columns.seen), torch.half)
            lower = state.tensor("scatter", (self.size * (self.size + 1) // 2,), torch.half)
            self.statistics = RidgeStatistics(self.size, self.dtype, self.torch_device)
            self.statistics.counts = whole_numbers(state.value("counts"), "counts")
            if len(self.statistics.counts) != self.columns.seen:
                raise StateError("the state does not fit the learner: 'counts' must hold a number for each class")
            self.statistics.means = means.to(self.torch_device, self.dtype)
            self.statistics.rounding = state.tensor("rounding", (), torch.float64).item()
            scatter = self.statistics.scatter
            scatter[_lower(scatter)] = lower.to(self.torch_device, self.dtype)
            scatter += scatter.tril(-1).T
            self._take(self.statistics)

    def storage(self) -> Footprint:
        floats = sum(weights.numel() for weights in self.task_weights)
        if self.statistics is not None:
            floats += self.statistics.means.numel() + self.size * (self.size + 1) // 2
        return Footprint(0, floats, 2 * floats)

    def report(self) -> dict[str, list[float]]:
        """Ridge strength in use."""
        if not self.columns.tasks:
            return {}
        return {"ridge": [self.ridge if self.statistics is None else self.statistics.strength(self.ridge)]}


def spectral_norm(matrix: Tensor, rng: np.random.Generator) -> float:
    """Largest absolute eigenvalue of a symmetric matrix by power iteration: never too large, and hardly too small.

    >>> round(spectral_norm(torch.tensor([[-2.0, 0.0], [0.0, 1.0]]), np.random.default_rng(0)), 3)
    2.0
    """
    vector = torch.from_numpy(rng.standard_normal(len(matrix), dtype=np.float32)).to(matrix)
    length = matrix.new_zeros(())
    for _ in range(POWER_STEPS):
        vector = matrix @ (vector / vector.norm().clamp(min=torch.finfo(matrix.dtype).tiny))
        length = vector.norm()
    return float(length)


def _lower(matrix: Tensor) -> Tensor:
    """Mask of the lower triangle, diagonal included."""
    return torch.ones_like(matrix, dtype=torch.bool).tril()


def automatic_features(classes: int) -> int:
    """50 random features per class, rounded up to a power of two, between 2,048 and 8,192.

    >>> [automatic_features(classes) for classes in (10, 40, 70, 500)]
    [2048, 2048, 4096, 8192]
    """
    return int(min(max(2 ** math.ceil(math.log2(50 * classes)), 2048), 8192))

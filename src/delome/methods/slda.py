"""SLDA: streaming linear discriminant analysis on fixed random features."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from delome.errors import DivergenceError, StateError
from delome.graph.sparse import Features, stack
from delome.learning.class_means import ClassMeans
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.isolation import isolated
from delome.learning.learner import METHODS
from delome.learning.random_features import RandomFeatureLearner, lower_triangle
from delome.parameters import Param
from delome.persistence.state import State
from delome.progress import Tracker
from delome.streams.tasks import Observation


def discriminants(means: Tensor, covariance: Tensor, shrinkage: float) -> tuple[Tensor, Tensor]:
    """Weights ``Λ μ_c`` and biases ``-½ μ_cᵀ Λ μ_c`` with ``Λ = [(1 - ε) Σ + ε tr(Σ)/D I]⁻¹``.

    >>> weights, biases = discriminants(torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.eye(2) / 2, 0.5)
    >>> weights.tolist(), biases.tolist()
    ([[4.0, 0.0], [0.0, 4.0]], [-4.0, -4.0])
    """
    shrunk = (1 - shrinkage) * covariance.double()
    # a single node, or the same one many times, has no spread
    spread = (covariance.diagonal().double().mean()).clamp(min=1e-6)
    shrunk.diagonal().add_(shrinkage * spread + 1e-12)
    factor, failed = torch.linalg.cholesky_ex(shrunk)
    if failed:
        raise StateError("the state does not fit the learner: its 'scatter' is no covariance")
    weights = torch.cholesky_solve(means.double(), factor)
    biases = -(means.double() * weights).sum(dim=0) / 2
    return weights.to(means), biases.to(means)


@METHODS.register("slda")
class SLDA(RandomFeatureLearner):
    """Streaming linear discriminant analysis (Hayes and Kanan, 2020) on random features φ of propagated rows.

    Kept are the mean of each class and one covariance within classes, of all rows seen:
    ``Σ = (1/N) Σ_c Σ_i (φ_i - μ_c)(φ_i - μ_c)ᵀ``. Both are updated exactly when classes come, or come again: m rows of
    a class that has n add their own scatter and ``n m / (n + m) δ δᵀ``, δ the difference of the means. (The original
    takes one row at a time and weighs the last term by rows of all classes.) Classes are taken to be equally frequent.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = SLDA(features=512)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 95
    True
    """

    shrinkage: Annotated[
        float, Param("share ε of the covariance that is its mean variance times I", above=0, at_most=1)
    ] = 0.01

    family = "closed form"
    keeps = FootprintFormula("0", "D·(D + 1) / 2 + D·C", "2·D·(D + 1) + 4·D·C")
    citation = "Hayes and Kanan, 2020"
    search = ({"shrinkage": (1e-4, 1e-3, 1e-2, 1e-1)},)
    summary = "streaming discriminant analysis on propagated random features: no replay, no epochs"

    def forget(self) -> None:
        super().forget()
        self.known_means = ClassMeans(0, self.torch_device)
        self.scatter = torch.empty(0, 0)

    def learn(self, observation: Observation, tracker: Tracker) -> None:
        with tracker.phase("prepare"):
            propagated = self.propagated(observation)
        with tracker.phase("train", len(observation.classes) + 1) as step:
            # copies, so that nothing is taken in twice if this is interrupted and called again
            means, scatter = copy.deepcopy(self.known_means), self.scatter.clone()
            if not means.counts:
                means = ClassMeans(self.size, self.torch_device)
                scatter = torch.zeros(self.size, self.size, device=self.torch_device)
            for column in observation.classes:
                nodes = observation.train[observation.labels == column]
                total = scatter.new_zeros(self.size)
                for chunk in self.random_features(propagated, nodes):
                    total += chunk.sum(dim=0)
                mean = total / len(nodes)
                for chunk in self.random_features(propagated, nodes):
                    scatter.addmm_((chunk - mean).T, chunk - mean)
                difference, before = means.add(column, total, len(nodes))
                scatter.addr_(difference, difference, alpha=before * len(nodes) / (before + len(nodes)))
                step()
            if not means.means.isfinite().all():
                raise DivergenceError(f"the features of task {observation.index} are too large to add up: scale them")
            self._take(means, scatter)
            step()

    def _take(self, means: ClassMeans, scatter: Tensor) -> None:
        """Predicts from these statistics from now on."""
        self.known_means, self.scatter = means, scatter
        self.weights, self.biases = discriminants(means.means, scatter / sum(means.counts), self.shrinkage)

    def scored(self, features: Tensor, task: int) -> Tensor:
        return features @ self.weights + self.biases

    def join_inputs(self, parts: Sequence[Features]) -> Features:
        return stack(parts)

    def state(self) -> State:
        state = super().state()
        if self.known_means.counts:
            self.known_means.save(state)
            state.tensors["scatter"] = self.scatter[lower_triangle(self.scatter)]
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        if self.columns.tasks:
            means = ClassMeans.load(state, self.size, self.columns.seen, self.torch_device)
            lower = state.tensor("scatter", (self.size * (self.size + 1) // 2,))
            scatter = torch.zeros(self.size, self.size, device=self.torch_device)
            scatter[lower_triangle(scatter)] = lower.to(self.torch_device)
            scatter += scatter.tril(-1).T
            self._take(means, scatter)

    def storage(self) -> Footprint:
        floats = self.known_means.means.numel() + self.size * (self.size + 1) // 2 if self.known_means.counts else 0
        return Footprint(0, floats, 4 * floats)

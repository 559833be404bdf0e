"""Private learner: discriminant analysis of noisy class moments, with a guarantee for every training node."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from delome.errors import ParameterError, StateError
from delome.graph import Graph
from delome.graph.neighbourhood import seen_by
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.isolation import isolated
from delome.learning.learner import METHODS, Learner
from delome.parameters import Param
from delome.persistence.state import State
from delome.progress import Tracker
from delome.release.estimates import shrunk_means, within_covariance
from delome.release.gaussian import mu_of
from delome.release.ledger import Ledger, Release
from delome.release.moments import Deviations, Shares, noise_radius, release_moments
from delome.release.noise import noise_from
from delome.release.options import Delta, Epsilon, EpsilonTotal, NoiseSource, check_delta
from delome.release.rows import projection, unit_rows
from delome.streams.tasks import Observation

SHARES = Shares()
MOST_HOPS = 100
FLOOR = 0.5
"""Eigenvalues of the covariance are at least this times the spectral norm of the noise in it."""


class ClassMoments:
    """Noisy sums and counts of all classes, and their noisy second moment, added up over releases."""

    def __init__(self, features: int, classes: int = 0) -> None:
        self.sums = np.zeros((classes, features), dtype=np.float32)
        self.counts = np.zeros(classes, dtype=np.float32)
        self.second = np.zeros((features, features), dtype=np.float32)

    def grown(self, classes: int) -> ClassMoments:
        """A copy with room for so many classes."""
        found = ClassMoments(self.sums.shape[1], classes)
        found.sums[: len(self.sums)] = self.sums
        found.counts[: len(self.counts)] = self.counts
        found.second[:] = self.second
        return found


class Discriminant:
    """Linear discriminant analysis that knows how much noise its moments have.

    With m_c the shrunk means and W the covariance within classes (`delome.release.estimates`):

        score of class c = qᵀ W⁻¹ m_c - ½ m_cᵀ W⁻¹ m_c

    The noise in Σ u uᵀ has a known spectral norm r: eigenvalues of W below `FLOOR` · r / n are noise, and raised to it.
    """

    def __init__(self, moments: ClassMoments, variances: np.ndarray, radius: float) -> None:
        sums, counts = moments.sums.astype(np.float64), np.maximum(moments.counts.astype(np.float64), 1.0)
        values, vectors = np.linalg.eigh(within_covariance(moments.second, sums, counts, variances))
        floor = max(FLOOR * radius / counts.sum(), 1e-3 * abs(values.mean()), 1e-9)
        values = np.maximum(values, floor)
        shrunk = shrunk_means(sums, counts, variances)
        self.weights = (vectors / values) @ (vectors.T @ shrunk.T)
        self.bias = -0.5 * (shrunk * self.weights.T).sum(axis=1)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """A score for every row and class."""
        found: np.ndarray = rows.astype(np.float64) @ self.weights + self.bias
        return found


@METHODS.register("private")
class Private(Learner):
    """Differentially private discriminant analysis: what was learned hardly depends on any single training node.

    Training uses no edges: a node is its row ``u = x R / |x R|`` alone, R a random matrix that is public. Of each task
    only noisy class sums, class counts and one second moment of these rows are kept (`delome.release.moments`), so that
    everything learned is (ε, δ)-differentially private for adding or removing one training node with its features, its
    label and all its edges. A class that comes again adds to what is spent on its nodes (`privacy`), up to
    ``epsilon_total``. At prediction, edges of the graph that is asked about smooth its rows,
    ``q = (D⁻¹ (A + I))^hops u``: what is found out about that graph is not covered. Classes are public.

    Noise is secret by default: two learners are never the same. With ``noise="seed"`` they are, and whoever knows the
    seed can take the noise away.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = Private(epsilon=8.0, features=32, noise="seed")
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 85
    True
    >>> round(learner.privacy()["epsilon"], 6)
    8.0
    """

    epsilon: Epsilon = 4.0
    delta: Delta = 1e-5
    epsilon_total: EpsilonTotal = None
    features: Annotated[int, Param("random columns D that features are projected to", at_least=1)] = 256
    hops: Annotated[int, Param("steps of averaging over neighbours at prediction", at_least=0)] = 4
    noise: NoiseSource = "secret"

    family = "closed form"
    keeps = FootprintFormula("0", "D·(D + 1) / 2 + D·C + C", "2·D·(D + 1) + 4·D·C + 4·C")
    citation = "Balle, Wang, 2018 (mechanism)"
    summary = "noisy class moments with differential privacy for every training node"
    keeps_fingerprints = False
    repeats_with = {"noise": "seed"}

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.hops > MOST_HOPS:
            raise ParameterError(f"hops must be at most {MOST_HOPS}, not {self.hops}")
        check_delta(self.delta)

    def forget(self) -> None:
        super().forget()
        self.ledger = Ledger()
        self.moments = ClassMoments(self.features)
        self.discriminant: Discriminant | None = None
        self._projection: np.ndarray | None = None

    def learn(self, observation: Observation, tracker: Tracker) -> None:
        release = Release(observation.classes, float(self.epsilon), self.delta, self.noise)
        ledger = self.ledger.after(release)
        ledger.refuse_more_than(self.epsilon_total)
        with tracker.phase("prepare"):
            rows = unit_rows(observation.graph.features[observation.train], self.projection)
        with tracker.phase("train", 1) as step:
            found = release_moments(
                rows,
                observation.labels,
                observation.classes,
                self._deviations(release),
                noise_from(self.noise, self.seed, observation.index),
            )
            moments = self.moments.grown(self.columns.seen)
            columns = list(observation.classes)
            moments.sums[columns] += found.sums
            moments.counts[columns] += found.counts
            moments.second += found.second
            self._take(moments, ledger)
            step()

    def _deviations(self, release: Release) -> Deviations:
        return SHARES.deviations(mu_of(release.epsilon, release.delta))

    def _take(self, moments: ClassMoments, ledger: Ledger) -> None:
        """Predicts from these moments from now on."""
        each = [self._deviations(release) for release in ledger.releases]
        variances = np.zeros(len(moments.counts))
        for release, deviations in zip(ledger.releases, each, strict=True):
            variances[list(release.classes)] += deviations.sums**2
        second = float(np.sqrt(np.mean([deviations.second**2 for deviations in each])))
        self.moments, self.ledger = moments, ledger
        self.discriminant = Discriminant(moments, variances, noise_radius(second, self.features, len(each)))

    def privacy(self) -> dict[str, Any]:
        """What was guaranteed and spent so far, for whom, and what is public."""
        return self.ledger.as_dict()

    @property
    def projection(self) -> np.ndarray:
        """The matrix R, drawn again from the seed when it is needed."""
        if self._projection is None:
            self._projection = projection(self.seed, self.width, self.features)
        return self._projection

    def inputs_key(self) -> Hashable:
        return "averaged unit rows", self.width, self.features, self.hops

    def inputs(self, graph: Graph, nodes: np.ndarray) -> np.ndarray:
        graph, nodes = seen_by(graph, nodes, self.hops)
        if self.hops == 0 or graph.num_edges == 0:
            return unit_rows(graph.features[nodes], self.projection)
        rows = unit_rows(graph.features, self.projection)
        averaging = averaging_operator(graph)
        for _ in range(self.hops):
            rows = averaging @ rows
        found: np.ndarray = rows[nodes]
        return found

    def select_inputs(self, inputs: np.ndarray, index: np.ndarray) -> np.ndarray:
        found: np.ndarray = inputs[index]
        return found

    def join_inputs(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts)

    def logits(self, inputs: np.ndarray, task: int) -> Tensor:
        assert self.discriminant is not None
        return torch.from_numpy(self.discriminant.scores(inputs)).float().to(self.torch_device)

    def state(self) -> State:
        state = super().state()
        state.values["privacy"] = self.privacy()
        moments = self.moments
        state.tensors |= {
            "sums": torch.from_numpy(moments.sums.copy()),
            "counts": torch.from_numpy(moments.counts.copy()),
            "second": torch.from_numpy(moments.second[np.tril_indices(self.features)]),
        }
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        ledger = Ledger.of(state.value("privacy"), self.columns.tasks)
        moments = ClassMoments(self.features, self.columns.seen)
        moments.sums[:] = state.tensor("sums", moments.sums.shape).numpy()
        moments.counts[:] = state.tensor("counts", moments.counts.shape).numpy()
        lower = np.tril_indices(self.features)
        moments.second[lower] = state.tensor("second", (len(lower[0]),)).numpy()
        moments.second.T[lower] = moments.second[lower]
        if state.value("privacy") != ledger.as_dict():
            raise StateError("the state does not fit the learner: 'privacy' does not add up")
        if self.columns.tasks:
            self._take(moments, ledger)

    def storage(self) -> Footprint:
        if not self.columns.tasks:
            return Footprint()
        classes, size = self.moments.sums.shape
        floats = size * (size + 1) // 2 + size * classes + classes
        return Footprint(0, floats, 4 * floats)

    def report(self) -> dict[str, list[float]]:
        """ε spent so far on a node that keeps its class, and on one that may come in every task."""
        if not self.ledger.releases or not np.isfinite(self.ledger.epsilon):
            return {}
        return {"epsilon": [self.ledger.epsilon], "epsilon_any_label": [self.ledger.epsilon_any_label]}


def averaging_operator(graph: Graph) -> sp.csr_array:
    """D⁻¹ (A + I): every node the mean of itself and those it receives messages from, by weight if edges have some."""
    operator = graph.adjacency_with_loops()
    operator.data *= np.repeat(np.square(graph.scale()), np.diff(operator.indptr))
    return operator

"""Private memories: rows drawn from noisy class moments, so that a memory hardly depends on any single node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from delome.graph.sparse import Features
from delome.memories.builder import MEMORIES, Context, MemoryBuilder
from delome.memories.memory import Memory
from delome.parameters import Param
from delome.randomness import generator
from delome.release.estimates import shrunk_means, within_covariance
from delome.release.gaussian import mu_of
from delome.release.ledger import Ledger, Release
from delome.release.moments import Shares, noise_radius, release_moments
from delome.release.noise import secret_normal
from delome.release.options import Delta, Epsilon, EpsilonTotal, NoiseSource, check_delta
from delome.release.rows import unit_rows
from delome.streams.tasks import Observation

SHARES = Shares(sums=0.65, counts=0.05, second=0.20)
LENGTH_SHARE = 0.10
"""The rest of μ²: the noisy sum of lengths of rows."""


@MEMORIES.register("private-moments")
class PrivateMoments(MemoryBuilder):
    """``budget`` rows per class that have the class's noisy mean, and spread like the task's noisy second moment.

    Nodes are taken without edges, as unit rows u = x / |x|. Released are, for each class, Σ u and a count, and for the
    task Σ u uᵀ along some random ``directions`` and Σ min(|x| / ``longest``, 1), together (ε, δ)-differentially private
    for one node with its features, label and edges (`delome.release.moments`). Rows are drawn from that alone: a row is
    |x| · (mean + ``spread`` · deviation), the deviations of a class normal, of the noisy covariance within classes, and
    of mean zero. Unlike other memories it has ``budget`` rows however small the class: its size is not given away.

    A network that is trained on nodes of the current task is *not* covered; with ``train_on="memory"`` (CaT) it is.
    """

    epsilon: Epsilon = 4.0
    delta: Delta = 1e-5
    epsilon_total: EpsilonTotal = None
    noise: NoiseSource = "secret"
    spread: Annotated[float, Param("how far rows lie from the mean of their class, 1 = like raw rows", at_least=0)] = (
        0.3
    )
    directions: Annotated[int, Param("random directions along which spread is measured", at_least=1)] = 64
    longest: Annotated[
        float | None, Param("length at which longer rows are cut; public; none = √features", above=0)
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delta(self.delta)

    def build(self, observation: Observation, context: Context) -> Memory:
        with context.tracker.phase("memory"):
            ledger = self.ledger(context.columns.tasks)
            ledger.refuse_more_than(self.epsilon_total)
            features = observation.graph.features[observation.train]
            width = features.shape[1]
            basis = random_directions(width, min(self.directions, width))
            mu = mu_of(float(self.epsilon), self.delta)
            deviations = SHARES.deviations(mu)
            noise = secret_normal if self.noise == "secret" else context.rng.standard_normal
            rows = unit_rows(features)
            moments = release_moments(rows, observation.labels, observation.classes, deviations, noise, basis)
            counts, variances = np.maximum(moments.counts, 1.0), np.full(len(moments.counts), deviations.sums**2)
            length = self._length(features, mu, counts.sum(), float(noise((1,))[0]))
            means = shrunk_means(moments.sums, counts, variances)
            within = within_covariance(moments.second, moments.sums @ basis, counts, variances)
            radius = noise_radius(deviations.second, len(within), 1) / counts.sum()
            root = self.spread * math.sqrt(width / len(within)) * root_above(within, radius)
            drawn = [length * (mean + self._deviations(root, basis, context.rng)) for mean in means]
        memory = Memory.of_rows(
            observation.index,
            np.concatenate(drawn).astype(np.float32),
            np.repeat(observation.classes, self.budget),
            {"epsilon": [ledger.epsilon]} if math.isfinite(ledger.epsilon) else {},
        )
        stands_for = np.maximum(np.rint(moments.counts), self.budget).astype(int).tolist()
        return replace(memory, stands_for=dict(zip(observation.classes, stands_for, strict=True)))

    def ledger(self, tasks: Sequence[tuple[int, ...]]) -> Ledger:
        """What was spent on tasks with these class columns: a release each."""
        return Ledger(tuple(Release(each, float(self.epsilon), self.delta, self.noise) for each in tasks))

    def privacy(self, tasks: Sequence[tuple[int, ...]]) -> dict[str, Any]:
        return self.ledger(tasks).as_dict()

    def counted(self, memory: Memory, labels: np.ndarray) -> Memory:
        return memory  # its own counts are noisy, those of labels are not

    def _length(self, features: Features, mu: float, total: float, noise: float) -> float:
        """Mean length of rows, from the noisy sum of lengths as shares of the longest."""
        longest = math.sqrt(features.shape[1]) if self.longest is None else self.longest
        squares = np.square(features).sum(axis=1) if isinstance(features, np.ndarray) else features.power(2).sum(axis=1)
        shares = np.minimum(np.sqrt(np.asarray(squares, dtype=np.float64)) / longest, 1.0)
        deviation = 0.0 if math.isinf(mu) else 1 / (mu * math.sqrt(LENGTH_SHARE))
        return float(longest * min(max((shares.sum() + deviation * noise) / total, 1e-3), 1.0))

    def _deviations(self, root: np.ndarray, basis: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Deviations of the rows of a class, which add up to zero."""
        drawn = rng.standard_normal((self.budget, len(root)))
        centred = (drawn - drawn.mean(axis=0)) * math.sqrt(self.budget / max(self.budget - 1, 1))
        found: np.ndarray = centred @ root @ basis.T
        return found


@MEMORIES.register("private-means")
class PrivateMeans(PrivateMoments):
    """The noisy mean of a class, copied ``budget`` times: the baseline of rows that spread."""

    spread = 0.0


def random_directions(width: int, count: int) -> np.ndarray:
    """Orthonormal columns that depend on nothing but their number, and are thus public."""
    drawn = generator(0, "private directions").standard_normal((width, count))
    found: np.ndarray = np.linalg.qr(drawn)[0]
    return found


def root_above(covariance: np.ndarray, radius: float) -> np.ndarray:
    """Symmetric root of a covariance, from whose eigenvalues what noise may have added is taken off.

    >>> root_above(np.diag([5.0, 0.5]), 1.0).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh(covariance)
    root: np.ndarray = (vectors * np.sqrt(np.maximum(values - radius, 0.0))) @ vectors.T
    return root

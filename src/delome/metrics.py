"""Accuracy matrix and what is read off it: average accuracy (AA), average forgetting (AF), the AA curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Score:
    """Accuracy in percent: mean over classes (``balanced``) and over nodes (``micro``).

    >>> Score.of(np.array([0] * 3 + [1, 0]), np.array([0] * 4 + [1]))
    Score(balanced=37.5, micro=60.0)
    """

    balanced: float
    micro: float

    @classmethod
    def of(cls, predicted: np.ndarray, labels: np.ndarray) -> Score:
        correct = predicted == labels
        _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
        per_class = np.bincount(inverse, weights=correct) / counts
        return cls(100 * float(per_class.mean()), 100 * float(correct.mean()))

    @classmethod
    def of_each(cls, predicted: np.ndarray, labels: np.ndarray, sizes: Sequence[int]) -> list[Score]:
        """The same for each of several tasks, whose nodes follow each other.

        >>> Score.of_each(np.array([0, 0, 1]), np.array([0, 1, 1]), [2, 1])
        [Score(balanced=50.0, micro=50.0), Score(balanced=100.0, micro=100.0)]
        """
        correct = predicted == labels
        task = np.repeat(np.arange(len(sizes)), sizes)
        classes, of_class = np.unique(labels, return_inverse=True)
        groups, of_group, counts = np.unique(task * len(classes) + of_class, return_inverse=True, return_counts=True)
        per_class = np.bincount(of_group, weights=correct) / counts
        bounds = np.searchsorted(groups // len(classes), np.arange(len(sizes) + 1)).tolist()
        micro = np.bincount(task, weights=correct, minlength=len(sizes)) / sizes
        balanced = [float(per_class[a:b].sum() / (b - a)) for a, b in pairwise(bounds)]
        return [cls(100 * each, 100 * over_nodes) for each, over_nodes in zip(balanced, micro.tolist(), strict=True)]


@dataclass
class AccuracyMatrix:
    """``rows[t][j]``: accuracy in percent on task j after learning task t, j ≤ t.

    >>> matrix = AccuracyMatrix([[90.0], [80.0, 70.0], [60.0, 65.0, 95.0]])
    >>> round(matrix.aa, 2), matrix.af
    (73.33, -17.5)
    """

    rows: list[list[float]] = field(default_factory=list)

    @classmethod
    def mean(cls, matrices: Sequence[AccuracyMatrix]) -> AccuracyMatrix:
        """Entry by entry the mean of matrices of the same tasks.

        >>> AccuracyMatrix.mean([AccuracyMatrix([[90.0], [80.0, 70.0]]), AccuracyMatrix([[70.0], [60.0, 100.0]])])
        AccuracyMatrix(rows=[[80.0], [70.0, 85.0]])
        """
        same_task = zip(*(matrix.rows for matrix in matrices), strict=True)
        return cls([np.mean(rows, axis=0).tolist() for rows in same_task])

    def append(self, accuracies: list[float]) -> None:
        if len(accuracies) != len(self.rows) + 1:
            raise ValueError(f"row {len(self.rows)} of an accuracy matrix has {len(self.rows) + 1} entries")
        self.rows.append(list(accuracies))

    @property
    def aa(self) -> float:
        """Mean accuracy over all tasks after the last one."""
        return float(np.mean(self.rows[-1]))

    @property
    def af(self) -> float | None:
        """Mean change of each earlier task since it was learned (negative: forgetting); none for a single task."""
        if len(self.rows) < 2:
            return None
        return float(np.mean([self.rows[-1][j] - self.rows[j][j] for j in range(len(self.rows) - 1)]))

    @property
    def learning(self) -> float:
        """Learning accuracy: mean accuracy of each task right after it was learned."""
        return float(np.mean([row[-1] for row in self.rows]))

    @property
    def anytime(self) -> float:
        """Anytime accuracy: mean of AA after each task."""
        return float(np.mean(self.curve))

    @property
    def last(self) -> float:
        """Accuracy of the last task."""
        return float(self.rows[-1][-1])

    def summary(self) -> dict[str, float | None]:
        """Every number that is read off the matrix, by name.

        Backward transfer is AF under its other name: both are the mean change of earlier tasks since they were
        learned. Forward transfer is left out: before a task is learned there are no columns of its classes.

        >>> AccuracyMatrix([[90.0], [80.0, 70.0]]).summary()
        {'aa': 75.0, 'af': -10.0, 'learning': 80.0, 'anytime': 82.5, 'last': 70.0}
        """
        return {"aa": self.aa, "af": self.af, "learning": self.learning, "anytime": self.anytime, "last": self.last}

    @property
    def af_curve(self) -> list[float | None]:
        """AF after each task."""
        return [AccuracyMatrix(self.rows[: t + 1]).af for t in range(len(self.rows))]

    @property
    def curve(self) -> list[float]:
        """AA after each task."""
        return [float(np.mean(row)) for row in self.rows]

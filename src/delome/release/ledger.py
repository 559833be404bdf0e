"""The ledger: what releases have spent, and what they amount to for a single node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from delome.errors import BudgetError, StateError
from delome.release.gaussian import INFINITE, composed, epsilon_of, mu_of
from delome.release.noise import Source

ADJACENCY = "one training node more or less, with its features, its label and all its edges"
MECHANISM = "analytic Gaussian mechanism; releases of the same node compose as μ² = Σ μᵢ²"
PUBLIC = "the list of classes, and in which tasks each came; the number of features; all parameters"


@dataclass(frozen=True)
class Release:
    """One release: of a task with these class columns, (ε, δ)-private by itself if its noise stays secret."""

    classes: tuple[int, ...]
    epsilon: float
    delta: float
    source: Source

    @property
    def mu(self) -> float:
        return mu_of(self.epsilon, self.delta)


@dataclass(frozen=True)
class Ledger:
    """All releases so far.

    A node has one class. Releases of tasks without that class do not touch it (parallel composition), those with it
    compose. Should a node come again under another label, only the composition of all releases holds for it.
    """

    releases: tuple[Release, ...] = ()

    def after(self, release: Release) -> Ledger:
        return replace(self, releases=(*self.releases, release))

    @property
    def delta(self) -> float:
        """The δ for which totals are stated: the largest of all releases."""
        return max((each.delta for each in self.releases), default=0.0)

    def mu_of_class(self, column: int) -> float:
        return composed(each.mu for each in self.releases if column in each.classes)

    @property
    def epsilon(self) -> float:
        """ε of the node that is touched most, if every node keeps its class."""
        classes = {column for each in self.releases for column in each.classes}
        return max((epsilon_of(self.mu_of_class(column), self.delta) for column in classes), default=0.0)

    @property
    def epsilon_any_label(self) -> float:
        """ε of a node that may be in every task, under whatever label."""
        return epsilon_of(composed(each.mu for each in self.releases), self.delta) if self.releases else 0.0

    @property
    def holds(self) -> bool:
        """Whether there is any guarantee: finite, and with noise that nobody can draw again."""
        return math.isfinite(self.epsilon) and all(each.source == "secret" for each in self.releases)

    def refuse_more_than(self, limit: float | None) -> None:
        """An error if a node may have been touched by more than the budget."""
        if limit is not None and self.epsilon > limit * (1 + 1e-9):
            raise BudgetError(
                f"this task would bring the privacy loss of a node to ε = {self.epsilon:.3g}, above epsilon_total = "
                f"{limit:g}: a class that comes again adds to what was spent on it; allow more, or learn it no more"
            )

    def as_dict(self) -> dict[str, Any]:
        """Everything that a reader of a model has to know, as plain values."""
        return {
            "epsilon": in_words(self.epsilon),
            "epsilon_any_label": in_words(self.epsilon_any_label),
            "delta": self.delta,
            "guarantee": self._guarantee(),
            "adjacency": ADJACENCY,
            "mechanism": MECHANISM,
            "public": PUBLIC,
            "releases": [
                {
                    "classes": list(each.classes),
                    "epsilon": in_words(each.epsilon),
                    "delta": each.delta,
                    "noise": each.source,
                }
                for each in self.releases
            ],
        }

    def _guarantee(self) -> str:
        if not self.releases:
            return "nothing was released"
        if math.isinf(self.epsilon):
            return "none: no noise was added"
        if not self.holds:
            return "none for whoever knows the seed, from which noise can be drawn again: an experiment"
        return f"({self.epsilon:.3g}, {self.delta:g})-differential privacy of nodes"

    @classmethod
    def of(cls, saved: Any, tasks: Sequence[tuple[int, ...]]) -> Ledger:
        """The ledger that was saved; refused unless it has a release for each of these tasks."""
        try:
            releases = tuple(
                Release(tuple(each["classes"]), float(each["epsilon"]), float(each["delta"]), each["noise"])
                for each in saved["releases"]
            )
            fits = all(each.epsilon > 0 and 0 < each.delta < 1 for each in releases)
            fits &= all(each.source in ("secret", "seed") for each in releases)
        except (TypeError, ValueError, KeyError, OverflowError):
            fits, releases = False, ()
        if not fits or [each.classes for each in releases] != list(tasks):
            raise StateError("the state does not fit the learner: 'privacy' does not account for every task")
        return cls(releases)


def in_words(epsilon: float) -> float | str:
    """ε as a plain value."""
    return INFINITE if math.isinf(epsilon) else epsilon

"""Means of classes, exact however often a class comes again."""

from __future__ import annotations

import torch
from torch import Tensor

from delome.errors import StateError
from delome.persistence.state import State, whole_numbers


class ClassMeans:
    """Mean row of each class column, and how many rows it has.

    >>> means = ClassMeans(1, torch.device("cpu"))
    >>> _ = means.add(0, torch.tensor([4.0]), 2), means.add(0, torch.tensor([6.0]), 1)
    >>> round(float(means.means), 4), means.counts
    (3.3333, [3])
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self.means = torch.zeros(width, 0, device=device)
        self.counts: list[int] = []

    def add(self, column: int, total: Tensor, count: int) -> tuple[Tensor, int]:
        """Takes in the sum of so many rows of a class; returns the step from the old mean to that of the new rows, and
        how many rows there were before."""
        mean = total / count
        if column == len(self.counts):
            self.means = torch.cat([self.means, mean[:, None]], dim=1)
            self.counts.append(count)
            return torch.zeros_like(mean), 0
        before, step = self.counts[column], mean - self.means[:, column]
        self.means = self.means.clone()  # of which a state may hold the old one
        self.means[:, column] += count / (before + count) * step
        self.counts[column] = before + count
        return step, before

    def save(self, state: State) -> None:
        """Adds the means to a state."""
        state.values["counts"] = list(self.counts)
        state.tensors["means"] = self.means.clone()

    @classmethod
    def load(cls, state: State, width: int, columns: int, device: torch.device) -> ClassMeans:
        """Means that were saved; refused unless they are of these columns."""
        found = cls(width, device)
        found.counts = whole_numbers(state.value("counts"), "counts")
        if len(found.counts) != columns or not all(found.counts):
            raise StateError("the state does not fit the learner: 'counts' must hold a number for each class")
        found.means = state.tensor("means", (width, columns)).to(device, copy=True)
        return found

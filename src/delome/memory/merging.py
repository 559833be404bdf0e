"""Classes that come again: one memory of each, of ``budget`` rows in all, however often it has come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from delome.memory.bank import Memory, MemoryBank, counts_of
from delome.sparse import Features

Thin = Callable[[Memory, np.ndarray, np.random.Generator], Memory]
"""Gives the memory of those rows of a memory that have these positions."""


@dataclass(frozen=True)
class Earlier:
    """What is remembered of a class from earlier tasks: rows, and the number of real rows they stand for."""

    rows: Features
    stands_for: int

    def weights(self, more: int) -> np.ndarray:
        """How many real rows each of these rows stands for, and each of so ``many`` more real rows."""
        count = self.rows.shape[0]
        return np.repeat([self.stands_for / count, 1.0], [count, more])


def take_out(bank: MemoryBank, classes: Collection[int]) -> tuple[MemoryBank, dict[int, Earlier]]:
    """The bank without its rows of some classes, which stand alone, and these rows."""
    kept, taken = [], {}
    for memory in bank.memories:
        for column in memory.stands_for.keys() & set(classes):
            rows = memory.graph.features[memory.rows[memory.labels == column]]
            taken[column] = Earlier(rows, memory.stands_for[column])
        others = np.flatnonzero(~np.isin(memory.labels, list(classes)))
        if len(others):
            kept.append(memory if len(others) == len(memory.labels) else memory.select(others))
    return MemoryBank(kept), taken


def merge(bank: MemoryBank, fresh: Memory, budget: int, thin: Thin, rng: np.random.Generator) -> MemoryBank:
    """The bank with one more memory, into which those of its classes go that earlier memories have.

    Of such a class a random share of old and of new rows is kept, in proportion to the numbers of real rows that both
    stand for, so that a sample of rows stays one of all rows so far. Memories that nothing is left of are dropped.
    """
    chosen = {column: np.flatnonzero(fresh.labels == column) for column in fresh.stands_for}
    stands_for, kept, moved = dict(fresh.stands_for), [], []
    for memory in bank.memories:
        taken = []
        for column in sorted(memory.stands_for.keys() & fresh.stands_for.keys()):
            old, new = np.flatnonzero(memory.labels == column), chosen[column]
            counts = memory.stands_for[column], fresh.stands_for[column]
            share = share_of_new((len(old), len(new)), counts, budget, rng)
            total = min(budget, len(old) + len(new))
            taken.append(rng.choice(old, total - share, replace=False))
            chosen[column] = rng.choice(new, share, replace=False)
            stands_for[column] += memory.stands_for[column]
        others = np.flatnonzero(~np.isin(memory.labels, list(fresh.stands_for)))
        if len(others):
            kept.append(memory if not taken else thin(memory, others, rng))
        if taken and len(positions := np.sort(np.concatenate(taken))):
            moved.append(thin(memory, positions, rng))
    if len(stay := np.sort(np.concatenate(list(chosen.values())))):
        moved.insert(0, fresh if len(stay) == len(fresh.labels) else thin(fresh, stay, rng))
    joined = moved[0] if len(moved) == 1 else Memory.join(moved)
    return MemoryBank([*kept, replace(joined, task=fresh.task, report=fresh.report, stands_for=stands_for)])


def share_of_new(rows: tuple[int, int], counts: tuple[int, int], budget: int, rng: np.random.Generator) -> int:
    """How many of the rows that are kept are new, of so many old and new ``rows`` that stand for ``counts`` real rows.

    >>> share_of_new((4, 4), (300, 100), 4, np.random.default_rng(0))
    1
    """
    total = min(budget, sum(rows))
    expected = total * counts[1] / sum(counts)
    rounded = int(expected + rng.random())
    return min(max(rounded, total - rows[0]), rows[1])


def with_counts(memory: Memory, labels: np.ndarray, earlier: Mapping[int, Earlier] | None = None) -> Memory:
    """The memory, which knows how many real rows it stands for: those with ``labels``, and earlier ones."""
    stands_for = counts_of(labels)
    for column, old in (earlier or {}).items():
        stands_for[column] += old.stands_for
    return replace(memory, stands_for=stands_for)

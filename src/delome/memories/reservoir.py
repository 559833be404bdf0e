"""Reservoir: a uniform sample of all rows that have come so far, of a size that is known from the start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delome.graph.sparse import smaller
from delome.memories.bank import MemoryBank
from delome.memories.builder import MEMORIES, Context, MemoryBuilder
from delome.memories.memory import Memory, counts_of
from delome.randomness import generator
from delome.streams.tasks import Observation


def kept_of_new(capacity: int, before: int, new: int, rng: np.random.Generator) -> int:
    """How many of ``new`` rows are in a uniform sample of ``capacity`` out of these and ``before`` others.

    >>> kept_of_new(10, 4, 5, np.random.default_rng(0)), kept_of_new(10, 0, 50, np.random.default_rng(0))
    (5, 10)
    """
    if before + new <= capacity:
        return new
    return int(rng.hypergeometric(new, before, capacity)) if before else min(new, capacity)


@MEMORIES.register("reservoir")
class Reservoir(MemoryBuilder):
    """Propagated rows of training nodes, each of those that have come so far with the same probability (Vitter, 1985).

    The memory has ``budget`` rows for each class that the stream will have, whichever classes they are of. How many of
    a task's rows stay is drawn at once, which is as if its rows had come one by one. Of live data nobody knows how many
    classes there will be: the memory grows with them, and places that are free are for new rows, since of the old ones
    no others are left.
    """

    whole = True

    def build(self, observation: Observation, context: Context) -> Memory:
        return self._rows(observation, context, self.budget * observation.num_classes, context.rng)

    def _rows(self, observation: Observation, context: Context, count: int, rng: np.random.Generator) -> Memory:
        with context.tracker.phase("memory"):
            places = np.sort(rng.choice(len(observation.train), min(count, len(observation.train)), replace=False))
            rows = observation.graph.propagate(context.hops)[observation.train[places]]
        stored = rows if isinstance(rows, np.ndarray) else smaller(rows)
        return Memory.of_rows(observation.index, stored, observation.labels[places])

    def merge(self, bank: MemoryBank, observation: Observation, context: Context, seed: int) -> MemoryBank:
        rng = generator(seed, "reservoir", observation.index)
        capacity, new = self.budget * observation.num_classes, len(observation.train)
        before = sum(sum(memory.stands_for.values()) for memory in bank.memories)
        held = sum(len(memory.rows) for memory in bank.memories)
        share = max(kept_of_new(capacity, before, new, rng), min(new, capacity - held))
        stay = np.sort(rng.choice(held, min(held, capacity - share), replace=False))
        memories, start = [], 0
        for memory in bank.memories:
            own = stay[(stay >= start) & (stay < start + len(memory.rows))] - start
            start += len(memory.rows)
            if len(own):
                memories.append(memory if len(own) == len(memory.rows) else memory.select(own))
        if share:
            memories.append(self._rows(observation, context, share, rng))
        return MemoryBank(_standing_for(memories, before + new))


def _standing_for(memories: list[Memory], total: int) -> list[Memory]:
    """The memories, of which the last stands for all rows that no other one stands for."""
    *others, last = memories
    rest = total - sum(sum(memory.stands_for.values()) for memory in others)
    own = counts_of(last.labels)
    first = next(iter(own))
    own[first] += rest - sum(own.values())
    return [*others, replace(last, stands_for=own)]

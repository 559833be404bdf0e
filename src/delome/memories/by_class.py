"""Memories whose classes are learned independently of each other, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from threadpoolctl import threadpool_limits

from delome.graph.sparse import Features, smaller, take_columns, used_columns, widen
from delome.memories.builder import Context
from delome.memories.memory import Memory
from delome.streams.tasks import Observation

Result = TypeVar("Result")


@dataclass(frozen=True)
class Learned:
    """Memory rows of a class, and what there is to report of them."""

    rows: np.ndarray
    report: dict[str, float]


def learn_classes(
    observation: Observation,
    context: Context,
    rows_of: Callable[[int], Features],
    learn: Callable[[int, Features, np.random.Generator], Learned],
) -> Memory:
    """Memory of what is learned of each class from its real rows, without the columns that none of them uses."""

    def one(column: int, rng: np.random.Generator) -> tuple[sp.csr_array, dict[str, float]]:
        rows = rows_of(column)
        used = used_columns(rows)
        learned = learn(column, take_columns(rows, used), rng)
        step()
        return widen(learned.rows, used, rows.shape[1]), learned.report

    classes = observation.classes
    with context.tracker.phase("memory", len(classes)) as step:
        parts, reports = zip(*_one_thread_each(one, classes, context.rng.spawn(len(classes))), strict=True)
    labels = np.repeat(classes, [part.shape[0] for part in parts])
    report = {name: [each[name] for each in reports] for name in reports[0]}
    return Memory.of_rows(observation.index, smaller(sp.vstack(parts)), labels, report)


def _one_thread_each(work: Callable[..., Result], *arguments: Iterable[Any]) -> list[Result]:
    """Maps over classes with one thread each: matrices are small, so that threads inside a product only wait."""
    threads = torch.get_num_threads()
    with threadpool_limits(1), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(work, *arguments))

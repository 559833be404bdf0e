"""What a reader of published files is given and what it gives back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from delome.graph import Graph

log = logging.getLogger(__name__)

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called while a dataset is fetched or read: what is happening, bytes done, bytes in all (``None``: unknown)."""


def silent(activity: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""


def announced(progress: Progress) -> Progress:
    """The same progress, which also logs what is happening whenever that is something else."""
    last = ""

    def told(activity: str, done: int, total: int | None) -> None:
        nonlocal last
        if activity != last:
            last = activity
            log.info("%s%s", activity, "" if total is None else f" ({total / 1e6:,.1f} MB)")
        progress(activity, done, total)

    return told


LONGEST_NUMBER = 32
"""Bytes of a number in text, with what separates it from the next."""


@dataclass(frozen=True)
class Statistics:
    """Published sizes; edges as the publishers count them (see each reader)."""

    nodes: int
    edges: int
    features: int
    classes: int

    @property
    def most_bytes(self) -> int:
        """Bytes that no form of the dataset exceeds: every number in text, edges in both directions, and a megabyte."""
        return LONGEST_NUMBER * (self.nodes * (self.features + 1) + 4 * self.edges) + 2**20


@dataclass(frozen=True)
class Reading:
    """A graph and its number of edges as the publishers count them, for comparison with their statistics."""

    graph: Graph
    published_edges: int


Reader: TypeAlias = Callable[[Path, Path, Statistics, Progress], Reading]
"""Reads the raw files in the first folder, up to what the statistics allow; large arrays may be put into the second,
which outlives the reading."""

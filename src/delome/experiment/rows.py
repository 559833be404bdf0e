"""Row: runs of equal configuration in a table, and what makes rows comparable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from delome.experiment.collection import Record
from delome.experiment.settings import settings_of

TOGETHER, ALL_NODES = "†", "‡"
"""Stand after methods that must be asked about the nodes of one task together, and that learn from test nodes."""

MARKS = {
    TOGETHER: "asked about the nodes of one task together, which tells the task; "
    "not comparable with methods that are asked about each node",
    ALL_NODES: "learned from features of test nodes too, and not only where edges lead from them to training nodes",
}

MEASURED = ("dataset", "setting", "class_order", "inter_task_edges", "test_graph", "inductive", "stream_kind")
"""Settings that rows must share to be compared, beside how they were split."""


def marks_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Marks of the method of a run."""
    stand = {
        TOGETHER: config.get("asked") == "together",
        ALL_NODES: config.get("learned_from") == "all nodes" and not config.get("inductive"),
    }
    return tuple(mark for mark, stands in stand.items() if stands)


@dataclass(frozen=True)
class Row:
    """Runs of equal configuration: their settings, and a record for each seed."""

    settings: dict[str, Any]
    records: tuple[Record, ...]

    def by_seed(self, metric: str) -> dict[int, float]:
        """The number of each seed; a mean, if the row has several runs of a seed."""
        found: dict[int, list[float]] = {}
        for record in self.records:
            if (value := record.metrics.get(metric)) is not None:
                found.setdefault(record.seed, []).append(value)
        return {seed: mean(values) for seed, values in found.items()}

    def values(self, metric: str) -> list[float]:
        """The numbers of all seeds."""
        return list(self.by_seed(metric).values())

    @property
    def measured(self) -> frozenset[str]:
        """How its numbers came about: datasets, their graphs, splits and tasks, all that makes rows comparable."""
        found = [([each.config.get(name) for name in MEASURED], each.protocol) for each in self.records]
        return frozenset(json.dumps(each, sort_keys=True, default=str) for each in found)

    @property
    def seeds(self) -> list[int]:
        """Different seeds, of which statistics are made."""
        return sorted({record.seed for record in self.records})

    @property
    def marks(self) -> tuple[str, ...]:
        """Those of a method that knows more than others."""
        found = {mark for record in self.records for mark in marks_of(record.config)}
        return tuple(mark for mark in MARKS if mark in found)

    @property
    def mark(self) -> str:
        """Stands after the name of a method that knows more than others."""
        return "".join(f" {mark}" for mark in self.marks)

    def shared(self, name: str) -> Any:
        """A setting that all its runs share; none if they differ in it, or have none."""
        found = [settings_of(record.config, record.selection).get(name) for record in self.records]
        return found[0] if all(value == found[0] for value in found) else None

    def mean_of(self, metric: str) -> float | None:
        """Mean over seeds; none if it is undefined."""
        values = self.values(metric)
        return mean(values) if values else None

    def std_of(self, metric: str) -> float | None:
        """Standard deviation over seeds; none of fewer than two."""
        values = self.values(metric)
        return stdev(values) if len(values) > 1 else None

    def spread(self, metric: str) -> tuple[float, float] | None:
        """Mean and half the width of its band in a figure, which has no width if there is no standard deviation."""
        middle = self.mean_of(metric)
        return None if middle is None else (middle, self.std_of(metric) or 0.0)

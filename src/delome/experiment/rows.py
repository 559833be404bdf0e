"""Row: runs of equal configuration in a table, and what makes rows comparable."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from delome.experiment.collection import Record

TOGETHER, ALL_NODES = "†", "‡"
"""Stand after methods that must be asked about the nodes of one task together, and that learn from test nodes."""

MARKS = {
    TOGETHER: "asked about the nodes of one task together, which tells the task; "
    "not comparable with methods that are asked about each node",
    ALL_NODES: "learned from features of test nodes too, and not only where edges lead from them to training nodes",
}

MEASURED = ("dataset", "setting", "class_order", "inter_task_edges", "test_graph", "inductive", "stream_kind")
"""Settings that rows must share to be compared, beside how they were split."""


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
    def mark(self) -> str:
        """Stands after the name of a method that knows more than others."""
        found = [record.config for record in self.records]
        marks = {
            TOGETHER: any(config.get("asked") == "together" for config in found),
            ALL_NODES: any(
                config.get("learned_from") == "all nodes" and not config.get("inductive") for config in found
            ),
        }
        return "".join(f" {mark}" for mark, stands in marks.items() if stands)

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

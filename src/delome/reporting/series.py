"""Groups of runs that may be drawn together, and the series that they are drawn as."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from delome.experiment.collection import Record
from delome.experiment.comparison import ResultTable, Row, tabulate
from delome.metrics import AccuracyMatrix
from delome.reporting.looks import Look, in_order, looks_of
from delome.reporting.names import short_names, shown_method

METRICS = ("aa", "af", "learning", "anytime", "seconds", "bytes")
STREAM = ("tasks", "classes per task", "split", "inter-task edges", "graph")
"""What runs must share beside dataset and setting to be drawn together."""
BACKBONE = "backbone"
"""They must share this too, as far as they have one."""

MOST_SERIES = 16
"""In one figure: of more, each method is drawn with the parameters that did best on validation nodes."""

BESIDE = ("dataset", "setting", "method", "selection")
"""Columns of a table that are not part of a label."""


@dataclass(frozen=True)
class Series:
    """Runs of equal configuration, as every figure draws them."""

    label: str
    method: str
    look: Look
    row: Row

    @property
    def curves(self) -> list[list[float]]:
        """AA after each task, for each seed."""
        return [record.curve for record in self.row.records]

    @property
    def matrix(self) -> list[list[float]] | None:
        """Mean accuracy matrix; none of a stream that is too long to be drawn."""
        found = [AccuracyMatrix(record.matrix) for record in self.row.records if record.matrix is not None]
        return AccuracyMatrix.mean(found).rows if found else None

    @property
    def beside_budget(self) -> dict[str, Any]:
        """All settings but the budget and what was selected."""
        return {name: value for name, value in self.row.settings.items() if name not in ("budget", "selection")}

    @property
    def budget(self) -> int | None:
        """Memory rows per class, if the method has a memory."""
        found = self.row.settings.get("budget")
        return found if isinstance(found, int) else None


@dataclass(frozen=True)
class Group:
    """Runs on the same stream of tasks in the same setting: the table of all, and the series that are drawn."""

    name: str
    title: str
    table: ResultTable
    series: list[Series]
    drawn: list[Series]

    @property
    def tasks(self) -> int:
        return max(record.tasks for each in self.series for record in each.row.records)

    @property
    def shared(self) -> dict[str, Any]:
        """Settings that all rows have in common, as far as they have them."""
        found: dict[str, Any] = {}
        for name in self.table.columns:
            values = {str(value): value for row in self.table.rows if (value := row.settings.get(name)) is not None}
            if len(values) == 1 and name not in BESIDE:
                found |= {name: next(iter(values.values()))}
        return found

    @property
    def differing(self) -> list[str]:
        """Settings in which rows differ, beside their selection."""
        return [name for name in self.table.columns if name not in (*self.shared, *BESIDE)]


def groups_of(records: Sequence[Record]) -> list[Group]:
    """Finished runs that a selection has not only tried, in groups."""
    together: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if record.finished and not record.candidate:
            together.setdefault(_shared_by_group(record), []).append(record)
    shown = _by_backbone(together)
    looks = looks_of(str(record.config["method"]) for record in records)
    twice = [key[:2] for key in shown]
    names = short_names(key[0] for key in shown)
    found = []
    for number, (key, own) in enumerate(shown.items()):
        others = [other for other in shown if other[:2] == key[:2]]
        differing = [
            f"{name} {value}"
            for k, (name, value) in enumerate(zip((*STREAM, BACKBONE), key[2:], strict=True))
            if len({other[2 + k] for other in others}) > 1
        ]
        title = ", ".join([f"{names[key[0]]} · {key[1].upper()}", *(differing if twice.count(key[:2]) > 1 else [])])
        name = re.sub(r"[^A-Za-z0-9]+", "-", f"{number + 1}-{names[key[0]]}-{key[1]}").strip("-")[:60]
        table = tabulate(own, metrics=METRICS)
        series = _series(table, looks)
        found.append(Group(name, title, table, series, _drawn(series)))
    return found


def _shared_by_group(record: Record) -> tuple[str, ...]:
    stream = [str(record.protocol.get(name)) for name in STREAM]
    return str(record.config["dataset"]), str(record.config.get("setting")), *stream


def _by_backbone(groups: dict[tuple[str, ...], list[Record]]) -> dict[tuple[str, ...], list[Record]]:
    """The groups, each once for every backbone; methods without one stand beside the first."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for key, records in groups.items():
        backbones = list(dict.fromkeys(name for each in records if (name := each.config.get(BACKBONE)) is not None))
        for record in records:
            own = record.config.get(BACKBONE) or next(iter(backbones), "")
            found.setdefault((*key, str(own)), []).append(record)
    return found


def _series(table: ResultTable, looks: dict[str, Look]) -> list[Series]:
    """A series for each row, in the order of methods; labels say what tells rows of one method apart."""
    names = in_order(str(row.settings["method"]) for row in table.rows)
    found = []
    for name in names:
        own = [row for row in table.rows if row.settings["method"] == name]
        differing = _differing(own, [column for column in table.columns if column not in BESIDE])
        for number, row in enumerate(own):
            found.append(Series(label_of(row, differing), name, looks[name].variant(number), row))
    return found


def label_of(row: Row, columns: Iterable[str]) -> str:
    """A method, and those of some settings that it has."""
    settings = [(column, row.settings.get(column)) for column in columns]
    given = [f"{column} {value}" for column, value in settings if value is not None]
    return ", ".join([shown_method(str(row.settings["method"])), *given])


def _differing(rows: Sequence[Row], columns: Iterable[str]) -> list[str]:
    return [column for column in columns if len({str(row.settings.get(column)) for row in rows}) > 1]


def _drawn(series: list[Series]) -> list[Series]:
    if len(series) <= MOST_SERIES:
        return series
    best: dict[str, Series] = {}
    for each in series:
        before = best.get(each.method)
        if before is None or _validated(each) > _validated(before):
            best[each.method] = each
    return list(best.values())


def _validated(series: Series) -> float:
    values = series.row.values("validation_aa")
    return mean(values) if values else float("-inf")

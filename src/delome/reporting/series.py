"""Groups of runs that may be drawn together, and the series that they are drawn as."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from delome.experiment.collection import Record
from delome.experiment.comparison import LOWER_IS_BETTER, TOGETHER, ResultTable, Row, tabulate
from delome.learning import METHODS
from delome.metrics import AccuracyMatrix
from delome.reporting.looks import Look, in_order, looks_of, looks_of_rows
from delome.reporting.names import short_names, shown_method

METRICS = ("aa", "af", "learning", "anytime", "forward", "seconds", "bytes")

USUAL = {"stream": "classes", "test graph": "cut", "test nodes": "transductive"}
"""How runs are measured unless something else is said."""
BACKBONE = "backbone"
"""What runs that are drawn together must share too, as far as they have one."""

MARGIN = 2
"""Points below the highest AA at which a method still counts as good."""

MOST_SERIES = 16
"""In one figure."""

BESIDE = ("dataset", "setting", "method", "selection")
"""Columns of a table that are not part of a label."""


@dataclass(frozen=True)
class Series:
    """Runs of equal configuration, as every figure draws them."""

    label: str
    method: str
    name: str
    """Of the method, as it is shown, with its mark."""
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
    def competes(self) -> bool:
        """Whether it may be called the best: not if it keeps old graphs, or is asked about all nodes of a task."""
        keeps_graphs = self.method in METHODS and METHODS[self.method].needs_past
        return not keeps_graphs and TOGETHER not in self.row.mark

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
class Known:
    """A run that a report shows elsewhere too: what it is called there, and how that method looks there."""

    name: str
    method: str
    look: Look


@dataclass(frozen=True)
class Group:
    """Runs on the same stream of tasks in the same setting: the table of all, the series that are drawn, and which
    these are if they are not all."""

    name: str
    title: str
    table: ResultTable
    series: list[Series]
    drawn: list[Series]
    fewer: str

    @property
    def tasks(self) -> int:
        return max(record.tasks for each in self.series for record in each.row.records)

    @property
    def competing(self) -> list[Series]:
        """Series that may be called the best; all, if none may."""
        return [each for each in self.series if each.competes] or self.series

    def contenders(self, metric: str) -> dict[str, float]:
        """Means, by label, of which the best is called so: of series that compete and whose AA is close to the highest,
        because one that learns nothing forgets nothing. A method without a memory does not have the smallest."""
        accuracies = {each.label: aa for each in self.competing if (aa := each.row.mean_of("aa")) is not None}
        highest = max(accuracies.values(), default=0.0)
        near = [each for each in self.competing if accuracies.get(each.label, -1.0) >= highest - MARGIN]
        means = {each.label: value for each in near if (value := each.row.mean_of(metric)) is not None}
        return {label: value for label, value in means.items() if metric != "bytes" or value > 0}

    def best(self, metric: str) -> list[str]:
        """Labels of series with the best mean; of a single one nothing is the best."""
        means = self.contenders(metric) if len(self.series) > 1 else {}
        highest = (min if metric in LOWER_IS_BETTER else max)(means.values(), default=None)
        return [label for label, value in means.items() if value == highest]

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


def groups_of(
    records: Sequence[Record], called: Mapping[str, str] | None = None, known: Mapping[str, Known] | None = None
) -> list[Group]:
    """Finished runs that a selection has not only tried, in groups; ``called`` has other names of methods, and
    ``known`` those runs, by their folders, that have a name of their own."""
    shown = _by_backbone([record for record in records if record.finished and not record.candidate])
    keys = sorted(shown, key=lambda key: sum(_is_odd(*pair) for pair in key[2:] if pair[0] in USUAL))
    looks = looks_of(str(record.config["method"]) for own in shown.values() for record in own)
    names = short_names(key[0] for key in keys)
    found = []
    for number, (key, title) in enumerate(zip(keys, _titles(keys, names), strict=True), start=1):
        own = shown[key]
        name = re.sub(r"[^A-Za-z0-9]+", "-", f"{number}-{names[key[0]]}-{key[1]}").strip("-")[:60]
        metrics = [metric for metric in METRICS if any(metric in record.metrics for record in own)]
        table = tabulate(own, metrics=metrics)
        series = _series(table, looks, called or {}, known or {})
        drawn, fewer = _drawn(series)
        series = _with_looks(series, [each.label for each in drawn], looks, known or {})
        shown_series = {each.label: each for each in series}
        found.append(Group(name, title, table, series, [shown_series[each.label] for each in drawn], fewer))
    return found


Key = tuple[Any, ...]
"""Dataset and setting of a group, and then how its runs were measured, as pairs of a name and a value."""


def _titles(keys: Sequence[Key], names: Mapping[str, str]) -> list[str]:
    """Titles of groups: of how they were measured, what is needed to tell them apart."""
    titles = [f"{names[dataset]} · {setting.upper()}" for dataset, setting, *_ in keys]
    for place in range(2, len(keys[0]) if keys else 0):
        for title in {each for each in titles if titles.count(each) > 1}:
            alike = [number for number, each in enumerate(titles) if each == title]
            if len({keys[number][place] for number in alike}) > 1:
                for number in alike:
                    name, value = keys[number][place]
                    titles[number] += f", {name} {value}" if _is_odd(name, value) else ""
    return titles


def _is_odd(name: str, value: Any) -> bool:
    return value not in (None, USUAL.get(name))


def _key(record: Record) -> Key:
    config, protocol = record.config, record.protocol
    cut = "grown" if config.get("inter_task_edges") else "cut"
    order = config.get("class_order")
    how = {
        "stream": config.get("stream_kind", "classes"),
        "test graph": config.get("test_graph", cut),
        "test nodes": "inductive" if config.get("inductive") else "transductive",
        "class order": None if order is None else str(order),
        **{name: protocol.get(name) for name in ("tasks", "classes per task", "split", "graph")},
    }
    return str(config["dataset"]), str(config.get("setting")), *how.items()


def _by_backbone(records: Sequence[Record]) -> dict[Key, list[Record]]:
    """Runs that were measured alike, by backbone; methods without one stand beside the first."""
    together: dict[Key, list[Record]] = {}
    for record in records:
        together.setdefault(_key(record), []).append(record)
    found: dict[Key, list[Record]] = {}
    for key, own in together.items():
        first = next((name for each in own if (name := each.config.get(BACKBONE)) is not None), None)
        for record in own:
            found.setdefault((*key, (BACKBONE, record.config.get(BACKBONE) or first)), []).append(record)
    return found


def _series(
    table: ResultTable, looks: Mapping[str, Look], called: Mapping[str, str], known: Mapping[str, Known]
) -> list[Series]:
    """A series for each row, in the order of methods; labels say what tells rows of one method apart."""
    methods = in_order(str(row.settings["method"]) for row in table.rows)
    rows = [(name, row) for name in methods for row in table.rows if row.settings["method"] == name]
    names = Counter(own.name for row in table.rows if (own := _known(row, known)) is not None)
    found = []
    for method, row in rows:
        alike = [each for name, each in rows if name == method]
        differing = _differing(alike, [column for column in table.columns if column not in BESIDE])
        name = called.get(method, shown_method(method)) + row.mark
        label = label_of(name, row, differing)
        run = _known(row, known)
        if run is not None and names[run.name] == 1:  # the same with other settings has no name that tells it apart
            name = label = run.name + row.mark
        found.append(Series(label, method, name, looks[method], row))
    return found


def _known(row: Row, known: Mapping[str, Known]) -> Known | None:
    return next((known[name] for record in row.records if (name := Path(record.folder).name) in known), None)


def _with_looks(
    series: Sequence[Series], drawn: Sequence[str], looks: Mapping[str, Look], known: Mapping[str, Known]
) -> list[Series]:
    """Series with their looks: those that they have elsewhere, and otherwise what is drawn is the first of its method,
    and has the look of the method."""
    ordered = sorted(series, key=lambda each: each.label not in drawn)
    runs = [_known(each.row, known) for each in ordered]
    fixed = {
        place: run.look
        for place, (each, run) in enumerate(zip(ordered, runs, strict=True))
        if run is not None and run.method == each.method and each.name == run.name + each.row.mark
    }
    found = looks_of_rows([each.method for each in ordered], looks, fixed)
    by_label = {each.label: look for each, look in zip(ordered, found, strict=True)}
    return [replace(each, look=by_label[each.label]) for each in series]


def label_of(name: str, row: Row, columns: Iterable[str]) -> str:
    """The name of a method, and those of some settings that a row of it has."""
    settings = [(column, row.settings.get(column)) for column in columns]
    return ", ".join([name, *(f"{column} {value}" for column, value in settings if value is not None)])


def _differing(rows: Sequence[Row], columns: Iterable[str]) -> list[str]:
    return [column for column in columns if len({str(row.settings.get(column)) for row in rows}) > 1]


def _drawn(series: list[Series]) -> tuple[list[Series], str]:
    """Series for figures, and which: of many those with one budget, and of still too many the best of each method."""
    if len(series) <= MOST_SERIES:
        return series, ""
    budget = _shared_budget(series)
    of_budget = "" if budget is None else f" with budget {budget}"
    drawn = [each for each in series if budget is None or each.budget in (budget, None)]
    if len(drawn) <= MOST_SERIES:
        return drawn, f"Of methods with a memory, rows{of_budget} are drawn."
    best: dict[str, Series] = {}
    for each in drawn:
        before = best.get(each.method)
        if before is None or _validated(each) > _validated(before):
            best[each.method] = each
    unlike = " Budgets differ." if len({each.budget for each in best.values()} - {None}) > 1 else ""
    said = f"Of each method the row{of_budget} that is best on validation nodes is drawn.{unlike}"
    return [*best.values()], said if len(best) < len(series) else ""


def _shared_budget(series: Sequence[Series]) -> int | None:
    """The largest budget that every method with a memory was run with."""
    budgets: dict[str, set[int]] = {}
    for each in series:
        if each.budget is not None:
            budgets.setdefault(each.method, set()).add(each.budget)
    return max(set.intersection(*budgets.values()), default=None) if budgets else None


def _validated(series: Series) -> float:
    values = series.row.values("validation_aa")
    return mean(values) if values else float("-inf")

"""Experiment: what the paper ran, as data: the rows of a table or figure, on which datasets, with which options."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

from delome.errors import ParameterError, unknown
from delome.experiment.config import RunConfig
from delome.parameters import has_parameter

NAMES = (
    "cil",
    "til",
    "cil-gcn",
    "til-gcn",
    "ablation",
    "expressiveness",
    "budget-cil",
    "budget-til",
    "time",
    "imbalance",
    "embeddings",
)
"""All experiments, in the order of the paper."""

SEEDS = 5
"""Runs of everything, in the paper."""


@dataclass(frozen=True)
class Row:
    """A row of a table, or a curve of a figure: its name in the paper, and the options of its runs.

    Rows ``beyond`` the paper are ours, and have no reported numbers. What is no method of ours is drawn ``like`` one.
    """

    label: str
    method: str = ""
    memory: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)
    beyond: bool = False
    like: str = ""

    def is_called(self, name: str) -> bool:
        """Whether a name means this row: its label, or its method."""
        return name.casefold() in (self.label.casefold(), self.method.casefold())


@dataclass(frozen=True)
class Cell:
    """One configuration of an experiment: which row it belongs to, and the budget if that varies."""

    row: Row
    config: RunConfig
    budget: int | None = None


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    ``quick`` says what is cut for a lunch break: the number of ``tasks``, and of ``budgets`` of a curve.
    ``first_tasks`` has the datasets of which only so many tasks are run, ``left_out`` what is missing on all of them.
    """

    name: str
    title: str
    place: str
    kind: str
    metrics: Sequence[str]
    datasets: Sequence[str]
    rows: Sequence[Row]
    options: Mapping[str, Any]
    x: str = ""
    budgets: Mapping[str, Sequence[int]] = field(default_factory=dict)
    quick: Mapping[str, int] = field(default_factory=dict)
    one_at_a_time: bool = False
    seeds: int = SEEDS
    assignments: Sequence[str] = ()
    first_tasks: Mapping[str, int] = field(default_factory=dict)
    left_out: Sequence[str] = ()

    def asked(
        self,
        datasets: Iterable[str] | None = None,
        methods: Iterable[str] | None = None,
        seeds: int | None = None,
        quick: bool = False,
        assignments: Sequence[str] = (),
    ) -> Experiment:
        """The experiment on other ``datasets``, with some of its rows, with other seeds, or cut short.

        ``assignments`` set parameters of all methods that have them.
        """
        chosen = replace(self, assignments=assignments)
        if datasets is not None:
            chosen = replace(chosen, datasets=list(datasets))
        if methods is not None:
            chosen = replace(chosen, rows=chosen._rows_called(list(methods)))
        if seeds is not None:
            chosen = replace(chosen, seeds=seeds)
        return chosen._cut_short(1 if seeds is None else seeds) if quick else chosen

    def _rows_called(self, names: Sequence[str]) -> list[Row]:
        if odd := [name for name in names if not self.rows_called(name)]:
            labels = [row.label for row in self.rows]
            raise ParameterError(unknown(f"method in experiment {self.name}", odd[0], labels))
        chosen = [row for name in names for row in self.rows_called(name)]
        return [row for row in self.rows if row in chosen]

    def rows_called(self, name: str) -> list[Row]:
        """The row whose label this is, or else those that it means in other letters, or by their method."""
        return [row for row in self.rows if row.label == name] or [row for row in self.rows if row.is_called(name)]

    def _cut_short(self, seeds: int) -> Experiment:
        if self.kind == "map":  # of one seed and one task anyway
            return self
        budgets, left_out = dict(self.budgets), []
        if fewer := self.quick.get("budgets"):
            budgets = {name: _spread(each, fewer) for name, each in self.budgets.items()}
            left_out = [f"all but {fewer} budgets"]
        first_tasks = dict.fromkeys(self.datasets, tasks) if (tasks := self.quick.get("tasks")) else {}
        return replace(self, budgets=budgets, seeds=seeds, first_tasks=first_tasks, left_out=left_out)

    def with_lengths(self, lengths: Mapping[str, int]) -> Experiment:
        """The same, if datasets have so many tasks: one that has no more than are to be run is run whole. One of which
        that is not known is taken to have more."""
        cut = {dataset: tasks for dataset, tasks in self.first_tasks.items() if lengths.get(dataset, tasks + 1) > tasks}
        return replace(self, first_tasks=cut)

    def left_out_of(self, dataset: str) -> list[str]:
        """What is missing on a dataset."""
        tasks = self.first_tasks.get(dataset)
        return [*([f"tasks after the first {tasks}"] if tasks else []), *self.left_out]

    def cells(self) -> list[Cell]:
        """Every configuration that has to be run; none of a map, which has no runs."""
        if self.kind == "map":
            return []
        return [cell for dataset in self.datasets for row in self.rows for cell in self._cells(row, dataset)]

    def map_config(self, dataset: str) -> RunConfig:
        """Of the network that embeds the nodes of a map."""
        config = RunConfig.resolve(dataset, "finetune", **self.options)
        fitting = [text for text in self.assignments if _has(config, text)]
        return RunConfig.resolve(dataset, "finetune", assignments=fitting, **self.options)

    def _cells(self, row: Row, dataset: str) -> Iterator[Cell]:
        budgets: Sequence[int | None] = self.budgets.get(dataset) or self.budgets.get("other") or [None]
        for budget in budgets:
            own = [f"{name}={value}" for name, value in row.set.items()]
            given = {} if budget is None else {"budget": budget}
            options = {**self.options, "seeds": self.seeds, "tasks": self.first_tasks.get(dataset), **given}
            config = RunConfig.resolve(dataset, row.method, assignments=own, **options)
            if fitting := [text for text in self.assignments if _has(config, text)]:
                config = RunConfig.resolve(dataset, row.method, assignments=[*own, *fitting], **options)
            yield Cell(row, config, budget)


def _has(config: RunConfig, assignment: str) -> bool:
    """Whether the method of a run has the parameter of a text ``name=value``."""
    return has_parameter(config.learner(config.seeds[0]), assignment.partition("=")[0].strip())


@cache
def load_experiment(name: str) -> Experiment:
    """The experiment of a name."""
    if name not in NAMES:
        raise ParameterError(unknown("experiment", name, [*NAMES, "all", "list"]))
    content = _read(f"experiments/{name}.toml")
    known = _read("methods.toml")
    rows = [Row(label=each, **known[each]) if isinstance(each, str) else Row(**each) for each in content.pop("rows")]
    return Experiment(name=name, rows=rows, **content)


@cache
def methods_by_label() -> dict[str, str]:
    """Methods by the names that they have in the paper."""
    return {label: content["method"] for label, content in _read("methods.toml").items()}


def names_in_paper() -> dict[str, str]:
    """Names that methods have in the paper."""
    labels = methods_by_label()
    return {method: next(label for label in labels if labels[label] == method) for method in labels.values()}


def drawn_as(name: str, label: str) -> str:
    """The method whose look and switch a row of an experiment has: that of its name in the paper, or its own."""
    rows = {row.label: row.like or row.method for row in load_experiment(name).rows}
    return methods_by_label().get(label) or rows.get(label) or label


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("delome.paper") / name).read_text(encoding="utf-8"))


def _spread(values: Sequence[int], number: int) -> list[int]:
    """So many of some values: the first, the last, and some evenly between them.

    >>> _spread([5, 10, 15, 30, 60], 3)
    [5, 15, 60]
    """
    last = len(values) - 1
    return [values[round(k * last / (number - 1))] for k in range(number)]

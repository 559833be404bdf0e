"""Contents of a report: the runs, experiments and selections below some folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delome.errors import ParameterError, PersistenceError
from delome.experiment.collection import MOST, Record, collect
from delome.experiment.comparison import LOWER_IS_BETTER, TOGETHER
from delome.experiment.folder import CONFIG, CONFIG_KIND
from delome.experiment.selection import FOLDER as SELECTIONS
from delome.experiment.selection import KIND as SELECTION_KIND
from delome.learning import METHODS
from delome.paper.experiment import NAMES, names_in_paper
from delome.paper.measured import FOLDER as PAPER
from delome.paper.measured import KIND as PAPER_KIND
from delome.paper.measured import merged
from delome.persistence.documents import read_document
from delome.printable import counted
from delome.reporting.charts import Drawn, Figure
from delome.reporting.headline import headline_sheet
from delome.reporting.leaks import Leaks, leaks_of
from delome.reporting.looks import in_order, looks_of
from delome.reporting.names import short_names, shown_method
from delome.reporting.paper_figures import paper_figures, series_of
from delome.reporting.paper_notes import commands, footnotes
from delome.reporting.repeating import command_of
from delome.reporting.run_figures import run_figures
from delome.reporting.series import MARGIN, Group, Known, Series, groups_of
from delome.reporting.sheets import Sheet, curve_sheet, group_sheet, in_bytes, paper_sheets, selection_sheet

MEMORY_ALONE = "delome.paper.alone:MemoryAlone"
WRONG = (KeyError, TypeError, AttributeError, ValueError, IndexError)
"""What reading a document of another shape may end in."""


@dataclass(frozen=True)
class Card:
    """A number that is seen first: what it is, and whose."""

    title: str
    number: str
    whose: str


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper."""

    found: Mapping[str, Any]
    sheets: list[Sheet]
    figures: list[Figure]
    of_all: list[str]
    notes: list[str]
    commands: list[str]


@dataclass(frozen=True)
class Comparison:
    """A group of runs: what is seen first, the table, and the figures."""

    group: Group
    cards: list[Card]
    sheet: Sheet
    curve: Sheet | None
    figures: list[Figure]

    @property
    def aside(self) -> str:
        """Says what the numbers that are seen first leave out."""
        if len(self.group.series) < 2:
            return ""
        others = [each for each in self.group.series if each not in self.group.competing]
        together = [each for each in others if TOGETHER in each.row.mark]
        keeping = [each for each in others if each not in together]
        reasons = [
            *_reason(keeping, "keep", "every graph"),
            *_reason(together, "judge", "the nodes of a task together"),
        ]
        excluded = f"Best values exclude {', and '.join(reasons)}. " if reasons else ""
        return f"{excluded}{BEST}"


@dataclass(frozen=True)
class Configured:
    """How a series came about."""

    title: str
    command: str
    folders: list[str]
    settings: dict[str, Any]
    versions: dict[str, str]


@dataclass(frozen=True)
class Contents:
    """Everything that a report shows."""

    title: str
    folders: list[str]
    runs: int
    unfinished: int
    tried: int
    """Runs that a selection has only tried."""
    headline: Sheet | None
    """What the experiments of the paper come to."""
    experiments: list[Experiment]
    comparisons: list[Comparison]
    leaks: list[Leaks]
    selections: list[Sheet]
    configured: list[Configured]
    called: Mapping[str, str]
    """Names of methods beside experiments, whose rows have those of the paper."""

    @property
    def figures(self) -> list[Figure]:
        """All figures in the order of the page."""
        parts: list[Experiment | Comparison | Leaks] = [*self.experiments, *self.comparisons, *self.leaks]
        return [figure for part in parts for figure in part.figures]

    @property
    def methods(self) -> list[Drawn]:
        """Methods that can be switched on and off, as figures draw them."""
        shown = {series.method for each in self.comparisons for series in each.group.series}
        for each in self.experiments:
            shown |= {series.method for series in series_of(each.found).values() if series.method in METHODS}
        return [Drawn(self.called.get(name, shown_method(name)), name, look) for name, look in looks_of(shown).items()]


def read_contents(folders: Sequence[Path], problems: list[str]) -> Contents:
    """What is to be shown of folders; ``problems`` gets a sentence for everything that cannot be read."""
    records = collect(folders, problems)
    experiments = list(_experiments(folders, problems))
    called = names_in_paper() | {MEMORY_ALONE: "memory alone"} if experiments else {}
    groups = groups_of(records, called, _known_runs(experiments))
    if not groups and not experiments:
        raise ParameterError(
            f"there are no finished runs or experiments below '{folders[0]}': 'delome run' and 'delome paper' make some"
        )
    runs = sum(len(each.row.records) for group in groups for each in group.series)
    return Contents(
        title=_title(groups, experiments),
        folders=[str(folder) for folder in folders],
        runs=runs,
        unfinished=sum(not record.finished for record in records),
        tried=sum(record.finished and record.candidate for record in records),
        headline=headline_sheet([each.found for each in experiments]),
        experiments=experiments,
        comparisons=[
            Comparison(group, _cards(group), group_sheet(group), curve_sheet(group), run_figures(group))
            for group in groups
        ],
        leaks=[found for group in groups if (found := leaks_of(group, problems)) is not None],
        selections=list(_selections(folders, called, problems)),
        configured=[_configured(group, each) for group in groups for each in group.series],
        called=called,
    )


def _title(groups: Sequence[Group], experiments: Sequence[Experiment]) -> str:
    if experiments:
        on = list(dict.fromkeys(row["dataset"] for each in experiments for row in each.found["rows"]))
        where = ", ".join(short_names(on).values()) if len(on) <= 4 else counted(len(on), "dataset")
        what = f"{experiments[0].found['name']} of" if len(experiments) == 1 else f"{len(experiments)} experiments of"
        return f"{what} the paper on {where}"
    methods = in_order(series.method for group in groups for series in group.series)
    named = methods[0] if len(methods) == 1 else counted(len(methods), "method")
    if len(groups) == 1:
        return f"{named} on {groups[0].title}"
    datasets = short_names(str(group.table.rows[0].settings["dataset"]) for group in groups).values()
    return f"{named} on {', '.join(datasets) if len(datasets) <= 3 else counted(len(datasets), 'dataset')}"


def _experiments(folders: Sequence[Path], problems: list[str]) -> Iterator[Experiment]:
    found: list[dict[str, Any]] = []
    for folder in folders:
        own = folder.glob("*.json") if folder.name == PAPER else ()
        for file in sorted({*folder.rglob(f"{PAPER}/*.json"), *own}):
            with suppress(PersistenceError):
                _add(found, read_document(file, PAPER_KIND, MOST) | {"file": str(file)})
    order = {name: number for number, name in enumerate(NAMES)}
    for document in sorted(found, key=lambda each: order.get(each.get("name", ""), len(order))):
        try:
            if document["rows"]:
                rows = document["rows"]
                sheets, figures = list(paper_sheets(document)), paper_figures(document)
                yield Experiment(document, sheets, figures, *footnotes(rows), commands(rows))
        except WRONG:
            again = "'delome paper' writes it again, and repeats no run"
            problems.append(f"'{document['file']}' is damaged, or of another version; it is left out: {again}")


def _add(found: list[dict[str, Any]], document: dict[str, Any]) -> None:
    """Adds a document: what several have measured of one experiment becomes one."""
    with suppress(*WRONG):
        for number, other in enumerate(found):
            if other["name"] == document["name"]:
                found[number] = merged(other, document)
                return
    found.append(document)


def _known_runs(experiments: Sequence[Experiment]) -> dict[str, Known]:
    """Runs, by their folders, that are rows of a table of the paper; those of a curve are told apart by budget."""
    found: dict[str, Known] = {}
    for each in experiments:
        if each.found["form"] not in ("table", "bars"):
            continue
        alone = " (memory alone)" if each.found["name"] == "expressiveness" else ""
        series = series_of(each.found)
        for row in each.found["rows"]:
            drawn = series[row["label"]]
            for run in row.get("runs", ()):
                found.setdefault(run, Known(row["label"] + alone, drawn.method, drawn.look))
    return found


def _selections(folders: Sequence[Path], called: Mapping[str, str], problems: list[str]) -> Iterator[Sheet]:
    for folder in folders:
        for file in sorted(folder.rglob(f"{SELECTIONS}/*.json")):
            try:
                yield selection_sheet(read_document(file, SELECTION_KIND, MOST), called)
            except (PersistenceError, *WRONG):
                problems.append(f"'{file}' is no selection of delome; it is left out")


def _signed(value: float) -> str:
    text = f"{value:+.1f}".replace("-", "−")
    return "0.0" if text[1:] == "0.0" else text


CARDS = (
    ("aa", "Highest AA", "Average accuracy", lambda value: f"{value:.1f} %"),
    ("af", "Least forgetting", "Average forgetting", _signed),
    ("seconds", "Fastest", "Seconds of a run", lambda value: f"{value:.1f} s"),
    ("bytes", "Smallest memory", "Kept for old tasks", in_bytes),
)
"""Metrics that are seen first: what the best of several is called, what a single one is, and how it is written."""

BEST = f"In bold: the highest AA, and in other columns the best of methods whose AA is at most {MARGIN} points lower."


def _cards(group: Group) -> list[Card]:
    """The best numbers, as the table has them in bold."""
    found = []
    for metric, of_several, alone, written in CARDS:
        if means := group.contenders(metric):
            best = (min if metric in LOWER_IS_BETTER else max)(means.values())
            first, *others = [label for label, value in means.items() if written(value) == written(best)]
            whose = f"{first} and {counted(len(others), 'other')}" if others else first
            found.append(Card(of_several if len(group.series) > 1 else alone, written(best), whose))
    return found


def _reason(series: Sequence[Series], verb: str, what: str) -> Iterator[str]:
    """Methods that are left out, and why; nothing if there are none."""
    if methods := dict.fromkeys(each.name for each in series):
        yield f"{' and '.join(methods)}, which {verb}{'s' if len(methods) == 1 else ''} {what}"


def _configured(group: Group, series: Series) -> Configured:
    first = series.row.records[0]
    seeds = series.row.seeds
    gaps = "" if seeds == list(range(seeds[0], seeds[0] + len(seeds))) else f"  # seeds {seeds}"
    return Configured(
        title=f"{series.label} on {group.title}",
        command=command_of(first.config, seeds) + gaps,
        folders=sorted({record.folder for record in series.row.records}),
        settings=first.config | {f"stream: {name}": value for name, value in first.protocol.items()},
        versions=_versions(first),
    )


def _versions(record: Record) -> dict[str, str]:
    with suppress(PersistenceError, *WRONG):
        found = read_document(Path(record.folder) / CONFIG, CONFIG_KIND, MOST)["versions"]
        return {str(name): str(value) for name, value in found.items()}
    return {}

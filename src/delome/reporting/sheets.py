"""Tables of a page: headings, and cells that know by what they are sorted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from delome.experiment.selection import in_words
from delome.reporting.formats import heading
from delome.reporting.looks import Look
from delome.reporting.names import short_name
from delome.reporting.paper import HEADINGS, known, with_spread
from delome.reporting.paper_figures import series_of
from delome.reporting.paper_notes import conditions, footnotes, marks
from delome.reporting.paper_tables import tables_of
from delome.reporting.series import Group

TITLES = {"seconds": "seconds", "bytes": "kept", "learning": "when learned", "forward": "forward transfer"}
SELECTION = "selection"
MOST_TASKS = 50
"""Of streams whose AA after each task is a table as well."""


@dataclass(frozen=True)
class Cell:
    """What stands in a cell; ``value`` is what it is sorted by, if that is another."""

    text: str
    value: float | None = None
    best: bool = False
    look: Look | None = None
    notes: Sequence[int] = ()
    bar: float | None = None
    """Length of a bar below the text, in percent."""
    within: bool | None = None
    """Whether a difference is small."""


@dataclass(frozen=True)
class Sheet:
    """A table that can be sorted by any column; the first ``words`` columns are words, the others numbers."""

    title: str
    heads: list[str]
    rows: list[list[Cell]]
    words: int = 1
    notes: list[str] = field(default_factory=list)


def group_sheet(group: Group) -> Sheet:
    """All rows of a group in the order of methods, best means marked."""
    table = group.table
    best = {metric: group.best(metric) for metric in table.metrics}
    differing = group.differing
    metrics = [metric for metric in table.metrics if any(row.spread(metric) for row in table.rows)]
    rows = []
    for each in group.series:
        cells = [Cell(each.name, look=each.look)]
        cells += [_setting(each.row.settings.get(name)) for name in differing]
        cells.append(Cell(str(len(each.row.seeds))))
        for metric in metrics:
            cells.append(_measured(each.row.spread(metric), metric, len(each.row.seeds), each.label in best[metric]))
        if SELECTION in table.columns:
            cells.append(_setting(each.row.settings.get(SELECTION)))
        rows.append(cells)
    heads = ["method", *differing, "seeds", *(TITLES.get(metric, heading(metric)) for metric in metrics)]
    heads += [SELECTION] if SELECTION in table.columns else []
    return Sheet(f"Results on {group.title}", heads, rows, 1 + len(differing), list(table.footnotes))


def curve_sheet(group: Group) -> Sheet | None:
    """AA after each task in numbers; none of a long stream."""
    if group.tasks > MOST_TASKS:
        return None
    rows = [
        [Cell(each.label), *(Cell(f"{mean(values):.2f}") for values in zip(*each.curves, strict=True))]
        for each in group.drawn
    ]
    return Sheet("AA after each task, mean over seeds", ["series", *map(str, range(group.tasks))], rows)


def paper_sheets(found: Mapping[str, Any]) -> Iterator[Sheet]:
    """A table for each dataset and way of measuring: reported, measured, difference, and how it was measured."""
    series, (_, notes) = series_of(found), footnotes(found["rows"])
    for name, rows in tables_of(found).items():
        placed = any(row["x"] is not None for row in rows)
        metrics = list(rows[0]["metrics"])
        reported, compared = known(rows, "reported"), known(rows, "difference")
        heads = ["method", *([str(found["x"])] if placed else [])]
        for metric in metrics:
            title = HEADINGS.get(metric, metric)
            heads += [f"{title} reported", f"{title} measured"] if metric in reported else [title]
            heads += ["difference"] if metric in compared else []
        cells = []
        for row in rows:
            label = Cell(row["label"], look=series[row["label"]].look, notes=marks(row, notes))
            cells.append([label, *_paper_cells(row, metrics, reported, compared, placed)])
        yield Sheet(name, heads, cells, notes=conditions(rows, found["form"]))


def selection_sheet(found: Mapping[str, Any], called: Mapping[str, str]) -> Sheet:
    """Candidates of a selection, their scores on validation nodes, and the one that was chosen."""
    run, tasks = found["run"], found["tasks"]
    setting = str(run["parameters"].get("setting", "")).upper()
    first = "" if tasks is None else f", first {tasks} tasks{', which are all' if found.get('saw_all') else ''}"
    rows = []
    for number, each in enumerate(found["candidates"]):
        scores = each["validation_aa"]
        score = f"{mean(scores):.2f}" if scores else "failed"
        chosen = number == found["winner"]
        rows.append([Cell(in_words(each["chosen"])), Cell(score, best=chosen), Cell("chosen" if chosen else "")])
    method = called.get(run["method"], run["method"])
    title = f"{method} on {short_name(str(run['dataset']))} ({setting}; {found['protocol']}{first})"
    return Sheet(title, ["candidate", "AA on validation nodes", ""], rows)


def _paper_cells(
    row: Mapping[str, Any], metrics: Sequence[str], reported: set[str], compared: set[str], placed: bool
) -> list[Cell]:
    line = [Cell("" if row["x"] is None else f"{row['x']:.4g}")] if placed else []
    for name in metrics:
        numbers = row["metrics"][name]
        if name in reported:
            line.append(_written(numbers["reported"], numbers.get("reported_std"), name))
        line.append(_written(numbers["measured"], numbers.get("std"), name))
        if name in compared:
            difference = numbers["difference"]
            text = "" if difference is None else f"{difference:+.1f}".replace("-", "−")
            line.append(Cell(text, within=numbers["within"]))
    return line


def _written(value: float | None, std: float | None, metric: str) -> Cell:
    return Cell(with_spread(value, std, metric), bar=_share(value, metric))


def _setting(value: Any) -> Cell:
    return Cell("–" if value is None else str(value))


def _measured(spread: tuple[float, float] | None, metric: str, seeds: int, best: bool) -> Cell:
    if spread is None:
        return Cell("–")
    if metric == "bytes":
        return Cell(in_bytes(spread[0]), spread[0], best)
    digits = 1 if metric == "seconds" else 2
    std = f" ± {spread[1]:,.{digits}f}" if seeds > 1 else ""
    return Cell(f"{spread[0]:,.{digits}f}{std}".replace("-", "−"), spread[0], best, bar=_share(spread[0], metric))


def _share(value: float | None, metric: str) -> float | None:
    """Accuracies are bars as well."""
    return min(100.0, max(0.0, value)) if value is not None and metric in ("aa", "learning") else None


def in_bytes(number: float) -> str:
    """Bytes in the unit that a person would use.

    >>> in_bytes(0), in_bytes(5120), in_bytes(3_200_000)
    ('0 B', '5.1 kB', '3.2 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"

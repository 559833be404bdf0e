"""What a reader must know about a table of an experiment: how its rows were measured, and the notes that touch them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from delome.datasets.catalogue import parse_name
from delome.paper.experiment import SEEDS, load_experiment

LEGEND = "✓: at most one reported standard deviation away; ✗: more."
WHOLE = "The paper's numbers are of all tasks: no difference is given."
UNLIKE = "Rows differ in how their parameters were selected: compare them with care."

MANY = 6
"""Rows of one table that are not marked one by one."""

Rows = Sequence[Mapping[str, Any]]


def footnotes(rows: Rows) -> tuple[list[str], list[str]]:
    """What is true of all rows or of nearly all, and the notes that rows are marked with the numbers of, as they first
    appear."""
    every = dict.fromkeys(text for row in rows for text in row["notes"])
    shared = {text: said for text in every if (said := _of_nearly_all(rows, text)) is not None}
    of_all = list(shared.values())
    if any(numbers.get("within") is not None for row in rows for numbers in row["metrics"].values()):
        of_all.insert(0, LEGEND)
    return of_all, [text for text in every if text not in shared]


def _of_nearly_all(rows: Rows, text: str) -> str | None:
    """A note that is true of all rows, or of so many that a number behind each name would tell nobody anything."""
    touched = {row["label"] for row in rows if text in row["notes"]}
    others = list(dict.fromkeys(row["label"] for row in rows if text not in row["notes"]))
    if not others:
        return text
    told_apart = touched.isdisjoint(others) and len(touched) >= MANY and len(touched) > len(others)
    return f"All but {', '.join(others)}: {text}" if told_apart else None


def marks(row: Mapping[str, Any], notes: Sequence[str]) -> list[int]:
    """Numbers of the notes that touch a row."""
    return sorted(1 + notes.index(text) for text in row["notes"] if text in notes)


def commands(rows: Rows) -> list[str]:
    """Every command that has measured a row."""
    return list(dict.fromkeys(row["command"] for row in rows if row["command"]))


def conditions(rows: Rows, form: str) -> list[str]:
    """How the rows of one table were measured: seeds, tasks, budget, settings, what was left out, how
    parameters were selected."""
    settings, left_out = rows[0]["settings"], rows[0]["left_out"]  # rows of a table share these
    found = [_seeds(rows, form), *_tasks(rows), *_budgets(rows)]
    if settings:
        have = "that parameter" if len(settings) == 1 else "these parameters"
        found.append(f"Run with {', '.join(settings)} where the method has {have}.")
    if left_out:
        found.append(f"Left out: {', '.join(left_out)}.")
    numbers = [each for row in rows for each in row["metrics"].values()]
    if any(each["reported"] is not None and each["measured"] is not None for each in numbers):
        found += [WHOLE] if all(each.get("difference") is None for each in numbers) else []
    return found + _selection(rows)


def _seeds(rows: Rows, form: str) -> str:
    """Of how many seeds numbers are means, and which rows have others."""
    counts = [max(numbers["seeds"] for numbers in row["metrics"].values()) for row in rows]
    (usual, _), *others = Counter(counts).most_common()
    odd = [f"{_names(rows, [each == count for each in counts])}: {count}" for count, _ in others]
    beside = f" ({'; '.join(odd)})" if odd else ""
    of_paper = f"; the paper has {SEEDS}" if form != "map" and {*counts} != {SEEDS} else ""
    return f"Seeds: {usual}{beside}{of_paper}."


def _tasks(rows: Rows) -> list[str]:
    """How many tasks the stream of a table has."""
    counts = {row["tasks"] for row in rows if row.get("tasks") is not None}
    return [f"Tasks: {' or '.join(map(str, sorted(counts)))}."] if counts else []


def _budgets(rows: Rows) -> list[str]:
    """How many rows of a class memories have, and how many in the paper; those of a curve are its places."""
    budgets = {row["budget"] for row in rows if row["x"] is None and row.get("budget") is not None}
    if not budgets:
        return []
    whose = {each: _names(rows, [row.get("budget") == each for row in rows]) for each in sorted(budgets)}
    own = ", ".join(str(each) if len(whose) == 1 else f"{each} ({names})" for each, names in whose.items())
    dataset = rows[0]["dataset"]
    usual = {name: parse_name(name)[0].budget for name in load_experiment("cil").datasets}
    if dataset in usual:
        paper = "" if budgets == {usual[dataset]} else f"; the paper has {usual[dataset]}"
    else:
        paper = "; the paper has 60 on CoraFull and 400 on its other graphs"
    return [f"Memory rows per class: {own}{paper}."]


def _selection(rows: Rows) -> list[str]:
    """How parameters were selected that could be, and which."""
    selected: dict[str, dict[str, None]] = {}
    for row in rows:
        protocol, _, values = row.get("selection", "").partition(": ")
        if protocol:
            alike = [each.get("selection") == row["selection"] for each in rows]
            own = [same and each["label"] == row["label"] for same, each in zip(alike, rows, strict=True)]
            selected.setdefault(protocol, {})[f"{_names(rows, own)} {values}"] = None
    found = [f"Selected on validation nodes, {how}: {'; '.join(each)}." for how, each in selected.items()]
    if defaults := _names(rows, [bool(row.get("defaults")) for row in rows]):
        found.append(f"Not selected, our defaults: {defaults}.")
    return [*found, UNLIKE] if len(found) > 1 else found


def _names(rows: Rows, meant: Sequence[bool]) -> str:
    """Rows that are meant, by their labels; those of a curve also by their places unless the whole curve is meant."""
    places: dict[str, list[str]] = {}
    for row, is_meant in zip(rows, meant, strict=True):
        if is_meant:
            places.setdefault(row["label"], []).append("" if row["x"] is None else f"{row['x']:.4g}")
    whole = Counter(row["label"] for row in rows)
    return ", ".join(_placed(label, each if len(each) < whole[label] else []) for label, each in places.items())


def _placed(label: str, places: Iterable[str]) -> str:
    return f"{label} at {' and '.join(places)}" if places else label

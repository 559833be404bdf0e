"""The headline of a report of the paper's experiments: DeLoMe beside the best of the others, in every table at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from delome.learning import METHODS
from delome.paper.experiment import drawn_as
from delome.printable import counted
from delome.reporting.looks import Look, look_of
from delome.reporting.paper import with_spread
from delome.reporting.paper_notes import Rows
from delome.reporting.paper_tables import tables_of
from delome.reporting.sheets import Cell, Sheet

OURS = "DeLoMe"
HEADS = ["experiment", "on", "AA of DeLoMe", "reported", "best other", "its AA", "of Joint"]
NOTE = (
    "Best other: the method with the highest AA of those that do not keep every graph, our defaults of DeLoMe apart. "
    "Seeds, budgets and what differs from the paper stand below each table."
)


def headline_sheet(documents: Sequence[Mapping[str, Any]]) -> Sheet | None:
    """A row for each table in which DeLoMe competes on AA; none if there is no such table."""
    rows = [row for found in documents for row in _rows(found)]
    if not rows:
        return None
    shown = [k for k in range(len(HEADS)) if any(row[k].text for row in rows)]  # nothing is reported of other graphs
    cells = [[row[k] for k in shown] for row in rows]
    return Sheet("In short", [HEADS[k] for k in shown], cells, words=2, notes=[NOTE])


def _rows(found: Mapping[str, Any]) -> Iterator[list[Cell]]:
    for name, rows in tables_of(found).items():
        if found["form"] != "table" or "aa" not in rows[0]["metrics"]:
            continue
        own = _aa(rows, OURS)
        others = _others(found, rows)
        if own["measured"] is None or not others:
            continue
        highest = max(numbers["measured"] for numbers in others.values())
        best, *alike = [label for label, each in others.items() if f"{each['measured']:.1f}" == f"{highest:.1f}"]
        more = f" and {counted(len(alike), 'other')}" if alike else ""
        yield [
            Cell(str(found["name"])),  # as the links call it: short enough for a phone
            Cell(name),
            _measured(own),
            Cell(with_spread(own.get("reported"), own.get("reported_std"))),
            Cell(best + more, look=_look(found, best)),
            _measured(others[best]),
            _measured(_aa(rows, "Joint")),
        ]


def _aa(rows: Rows, label: str) -> Mapping[str, Any]:
    return next((row["metrics"]["aa"] for row in rows if row["label"] == label), {"measured": None})


def _others(found: Mapping[str, Any], rows: Rows) -> dict[str, Mapping[str, Any]]:
    """AA by label of what DeLoMe competes with."""
    methods = {row["label"]: drawn_as(found["name"], row["label"]) for row in rows}
    return {
        row["label"]: row["metrics"]["aa"]
        for row in rows
        if row["metrics"]["aa"]["measured"] is not None
        and methods[row["label"]] != "delome"
        and not (methods[row["label"]] in METHODS and METHODS[methods[row["label"]]].needs_past)
    }


def _look(found: Mapping[str, Any], label: str) -> Look:
    return look_of(drawn_as(found["name"], label))


def _measured(numbers: Mapping[str, Any]) -> Cell:
    return Cell(with_spread(numbers["measured"], numbers.get("std")), numbers["measured"])

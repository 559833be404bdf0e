"""What the runs of an experiment measured, beside what the paper reports: the document that is printed and drawn."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from delome.experiment.config import RunConfig, versions
from delome.experiment.seed_folder import finished_result
from delome.learning import METHODS
from delome.paper.experiment import Cell, Experiment, load_experiment
from delome.paper.reported import Reported, notes, reported_numbers
from delome.printable import counted, csv_field

KIND, FOLDER = "experiment", "paper"
"""Of the documents of experiments, and where they are, beside the runs."""

COLUMNS = ("dataset", "row", "x", "metric", "measured", "std", "seeds", "reported", "reported_std", "selection")


def document(
    experiment: Experiment,
    runs: Mapping[str, RunConfig],
    out: Path,
    *,
    selections: Mapping[str, str],
    positions: Mapping[str, float],
    command: str,
) -> dict[str, Any]:
    """Everything to know about an experiment whose runs are below ``out``.

    ``runs`` gives for the digest of each planned configuration the one that was run in its place; ``selections`` says
    for its folder how its parameters were chosen; ``positions`` gives for each dataset what the budget divides to
    become the place of a point on a curve.
    """
    rows = []
    for cell in experiment.cells():
        if (config := runs.get(cell.config.digest)) is None:
            continue
        found = [result for seed in config.seeds if (result := finished_result(out / config.slug, seed)) is not None]
        rows.append(
            _row(cell, positions)
            | {
                "metrics": {metric: compared(experiment, cell, metric, found) for metric in experiment.metrics},
                "selection": (selection := selections.get(config.slug, "")),
                "defaults": not selection and bool(METHODS.importable(cell.config.method).search),
                "runs": [config.slug],
            }
        )
    return described(experiment, rows, command)


def described(experiment: Experiment, rows: Sequence[dict[str, Any]], command: str) -> dict[str, Any]:
    """The document of an experiment with these rows, with the notes that touch them."""
    touching = [[note for note in notes() if note.touches(experiment.name, row)] for row in rows]
    every = [note for each in touching for note in each]
    used = [note for number, note in enumerate(every) if note not in every[:number]]  # in the order of rows
    numbered = [
        row | {"notes": [1 + used.index(note) for note in each]} for row, each in zip(rows, touching, strict=True)
    ]
    said = (
        [f"Methods that have it were run with {', '.join(experiment.assignments)}."] if experiment.assignments else []
    )
    if experiment.one_at_a_time:
        said.append(f"Measured one run at a time on {hardware()}.")
    return {
        "name": experiment.name,
        "title": f"{experiment.title} ({experiment.place})",
        "form": experiment.kind,
        "x": experiment.x or None,
        "y": "accuracy on the task, %" if "learning" in experiment.metrics else "AA, %",
        "rows": numbered,
        "notes": [*(note.text for note in used), *said],
        "left_out": list(experiment.left_out),
        "settings": list(experiment.assignments),
        "command": command,
        "versions": versions(),
    }


def hardware() -> str:
    """What seconds depend on: the processor, the threads that were used, and the accelerator if there is one."""
    device = f"{torch.cuda.get_device_name()}, " if torch.cuda.is_available() else ""
    return f"{device}{platform.processor() or platform.machine()}, {counted(torch.get_num_threads(), 'thread')}"


def measured_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two documents may be merged: the same experiment, cut short in the same way, with the same settings."""
    return all(one[name] == other[name] for name in ("name", "left_out", "settings"))


def merged(found: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """A document with those rows of one that was measured alike that it does not have itself."""
    measured = {_place(row) for row in found["rows"]}
    kept = [row for row in before["rows"] if _place(row) not in measured]
    if not kept:
        return found
    order = {label: number for number, label in enumerate(row.label for row in load_experiment(found["name"]).rows)}
    datasets = list(dict.fromkeys(row["dataset"] for row in (*before["rows"], *found["rows"])))
    rows = sorted(
        [_renumbered(row, before["notes"], found["notes"]) for row in kept] + found["rows"],
        key=lambda row: (datasets.index(row["dataset"]), order.get(row["label"], len(order)), row["x"] or 0),
    )
    drawn = {each["panel"] for each in found.get("points", ())}
    points = [each for each in before.get("points", ()) if each["panel"] not in drawn]
    more = {"points": [*points, *found["points"]]} if "points" in found else {}
    notes = list(dict.fromkeys([*found["notes"], *before["notes"]]))
    return found | {"rows": rows, "notes": notes} | more


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["dataset"], row["label"], row["x"]


def _renumbered(row: dict[str, Any], before: Sequence[str], notes: Sequence[str]) -> dict[str, Any]:
    """A row of an earlier document, whose notes have other numbers in ``notes`` and those that are added to them."""
    every = list(dict.fromkeys([*notes, *before]))
    return row | {"notes": sorted(1 + every.index(before[number - 1]) for number in row["notes"])}


def _row(cell: Cell, positions: Mapping[str, float]) -> dict[str, Any]:
    dataset, budget = cell.config.dataset, cell.budget
    place: float | None = budget
    if budget is not None and dataset in positions:
        place = positions[dataset] / budget
    return {"label": cell.row.label, "dataset": dataset, "x": place}


def compared(experiment: Experiment, cell: Cell, metric: str, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, and the paper's number.

    ``within`` says whether the difference is at most one standard deviation that the paper reports.
    """
    values = [value for result in results if (value := measure(result, metric)) is not None]
    of_paper = reported_numbers().get((experiment.name, cell.config.dataset, cell.row.label, metric))
    paper = of_paper if of_paper is not None and not cell.row.beyond else Reported(float("nan"), None)
    known = paper.value == paper.value
    measured = mean(values) if values else None
    whole = "tasks" not in experiment.options  # the first tasks alone are easier than all of them
    difference = measured - paper.value if known and whole and measured is not None else None
    return {
        "measured": measured,
        "std": stdev(values) if len(values) > 1 else None,
        "seeds": len(values),
        "reported": paper.value if known else None,
        "reported_std": paper.std,
        "difference": difference,
        "within": None if difference is None or paper.std is None else abs(difference) <= paper.std,
    }


def measure(result: Mapping[str, Any], metric: str) -> float | None:
    """A number of one seed."""
    return _DERIVED[metric](result) if metric in _DERIVED else result[metric]


_DERIVED: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "memory_seconds": lambda result: mean(task["seconds"].get("memory", 0.0) for task in result["tasks"]),
    "inference_seconds": lambda result: float(result["seconds"]["evaluate"]),
}
"""Numbers that are not read off an accuracy matrix."""


def comma_separated(found: Mapping[str, Any]) -> str:
    """The numbers of a document, a line for each row and metric."""
    lines = [",".join(COLUMNS)]
    for row in found["rows"]:
        for metric, numbers in row["metrics"].items():
            fields = [row["dataset"], row["label"], row["x"], metric]
            fields += [numbers.get(name) for name in ("measured", "std", "seeds", "reported", "reported_std")]
            fields.append(row.get("selection", ""))
            lines.append(",".join(_field(each) for each in fields))
    return "\n".join(lines) + "\n"


def _field(value: Any) -> str:
    if value is None:
        return ""
    return csv_field(value) if isinstance(value, str) else str(value)

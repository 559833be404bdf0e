"""What the runs of an experiment measured, beside what the paper reports: the document that is printed and drawn."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from delome.errors import PersistenceError
from delome.experiment.collection import MOST
from delome.experiment.config import RunConfig, versions
from delome.experiment.folder import CONFIG, CONFIG_KIND
from delome.experiment.seed_folder import finished_result
from delome.learning import METHODS
from delome.paper.experiment import Cell, Experiment, load_experiment
from delome.paper.reported import Reported, notes, reported_numbers
from delome.paper.training import training_notes
from delome.persistence.documents import read_document
from delome.printable import counted, csv_field

KIND, FOLDER = "experiment", "paper"
"""Of the documents of experiments, and where they are, beside the runs."""

NUMBERS = ("measured", "std", "seeds", "reported", "reported_std", "difference", "within")
COLUMNS = ("dataset", "row", "x", "metric", *NUMBERS, "selection", "settings", "left_out", "budget", "tasks")


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
        own = training_notes(config.learner(config.seeds[0]))
        if experiment.one_at_a_time:
            own.append(f"Measured one run at a time on {hardware()}, {_threads(out / config.slug)}.")
        found = [result for seed in config.seeds if (result := finished_result(out / config.slug, seed)) is not None]
        rows.append(
            _row(cell, positions)
            | {
                "metrics": {metric: compared(experiment, cell, metric, found) for metric in experiment.metrics},
                "selection": (selection := selections.get(config.slug, "")),
                "defaults": not selection and bool(METHODS.importable(cell.config.method).search),
                "runs": [config.slug],
                "budget": config.budget,
                "tasks": len(found[0]["tasks"]) if found else None,
                "notes": own,
            }
        )
    return described(experiment, rows, command)


def described(experiment: Experiment, rows: Sequence[Mapping[str, Any]], command: str) -> dict[str, Any]:
    """The document of an experiment with these rows. Each knows how it was measured (settings, what was left out, the
    command), and the notes that touch it beside its own, so that rows of other commands can stand beside it."""
    return {
        "name": experiment.name,
        "title": f"{experiment.title} ({experiment.place})",
        "form": experiment.kind,
        "x": experiment.x or None,
        "y": "accuracy on the task, %" if "learning" in experiment.metrics else "AA, %",
        "rows": [
            {
                **row,
                "notes": [
                    *(note.text for note in notes() if note.touches(experiment.name, row)),
                    *row.get("notes", ()),
                ],
                "settings": sorted(experiment.assignments),
                "left_out": experiment.left_out_of(row["dataset"]),
                "command": command,
            }
            for row in rows
        ],
        "versions": versions(),
    }


def hardware() -> str:
    """What seconds depend on: the processor, and the accelerator if there is one."""
    device = f"{torch.cuda.get_device_name()}, " if torch.cuda.is_available() else ""
    return f"{device}{platform.processor() or platform.machine()}"


def _threads(run: Path) -> str:
    """With how many threads a run was begun, which may have been long ago."""
    with suppress(PersistenceError, KeyError, ValueError):
        return counted(int(read_document(run / CONFIG, CONFIG_KIND, MOST)["versions"]["threads"]), "thread")
    return "an unknown number of threads"


def how_measured(row: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What rows of one table share: what was left out, and settings."""
    return tuple(row["left_out"]), tuple(row["settings"])


def merged(found: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """A document with those rows of an earlier one that it does not measure again in the same way: nothing that was
    measured is lost, and rows that were measured in one way stand together."""
    measured = {_place(row) for row in found["rows"]}
    kept = [row for row in before["rows"] if _place(row) not in measured]
    order = {row.label: number for number, row in enumerate(load_experiment(found["name"]).rows)}
    datasets = list(dict.fromkeys(row["dataset"] for row in (*before["rows"], *found["rows"])))
    rows = sorted(
        [*kept, *found["rows"]],
        key=lambda row: (
            datasets.index(row["dataset"]),
            how_measured(row),  # what is whole and has no settings of its own comes first
            order.get(row["label"], len(order)),
            row["x"] or 0,
        ),
    )
    if "points" not in found:
        return found | {"rows": rows}
    drawn = {_panel(point) for point in found["points"]}
    points = [each for each in before["points"] if _panel(each) not in drawn]
    return found | {"rows": rows, "points": [*points, *found["points"]]}


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["dataset"], row["label"], row["x"], how_measured(row)


def _panel(point: Mapping[str, Any]) -> tuple[Any, ...]:
    return point["dataset"], point["panel"], tuple(point.get("settings", ()))


def _row(cell: Cell, positions: Mapping[str, float]) -> dict[str, Any]:
    dataset, budget = cell.config.dataset, cell.budget
    place: float | None = budget
    if budget is not None and dataset in positions:
        place = positions[dataset] / budget
    return {"label": cell.row.label, "dataset": dataset, "x": place}


def compared(experiment: Experiment, cell: Cell, metric: str, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, and the paper's number.

    ``within`` says whether the difference is at most one standard deviation that the paper reports; the difference is
    rounded as it is shown, because what is reported is rounded so too.
    """
    values = [value for result in results if (value := measure(result, metric)) is not None]
    of_paper = reported_numbers().get((experiment.name, cell.config.dataset, cell.row.label, metric))
    paper = of_paper if of_paper is not None and not cell.row.beyond else Reported(float("nan"), None)
    known = paper.value == paper.value
    measured = mean(values) if values else None
    whole = cell.config.tasks is None  # the first tasks alone are easier than all of them
    difference = measured - paper.value if known and whole and measured is not None else None
    return {
        "measured": measured,
        "std": stdev(values) if len(values) > 1 else None,
        "seeds": len(values),
        "reported": paper.value if known else None,
        "reported_std": paper.std,
        "difference": difference,
        "within": None if difference is None or paper.std is None else round(abs(difference), 1) <= paper.std,
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
    lines: list[Sequence[str]] = [COLUMNS]
    for row in found["rows"]:
        how = [row.get("selection", ""), *("; ".join(row[name]) for name in ("settings", "left_out"))]
        how += [row.get("budget"), row.get("tasks")]
        for metric, numbers in row["metrics"].items():
            fields = [row["dataset"], row["label"], row["x"], metric, *(numbers.get(name) for name in NUMBERS), *how]
            lines.append([_field(each) for each in fields])
    return "".join(f"{','.join(line)}\n" for line in lines)


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return csv_field(value) if isinstance(value, str) else str(value)

"""What the paper reports, and what is to be known when it is compared with a measurement."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Reported:
    """A number of the paper; its standard deviation if there is one."""

    value: float
    std: float | None


@dataclass(frozen=True)
class Note:
    """A difference between protocols, and the rows that it touches: what is empty is not asked.

    A note ``of_paper`` is about how a reported number came about, and touches only rows that have one.
    """

    text: str
    of_paper: bool = False
    experiments: list[str] = field(default_factory=list)
    datasets: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def touches(self, experiment: str, row: Mapping[str, Any]) -> bool:
        """Whether a row of an experiment is meant."""
        asked = ((self.experiments, experiment), (self.datasets, row["dataset"]), (self.labels, row["label"]))
        if not all(not names or name in names for names, name in asked):
            return False
        reported = any(numbers["reported"] is not None for numbers in row["metrics"].values())
        return reported or not self.of_paper


@cache
def reported_numbers() -> dict[tuple[str, str, str, str], Reported]:
    """Every number of the paper by experiment, dataset, row and metric."""
    with (resources.files("delome.paper") / "reported.csv").open(encoding="utf-8") as file:
        return {
            (line["experiment"], line["dataset"], line["row"], line["metric"]): Reported(
                float(line["value"]), float(line["std"]) if line["std"] else None
            )
            for line in csv.DictReader(file)
        }


@cache
def notes() -> list[Note]:
    """Every note."""
    content = tomllib.loads((resources.files("delome.paper") / "notes.toml").read_text(encoding="utf-8"))
    return [Note(**each) for each in content["note"]]

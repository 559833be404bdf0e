from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from delome.experiment.collection import Record
from delome.metrics import AccuracyMatrix

ROWS = [[90.0], [80.0, 70.0], [60.0, 65.0, 95.0]]


@pytest.fixture
def record() -> Callable[..., Record]:
    """Makes the record of a seed: by default of DeLoMe with budget 5 and a hand-computed matrix of three tasks."""

    def make(method: str = "delome", seed: int = 0, rows: list[list[float]] = ROWS, **changes: Any) -> Record:
        config = {"dataset": "digits", "setting": "cil", "method": method, "backbone": "sgc", "memory.budget": 5}
        config |= changes.pop("config", {})
        matrix = AccuracyMatrix(rows)
        metrics = matrix.summary() | {"validation_aa": matrix.aa, "seconds": 2.0, "bytes": 1000.0}
        metrics |= changes.pop("metrics", {})
        protocol = {"tasks": 3, "split": "random 0"} | changes.pop("protocol", {})
        run = f"{method} {config} {protocol}"
        made: dict[str, Any] = {"folder": "runs/x", "run": run, "seed": seed, "tasks": 3, "finished": True}
        made |= {"config": config, "protocol": protocol, "metrics": metrics, "curve": matrix.curve, "matrix": rows}
        return Record(**made | changes)

    return make

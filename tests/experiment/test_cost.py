from __future__ import annotations

from typing import Any

import pytest

from delome.experiment import RunConfig
from delome.experiment.cost import FLOPS, OVERHEAD, expected_seconds

SMALL = "synthetic:nodes=120,classes=6,features=10"


def seconds(method: str, **options: Any) -> float:
    config = RunConfig.resolve(SMALL, method, **options)
    return expected_seconds(config, config.stream())


def test_the_cost_is_that_of_the_products_of_each_step() -> None:
    config = RunConfig.resolve(SMALL, "finetune", epochs=7, assignments=["hidden=4"])
    stream = config.stream()
    rows = sum(len(task.train) for task in stream)
    assert expected_seconds(config, stream) == pytest.approx(7 * (6 * rows * 10 * 4 / FLOPS + 3 * OVERHEAD))


def test_replayed_rows_and_past_tasks_cost_too() -> None:
    assert seconds("finetune") < seconds("delome", budget=5) < seconds("delome", budget=500)
    assert seconds("finetune") < seconds("joint")
    assert seconds("finetune", tasks=1) < seconds("finetune")

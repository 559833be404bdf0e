from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph, TaskStream
from delome.experiment import RunConfig
from delome.experiment.cost import FLOPS, OVERHEAD, expected_seconds
from delome.graph.sparse import SPARSE_BELOW

SMALL = "synthetic:nodes=120,classes=6,features=10"


def seconds(method: str, **options: Any) -> float:
    config = RunConfig.resolve(SMALL, method, **options)
    return expected_seconds(config, config.stream())


def test_the_cost_is_that_of_the_products_of_each_step() -> None:
    config = RunConfig.resolve(SMALL, "finetune", epochs=7, assignments=["hidden=4"])
    stream = config.stream()
    rows = sum(len(task.train) for task in stream)
    assert expected_seconds(config, stream) == pytest.approx(7 * (4 * rows * 10 * 4 / FLOPS + 3 * OVERHEAD))


def test_replayed_rows_and_past_tasks_cost_too() -> None:
    assert seconds("finetune") < seconds("delome", budget=5) < seconds("delome", budget=500)
    assert seconds("finetune") < seconds("joint")
    assert seconds("finetune", tasks=1) < seconds("finetune")


def test_drawn_rows_and_random_columns_cost_less() -> None:
    config = RunConfig.resolve(
        SMALL, "delome", epochs=7, assignments=["hidden=4", "batch_size=9", "replayed=3", "columns=6"]
    )
    stream = config.stream()
    rows = len(stream) * 9 + (len(stream) - 1) * 3
    assert expected_seconds(config, stream) == pytest.approx(7 * (4 * rows * 6 * 4 / FLOPS + 3 * OVERHEAD))


def test_every_batch_of_a_pass_is_a_step() -> None:
    config = RunConfig.resolve(SMALL, "finetune", epochs=7, assignments=["hidden=4", "batch_size=9", "passes=true"])
    stream = config.stream()
    rows = [len(task.train) for task in stream]
    steps = sum(-(-own // 9) for own in rows)
    assert steps > len(stream)
    assert expected_seconds(config, stream) == pytest.approx(7 * (4 * sum(rows) * 10 * 4 / FLOPS + steps * OVERHEAD))
    assert seconds("hpns", setting="til", assignments=["batch_size=5"]) > seconds("hpns", setting="til")


def test_stored_nodes_of_each_earlier_task_are_a_step() -> None:
    config = RunConfig.resolve(SMALL, "gem", epochs=7, assignments=["hidden=4", "stored=5"])
    stream = config.stream()
    assert len(stream) == 3
    rows, steps = sum(len(task.train) for task in stream) + (1 + 2) * 5, 3 + (1 + 2)
    assert expected_seconds(config, stream) == pytest.approx(7 * (4 * rows * 10 * 4 / FLOPS + steps * OVERHEAD))


def test_sparse_rows_cost_what_their_words_do() -> None:
    # a ring: two neighbours each, so about (1 + 2)² = 9 nodes in two steps, with 3 words each
    nodes = np.arange(60)
    words = sp.csr_array((np.ones(180, np.float32), (np.repeat(nodes, 3), np.arange(180) % 5000)), shape=(60, 5000))
    stream = TaskStream(Graph(np.stack([nodes, (nodes + 1) % 60]), words, nodes % 4))
    config = RunConfig.resolve(SMALL, "finetune", epochs=7, assignments=["hidden=4"])
    rows = sum(len(task.train) for task in stream)
    degree = stream[0].graph.num_edges / stream[0].graph.num_nodes
    columns = 3 * (1 + degree) ** 2 / SPARSE_BELOW
    assert columns < 5000
    expected = 7 * (4 * rows * columns * 4 / FLOPS + 2 * OVERHEAD)
    assert expected_seconds(config, stream) == pytest.approx(expected)

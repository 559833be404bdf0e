"""A stream of one's own, in which classes come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delome import FineTune, Graph, Learner, Replay, Task, load
from delome.errors import PastDataError, RunFolderError, StateError
from delome.experiment import RunConfig, RunFolder, run
from delome.learning import METHODS
from delome.parameters import has_parameter
from delome.progress import Tracker

DAYS = ((0, 1), (2, 0), (3, 2))
"""Class 0 comes back on the second day, and class 2 on the third."""
SMALL = {"epochs": 60, "hidden": 16, "budget": 6, "features": 64, "lr": 0.02}


class Days:
    """Shows other nodes of a class each day that it comes; nothing but what every stream must have."""

    def __init__(self, graph: Graph, days: Sequence[tuple[int, ...]] = DAYS) -> None:
        assert graph.labels is not None
        self.dropped: dict[Any, str] = {}
        self._graph, self._days, self._tasks = graph, days, list[Task]()
        before: tuple[int | str, ...] = ()
        for index, labels in enumerate(days):
            of_day = np.arange(graph.num_nodes) % len(days) == index
            nodes = np.flatnonzero(np.isin(graph.labels, labels) & of_day)
            self._tasks.append(
                Task(
                    index=index,
                    class_labels=labels,
                    labels_before=before,
                    num_classes=len({label for day in days for label in day}),
                    nodes=nodes,
                    train=np.arange(0, len(nodes), 2),
                    val=np.arange(1, len(nodes), 4),
                    test=np.arange(3, len(nodes), 4),
                    source=partial(graph.subgraph, nodes),
                    earlier=partial(self._before, index),
                )
            )
            before = self._tasks[-1].known_labels

    def _before(self, index: int) -> list[Task]:
        return self._tasks[:index]

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    def seen(self, task: Task) -> list[Task]:
        return self._tasks[: task.index + 1]

    def describe(self) -> dict[str, Any]:
        graph = {"sha256": self._graph.fingerprint(), "nodes": self._graph.num_nodes}
        return {"graph": graph, "split": {"kind": "every second node"}, "days": [list(day) for day in self._days]}


@pytest.fixture
def days(toy_graph: Graph) -> Days:
    return Days(toy_graph)


def make(name: str, **options: Any) -> Learner:
    plain = METHODS[name](**options)
    return METHODS[name](**options, **{key: value for key, value in SMALL.items() if has_parameter(plain, key)})


def after(learner: Learner, stream: Days) -> Learner:
    for task in stream:
        learner.observe(task)
    return learner


def test_a_class_that_comes_back_keeps_its_column(days: Days) -> None:
    assert [task.classes for task in days] == [(0, 1), (2, 0), (3, 2)]
    assert [task.known_labels for task in days] == [(0, 1), (0, 1, 2), (0, 1, 2, 3)]
    for task in days:
        observation = task.observation()
        assert observation.classes == task.classes
        assert task.graph.labels is not None
        assert np.array_equal(observation.labels, task.graph.labels[task.train]), "labels are columns here"


def test_columns_follow_the_order_in_which_labels_first_come(toy_graph: Graph) -> None:
    first, second = Days(toy_graph, [(5, 2), (2, 4)])
    assert (first.classes, second.classes) == ((0, 1), (1, 2))
    assert second.graph.labels is not None
    expected = np.where(second.graph.labels[second.train] == 2, 1, 2)
    assert np.array_equal(second.observation().labels, expected)


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("name", ["finetune", "delome", "analytic", "ewc", "lwf", "joint"])
def test_methods_learn_it(days: Days, name: str, setting: str) -> None:
    learner = after(make(name, setting=setting), days)
    assert learner.classes == [0, 1, 2, 3]
    assert learner.columns.tasks == [(0, 1), (2, 0), (3, 2)]
    assert learner.evaluate(days)[-1] > 90


@pytest.mark.parametrize("name", ["delome", "analytic", "joint"])
def test_methods_that_remember_know_every_class_in_the_end(days: Days, name: str) -> None:
    assert np.mean(after(make(name), days).evaluate(days)) > 90
    assert after(make("finetune"), days).evaluate(days)[0] < 60, "it is not that easy"


def test_nodes_of_all_days_make_up_the_memory_of_a_class(days: Days) -> None:
    appended, merged = (after(make("delome", recurring=how), days) for how in ("append", "merge"))
    assert isinstance(appended, Replay) and isinstance(merged, Replay)
    assert [np.bincount(memory.labels, minlength=4).tolist() for memory in appended.bank.memories] == [
        [6, 6, 0, 0], [6, 0, 6, 0], [0, 0, 6, 6],
    ]  # fmt: skip
    assert [np.bincount(memory.labels, minlength=4).tolist() for memory in merged.bank.memories] == [
        [0, 6, 0, 0], [6, 0, 0, 0], [0, 0, 6, 6],
    ]  # fmt: skip
    trained = np.zeros(4, dtype=np.int64)
    for task in days:
        assert task.graph.labels is not None
        trained += np.bincount(task.graph.labels[task.train], minlength=4)
    counts = {column: count for memory in merged.bank.memories for column, count in memory.stands_for.items()}
    assert [counts[column] for column in range(4)] == trained.tolist()


def test_a_learner_that_declared_it_reads_earlier_days_and_no_other_does(days: Days) -> None:
    *_, last = days
    with_past = last.observation(with_past=True).past()
    assert [each.classes for each in with_past] == [(0, 1), (2, 0)]
    with pytest.raises(PastDataError):
        last.observation().past()
    assert after(make("joint"), days).storage().rows == sum(len(task.nodes) for task in days)


def test_days_cannot_be_left_out_or_follow_other_classes(days: Days, toy_graph: Graph) -> None:
    learner = FineTune(epochs=1, hidden=4)
    first, second, third = days
    learner.observe(first)
    with pytest.raises(StateError, match="task 2 cannot follow 1 learned tasks"):
        learner.observe(third)
    _, other = Days(toy_graph, [(1, 0), (2, 0)])
    with pytest.raises(StateError, match="its stream has had other classes before it"):
        learner.observe(other)
    learner.observe(second)
    assert learner.classes == [0, 1, 2]


class Power:
    """Fails when the task of a number is begun."""

    def __init__(self, until: int) -> None:
        self.until = until
        self.begun: list[int] = []

    def tracker(self, seed: int, task: int, tasks: int) -> Tracker:
        assert tasks == len(DAYS)
        if task == self.until:
            raise KeyboardInterrupt
        self.begun.append(task)
        return Tracker()


@pytest.mark.parametrize("name", ["finetune", "delome", "analytic", "ewc", "lwf"])
def test_it_can_be_run_interrupted_and_resumed(toy_graph: Graph, tmp_path: Path, name: str) -> None:
    config = RunConfig.resolve(
        "digits", name, epochs=5, budget=3, assignments=["features=64"] if name == "analytic" else []
    )
    assert run(config, Days(toy_graph)).stream == Days(toy_graph).describe()
    with RunFolder.open(tmp_path / "whole", config, Days(toy_graph)) as folder:
        whole = run(config, Days(toy_graph), folder)
    assert [len(row) for row in whole.seeds[0].matrix.rows] == [1, 2, 3]

    power = Power(until=2)
    with pytest.raises(KeyboardInterrupt), RunFolder.open(tmp_path / "run", config, Days(toy_graph)) as folder:
        run(config, Days(toy_graph), folder, power.tracker)
    again = Power(until=-1)
    with RunFolder.open(tmp_path / "run", config, Days(toy_graph)) as folder:
        resumed = run(config, Days(toy_graph), folder, again.tracker)
    assert (power.begun, again.begun) == ([0, 1], [2])
    assert resumed.seeds[0].matrix == whole.seeds[0].matrix
    models = [load(tmp_path / run / "seed-0" / "model") for run in ("whole", "run")]
    assert models[0].classes == [0, 1, 2, 3]
    assert np.array_equal(models[0].scores(toy_graph), models[1].scores(toy_graph))


def test_another_stream_does_not_continue_the_run(toy_graph: Graph, tmp_path: Path) -> None:
    config = RunConfig.resolve("digits", "finetune", epochs=1)
    with RunFolder.open(tmp_path / "run", config, Days(toy_graph)) as folder:
        run(config, Days(toy_graph), folder)
    with pytest.raises(RunFolderError):
        RunFolder.open(tmp_path / "run", config, Days(toy_graph, [(0, 1), (2, 0), (3, 1)]))
    with (
        RunFolder.open(tmp_path / "run", config, Days(toy_graph)) as folder,
        pytest.raises(RunFolderError, match="was opened for another run"),
    ):
        run(replace(config, seeds=[1]), Days(toy_graph), folder)

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from delome.errors import PersistenceError
from delome.experiment.checkpoints import TaskCheckpoints
from delome.experiment.signals import Stop, Stopped
from delome.persistence.state import State

OF = {"run": "abc", "seed": 0}


@pytest.fixture
def checkpoints(tmp_path: Path) -> Callable[..., TaskCheckpoints]:
    """Opens the checkpoints in a folder, by default those of the third task, written after every step."""

    def open_them(task: int = 2, every: float = 0, **options: Any) -> TaskCheckpoints:
        given: dict[str, Any] = {"of": OF, "stop": Stop(), "check": lambda: None, "written": lambda *_: None}
        return TaskCheckpoints(tmp_path / "progress", task=task, every=every, **given | options)

    return open_them


def state(number: float) -> State:
    return State({"weights": torch.full((2,), number)}, {"number": number})


def reach(checkpoints: TaskCheckpoints, phase: str, done: int, total: int = 5) -> None:
    checkpoints.reached(phase, done, total, seconds=done / 10, save=lambda: state(done))


def test_what_was_reached_is_found_by_the_next_process(checkpoints: Callable[..., TaskCheckpoints]) -> None:
    first = checkpoints()
    reach(first, "memory", 5)
    reach(first, "train", 3)
    found = checkpoints()
    memory, train = found.found("memory"), found.found("train")
    assert memory is not None and train is not None
    assert (memory.done, train.done, train.seconds) == (5, 3, 0.3)
    assert train.state.values == {"number": 3} and train.state.tensors["weights"].tolist() == [3, 3]
    assert memory.state.tensors["weights"].tolist() == [5, 5]
    assert found.found("evaluate") is None


def test_the_position_is_the_last_phase_in_words(checkpoints: Callable[..., TaskCheckpoints]) -> None:
    now = checkpoints()
    assert now.position == ""
    reach(now, "memory", 4)
    assert now.position == checkpoints().position == "memory step 4"
    reach(now, "train", 2)
    assert now.position == checkpoints().position == "epoch 2"


def test_nothing_is_written_or_even_made_before_it_is_due(
    checkpoints: Callable[..., TaskCheckpoints], tmp_path: Path
) -> None:
    made, written = [], []

    def make(done: int) -> State:
        made.append(done)
        return state(done)

    patient = checkpoints(every=1e9, written=lambda *step: written.append(step))
    for done in range(1, 6):
        patient.reached("train", done, 5, 0.0, partial(make, done))
    assert made == [5]  # the end of a phase: a later checkpoint holds it
    assert written == [] and not (tmp_path / "progress").exists()
    eager = checkpoints(written=lambda *step: written.append(step))
    reach(eager, "train", 1)
    assert written == [("train", 1)]


def test_one_that_is_asked_to_stop_writes_and_ends(checkpoints: Callable[..., TaskCheckpoints]) -> None:
    stop = Stop()
    patient = checkpoints(every=1e9, stop=stop)
    reach(patient, "train", 1)
    stop.signal_number = 15
    with pytest.raises(Stopped):
        reach(patient, "train", 2)
    found = checkpoints().found("train")
    assert found is not None and found.done == 2


def test_nothing_is_written_into_a_folder_that_was_lost(
    checkpoints: Callable[..., TaskCheckpoints], tmp_path: Path
) -> None:
    def refuse() -> None:
        raise PersistenceError("moved away")

    with pytest.raises(PersistenceError, match="moved away"):
        reach(checkpoints(check=refuse), "train", 1)
    assert not (tmp_path / "progress").exists()


def test_checkpoints_of_an_earlier_task_are_not_of_this_one(checkpoints: Callable[..., TaskCheckpoints]) -> None:
    reach(checkpoints(task=1), "train", 3)
    assert checkpoints(task=2).phases == {}


@pytest.mark.parametrize("of", [{"run": "other", "seed": 0}, {"run": "abc", "seed": 1}])
def test_checkpoints_of_another_run_or_seed_are_refused(
    of: dict[str, Any], checkpoints: Callable[..., TaskCheckpoints]
) -> None:
    reach(checkpoints(of=of), "train", 3)
    with pytest.raises(PersistenceError, match=r"belongs to another run or seed; delete '.+' to resume from the last"):
        checkpoints()


def test_damage_is_refused_with_what_to_do(checkpoints: Callable[..., TaskCheckpoints], tmp_path: Path) -> None:
    reach(checkpoints(), "train", 3)
    manifest = tmp_path / "progress" / "manifest.json"
    document = json.loads(manifest.read_text())
    for text in ("", "[]", json.dumps(document | {"task": 7})):
        manifest.write_text(text)
        with pytest.raises(PersistenceError, match=r"delete '.+' to resume from the last finished task"):
            checkpoints()

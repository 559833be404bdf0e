from __future__ import annotations

from collections.abc import Callable

import pytest

from delome.errors import StateError
from delome.state import State
from delome.tracking import Reached, Tracker


class Recorder(Tracker):
    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[str, int, int]] = []

    def show(self, phase: str, done: int, total: int) -> None:
        self.shown.append((phase, done, total))


def test_a_phase_is_shown_at_its_start_and_after_every_step() -> None:
    recorder = Recorder()
    with recorder.phase("train", total=2) as step:
        step()
        step()
    assert recorder.shown == [("train", 0, 2), ("train", 1, 2), ("train", 2, 2)]


def test_phases_are_listed_in_the_order_they_began() -> None:
    tracker = Tracker()
    for name in ("prepare", "train", "prepare"):
        with tracker.phase(name):
            pass
    assert list(tracker.seconds) == ["prepare", "train"]


def test_seconds_of_a_repeated_phase_add_up() -> None:
    tracker = Tracker()
    with tracker.phase("train"):
        pass
    once = tracker.seconds["train"]
    tracker.seconds["train"] += 1000
    with tracker.phase("train"):
        pass
    assert once >= 0
    assert tracker.seconds["train"] >= 1000 + once


def test_a_failed_phase_is_still_counted() -> None:
    tracker = Tracker()
    with pytest.raises(RuntimeError, match="in the middle"), tracker.phase("train"):
        raise RuntimeError("in the middle")
    assert list(tracker.seconds) == ["train"]


def test_seconds_of_an_inner_phase_do_not_count_for_the_outer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 4.0, 10.0])
    monkeypatch.setattr("delome.tracking.time.perf_counter", lambda: next(clock))
    tracker = Tracker()
    with tracker.phase("train"), tracker.phase("checkpoint"):
        pass
    assert tracker.seconds == {"checkpoint": 3.0, "train": 7.0}


class Notebook:
    """A journal that keeps everything."""

    def __init__(self, earlier: dict[str, Reached] | None = None) -> None:
        self.earlier = earlier or {}
        self.entries: list[tuple[str, int, int, State]] = []

    def found(self, phase: str) -> Reached | None:
        return self.earlier.get(phase)

    def reached(self, phase: str, done: int, total: int, seconds: float, save: Callable[[], State]) -> None:
        assert seconds >= 0
        self.entries.append((phase, done, total, save()))


def counting(tracker: Tracker, total: int) -> list[int]:
    """Adds up the numbers of the steps and notes the sum after each."""
    sums = [0]

    def load(state: State) -> None:
        sums[:] = [state.values["sum"]]

    for number in tracker.steps("add", total, lambda: State(values={"sum": sums[-1]}), load):
        sums.append(sums[-1] + number)
    return sums


def test_a_journal_is_told_of_every_step() -> None:
    notebook = Notebook()
    assert counting(Tracker(notebook), 4) == [0, 0, 1, 3, 6]
    assert [(phase, done, total) for phase, done, total, _ in notebook.entries] == [
        ("add", 1, 4), ("add", 2, 4), ("add", 3, 4), ("add", 4, 4),
    ]  # fmt: skip
    assert [state.values["sum"] for *_, state in notebook.entries] == [0, 1, 3, 6]


@pytest.mark.parametrize("done", [1, 2, 3, 4])
def test_steps_of_an_earlier_life_are_loaded_and_left_out(done: int) -> None:
    first = Notebook()
    counting(Tracker(first), 4)
    second = Notebook({"add": Reached(done, 100.0, first.entries[done - 1][3])})
    tracker = Tracker(second)
    assert counting(tracker, 4)[-1] == 6
    assert len(second.entries) == 4 - done
    assert 100 <= tracker.seconds["add"] < 101


def test_more_steps_than_there_are_cannot_have_been_done() -> None:
    with pytest.raises(StateError, match="5 steps of add are said to be done, but there are only 4"):
        counting(Tracker(Notebook({"add": Reached(5, 0.0, State(values={"sum": 1}))})), 4)


def test_what_cannot_be_taken_back_is_told_in_a_sentence() -> None:
    class Left:
        def found(self, phase: str) -> Reached:
            return Reached(1, 0.0, State(values={"drawn": "nonsense"}))

        def reached(self, *_: object) -> None:
            pytest.fail("a step was done")

    def load(state: State) -> None:
        int(state.value("drawn"))

    with pytest.raises(StateError) as error:
        list(Tracker(Left()).steps("memory", 3, State, load))
    assert str(error.value) == "what was reached in phase 'memory' does not fit the learner (ValueError)"

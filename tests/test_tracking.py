from __future__ import annotations

import pytest

from delome.tracking import Tracker


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

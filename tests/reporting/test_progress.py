from __future__ import annotations

import io

import pytest
from rich.console import Console

from delome.reporting.progress import RunProgress


@pytest.fixture
def progress() -> RunProgress:
    return RunProgress(Console(file=io.StringIO(), force_terminal=True), shown=True)


def bars(progress: RunProgress) -> list[tuple[str, float, float | None]]:
    """Description, steps done and steps in all of each bar that is visible."""
    return [(task.description.strip(), task.completed, task.total) for task in progress.bars.tasks if task.visible]


def test_one_bar_counts_the_tasks_of_all_seeds_and_one_the_steps_of_a_phase(progress: RunProgress) -> None:
    assert bars(progress) == [("loading the graph", 0, None)]
    with progress.watching([4, 5]):
        tracker = progress.tracker(4, 0, 3)
        assert bars(progress) == [("seed 4, task 0", 0, 6)]
        with tracker.phase("train", total=2) as step:
            assert bars(progress)[1] == ("train", 0, 2)
            step()
            assert bars(progress)[1] == ("train", 1, 2)
        progress.tracker(5, 1, 3)
        assert bars(progress) == [("seed 5, task 1", 4, 6)]
        progress.single("drawing figures")
        assert bars(progress) == [("drawing figures", 6, 6)]
    assert progress.tasks == 2


def test_loading_counts_megabytes_of_an_unknown_or_a_known_number(progress: RunProgress) -> None:
    with progress.watching():
        progress.loading("downloading", 2_500_000, None)
        assert bars(progress)[1] == ("downloading (MB)", 2, None)
        progress.loading("downloading", 3_000_000, 9_000_000)
        assert bars(progress)[1] == ("downloading (MB)", 3, 9)
        progress.loading("downloading", 10, 20)
        assert bars(progress)[1] == ("downloading (MB)", 0, 1)


class Closed(io.StringIO):
    """A terminal that can be closed while bars are shown in it."""

    gone = False

    def write(self, text: str) -> int:
        if self.gone:
            raise OSError(5, "Input/output error")
        return super().write(text)


def test_a_closed_terminal_does_not_hide_why_a_command_ends() -> None:
    screen = Closed()
    progress = RunProgress(Console(file=screen, force_terminal=True), shown=True)
    progress.bars.live.auto_refresh = False  # by a thread, whose failure would be another
    with pytest.raises(KeyboardInterrupt), progress.watching([0]):
        screen.gone = True
        raise KeyboardInterrupt


def test_nothing_is_written_where_nothing_is_to_be_shown() -> None:
    screen = io.StringIO()
    silent = RunProgress(Console(file=screen, force_terminal=True), shown=False)
    with silent.watching([0]), silent.tracker(0, 0, 1).phase("train") as step:
        step()
    assert screen.getvalue() == ""
    assert silent.tasks == 1

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from delome.experiment import RunConfig
from delome.experiment.sweep import Sweep
from delome.experiment.worker import Job
from delome.reporting.progress import RunProgress, SweepProgress


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


def test_a_sweep_shows_the_task_of_each_run_and_how_long_it_takes_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig.resolve("synthetic:nodes=60,classes=4", "finetune")
    begun, new = jobs = [Job(tmp_path / name, 0, config) for name in ("begun", "new")]
    sweep = Sweep(jobs, dict.fromkeys(jobs, 4), seen=dict.fromkeys(jobs, 0.0), start=0.0)
    monkeypatch.setattr("delome.experiment.sweep.time.monotonic", lambda: 3000.0)
    for job, tasks in ((begun, 1), (new, 0)):
        (job.folder / "seed-0").mkdir(parents=True)
        (job.folder / "seed-0" / ".lock").touch()
        (job.folder / "seed-0" / "tasks.jsonl").write_text("{}\n" * tasks)
    screen = io.StringIO()
    console = Console(file=screen, width=120)
    shown = SweepProgress(console, shown=True)
    shown.show(sweep)
    console.print(shown.live.get_renderable())
    text = " ".join(screen.getvalue().split())
    assert "0 of 2 runs done, 2 running, 0 failed, about 5:50:00 left" in text
    assert "task 1 (2 of 4) about 2:30:00 left new, seed 0" in text
    assert text.endswith("task 0 (1 of 4) about 5:50:00 left")


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

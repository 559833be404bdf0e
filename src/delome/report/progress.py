"""Live progress of a command in a terminal: which task, which phase, how long still."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from delome.experiment.results import SeedResult
from delome.tracking import Tracker


class RunProgress:
    """Two bars: tasks of all seeds, and steps of the current phase."""

    def __init__(self, seeds: Sequence[int], console: Console, shown: bool) -> None:
        self.seeds = seeds
        self.tasks = 0
        self.bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not shown,
            transient=True,
            redirect_stdout=False,  # else results would be printed on stderr
        )
        self.overall = self.bars.add_task("loading the graph", total=None)
        self.phase = self.bars.add_task("", total=None, visible=False)

    def __enter__(self) -> RunProgress:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # the terminal is gone
            self.bars.stop()

    def loading(self, activity: str, done: int, total: int | None) -> None:
        """Shows how far a graph is loaded, in megabytes."""
        megabytes = None if total is None else max(total // 10**6, 1)
        self.bars.update(
            self.phase, description=f"  {activity} (MB)", completed=done // 10**6, total=megabytes, visible=True
        )

    def single(self, activity: str) -> Tracker:
        """Tracker of the one thing that is done now; all tasks before it are done."""
        self.bars.update(self.overall, description=activity, completed=self.bars.tasks[self.overall].total)
        self.bars.update(self.phase, visible=False)
        return _ShownTracker(self)

    def tracker(self, seed: SeedResult, task: int, tasks: int) -> Tracker:
        """Tracker that shows one task."""
        tracker = self.single(f"seed {seed.seed}, task {task + 1}")
        done = tasks * self.seeds.index(seed.seed) + task
        self.bars.update(self.overall, completed=done, total=tasks * len(self.seeds))
        self.tasks += 1
        return tracker


class _ShownTracker(Tracker):
    def __init__(self, shown: RunProgress) -> None:
        super().__init__()
        self.shown = shown

    def show(self, phase: str, done: int, total: int) -> None:
        self.shown.bars.update(self.shown.phase, description=f"  {phase}", completed=done, total=total, visible=True)

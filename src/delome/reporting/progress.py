"""Live progress of a command in a terminal: which run, which task, which phase, how long still."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from delome.experiment.sweep import Sweep, name_of
from delome.progress import Tracker, Watcher
from delome.reporting.terminal import literal


class RunProgress(Watcher):
    """Two bars: tasks of all seeds, and steps of the current phase."""

    def __init__(self, console: Console, shown: bool) -> None:
        super().__init__()
        self.seeds: Sequence[int] = ()
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

    @contextmanager
    def watching(self, seeds: Sequence[int] = ()) -> Iterator[None]:
        self.seeds = seeds
        self.bars.start()
        try:
            yield
        finally:
            with suppress(OSError):  # a terminal that was closed need not be tidied up
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

    def tracker(self, seed: int, task: int, tasks: int) -> Tracker:
        """Tracker that shows one task."""
        tracker = super().tracker(seed, task, tasks)
        done = tasks * self.seeds.index(seed) + task
        self.bars.update(self.overall, completed=done, total=tasks * len(self.seeds), refresh=True)
        return tracker


class _ShownTracker(Tracker):
    def __init__(self, shown: RunProgress) -> None:
        super().__init__()
        self.shown = shown

    def show(self, phase: str, done: int, total: int) -> None:
        self.shown.bars.update(self.shown.phase, description=f"  {phase}", completed=done, total=total, visible=True)


class SweepProgress:
    """How far the runs of a plan are: what is done, what runs, at which task and how long still, what failed."""

    def __init__(self, console: Console, shown: bool) -> None:
        self.live = Live(console=console, transient=True, refresh_per_second=2)
        self.shown = shown

    def loading(self, activity: str, done: int, total: int | None) -> None:
        """Shows that a graph is loaded."""
        if self.shown:
            self.live.update(Text(f"{activity}: {done // 10**6} MB"))

    def show(self, sweep: Sweep) -> None:
        """Shows how far it is."""
        if not self.shown:
            return
        running, remaining = sweep.running, sweep.remaining
        left = "" if remaining is None else f", {_left(remaining)}"
        of_each = sweep.remaining_of(running)
        counts = f"{len(sweep.done)} of {len(sweep.jobs)} runs done, {len(running)} running, {len(sweep.failed)} failed"
        lines = Table.grid(padding=(0, 2))
        for job, tasks in running.items():
            bar = ProgressBar(sweep.tasks[job], tasks, width=20)
            number = min(tasks, sweep.tasks[job] - 1)
            task = f"task {number} ({number + 1} of {sweep.tasks[job]})"
            lines.add_row(literal(name_of(job)), bar, task, _left(of_each[job]))
        stopping = ["stopping: every run finishes its step and writes a checkpoint"] if sweep.stopped else []
        self.live.update(Group(f"{counts}{left}", lines, *stopping))


def _left(seconds: float | None) -> str:
    """How long it takes still, if that is known."""
    return "" if seconds is None else f"about {timedelta(seconds=round(seconds))} left"

"""Runs: what to run, running it, and the folder that holds the results."""

from typing import TYPE_CHECKING

from delome.lazy import exported

if TYPE_CHECKING:
    from delome.experiment.config import RunConfig
    from delome.experiment.folder import RunFolder
    from delome.experiment.results import RunResult, SeedResult, TaskResult
    from delome.experiment.runner import run
    from delome.experiment.signals import Stop, Stopped
else:
    __getattr__, __dir__ = exported(
        __name__,
        {
            "delome.experiment.config": "RunConfig",
            "delome.experiment.folder": "RunFolder",
            "delome.experiment.results": "RunResult SeedResult TaskResult",
            "delome.experiment.runner": "run",
            "delome.experiment.signals": "Stop Stopped",
        },
    )

__all__ = ["RunConfig", "RunFolder", "RunResult", "SeedResult", "Stop", "Stopped", "TaskResult", "run"]

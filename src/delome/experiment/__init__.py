"""Runs: what to run, running it, and the folder that holds the results."""

from delome.experiment.config import RunConfig
from delome.experiment.folder import RunFolder
from delome.experiment.results import RunResult, SeedResult, TaskResult
from delome.experiment.runner import run
from delome.experiment.signals import Stop, Stopped

__all__ = ["RunConfig", "RunFolder", "RunResult", "SeedResult", "Stop", "Stopped", "TaskResult", "run"]

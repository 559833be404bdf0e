"""Runs: what to run, running it, and the folder that holds the results."""

from delome.experiment.config import RunConfig
from delome.experiment.folder import RunFolder
from delome.experiment.runner import RunResult, SeedResult, run

__all__ = ["RunConfig", "RunFolder", "RunResult", "SeedResult", "run"]

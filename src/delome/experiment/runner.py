"""Runs a configuration: every seed through the stream, evaluated after every task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import mean, stdev
from typing import Any

from delome.experiment.config import RunConfig, versions
from delome.experiment.folder import RunFolder
from delome.metrics import AccuracyMatrix
from delome.state import Storage
from delome.stream import TaskStream
from delome.tracking import Tracker


@dataclass
class SeedResult:
    """What one pass through the stream gave."""

    seed: int
    matrix: AccuracyMatrix = field(default_factory=AccuracyMatrix)
    micro: AccuracyMatrix = field(default_factory=AccuracyMatrix)
    seconds: dict[str, float] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    reports: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "aa": self.matrix.aa,
            "af": self.matrix.af,
            "micro_aa": self.micro.aa,
            "micro_af": self.micro.af,
            "curve": self.matrix.curve,
            "matrix": self.matrix.rows,
            "micro_matrix": self.micro.rows,
            "seconds": self.seconds,
            "memory": asdict(self.storage),
            "reports": self.reports,
        }


@dataclass
class RunResult:
    """All seeds of a run."""

    config: RunConfig
    seeds: list[SeedResult]
    dropped: dict[int, str]

    @property
    def aa(self) -> tuple[float, float]:
        """Mean and standard deviation over seeds."""
        return _spread([seed.matrix.aa for seed in self.seeds])

    @property
    def af(self) -> tuple[float, float] | None:
        """Mean and standard deviation over seeds; none for a stream of one task."""
        forgetting = [seed.matrix.af for seed in self.seeds if seed.matrix.af is not None]
        return _spread(forgetting) if forgetting else None

    @property
    def curve(self) -> list[float]:
        return [mean(values) for values in zip(*(seed.matrix.curve for seed in self.seeds), strict=True)]

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each phase, all seeds together."""
        phases = {phase for seed in self.seeds for phase in seed.seconds}
        return {phase: sum(seed.seconds.get(phase, 0.0) for seed in self.seeds) for phase in sorted(phases)}

    @property
    def reports(self) -> dict[str, float]:
        """Means over classes, tasks and seeds of what the learner reported, e.g. the relative loss of its memory."""
        found: dict[str, list[float]] = {}
        for seed in self.seeds:
            for report in seed.reports:
                for name, values in report.items():
                    found.setdefault(name, []).extend(values)
        return {name: mean(values) for name, values in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of a run."""
        parameters = self.config.parameters
        af = self.af
        return {
            "dataset": self.config.dataset,
            "method": self.config.method,
            "setting": parameters["setting"],
            "backbone": parameters.get("backbone"),
            "budget": parameters.get("budget"),
            "seeds": self.config.seeds,
            "aa": self.aa[0],
            "aa_std": self.aa[1],
            "af": None if af is None else af[0],
            "af_std": None if af is None else af[1],
            "micro_aa": mean(seed.micro.aa for seed in self.seeds),
            "matrices": [seed.matrix.rows for seed in self.seeds],
            "curve": self.curve,
            "seconds": self.seconds,
            "memory": asdict(self.seeds[-1].storage),
            "reports": self.reports,
            "protocol": self.config.protocol | {"dropped_classes": {str(k): why for k, why in self.dropped.items()}},
            "parameters": parameters,
            "versions": versions(),
        }


def run(
    config: RunConfig,
    stream: TaskStream,
    folder: RunFolder | None = None,
    make_tracker: Callable[[SeedResult, int, int], Tracker] = lambda *_: Tracker(),
) -> RunResult:
    """Runs every seed; results go to ``folder`` as they come. ``make_tracker`` gets seed, task and number of tasks."""
    results = []
    for seed in config.seeds:
        result = SeedResult(seed)
        learner = config.learner(seed)
        for task in stream:
            tracker = make_tracker(result, task.index, len(stream))
            learner.observe(task, tracker)
            with tracker.phase("evaluate"):
                scores = learner.score(stream.seen(task))
            result.matrix.append([score.balanced for score in scores])
            result.micro.append([score.micro for score in scores])
            for phase, seconds in tracker.seconds.items():
                result.seconds[phase] = result.seconds.get(phase, 0.0) + seconds
            result.reports.append(learner.report())
        result.storage = learner.storage()
        results.append(result)
        if folder is not None:
            folder.write_json(f"seed-{seed}/result.json", result.as_dict())
            folder.write_text(f"seed-{seed}/matrix.csv", _csv(result.matrix))
    return RunResult(config, results, stream.dropped)


def _spread(values: list[float]) -> tuple[float, float]:
    return mean(values), stdev(values) if len(values) > 1 else 0.0


def _csv(matrix: AccuracyMatrix) -> str:
    """One line a task learned, one column a task evaluated; empty where a task was not yet seen."""
    tasks = len(matrix.rows)
    lines = [",".join(["after_task", *(f"task_{j}" for j in range(tasks))])]
    for t, row in enumerate(matrix.rows):
        lines.append(",".join([str(t), *(f"{value:.4f}" for value in row), *[""] * (tasks - len(row))]))
    return "\n".join(lines) + "\n"

"""What a run measured: after every task, for every seed, and on average."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from statistics import mean, stdev
from typing import Any, Self

from delome.experiment.config import RunConfig, versions
from delome.learning.footprint import Footprint
from delome.metrics import AccuracyMatrix


@dataclass
class TaskResult:
    """What was measured after one more task: accuracies on every task so far, seconds, storage.

    ``accuracies`` and ``micro`` are those of test nodes; ``validation`` and ``validation_micro`` those of validation
    nodes, the only ones that may decide anything.
    """

    accuracies: list[float]
    micro: list[float]
    validation: list[float]
    validation_micro: list[float]
    seconds: dict[str, float] = field(default_factory=dict)
    storage: Footprint = field(default_factory=Footprint)
    report: dict[str, list[float]] = field(default_factory=dict)
    ahead: list[float] = field(default_factory=list)
    """Class-balanced accuracies on the test nodes of tasks that are not learned yet, of a stream that has such."""

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """What was written; a ``TypeError`` if something else was."""
        found = cls(**document | {"storage": Footprint(**document["storage"])})
        if not isinstance(found.seconds, dict) or not isinstance(found.report, dict):
            raise TypeError("numbers without names")
        lists = [*found.measured, found.ahead, list(found.seconds.values()), list(asdict(found.storage).values())]
        if not all(_are_numbers(each) for each in (*lists, *found.report.values())):
            raise TypeError("no numbers")
        return found

    def as_dict(self) -> dict[str, Any]:
        written = vars(self) | {"storage": asdict(self.storage)}
        return written if self.ahead else {name: value for name, value in written.items() if name != "ahead"}

    @property
    def measured(self) -> tuple[list[float], ...]:
        """Every list that has an accuracy for each task so far."""
        return self.accuracies, self.micro, self.validation, self.validation_micro


@dataclass
class SeedResult:
    """What one pass through the stream gave so far."""

    seed: int
    tasks: list[TaskResult] = field(default_factory=list)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """What was written; a ``KeyError`` or ``TypeError`` if something else was."""
        found = cls(document["seed"], [TaskResult.from_dict(task) for task in document["tasks"]])
        for number, task in enumerate(found.tasks):
            if any(len(accuracies) != number + 1 for accuracies in task.measured):
                raise TypeError("no triangle")
        return found

    @property
    def matrix(self) -> AccuracyMatrix:
        """Class-balanced accuracies."""
        return AccuracyMatrix([task.accuracies for task in self.tasks])

    @property
    def micro(self) -> AccuracyMatrix:
        """Accuracies over nodes."""
        return AccuracyMatrix([task.micro for task in self.tasks])

    @property
    def validation(self) -> AccuracyMatrix:
        """Class-balanced accuracies on validation nodes."""
        return AccuracyMatrix([task.validation for task in self.tasks])

    def summary(self) -> dict[str, float | None]:
        """The numbers of each matrix: class-balanced, over nodes, and on validation nodes."""
        kinds = {"": self.matrix, "micro_": self.micro, "validation_": self.validation}
        numbers = {f"{kind}{name}": value for kind, found in kinds.items() for name, value in found.summary().items()}
        return numbers if self.forward is None else numbers | {"forward": self.forward}

    @property
    def forward(self) -> float | None:
        """Forward transfer: mean accuracy on the next task before it is learned; none if that was not asked."""
        found = [value for task in self.tasks for value in task.ahead]
        return mean(found) if found else None

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each phase."""
        return _sum(task.seconds for task in self.tasks)

    @property
    def storage(self) -> Footprint:
        """What is kept after the last task."""
        return self.tasks[-1].storage if self.tasks else Footprint()

    def as_dict(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            **self.summary(),
            "curve": self.matrix.curve,
            "matrix": self.matrix.rows,
            "micro_matrix": self.micro.rows,
            "validation_matrix": self.validation.rows,
            "seconds": self.seconds,
            "memory": asdict(self.storage),
            "tasks": [task.as_dict() for task in self.tasks],
        }


@dataclass
class RunResult:
    """All seeds of a run."""

    config: RunConfig
    seeds: list[SeedResult]
    dropped: dict[int, str]
    stream: dict[str, Any]
    names: list[str] = field(default_factory=list)
    """What the tasks of the stream are called, if they are not just numbered."""

    def spread(self, metric: str) -> tuple[float, float] | None:
        """Mean and standard deviation over seeds of a number of `SeedResult.summary`; none if no seed has it."""
        found = [value for seed in self.seeds if (value := seed.summary().get(metric)) is not None]
        return (mean(found), stdev(found) if len(found) > 1 else 0.0) if found else None

    @property
    def aa(self) -> tuple[float, float]:
        """Mean and standard deviation over seeds."""
        found = self.spread("aa")
        assert found is not None
        return found

    @property
    def af(self) -> tuple[float, float] | None:
        """Mean and standard deviation over seeds; none for a stream of one task."""
        return self.spread("af")

    @property
    def matrix(self) -> AccuracyMatrix:
        """Mean over seeds of class-balanced accuracies."""
        return AccuracyMatrix.mean([seed.matrix for seed in self.seeds])

    @property
    def curve(self) -> list[float]:
        return [mean(values) for values in zip(*(seed.matrix.curve for seed in self.seeds), strict=True)]

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each phase, all seeds together."""
        return _sum(seed.seconds for seed in self.seeds)

    @property
    def reports(self) -> dict[str, float]:
        """Means over classes, tasks and seeds of what the learner reported, e.g. the relative loss of its memory."""
        found: dict[str, list[float]] = {}
        for seed in self.seeds:
            for task in seed.tasks:
                for name, values in task.report.items():
                    found.setdefault(name, []).extend(values)
        return {name: mean(values) for name, values in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of a run."""
        parameters = self.config.parameters
        numbers: dict[str, float | None] = {}
        for metric in self.seeds[0].summary():
            found = self.spread(metric)
            numbers[metric] = None if found is None else found[0]
            numbers[f"{metric}_std"] = None if found is None or len(self.seeds) < 2 else found[1]
        return {
            "dataset": self.config.dataset,
            "method": self.config.method,
            "setting": parameters["setting"],
            "backbone": self.config.backbone,
            "budget": self.config.budget,
            "seeds": self.config.seeds,
            **numbers,
            "matrices": [seed.matrix.rows for seed in self.seeds],
            "validation_matrices": [seed.validation.rows for seed in self.seeds],
            "curve": self.curve,
            "seconds": self.seconds,
            "memory": asdict(self.seeds[-1].storage),
            "reports": self.reports,
            "protocol": self.config.protocol
            | {
                "split": self.stream["split"],
                "dropped_classes": {str(k): why for k, why in self.dropped.items()},
            }
            | ({"task_names": self.names} if self.names else {}),
            "stream": self.stream,
            "parameters": parameters,
            "versions": versions(),
        }


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) in (int, float) for value in values)


def _sum(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    """Sums by name."""
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return dict(sorted(total.items()))

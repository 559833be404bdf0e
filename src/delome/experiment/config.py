"""RunConfig: everything that determines the numbers of a run, resolved and checked before it starts."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Self, cast

import torch

from delome.datasets import load_graph
from delome.datasets.catalogue import parse_name
from delome.datasets.fetching.reading import Progress, silent
from delome.errors import ParameterError, StreamError, shown, unknown
from delome.experiment.options import GIVEN, SPLITS, RunOptions
from delome.graph import Graph
from delome.learning import METHODS, Learner
from delome.parameters import check_option, filled, has_parameter, parameters_of, parse_assignments, values_of
from delome.registry import Registry
from delome.streams import Protocol, StreamKind, parse_kind
from delome.streams.columns import Label
from delome.streams.cut import CutStream
from delome.streams.kind import written
from delome.streams.task_stream import TaskStream
from delome.streams.tasks import Stream

CLASSES_PER_TASK = 2
MOST_SEEDS = 100_000
"""All seeds of a run are written out in its configuration."""


@dataclass(frozen=True)
class RunConfig:
    """Dataset, method with all its parameters, stream and seeds."""

    dataset: str
    method: str
    parameters: dict[str, Any]
    classes_per_task: int = CLASSES_PER_TASK
    tasks: int | None = None
    class_order: list[Label] | None = None
    split: str = "auto"
    split_seed: int = 0
    seeds: list[int] = field(default_factory=lambda: [0])
    test_graph: str = "cut"
    inductive: bool = False
    stream_kind: str = "classes"
    asked: str = "one by one"
    learned_from: str = "training nodes"

    @classmethod
    def resolve(cls, dataset: str = "digits", method: str = "delome", **options: Any) -> Self:
        """Fills in defaults and refuses what cannot be run; the budget defaults to the dataset's usual one."""
        return cls.of(RunOptions(dataset=dataset, method=method, **options))

    @classmethod
    def of(cls, options: RunOptions) -> Self:
        """The same for options."""
        if options.dataset != GIVEN:
            parse_name(options.dataset)
        check_option("seeds", options.seeds, at_least=1)
        if options.classes_per_task is not None:
            check_option("classes_per_task", options.classes_per_task, at_least=1)
        if options.tasks is not None:
            check_option("tasks", options.tasks, at_least=1)
        check_option("split_seed", options.split_seed, at_least=0)
        check_option("inter_task_edges", options.inter_task_edges)
        check_option("inductive", options.inductive)
        if options.split not in SPLITS:
            raise ParameterError(unknown("split", str(options.split), SPLITS))
        if options.seeds > MOST_SEEDS:
            raise ParameterError(f"seeds must be at most {MOST_SEEDS}, not {options.seeds}")
        if isinstance(options.budget, int) and options.budget < 1:
            raise ParameterError(f"budget must be at least 1 row per class, not {shown(options.budget)}")
        kind, learner = parse_kind(options.stream), _learner(options)
        learner.check_stream(kind)
        if options.classes_per_task is not None and not kind.uses_classes_per_task:
            raise ParameterError(
                f"the tasks of stream {written(kind)} do not have so many classes each: leave out classes_per_task"
            )
        parameters = values_of(learner)
        first = parameters.pop("seed")
        check_option("the last seed", first + options.seeds - 1, at_least=0)
        return cls(
            dataset=options.dataset,
            method=options.method,
            parameters=parameters,
            classes_per_task=CLASSES_PER_TASK if options.classes_per_task is None else options.classes_per_task,
            tasks=options.tasks,
            class_order=None if options.class_order is None else list(options.class_order),
            split=options.split,
            split_seed=options.split_seed,
            seeds=list(range(first, first + options.seeds)),
            test_graph=_test_graph(options, kind),
            inductive=options.inductive,
            stream_kind=written(kind),
            asked="together" if learner.judges == "batches" else "one by one",
            learned_from=learner.learns_from,
        )

    def learner(self, seed: int) -> Learner:
        """The configured learner with one of the seeds."""
        kind = METHODS.importable(self.method)
        return kind(**filled(kind, {**self.parameters, "seed": seed}, Registry.importable))

    def stream(self, data_root: Path | None = None, progress: Progress = silent) -> CutStream:
        """Loads the graph (a published one through ``data_root``) and cuts it into tasks."""
        if self.dataset == GIVEN:
            raise ParameterError("dataset 'given' is that of a stream of your own: pass the stream")
        return self.cut(load_graph(self.dataset, data_root=data_root, progress=progress))

    def cut(self, graph: Graph) -> CutStream:
        """Cuts the dataset's graph into tasks."""
        if self.split == GIVEN:
            raise ParameterError("split 'given' is that of a stream of your own: pass the stream")
        return parse_kind(self.stream_kind)(
            graph,
            Protocol(self.test_graph, self.inductive),
            classes_per_task=self.classes_per_task,
            tasks=self.tasks,
            class_order=self.class_order,
            split=None if self.split == "auto" else cast(Any, self.split),
            split_seed=self.split_seed,
        )

    def check_stream(self, stream: Stream) -> None:
        """Refuses a stream that is not cut as this configuration says."""
        if not isinstance(stream, CutStream):
            return  # of a stream of another kind the description alone says what it is
        if stream.kind != self.stream_kind:
            raise StreamError(
                f"the stream is {stream.kind}, but the configuration says {self.stream_kind}: "
                "pass config.stream(), or resolve the configuration with the stream's"
            )
        names = ["inter_task_edges", "test_graph", "inductive"]
        if isinstance(stream, TaskStream):
            names = ["classes_per_task", "tasks", *(["class_order"] if self.stream_kind == "classes" else []), *names]
        if stream.split_kind == "random":
            names.append("split_seed")
        if different := [name for name in names if getattr(stream, name) != getattr(self, name)]:
            name = different[0]
            raise StreamError(
                f"the stream has {name} {shown(getattr(stream, name))}, but the configuration says "
                f"{shown(getattr(self, name))}: pass config.stream(), or resolve the configuration with the stream's"
            )
        allowed = ("random", "masks") if self.split == "auto" else (self.split,)
        if stream.split_kind not in allowed:
            raise StreamError(
                f"the stream's split is {stream.split_kind}, but the configuration says {self.split}: "
                f"resolve the configuration with split='{stream.split_kind}'"
            )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def seedless(self) -> dict[str, Any]:
        """Everything but the seeds, of which a run folder may hold more and more.

        What came later than others is there if it is not as usual, so that what was run before keeps its name.
        """
        given = {name: value for name, value in self.as_dict().items() if name != "seeds"}
        shown = {name: value for name, value in given.items() if value != _USUAL.get(name, ())}
        if self.test_graph != "joined":
            shown.pop("test_graph", None)
        return shown | {"inter_task_edges": self.inter_task_edges}

    @classmethod
    def from_seedless(cls, document: Mapping[str, Any]) -> Self:
        """The configuration, with its first seed, of which this is `seedless`."""
        given = dict(document)
        grown = given.pop("inter_task_edges")
        return cls(**{"test_graph": "grown" if grown else "cut", "seeds": [0]} | given)

    @property
    def stream_key(self) -> str:
        """What two configurations share exactly if they are of the same stream."""
        return json.dumps(
            {name: value for name, value in self.seedless.items() if name not in ("method", "parameters", *_DECLARED)}
        )

    @property
    def digest(self) -> str:
        """Short hash that two configurations share exactly if they differ in nothing but seeds."""
        told_apart = {name: value for name, value in self.seedless.items() if name != "learned_from"}  # by the method
        return hashlib.sha256(json.dumps(told_apart, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def slug(self) -> str:
        """Readable folder name."""
        parts = [re.sub(r".*/|\.(npz|pt)$", "", self.dataset), self.method, self.parameters["setting"]]
        return re.sub(r"[^A-Za-z0-9_.=-]+", "-", "-".join(parts))[:200] + f"-{self.digest}"

    @property
    def backbone(self) -> str | None:
        """Name of the network, if the method has one."""
        found = self.parameters.get("backbone")
        return None if found is None else str(found["name"])

    @property
    def budget(self) -> int | None:
        """Memory rows per class, if the method has a memory."""
        return cast("int | None", _inside(self.parameters, "budget"))

    @property
    def hidden(self) -> int | None:
        """Hidden units of the network, if it says how many."""
        return cast("int | None", _inside(self.parameters, "hidden"))

    @property
    def inter_task_edges(self) -> bool:
        """Whether tasks are learned in the graph of everything seen so far."""
        return self.test_graph == "grown"

    @property
    def protocol(self) -> dict[str, Any]:
        """How the numbers are measured, printed beside them."""
        return {
            "accuracy": "class-balanced",
            "setting": self.parameters["setting"],
            "stream": self.stream_kind,
            "classes_per_task": self.classes_per_task if parse_kind(self.stream_kind).uses_classes_per_task else None,
            "test_graph": self.test_graph,
            "inter_task_edges": self.inter_task_edges,
            "evaluated_on": "test nodes, after each task",
            "test_nodes": Protocol(self.test_graph, self.inductive).test_nodes,
            "asked": self.asked,
            "learned_from": self.learned_from,
        }


_DECLARED = ("asked", "learned_from")
"""Settings that the method decides."""

_USUAL = {
    "inductive": False,
    "stream_kind": "classes",
    "asked": "one by one",
    "learned_from": "training nodes",
}
"""Settings of a configuration that are not part of its hash unless they are others."""


def _test_graph(options: RunOptions, kind: StreamKind) -> str:
    """The test graph that is asked for, by either name, or else that of the stream."""
    if options.test_graph is None:
        return "grown" if options.inter_task_edges else kind.usual_test_graph
    found = Protocol(options.test_graph).test_graph
    if options.inter_task_edges and found != "grown":
        raise ParameterError(f"--inter-task-edges is --test-graph grown, but {found} is given too: leave out one")
    return found


def _learner(options: RunOptions) -> Learner:
    """The learner that options ask for."""
    kind = METHODS.importable(options.method)
    assigned = parse_assignments(
        kind, [] if options.assignments is None else options.assignments, f"method {options.method}"
    )
    given = {"backbone": options.backbone, "epochs": options.epochs, "budget": options.budget}
    wanted = {name: value for name, value in given.items() if value is not None}
    if twice := [name for name in wanted if any(name == path.rpartition(".")[2] for path in assigned)]:
        raise ParameterError(f"{twice[0]} is given twice: as an option and with --set")
    if options.dataset != GIVEN and not any(path.rpartition(".")[2] == "budget" for path in assigned):
        wanted.setdefault("budget", parse_name(options.dataset)[0].budget)
    chosen = {"setting": options.setting, "device": options.device, "seed": options.seed} | assigned
    if "backbone" in wanted and "backbone" in parameters_of(kind):
        chosen["backbone"] = wanted.pop("backbone")
    plain = kind(**filled(kind, chosen, Registry.importable))
    fitting = {name: value for name, value in wanted.items() if has_parameter(plain, name)}
    return kind(**filled(kind, chosen | fitting, Registry.importable))


def _inside(parameters: Mapping[str, Any], name: str) -> Any:
    """A parameter, or that of the part which has it."""
    parts = [value for value in parameters.values() if isinstance(value, Mapping)]
    found = [_inside(part, name) for part in parts]
    return parameters.get(name, next((value for value in found if value is not None), None))


def versions() -> dict[str, str]:
    """Versions, and the number of threads, on which the last bits of a result depend."""
    names = ("delome", "torch", "numpy", "scipy", "scikit-learn", "torch-geometric")
    found = {name: metadata.version(name) for name in names}
    return {"python": platform.python_version(), **found, "threads": str(torch.get_num_threads())}

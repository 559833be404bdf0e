"""RunConfig: everything that determines the numbers of a run, resolved and checked before it starts."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Self, cast

import delome
from delome.datasets import load_graph
from delome.datasets.catalogue import parse_name
from delome.datasets.fetching.reading import Progress, silent
from delome.errors import ParameterError, StreamError, shown, unknown
from delome.methods import Learner, method
from delome.parameters import check_option, parameters_of, parse_assignments, values_of
from delome.streams.columns import Label, Setting
from delome.streams.task_stream import TaskStream

SPLITS = ("auto", "random", "masks", "given")
"""``auto``: the masks of the graph if it has any, else random; ``given``: that of a stream that is passed."""
MOST_SEEDS = 100_000
"""All seeds of a run are written out in its configuration."""


@dataclass(frozen=True)
class RunConfig:
    """Dataset, method with all its parameters, stream and seeds."""

    dataset: str
    method: str
    parameters: dict[str, Any]
    classes_per_task: int = 2
    class_order: list[Label] | None = None
    split: str = "auto"
    split_seed: int = 0
    inter_task_edges: bool = False
    seeds: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def resolve(
        cls,
        dataset: str = "digits",
        method_name: str = "delome",
        *,
        setting: Setting = "cil",
        backbone: str | None = None,
        budget: int | None = None,
        epochs: int | None = None,
        device: str = "auto",
        assignments: list[str] | None = None,
        classes_per_task: int = 2,
        class_order: Sequence[Label] | None = None,
        split: str = "auto",
        split_seed: int = 0,
        inter_task_edges: bool = False,
        seeds: int = 1,
        seed: int = 0,
    ) -> Self:
        """Fills in defaults and refuses what cannot be run; the budget defaults to the dataset's usual one."""
        source, _ = parse_name(dataset)
        learner = method(method_name)
        check_option("seeds", seeds, at_least=1)
        check_option("classes_per_task", classes_per_task, at_least=1)
        check_option("split_seed", split_seed, at_least=0)
        check_option("inter_task_edges", inter_task_edges)
        if split not in SPLITS:
            raise ParameterError(unknown("split", str(split), SPLITS))
        if seeds > MOST_SEEDS:
            raise ParameterError(f"seeds must be at most {MOST_SEEDS}, not {seeds}")
        if budget is not None and isinstance(budget, int) and budget < 1:
            raise ParameterError(f"budget must be at least 1 row per class, not {shown(budget)}")
        known = parameters_of(learner)
        given = {"backbone": backbone, "epochs": epochs, "budget": budget}
        assigned = parse_assignments(learner, [] if assignments is None else assignments, f"method {method_name}")
        if twice := [name for name, value in given.items() if value is not None and name in assigned]:
            raise ParameterError(f"{twice[0]} is given twice: as an option and with --set")
        defaults = {"setting": setting, "device": device, "seed": seed, "budget": source.budget}
        chosen: dict[str, Any] = {name: value for name, value in defaults.items() if name in known}
        chosen |= {name: value for name, value in given.items() if value is not None and name in known}
        chosen |= assigned
        parameters = values_of(learner(**chosen))
        first = parameters.pop("seed")
        check_option("the last seed", first + seeds - 1, at_least=0)
        return cls(
            dataset=dataset,
            method=method_name,
            parameters=parameters,
            classes_per_task=classes_per_task,
            class_order=None if class_order is None else list(class_order),
            split=split,
            split_seed=split_seed,
            inter_task_edges=inter_task_edges,
            seeds=list(range(first, first + seeds)),
        )

    def learner(self, seed: int) -> Learner:
        """The configured learner with one of the seeds."""
        return method(self.method)(**self.parameters, seed=seed)

    def stream(self, data_root: Path | None = None, progress: Progress = silent) -> TaskStream:
        """Loads the graph (a published one through ``data_root``) and cuts it into tasks."""
        if self.split == "given":
            raise ParameterError("split 'given' is that of a stream of your own: pass the stream")
        return TaskStream(
            load_graph(self.dataset, data_root=data_root, progress=progress),
            self.classes_per_task,
            class_order=cast(Any, self.class_order),
            split=None if self.split == "auto" else cast(Any, self.split),
            split_seed=self.split_seed,
            inter_task_edges=self.inter_task_edges,
        )

    def check_stream(self, stream: TaskStream) -> None:
        """Refuses a stream that is not cut as this configuration says."""
        names = ["classes_per_task", "class_order", "inter_task_edges"]
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
    def digest(self) -> str:
        """Short hash that two configurations share exactly if they are equal."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()[:8]

    @property
    def slug(self) -> str:
        """Readable folder name."""
        parts = [re.sub(r".*/|\.(npz|pt)$", "", self.dataset), self.method, self.parameters["setting"]]
        return re.sub(r"[^A-Za-z0-9_.=-]+", "-", "-".join(parts))[:200] + f"-{self.digest}"

    @property
    def protocol(self) -> dict[str, Any]:
        """How the numbers are measured, printed beside them."""
        return {
            "accuracy": "class-balanced",
            "classes_per_task": self.classes_per_task,
            "inter_task_edges": self.inter_task_edges,
            "evaluated_on": "test nodes, after each task",
            "test_nodes": "transductive",
        }


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    packages = {name: metadata.version(name) for name in ("torch", "numpy", "scipy", "scikit-learn", "torch-geometric")}
    return {"delome": delome.__version__, "python": platform.python_version(), **packages}

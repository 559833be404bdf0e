"""The contract of every method: observe a task, predict, and carry all it knows in one state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from delome.columns import LabelColumns, Setting
from delome.errors import ParameterError, StateError
from delome.graph import Graph
from delome.metrics import Score
from delome.parameters import Param, check_parameters
from delome.state import State, Storage
from delome.stream import Observation, Task, learning
from delome.tracking import Tracker


@dataclass(kw_only=True)
class Learner(ABC):
    """Base of all methods. Constructors store parameters; ``observe`` learns; ``state`` is what was learned.

    Capabilities are class attributes: ``settings`` a method works in, and whether it ``needs_past`` graphs.
    """

    setting: Annotated[Setting, Param("class-incremental (cil) or task-incremental (til)")] = "cil"
    seed: Annotated[int, Param("seed of every random choice of the learner", least=0)] = 0
    device: Annotated[str, Param("auto, cpu, cuda, …")] = "auto"

    settings: ClassVar[tuple[str, ...]] = ("cil", "til")
    needs_past: ClassVar[bool] = False
    summary: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.setting not in self.settings:
            raise ParameterError(f"{type(self).__name__} does not work in setting '{self.setting}'")
        self.torch_device = resolve_device(self.device)
        self.columns = LabelColumns(self.setting, [])

    def observe(self, task: Task, tracker: Tracker | None = None) -> None:
        """Learns one more task."""
        observation = task.observation(with_past=self.needs_past)
        self.columns = LabelColumns(self.setting, [*self.columns.tasks, observation.classes])
        try:
            with learning(type(self).__name__):
                self._learn(observation, tracker or Tracker())
        finally:
            observation.close()

    def predict(self, graph: Graph, nodes: np.ndarray | None = None, task: int | None = None) -> np.ndarray:
        """Class column of each node (or of ``nodes``); task-incremental learners need the ``task`` index."""
        if not self.columns.tasks:
            raise StateError("nothing was learned yet: call observe first")
        if self.setting == "til" and task is None:
            raise ParameterError("a task-incremental learner predicts within a task: give its index")
        nodes = np.arange(graph.num_nodes) if nodes is None else nodes
        scores = self._scores(graph, nodes)
        tasks = torch.full((len(nodes),), task or 0, device=scores.device)
        predicted: np.ndarray = self.columns.restrict(scores, tasks).argmax(dim=1).cpu().numpy()
        return predicted

    def score(self, tasks: Iterable[Task], split: str = "test") -> list[Score]:
        """Accuracies on the ``test`` (or ``val``) nodes of each task."""
        scores = []
        for task in tasks:
            nodes, labels = getattr(task, split), task.graph.labels
            assert labels is not None
            scores.append(Score.of(self.predict(task.graph, nodes, task.index), labels[nodes]))
        return scores

    def evaluate(self, tasks: Iterable[Task]) -> list[float]:
        """Class-balanced test accuracy in percent on each task."""
        return [score.balanced for score in self.score(tasks)]

    @abstractmethod
    def _learn(self, observation: Observation, tracker: Tracker) -> None:
        """Learns from an observation; ``columns`` already hold its classes."""

    @abstractmethod
    def _scores(self, graph: Graph, nodes: np.ndarray) -> Tensor:
        """A score for every node and class column."""

    def state(self) -> State:
        """What was learned, as tensors and plain values."""
        return State(values={"task_classes": [list(classes) for classes in self.columns.tasks]})

    def load_state(self, state: State) -> None:
        """Continues from a state of a learner with the same parameters."""
        self.columns = LabelColumns(self.setting, [tuple(classes) for classes in state.values["task_classes"]])

    def storage(self) -> Storage:
        """What is kept for old tasks."""
        return Storage()

    def report(self) -> dict[str, list[float]]:
        """Measurements of a learner's own about the last task, e.g. how well the memory of each class matches."""
        return {}


def resolve_device(name: str) -> torch.device:
    """``auto`` is the accelerator if there is one."""
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise ParameterError(f"device '{name}' cannot be used here: try auto or cpu") from None
    return device

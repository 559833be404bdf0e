"""The contract of every method: observe a task, predict, and carry all it knows in one state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from delome.columns import LabelColumns, Setting
from delome.errors import ParameterError, StateError
from delome.graph import Graph
from delome.metrics import Score
from delome.parameters import Param, check_parameters
from delome.state import Keeps, State, Storage
from delome.stream import Observation, Task, learning
from delome.tracking import Tracker


@dataclass(kw_only=True)
class Learner(ABC):
    """Base of all methods. Constructors store parameters; ``observe`` learns; ``state`` is what was learned.

    Capabilities are class attributes: ``settings`` a method works in, whether it ``needs_past`` graphs, and what it
    ``keeps`` between tasks.
    """

    setting: Annotated[Setting, Param("class-incremental (cil) or task-incremental (til)")] = "cil"
    seed: Annotated[int, Param("seed of every random choice of the learner", least=0)] = 0
    device: Annotated[str, Param("auto, cpu, cuda, …")] = "auto"

    settings: ClassVar[tuple[str, ...]] = ("cil", "til")
    needs_past: ClassVar[bool] = False
    family: ClassVar[str] = ""
    keeps: ClassVar[Keeps] = Keeps()
    citation: ClassVar[str] = ""
    summary: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.setting not in self.settings:
            raise ParameterError(f"{type(self).__name__} does not work in setting '{self.setting}'")
        self.torch_device = resolve_device(self.device)
        self.columns = LabelColumns(self.setting, [])
        self.kept_graphs = Storage()

    def observe(self, task: Task, tracker: Tracker | None = None) -> None:
        """Learns one more task."""
        learned = len(self.columns.tasks)
        if task.index != learned:
            raise StateError(
                f"task {task.index} cannot follow {learned} learned tasks: observe each task once, in order"
            )
        observation = task.observation(with_past=self.needs_past)
        before = self.columns
        self.columns = LabelColumns(self.setting, [*before.tasks, observation.classes])
        try:
            with learning(type(self).__name__):
                self._learn(observation, tracker or Tracker())
                if self.needs_past:
                    self.kept_graphs = _storage_of([*observation.past(), observation])
        except BaseException:
            self.columns = before
            raise
        finally:
            observation.close()

    def predict(self, graph: Graph, nodes: np.ndarray | None = None, task: int | None = None) -> np.ndarray:
        """Class column of each node (or of ``nodes``); task-incremental learners need the ``task`` index."""
        self._check_known(task)
        nodes = np.arange(graph.num_nodes) if nodes is None else np.asarray(nodes)
        if len(nodes) == 0:
            return np.empty(0, dtype=np.int64)
        return self._best_columns(self._scores(self._inputs(graph, nodes), task or 0), task or 0)

    def _check_known(self, task: int | None) -> None:
        """Refuses to predict before anything was learned, and in TIL for a task that was not."""
        if not self.columns.tasks:
            raise StateError("nothing was learned yet: call observe first")
        if self.setting == "til" and task not in range(len(self.columns.tasks)):
            known = f"0 to {len(self.columns.tasks) - 1}"
            raise ParameterError(f"a task-incremental learner predicts within a learned task: give its index, {known}")

    def _best_columns(self, scores: Tensor, task: int) -> np.ndarray:
        tasks = torch.full((len(scores),), task, device=scores.device)
        best: np.ndarray = self.columns.restrict(scores, tasks).argmax(dim=1).cpu().numpy()
        return best

    def score(self, tasks: Iterable[Task], split: str = "test") -> list[Score]:
        """Accuracies on the ``test`` (or ``val``, ``train``) nodes of each task."""
        if split not in ("train", "val", "test"):
            raise ParameterError(f"split must be train, val or test, not '{split}'")
        scores = []
        for task in tasks:
            self._check_known(task.index)
            # what a network reads of a task's nodes is kept with the task: its graph need not be cut again
            inputs, labels = task.prepared(split, self._form_of_inputs, self._inputs)
            scores.append(Score.of(self._best_columns(self._scores(inputs, task.index), task.index), labels))
        return scores

    def evaluate(self, tasks: Iterable[Task]) -> list[float]:
        """Class-balanced test accuracy in percent on each task."""
        return [score.balanced for score in self.score(tasks)]

    @abstractmethod
    def _learn(self, observation: Observation, tracker: Tracker) -> None:
        """Learns from an observation; ``columns`` already hold its classes."""

    @property
    @abstractmethod
    def _form_of_inputs(self) -> Hashable:
        """Names the form of ``_inputs``: learners of one form read the same."""

    @abstractmethod
    def _inputs(self, graph: Graph, nodes: np.ndarray) -> Any:
        """All that scores of these nodes depend on, beside what was learned."""

    @abstractmethod
    def _scores(self, inputs: Any, task: int) -> Tensor:
        """A score for every node and class column; ``task`` is the nodes' task if it is known (TIL)."""

    def state(self) -> State:
        """What was learned, as tensors and plain values."""
        tasks = [list(classes) for classes in self.columns.tasks]
        return State(values={"task_classes": tasks, "kept_graphs": asdict(self.kept_graphs)})

    def load_state(self, state: State) -> None:
        """Continues from a state of a learner with the same parameters."""
        self.columns = LabelColumns(self.setting, [tuple(classes) for classes in state.values["task_classes"]])
        self.kept_graphs = Storage(**state.values["kept_graphs"])

    def storage(self) -> Storage:
        """What is kept for old tasks: for a learner that reads past graphs, those graphs."""
        return self.kept_graphs

    def report(self) -> dict[str, list[float]]:
        """Measurements of a learner's own about the last task, e.g. how well the memory of each class matches."""
        return {}


def resolve_device(name: str) -> torch.device:
    """``auto`` is a CUDA device if there is one; other accelerators lack sparse products or double precision."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise ParameterError(f"device '{name}' cannot be used here: try auto or cpu") from None
    return device


def check_width(graph: Graph, width: int) -> None:
    """Refuses a graph whose features are not those the learner was trained on."""
    if graph.num_features != width:
        raise StateError(f"the learner was trained on {width} features, but the graph has {graph.num_features}")


def _storage_of(observations: list[Observation]) -> Storage:
    """Nodes, feature values and bytes of the graphs of observations, a shared graph counted once."""
    graphs = {id(observation.graph.features): observation.graph for observation in observations}.values()
    return Storage(
        sum(graph.num_nodes for graph in graphs),
        sum(graph.features.size for graph in graphs),
        sum(graph.nbytes for graph in graphs),
    )

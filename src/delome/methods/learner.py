"""The contract of every method: observe a task or live data, predict, and carry all it knows in one state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from delome.columns import KnownClasses, LabelColumns, Setting
from delome.errors import ParameterError, PastDataError, StateError
from delome.graph import Graph, as_numpy
from delome.live import as_graph, labelled_nodes
from delome.metrics import Score
from delome.parameters import Param, check_parameters
from delome.state import Keeps, State, Storage, whole_numbers
from delome.stream import Observation, Task, learning
from delome.tracking import Tracker

if TYPE_CHECKING:
    from torch_geometric.data import Data

MOST_TASK_COLUMNS = 10**8
"""Tasks × classes of a state: a table of which task may use which column is kept."""


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
        self.known = KnownClasses()
        self.kept_graphs = Storage()

    @property
    def classes(self) -> list[int]:
        """The user's label of each class column."""
        return list(self.known.labels)

    @property
    def class_names(self) -> dict[int, str]:
        """Names of those of the user's labels that have one."""
        return dict(self.known.names)

    def observe(self, data: Task | Graph | Data, tracker: Tracker | None = None) -> None:
        """Learns one more task: the next of a `TaskStream`, or live data.

        Of a graph, or of PyG data, the labelled nodes are learned (of PyG data with a ``train_mask`` those inside it);
        the others only take part in propagation. Their classes may be new, known, or both.
        """
        observation, known = self._observation(data)
        before = self.state()
        self.columns = LabelColumns(self.setting, [*self.columns.tasks, observation.classes])
        self.known = known
        try:
            with learning(type(self).__name__):
                self._learn(observation, tracker or Tracker())
                if self.needs_past:
                    self.kept_graphs = _storage_of([*observation.past(), observation])
        except BaseException:
            self.__post_init__()  # what was half learned is forgotten
            self.load_state(before)
            raise
        finally:
            observation.close()

    def _observation(self, data: Task | Graph | Data) -> tuple[Observation, KnownClasses]:
        """What is to be learned, and all classes that are known then."""
        if not isinstance(data, Task):
            return self._live_observation(data)
        learned = len(self.columns.tasks)
        if data.index != learned:
            raise StateError(
                f"task {data.index} cannot follow {learned} learned tasks: observe each task once, in order, "
                "and after live data hand in graphs"
            )
        if data.labels_before != self.known.labels:
            raise StateError(
                f"task {data.index} cannot follow what was learned: its stream has had other classes before it than "
                "the learner knows; hand in a graph with the labels of the task's training nodes"
            )
        observation = data.observation(with_past=self.needs_past)
        return observation, self.known.extended(data.class_labels, observation.graph.class_names)

    def _live_observation(self, data: Graph | Data) -> tuple[Observation, KnownClasses]:
        graph, train = labelled_nodes(data)
        if self.needs_past:
            raise PastDataError(
                f"{type(self).__name__} reads all earlier graphs again, which only a stream can give: "
                "hand in tasks of a TaskStream, or choose another method for live data"
            )
        assert graph.labels is not None
        known = self.known.extended(np.unique(graph.labels[train]).tolist(), graph.class_names)
        columns = known.columns_of(graph.labels[train])
        observation = Observation(
            index=len(self.columns.tasks),
            classes=tuple(np.unique(columns).tolist()),
            num_classes=len(known.labels),
            train=train,
            labels=columns,
            _graph=graph.with_labels(None),
        )
        return observation, known

    def predict(self, graph: Graph | Data, nodes: np.ndarray | None = None, task: int | None = None) -> np.ndarray:
        """The user's label of each node (or of ``nodes``); task-incremental learners need the ``task`` index."""
        self._check_known(task)
        graph = as_graph(graph)
        nodes = np.arange(graph.num_nodes) if nodes is None else as_numpy(nodes)
        if nodes.ndim == 1 and len(nodes) == 0:
            return np.empty(0, dtype=np.int64)
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu" or nodes.min() < 0 or nodes.max() >= graph.num_nodes:
            raise ParameterError(f"nodes must be a list of whole numbers from 0 to {graph.num_nodes - 1}")
        within = task if self.setting == "til" and task is not None else 0
        return self._best_labels(self._scores(self._inputs(graph, nodes), within), within)

    def _check_known(self, task: int | None) -> None:
        """Refuses to predict before anything was learned, and in TIL for a task that was not."""
        if not self.columns.tasks:
            raise StateError("nothing was learned yet: call observe first")
        if self.setting == "til" and task not in range(len(self.columns.tasks)):
            known = f"0 to {len(self.columns.tasks) - 1}"
            raise ParameterError(f"a task-incremental learner predicts within a learned task: give its index, {known}")

    def _best_labels(self, scores: Tensor, task: int) -> np.ndarray:
        tasks = torch.full((len(scores),), task, device=scores.device)
        return self.known.labels_of(self.columns.restrict(scores, tasks).argmax(dim=1).cpu().numpy())

    def score(self, tasks: Iterable[Task], split: str = "test") -> list[Score]:
        """Accuracies on the ``test`` (or ``val``, ``train``) nodes of each task."""
        if split not in ("train", "val", "test"):
            raise ParameterError(f"split must be train, val or test, not '{split}'")
        scores = []
        for task in tasks:
            self._check_known(task.index)
            # what a network reads of a task's nodes is kept with the task: its graph need not be cut again
            inputs, labels = task.prepared(split, self._form_of_inputs, self._inputs)
            scores.append(Score.of(self._best_labels(self._scores(inputs, task.index), task.index), labels))
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
        names = [self.known.names.get(label) for label in self.known.labels]
        return State(
            values={
                "task_classes": tasks,
                "classes": self.classes,
                "class_names": names,
                "kept_graphs": asdict(self.kept_graphs),
            }
        )

    def load_state(self, state: State) -> None:
        """Continues from a state of a learner with the same parameters."""
        tasks = [tuple(whole_numbers(columns, "task_classes")) for columns in state.value("task_classes")]
        labels, names = whole_numbers(state.value("classes"), "classes"), state.value("class_names")
        columns = {column for task in tasks for column in task}
        if not all(tasks) or len(tasks) * len(labels) > MOST_TASK_COLUMNS:
            raise StateError(f"the state does not fit the learner: it has {len(tasks)} tasks of {len(labels)} classes")
        if columns != set(range(len(labels))) or len(set(labels)) != len(labels) or len(names) != len(labels):
            raise StateError(f"the state has {len(columns)} class columns, but labels of {len(labels)}")
        self.columns = LabelColumns(self.setting, tasks)
        named = {label: str(name) for label, name in zip(labels, names, strict=True) if name is not None}
        self.known = KnownClasses(tuple(labels), named)
        kept = dict(state.value("kept_graphs"))
        whole_numbers(list(kept.values()), "kept_graphs")
        self.kept_graphs = Storage(**kept)

    def save(self, folder: str | Path) -> None:
        """Saves everything learned; `delome.load` gives the same learner again."""
        from delome import saved

        saved.save(self, folder)

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
        torch.zeros(1, device=device).item()  # some devices have memory, and others only the shape of it
    except Exception:  # each device that is not there says so in its own way
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

"""The contract of every method: observe a task or live data, predict, and carry all it knows in one state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, cast, overload

import numpy as np
import torch
from torch import Tensor

from delome.errors import DivergenceError, ParameterError, PastDataError, StateError, shown
from delome.graph import Graph
from delome.graph.neighbourhood import seen_by
from delome.graph.reading import READINGS, Projected, Reading
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.isolation import Guard, isolated
from delome.metrics import Score
from delome.parameters import Configured, Param, Part, values_of
from delome.persistence.files import make_folder, reporting_write_errors
from delome.persistence.lock import sole_writer
from delome.persistence.state import State, whole_numbers
from delome.persistence.state_files import Written, save_state
from delome.progress import Tracker
from delome.registry import Registry
from delome.streams.columns import KnownClasses, Label, LabelColumns, Setting
from delome.streams.live import as_graph, is_live, labelled_nodes, numbers_of
from delome.streams.tasks import Observation, Task, learning

if TYPE_CHECKING:
    from torch_geometric.data import Data

METHODS: Registry[type[Learner]] = Registry("method", "methods", lambda: Learner, "delome.methods")

Nodes: TypeAlias = np.ndarray | Tensor | Sequence[int] | Sequence[bool] | None
"""Numbers of nodes, a mask with true or false for each node, or all nodes."""

KIND = "saved learner"
"""What the documents of saved learners say that they are."""

SCORES_AT_ONCE = 2**25
"""Nodes × classes whose scores are computed at the same time."""

ROWS_TOGETHER = 2**14
"""Nodes of several small tasks that are scored at the same time."""

MOST_TASK_COLUMNS = 10**8
"""Tasks × classes of a state: a table of which task may use which column is kept."""


READ = ("inputs", "logits")
"""What decides on a learner's scores."""


@dataclass(frozen=True)
class TaskInputs:
    """What a learner reads of the nodes of a task, and the nodes' labels."""

    index: int
    inputs: Any
    labels: np.ndarray


@dataclass(frozen=True)
class LearnedGraph:
    """A graph of live data that was learned: its task, and its fingerprints with and without labels and masks."""

    task: int
    fingerprint: str
    content: str

    @classmethod
    def of(cls, graph: Graph, task: int) -> LearnedGraph:
        return cls(task, graph.fingerprint(), graph.content_fingerprint())


class Learner(Configured, ABC):
    """Base of all methods. A constructor stores parameters; ``observe`` learns; ``state`` is what was learned.

    A method implements three things: `learn` from an observation, the `inputs` it reads of nodes, and their `logits`.
    If it carries anything from task to task, it also extends `forget`, `state` and `load_state`. While it learns,
    ``columns`` says which classes there are and which of them a row may use, and ``torch_device`` where to compute.

    Capabilities are class attributes: the ``settings`` a method works in, whether it ``needs_past`` graphs, what it
    ``keeps`` between tasks, the values of its parameters that a selection should ``search``, the ``streams`` it can
    learn, whether it ``judges`` nodes or whole batches of them, and whether it ``learns_from`` training nodes alone. A
    method whose state must not depend on private data too closely may not keep fingerprints of live data
    (``keeps_fingerprints``), and one that draws secret randomness says with which parameters it repeats itself
    (``repeats_with``).
    """

    setting: Annotated[Setting, Param("class-incremental (cil) or task-incremental (til)")] = "cil"
    seed: Annotated[int, Param("seed of every random choice of the learner", at_least=0)] = 0
    device: Annotated[str, Param("auto, cpu, cuda, …")] = "auto"
    reading: Annotated[Reading, Part("what is read of features", READINGS)] = Projected()

    settings: ClassVar[tuple[Setting, ...]] = ("cil", "til")
    needs_past: ClassVar[bool] = False
    family: ClassVar[str] = ""
    keeps: ClassVar[FootprintFormula] = FootprintFormula()
    citation: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    search: ClassVar[tuple[dict[str, tuple[Any, ...]], ...]] = ()
    judges: ClassVar[Literal["nodes", "batches"]] = "nodes"
    """``batches``: predictions depend on which nodes are asked about at the same time, which every table says."""
    learns_from: ClassVar[Literal["training nodes", "all nodes"]] = "training nodes"
    """``all nodes``: of nodes without labels, test nodes among them, more is learned from than what reaches training
    nodes over edges, which every table says."""
    streams: ClassVar[tuple[str, ...]] = ("classes", "time", "domains", "blurry")
    """Kinds of stream it can learn, in those of its ``settings`` that they have."""
    keeps_fingerprints: ClassVar[bool] = True
    repeats_with: ClassVar[dict[str, Any]] = {}

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.setting not in self.settings:
            raise ParameterError(
                f"{type(self).__name__} does not work in setting '{self.setting}': use {' or '.join(self.settings)}"
            )
        self.torch_device = resolve_device(self.device)
        self._guard = Guard()
        self.forget()

    def forget(self) -> None:
        """Nothing was learned yet."""
        self.columns = LabelColumns(self.setting, [])
        self.known = KnownClasses()
        self.num_features = 0
        self.past_graphs = Footprint()
        self.learned: list[LearnedGraph] = []

    # --- what a method implements

    @abstractmethod
    def learn(self, observation: Observation, tracker: Tracker) -> None:
        """Learns from an observation; ``columns`` already hold its classes."""

    @abstractmethod
    def inputs(self, graph: Graph, nodes: np.ndarray) -> Any:
        """All that the logits of these nodes depend on, beside what was learned."""

    @abstractmethod
    def logits(self, inputs: Any, task: int) -> Tensor:
        """A score for every node and class column; ``task`` is the nodes' task if it is known (TIL)."""

    def inputs_key(self) -> Hashable:
        """Learners that share a key read the same inputs, which are then kept with a task; none: they are not kept."""
        return None

    def select_inputs(self, inputs: Any, index: np.ndarray) -> Any:
        """Inputs of some of the nodes, so that the others can wait; none: all of them are needed."""
        return None

    def join_inputs(self, parts: Sequence[Any]) -> Any:
        """Inputs of several tasks as one, if logits do not depend on the task; none: they are scored one by one."""
        return None

    def sees(self) -> int | None:
        """Hops within which all is that a node's inputs are made of, with degrees as in S; none: it may be anywhere."""
        return None

    def probabilities(self, scores: Tensor, task: int) -> Tensor:
        """Probabilities of nodes with these scores, -inf in columns they may not use."""
        return scores.softmax(dim=1)

    def storage(self) -> Footprint:
        """What is kept for old tasks: for a learner that reads past graphs, those graphs."""
        return self.past_graphs

    def report(self) -> dict[str, list[float]]:
        """Measurements of a learner's own about the last task, e.g. how well the memory of each class matches."""
        return {}

    # --- what a user calls

    @property
    def width(self) -> int:
        """Columns of the features that are read; 0 before anything was learned."""
        return self.reading.width(self.num_features)

    @property
    def classes(self) -> list[Label]:
        """The user's label of each class column."""
        return list(self.known.labels)

    @property
    def class_names(self) -> dict[Label, str]:
        """Names of those of the user's labels that have one."""
        return dict(self.known.names)

    def task_of(self, data: Graph | Data) -> int | None:
        """The last task as which this very graph was learned, labels and masks included; none if it was not."""
        fingerprint = as_graph(data).fingerprint()
        return max((each.task for each in self.learned if each.fingerprint == fingerprint), default=None)

    def observe(self, data: Task | Graph | Data, tracker: Tracker | None = None) -> None:
        """Learns one more task: the next of a stream, or live data.

        Of a graph, or of PyG data, the labelled nodes are learned (if there is a ``train_mask``, those inside it); the
        others only take part in propagation. Their classes may be new, known, or both.

        What was learned can be read by other threads before and after, but not meanwhile.
        """
        with self._guard.changing(), isolated():
            self._observe(data, tracker or Tracker())

    def _observe(self, data: Task | Graph | Data, tracker: Tracker) -> None:
        observation, known, learned = self._observation(data)
        before = self.state()
        self.columns = LabelColumns(self.setting, [*self.columns.tasks, observation.classes])
        self.known, self.num_features = known, observation.num_features
        try:
            with learning(type(self).__name__):
                self.learn(observation, tracker)
                if self.needs_past:
                    self.past_graphs = Footprint.of_graphs([*observation.past(), observation])
            self.learned += learned
            if bad := self.state().not_finite(since=before):
                raise DivergenceError(
                    f"task {observation.index} has led to numbers that are not finite in '{bad[0]}': "
                    "try a smaller lr, or scale the features"
                )
        except BaseException:
            self.load_state(before)  # what was half learned is forgotten
            raise
        finally:
            observation.close()

    def _observation(self, data: Task | Graph | Data) -> tuple[Observation, KnownClasses, list[LearnedGraph]]:
        """What is to be learned, and all classes and graphs that are known then."""
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
        observation = data.observation(with_past=self.needs_past, read=self.read)
        return observation, self.known.extended(data.class_labels, _names_of(observation.graph)), []

    def _live_observation(self, data: Graph | Data) -> tuple[Observation, KnownClasses, list[LearnedGraph]]:
        graph, train = labelled_nodes(data)
        if self.needs_past:
            raise PastDataError(
                f"{type(self).__name__} reads all earlier graphs again, which only a stream can give: "
                "hand in tasks of a TaskStream, or choose another method for live data"
            )
        labels = graph.user_labels
        assert labels is not None
        known = self.known.extended(np.unique(labels[train]).tolist(), _names_of(graph))
        columns = known.columns_of(labels[train])
        observation = Observation(
            index=len(self.columns.tasks),
            classes=tuple(np.unique(columns).tolist()),
            num_classes=len(known.labels),
            train=train,
            labels=columns,
            num_features=graph.num_features,
            _graph=self.read(graph).hidden(),
        )
        learned = [LearnedGraph.of(graph, observation.index)] if self.keeps_fingerprints else []
        return observation, known, learned

    def predict(self, graph: Graph | Data, nodes: Nodes = None, task: int | None = None) -> np.ndarray:
        """The user's label of each node (or of ``nodes``: numbers, or a mask).

        Task-incremental learners need the index of the ``task`` that the nodes belong to.
        """
        with self._reading():
            return np.concatenate([self._best_labels(scores) for scores in self._scores_of(graph, nodes, task)])

    def predict_with_probability(
        self, graph: Graph | Data, nodes: Nodes = None, task: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The user's label of each node, and its probability; a table nodes × classes is never in memory."""
        labels, probabilities = [], []
        with self._reading():
            for scores in self._scores_of(graph, nodes, task):
                best = scores.argmax(dim=1)
                each = self.probabilities(scores.double(), self._within(task))
                labels.append(self.known.labels_of(best.cpu().numpy()))
                probabilities.append(each.gather(1, best[:, None])[:, 0].cpu().numpy())
        return np.concatenate(labels), np.concatenate(probabilities)

    def scores(self, graph: Graph | Data, nodes: Nodes = None, task: int | None = None) -> np.ndarray:
        """Scores by which nodes are classified: a row for each, a column for each of ``classes``.

        Columns that a node cannot be of are -inf: in the task-incremental setting those of other tasks.
        """
        with self._reading():
            return np.concatenate([scores.cpu().numpy() for scores in self._scores_of(graph, nodes, task)])

    def predict_proba(self, graph: Graph | Data, nodes: Nodes = None, task: int | None = None) -> np.ndarray:
        """Probability of each of ``classes`` for each node; rows add up to 1."""
        with self._reading():
            portions = self._scores_of(graph, nodes, task)
            within = self._within(task)
            return np.concatenate([self.probabilities(each.double(), within).cpu().numpy() for each in portions])

    @overload
    def score(self, data: Iterable[Task], split: str = "test") -> list[Score]: ...

    @overload
    def score(self, data: Graph | Data, split: str = "test", *, task: int | None = None) -> Score: ...

    def score(
        self, data: Graph | Data | Iterable[Task], split: str = "test", *, task: int | None = None
    ) -> Score | list[Score]:
        """Accuracies on the ``test`` (or ``val``, ``train``) nodes of each of some tasks, or on live data.

        Of a graph, or of PyG data, nodes count whose label was learned (in the task-incremental setting in ``task``);
        if there is a mask of the split, e.g. ``test_mask``, those inside it.
        """
        if split not in ("train", "val", "test"):
            raise ParameterError(f"split must be train, val or test, not '{split}'")
        with self._reading():
            if is_live(data):
                return self._score_live(cast("Graph | Data", data), split, task)
            return self._score(_checked_tasks(data), split)

    @overload
    def evaluate(self, data: Iterable[Task]) -> list[float]: ...

    @overload
    def evaluate(self, data: Graph | Data, *, task: int | None = None) -> float: ...

    def evaluate(self, data: Graph | Data | Iterable[Task], *, task: int | None = None) -> float | list[float]:
        """Class-balanced test accuracy in percent on each of some tasks, or on live data: see ``score``."""
        if is_live(data):
            return self.score(cast("Graph | Data", data), task=task).balanced
        return [score.balanced for score in self.score(cast("Iterable[Task]", data))]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """While this block runs, what was learned stays as it is."""
        with self._guard.reading(), isolated():
            yield

    def _scores_of(self, data: Graph | Data, nodes: Nodes, task: int | None) -> Iterator[Tensor]:
        """Scores of nodes that may be asked for, some at a time; -inf in columns that they may not use."""
        self._check_known(task)
        graph = as_graph(data)
        numbers = numbers_of(nodes, graph.num_nodes)
        if len(numbers) == 0:
            yield torch.empty(0, self.columns.seen)
        else:
            yield from self._portions(self._inputs(graph, numbers), len(numbers), self._within(task))

    def _inputs(self, graph: Graph, nodes: np.ndarray) -> Any:
        """What is read of nodes of a graph as it was given."""
        hops = self.sees() if self._offers("sees", ["inputs"]) else None
        if hops is not None and self.reading.width(graph.num_features) != graph.num_features:
            graph, nodes = seen_by(graph, nodes, hops)  # features of the others need not be read
        return self.inputs(self.read(graph), nodes)

    def read(self, graph: Graph) -> Graph:
        """What is read of a graph, whose features must be those that the learner was trained on."""
        if self.num_features and graph.num_features != self.num_features:
            raise StateError(
                f"the learner was trained on {self.num_features} features, but the graph has {graph.num_features}"
            )
        return self.reading(graph, self.seed)

    def _portions(self, inputs: Any, count: int, task: int) -> Iterator[Tensor]:
        """Scores of so many nodes, as many at a time as fit."""
        most = max(1, SCORES_AT_ONCE // self.columns.seen)
        if count <= most or not self._offers("select_inputs"):
            yield self._allowed_scores(inputs, torch.full((count,), task))
            return
        for start in range(0, count, most):
            index = np.arange(start, min(start + most, count))
            yield self._allowed_scores(self.select_inputs(inputs, index), torch.full((len(index),), task))

    def _offers(self, ability: str, of: Sequence[str] = READ) -> bool:
        """Whether a method exists that knows of this learner's inputs and logits: a subclass may have changed them."""
        owner = {name: next(kind for kind in type(self).__mro__ if name in vars(kind)) for name in (ability, *of)}
        return owner[ability] is not Learner and all(issubclass(owner[ability], owner[name]) for name in of)

    def _within(self, task: int | None) -> int:
        """Task that decides on columns: any in the class-incremental setting."""
        return task if self.setting == "til" and task is not None else 0

    def _check_known(self, task: int | None) -> None:
        """Refuses to predict before anything was learned, and in TIL for a task that was not."""
        if not self.columns.tasks:
            raise StateError("nothing was learned yet: call observe first")
        if self.setting == "til" and task not in range(len(self.columns.tasks)):
            known = f"0 to {len(self.columns.tasks) - 1}"
            raise ParameterError(f"a task-incremental learner predicts within a learned task: give its index, {known}")

    def _allowed_scores(self, inputs: Any, tasks: Tensor) -> Tensor:
        """Scores in the columns that nodes of these tasks may use, all of them finite; -inf in the others."""
        scores = self.logits(inputs, int(tasks[0]))
        tasks = tasks.to(scores.device)
        if bad := int((~self.columns.are_finite(scores, tasks)).sum()):
            raise StateError(
                f"{bad} of {len(scores)} nodes have scores that are not finite: "
                "scale their features like those that were learned, or learn again with a smaller lr"
            )
        return self.columns.restrict(scores, tasks)

    def _best_labels(self, scores: Tensor) -> np.ndarray:
        return self.known.labels_of(scores.argmax(dim=1).cpu().numpy())

    def _score_live(self, data: Graph | Data, split: str, task: int | None) -> Score:
        self._check_known(task)
        known = [self.known.labels[column] for column in self.columns.allowed(self._within(task))]
        graph, nodes = labelled_nodes(data, known, split)
        assert graph.user_labels is not None
        predicted = [self._best_labels(scores) for scores in self._scores_of(graph, nodes, task)]
        return Score.of(np.concatenate(predicted), graph.user_labels[nodes])

    def _score(self, tasks: Iterable[Task], split: str) -> list[Score]:
        """Accuracies on each task; tasks of few nodes are scored together."""
        scores: list[Score] = []
        together: list[TaskInputs] = []
        rows, key = 0, self.inputs_key()
        form = None if key is None else (key, self.reading, self.seed)
        most = min(ROWS_TOGETHER, SCORES_AT_ONCE // self.columns.seen) if self._offers("join_inputs") else 0
        for task in tasks:
            self._check_known(task.index)
            # what a network reads of a task's nodes is kept with the task: its graph need not be cut again
            inputs, labels = task.prepared(split, form, self._inputs)
            rows += len(labels)
            if together and rows > most:
                scores += self._score_together(together)
                together, rows = [], len(labels)
            together.append(TaskInputs(task.index, inputs, labels))
        return scores + (self._score_together(together) if together else [])

    def _score_together(self, tasks: Sequence[TaskInputs]) -> list[Score]:
        joined = self.join_inputs([task.inputs for task in tasks]) if len(tasks) > 1 else None
        if joined is None:
            return [Score.of(self._predicted(task), task.labels) for task in tasks]
        sizes = [len(task.labels) for task in tasks]
        of_rows = torch.from_numpy(np.repeat([task.index for task in tasks], sizes))
        predicted = self._best_labels(self._allowed_scores(joined, of_rows))
        return Score.of_each(predicted, np.concatenate([task.labels for task in tasks]), sizes)

    def _predicted(self, task: TaskInputs) -> np.ndarray:
        portions = self._portions(task.inputs, len(task.labels), task.index)
        return np.concatenate([self._best_labels(scores) for scores in portions])

    # --- what was learned

    def state(self) -> State:
        """What was learned, as tensors and plain values."""
        return State(
            values={
                "task_classes": [list(classes) for classes in self.columns.tasks],
                "classes": self.classes,
                "class_names": [self.known.names.get(label) for label in self.known.labels],
                "num_features": self.num_features,
                "past_graphs": asdict(self.past_graphs),
                "learned": [asdict(graph) for graph in self.learned],
            }
        )

    @isolated()
    def load_state(self, state: State) -> None:
        """Continues from a state of a learner with the same parameters; what was learned before is forgotten."""
        self.forget()
        tasks = [tuple(whole_numbers(columns, "task_classes")) for columns in state.value("task_classes")]
        labels, names = _labels(state.value("classes")), state.value("class_names")
        columns = {column for task in tasks for column in task}
        if not all(tasks) or len(tasks) * len(labels) > MOST_TASK_COLUMNS:
            raise StateError(f"the state does not fit the learner: it has {len(tasks)} tasks of {len(labels)} classes")
        if columns != set(range(len(labels))) or len(set(labels)) != len(labels) or len(names) != len(labels):
            raise StateError(f"the state has {len(columns)} class columns, but labels of {len(labels)}")
        self.columns = LabelColumns(self.setting, tasks)
        named = {label: str(name) for label, name in zip(labels, names, strict=True) if name is not None}
        self.known = KnownClasses(tuple(labels), named)
        self.num_features = state.whole_number("num_features")
        if tasks and not self.num_features:
            raise StateError("the state does not fit the learner: it was trained on graphs without features")
        past = dict(state.value("past_graphs"))
        whole_numbers(list(past.values()), "past_graphs")
        self.past_graphs = Footprint(**past)
        self.learned = [LearnedGraph(**graph) for graph in state.value("learned")]
        whole_numbers([graph.task for graph in self.learned], "learned")
        if not all(isinstance(text, str) for graph in self.learned for text in (graph.fingerprint, graph.content)):
            raise StateError("the state does not fit the learner: 'learned' must hold fingerprints")

    def save(self, folder: str | Path) -> None:
        """Saves everything learned in place of the learner that is in the folder, which stays until this one is
        complete; `delome.load` gives the same learner again."""
        place = Path(folder)
        with reporting_write_errors(place):
            make_folder(place)
            with sole_writer(place):
                self.write(place)

    def write(self, folder: Path, written: Written | None = None) -> None:
        """The same, for a caller that holds the folder's lock and knows what it has ``written`` there before."""
        about = {"method": METHODS.name_of(type(self)), "parameters": values_of(self), "delome": version("delome")}
        with self._guard.reading():
            save_state(folder, KIND, about, self.state(), written)


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


def _checked_tasks(data: Any) -> Iterator[Task]:
    """Tasks of an iterable, one after the other."""
    for task in data if isinstance(data, Iterable) else [None]:
        if not isinstance(task, Task):
            raise ParameterError(
                "accuracy is measured on a list of tasks of a TaskStream, a delome.Graph or a PyG Data, "
                f"not on {shown(data)}"
            )
        yield task


def _names_of(graph: Graph) -> Sequence[str] | None:
    """Names of the labels 0, 1, …; text labels are their own names."""
    return None if graph.labels_are_text else graph.class_names


def _labels(values: Any) -> list[Label]:
    """Labels of a state: whole numbers, or text."""
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        return list(values)
    return list(whole_numbers(values, "classes"))

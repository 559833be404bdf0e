"""The contract of every method: observe a task or live data, predict, and carry all it knows in one state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch

from delome.errors import DivergenceError, ParameterError, PastDataError, StateError, UnsupportedError
from delome.graph import Graph
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.isolation import isolated
from delome.learning.scoring import Scorer
from delome.parameters import values_of
from delome.persistence.files import make_folder, reporting_write_errors
from delome.persistence.lock import sole_writer
from delome.persistence.state import State, whole_numbers
from delome.persistence.state_files import Written, save_state
from delome.printable import alternatives
from delome.progress import Tracker
from delome.registry import Registry
from delome.streams import STREAMS, StreamKind
from delome.streams.columns import KnownClasses, Label, LabelColumns, Setting
from delome.streams.live import as_graph, labelled_nodes
from delome.streams.tasks import Observation, Task, learning

if TYPE_CHECKING:
    from torch_geometric.data import Data

METHODS: Registry[type[Learner]] = Registry("method", "methods", lambda: Learner, "delome.methods")

KIND = "saved learner"
"""What the documents of saved learners say that they are."""

MOST_TASK_COLUMNS = 10**8
"""Tasks × classes of a state: a table of which task may use which column is kept."""


@dataclass(frozen=True)
class LearnedGraph:
    """A graph of live data that was learned: its task, and its fingerprints with and without labels and masks."""

    task: int
    fingerprint: str
    content: str

    @classmethod
    def of(cls, graph: Graph, task: int) -> LearnedGraph:
        return cls(task, graph.fingerprint(), graph.content_fingerprint())


class Learner(Scorer):
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
            raise UnsupportedError(
                f"{type(self).__name__} does not work in setting '{self.setting}': use {' or '.join(self.settings)}"
            )
        self.torch_device = resolve_device(self.device)
        self.forget()

    def forget(self) -> None:
        """Nothing was learned yet."""
        super().forget()
        self.past_graphs = Footprint()
        self.learned: list[LearnedGraph] = []

    # --- what a method implements

    @abstractmethod
    def learn(self, observation: Observation, tracker: Tracker) -> None:
        """Learns from an observation; ``columns`` already hold its classes."""

    def storage(self) -> Footprint:
        """What is kept for old tasks: for a learner that reads past graphs, those graphs."""
        return self.past_graphs

    def report(self) -> dict[str, list[float]]:
        """Measurements of a learner's own about the last task, e.g. how well the memory of each class matches."""
        return {}

    # --- what a user calls

    def check_stream(self, kind: StreamKind) -> None:
        """Refuses a kind of stream that it cannot learn; of kinds that are not ours nobody can know."""
        name = STREAMS.name_of(type(kind))
        settings = [setting for setting in self.settings if setting in kind.settings]
        if (name in Learner.streams and name not in self.streams) or not settings:
            known = [each for each in self.streams if {*STREAMS[each].settings} & {*self.settings}]
            method = METHODS.name_of(type(self))
            raise UnsupportedError(f"method {method} cannot learn a {name} stream: choose {alternatives(known)}")
        if self.setting not in settings:
            raise UnsupportedError(
                f"a {name} stream has no tasks that could be known, as setting {self.setting} assumes: "
                f"choose setting {' or '.join(settings)}"
            )

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
        if data.made_by is not None and (kind := data.made_by()) is not None:
            self.check_stream(kind)
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


def _names_of(graph: Graph) -> Sequence[str] | None:
    """Names of the labels 0, 1, …; text labels are their own names."""
    return None if graph.labels_are_text else graph.class_names


def _labels(values: Any) -> list[Label]:
    """Labels of a state: whole numbers, or text."""
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        return list(values)
    return list(whole_numbers(values, "classes"))

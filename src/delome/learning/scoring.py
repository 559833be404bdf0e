"""What a learner answers: scores, probabilities and labels of nodes, and how many of them are right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast, overload

import numpy as np
import torch
from torch import Tensor

from delome.errors import ParameterError, StateError, shown
from delome.graph import Graph
from delome.graph.neighbourhood import seen_by
from delome.graph.reading import READINGS, Projected, Reading
from delome.learning.isolation import Guard, isolated
from delome.metrics import Score
from delome.parameters import Configured, Param, Part
from delome.streams.columns import KnownClasses, Label, LabelColumns, Setting
from delome.streams.live import as_graph, is_live, labelled_nodes, numbers_of
from delome.streams.tasks import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

Nodes: TypeAlias = np.ndarray | Tensor | Sequence[int] | Sequence[bool] | None
"""Numbers of nodes, a mask with true or false for each node, or all nodes."""

SCORES_AT_ONCE = 2**25
"""Nodes × classes whose scores are computed at the same time."""

ROWS_TOGETHER = 2**14
"""Nodes of several small tasks that are scored at the same time."""

READ = ("inputs", "logits")
"""What decides on a learner's scores."""


@dataclass(frozen=True)
class TaskInputs:
    """What a learner reads of the nodes of a task, and the nodes' labels."""

    index: int
    inputs: Any
    labels: np.ndarray


class Scorer(Configured, ABC):
    """Scores nodes by what was learned, in the columns that they may use; nothing here changes what was learned.

    A method says which `inputs` it reads of nodes, and what their `logits` are.
    """

    setting: Annotated[Setting, Param("class-incremental (cil) or task-incremental (til)")] = "cil"
    seed: Annotated[int, Param("seed of every random choice of the learner", at_least=0)] = 0
    device: Annotated[str, Param("auto, cpu, cuda, …")] = "auto"
    reading: Annotated[Reading, Part("what is read of features", READINGS)] = Projected()

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._guard = Guard()

    def forget(self) -> None:
        """Nothing was learned yet."""
        self.columns = LabelColumns(self.setting, [])
        self.known = KnownClasses()
        self.num_features = 0

    # --- what a method implements

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
        return owner[ability] is not Scorer and all(issubclass(owner[ability], owner[name]) for name in of)

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


def _checked_tasks(data: Any) -> Iterator[Task]:
    """Tasks of an iterable, one after the other."""
    for task in data if isinstance(data, Iterable) else [None]:
        if not isinstance(task, Task):
            raise ParameterError(
                "accuracy is measured on a list of tasks of a TaskStream, a delome.Graph or a PyG Data, "
                f"not on {shown(data)}"
            )
        yield task

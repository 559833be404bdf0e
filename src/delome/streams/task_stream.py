"""TaskStream: a graph whose classes arrive a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from delome.errors import StreamError, shown
from delome.graph import Graph
from delome.randomness import generator
from delome.streams.cut import CutStream, Portion
from delome.streams.protocol import TEST_GRAPHS, Protocol
from delome.streams.splits import Parts, Split, split_of


class TaskStream(CutStream):
    """Cuts a labelled graph into tasks of ``classes_per_task`` classes.

    Classes come in label order, or in ``class_order``; they are renumbered 0, 1, … in that order and
    ``classes[column]`` is the original label. Classes below ``min_class_size`` nodes, and classes left over when the
    number of classes is no multiple of ``classes_per_task``, are in ``dropped``; so are those after the first so many
    ``tasks``, if only those are wanted.

    ``split`` says which nodes are trained, validated and tested on: ``"masks"`` (the graph's own; the default if it has
    any), ``"random"`` (60/20/20 of each class, drawn from ``split_seed`` alone, so that every method and every seed of
    a model sees the same) or three arrays of nodes. Nodes that are in no part only take part in propagation.

    Tasks may have other ``sizes`` than ``classes_per_task``, one number for each. In every task but the first, so many
    classes that have come before are ``returning``, drawn from ``return_seed``, with other nodes than before: the nodes
    of a class are dealt to all the tasks in which it comes.

    Nodes whose label is unknown (-1) belong to no task. A task's graph is the induced subgraph of its nodes; a
    ``test_graph`` other than ``cut``, and ``inductive``, are explained at `Protocol`, and ``inter_task_edges`` is
    ``test_graph="grown"``.

    >>> from delome import load_graph
    >>> stream = TaskStream(load_graph("digits"), classes_per_task=2)
    >>> len(stream), stream[0].classes, stream[0].graph
    (5, (0, 1), Graph(nodes=360, edges=3980, features=64, classes=2))
    """

    def __init__(
        self,
        graph: Graph,
        classes_per_task: int = 2,
        *,
        tasks: int | None = None,
        class_order: Sequence[int] | Sequence[str] | None = None,
        split: Split | None = None,
        split_seed: int = 0,
        inter_task_edges: bool = False,
        min_class_size: int = 3,
        sizes: Sequence[int] | None = None,
        returning: int = 0,
        test_graph: str | None = None,
        inductive: bool = False,
        return_seed: int = 0,
    ) -> None:
        if not isinstance(graph, Graph):
            raise StreamError(f"a task stream is cut from a Graph, not from {shown(graph)}")
        if graph.labels is None:
            raise StreamError("a task stream needs a graph with labels")
        classes_per_task = _at_least_one("classes_per_task", classes_per_task)
        min_class_size = _whole("min_class_size", min_class_size)
        split_seed = _whole("split_seed", split_seed)
        if min_class_size < 3:
            raise StreamError(
                f"min_class_size must be at least 3 (one node each to train, validate, test), not {min_class_size}"
            )
        if split_seed < 0:
            raise StreamError(f"split_seed must be at least 0, not {split_seed}")
        present, counts = np.unique(graph.labels[graph.labels >= 0], return_counts=True)
        if len(present) == 0:
            raise StreamError("a task stream needs labelled nodes, but every label of the graph is -1, unknown")
        size = dict(zip(present.tolist(), counts.tolist(), strict=True))
        order = _checked_order(graph, class_order, size)
        kept = [label for label in order if size[label] >= min_class_size]
        dropped: dict[Any, str] = {
            label: f"only {size[label]} nodes" for label in order if size[label] < min_class_size
        }
        protocol = Protocol(_test_graph(inter_task_edges, test_graph), inductive)
        ends = _ends(len(kept), classes_per_task, sizes, min_class_size)
        asked = len(ends) if tasks is None else min(len(ends), _at_least_one("tasks", tasks))
        dropped |= dict.fromkeys(kept[ends[-1] :], "left over after the last full task")
        dropped |= dict.fromkeys(kept[ends[asked - 1] : ends[-1]], f"after the first {asked} tasks")
        self.tasks = tasks
        self.classes = tuple(kept)
        self.classes_per_task = classes_per_task
        self.class_order = None if class_order is None else [graph.user_label(label) for label in order]
        self.split_seed = split_seed
        self.min_class_size = min_class_size
        self.sizes = None if sizes is None else tuple(sizes)
        self.returning = _whole("returning", returning)
        if self.returning < 0:
            raise StreamError(f"returning must be at least 0, not {returning}")
        self.kind = self._written()
        chosen = split_of(graph, split, split_seed)
        members = _members(graph.labels, self.classes[: ends[asked - 1]])
        self.parts = parts = [chosen.parts(*each) for each in zip(self.classes, members, strict=False)]
        self.split = chosen
        starts = [0, *ends[: asked - 1]]
        columns = [list(range(start, end)) for start, end in zip(starts, ends, strict=False)]
        labels = [graph.user_label(label) for label in self.classes]
        portions = _portions(labels, parts, with_returning(columns, parts, self.returning, return_seed))
        super().__init__(graph, portions, len(self.classes), chosen, protocol, dropped)

    def _written(self) -> str:
        """How the command line writes what is not the same for all tasks."""
        sizes = [] if self.sizes is None else ["sizes=" + "+".join(map(str, self.sizes))]
        given = ",".join(sizes + ([f"returning={self.returning}"] if self.returning else []))
        return f"classes:{given}" if given else "classes"

    def details(self) -> dict[str, Any]:
        usual = {"classes_per_task": self.classes_per_task, "min_class_size": self.min_class_size}
        return usual if self.kind == "classes" else usual | {"stream": self.kind, "sha256": self.portions_sha256()}

    def user_label(self, column: int) -> int | str:
        """Label of a class column as it was given."""
        return self._source.user_label(self.classes[column])

    def class_name(self, column: int) -> str:
        """Name of a class column: the graph's own, or the original label."""
        label = self.classes[column]
        return self._source.class_names[label] if self._source.class_names else str(label)

    def __repr__(self) -> str:
        sizes = f"{self.classes_per_task} classes" if self.sizes is None else f"{self.sizes} classes"
        return f"TaskStream({self._source}, {len(self)} tasks of {sizes}, {TEST_GRAPHS[self.test_graph]})"


def _test_graph(inter_task_edges: bool, test_graph: str | None) -> str:
    if inter_task_edges and test_graph not in (None, "grown"):
        raise StreamError(f"inter_task_edges is test_graph 'grown', but {shown(test_graph)} was given too")
    return test_graph if test_graph is not None else "grown" if inter_task_edges else "cut"


def _ends(classes: int, per_task: int, sizes: Sequence[int] | None, smallest: int) -> list[int]:
    """How many classes have come after each task."""
    if sizes is None:
        if classes < per_task:
            raise StreamError(
                f"cannot make a task of {per_task} classes: "
                f"the graph has {classes} classes with at least {smallest} nodes"
            )
        return list(range(per_task, classes + 1, per_task))
    ends: list[int] = np.cumsum([_at_least_one("a size of a task", size) for size in sizes]).tolist()
    if not ends or ends[-1] > classes:
        raise StreamError(
            f"cannot make tasks of {ends[-1] if ends else 0} classes in all: "
            f"the graph has {classes} classes with at least {smallest} nodes"
        )
    return ends


def with_returning(columns: list[list[int]], parts: list[Parts], returning: int, seed: int) -> list[list[int]]:
    """Columns of each task, with so many of earlier ones that have nodes of every part for one more time."""
    if not returning:
        return columns
    times = np.zeros(len(parts), dtype=np.int64)
    most = np.array([min(len(each.train), len(each.val), len(each.test)) for each in parts])
    found = []
    for task, own in enumerate(columns):
        able = np.array([column for before in columns[:task] for column in before if times[column] < most[column]], int)
        rng = generator(seed, "returning", task)
        again = np.sort(rng.choice(able, min(returning, len(able)), replace=False)) if len(able) else able
        found.append([*own, *again.tolist()])
        times[found[-1]] += 1
    return found


def _portions(labels: list[Any], parts: list[Parts], columns: list[list[int]]) -> list[Portion]:
    """The tasks' portions; the nodes of a class that comes several times are dealt to these tasks."""
    times: dict[int, int] = {}
    for column in (column for own in columns for column in own):
        times[column] = times.get(column, 0) + 1
    dealt = {column: iter(dealt_parts(parts[column], count)) for column, count in times.items()}
    return [Portion.of([labels[c] for c in own], [next(dealt[c]) for c in own]) for own in columns]


def dealt_parts(parts: Parts, count: int) -> list[Parts]:
    """So many portions of each part."""
    if count == 1:
        return [parts]
    pieces = [np.array_split(part, count) for part in parts.in_order]
    return [Parts(*each) for each in zip(*pieces, strict=True)]


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -(2**63) <= int(value) < 2**63:
        raise StreamError(f"{name} must be a whole number of at most 64 bits, not {shown(value)}")
    return int(value)


def _at_least_one(name: str, value: Any) -> int:
    if _whole(name, value) < 1:
        raise StreamError(f"{name} must be at least 1, not {value}")
    return int(value)


def _checked_order(graph: Graph, class_order: Sequence[int] | Sequence[str] | None, size: dict[int, int]) -> list[int]:
    if class_order is None:
        return sorted(size)
    try:
        labels = iter(class_order)
    except TypeError:
        raise StreamError(f"class_order must be a list of labels, not {shown(class_order)}") from None
    numbers: dict[Any, int] = {graph.user_label(label): label for label in size}
    # one more than there are classes is enough to find one that is absent or named twice
    wanted = list(islice(labels, len(size) + 1))
    if graph.labels_are_text:
        if absent := [label for label in wanted if label not in numbers]:
            raise StreamError(f"the order of classes names some that the graph does not have: {shown(absent[:5])}")
        order = [numbers[label] for label in wanted]
    else:
        order = [_whole("a label in class_order", label) for label in wanted]
        if missing := sorted(set(order) - set(size)):
            raise StreamError(f"the order of classes names some that the graph does not have: {missing[:5]}")
    if len(set(order)) != len(order):
        raise StreamError("the order of classes names one of them twice")
    return order


def _members(labels: np.ndarray, classes: tuple[int, ...]) -> list[np.ndarray]:
    """The nodes of each class."""
    by_label = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_label], classes)
    ends = np.searchsorted(labels[by_label], classes, side="right")
    return [by_label[start:end] for start, end in zip(starts, ends, strict=True)]

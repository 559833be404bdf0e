"""Class-incremental streams: a few new classes in every task, equal numbers or not."""

from __future__ import annotations

import re
from typing import Annotated, Any

from delome.errors import StreamError, shown
from delome.graph import Graph
from delome.parameters import Param
from delome.randomness import generator
from delome.streams.kind import STREAMS, Cutting, StreamKind, listed, members_of
from delome.streams.task_stream import TaskStream

ORDERS = ("label", "size", "shuffled")
LABEL, SIZE = re.compile(r"-?\d{1,18}"), re.compile(r"\d{1,6}")
SMALLEST = 3
"""Nodes of a class that has one to train, to validate and to test on."""


@STREAMS.register("classes")
class Classes(StreamKind):
    """New classes in every task: ``base`` in the first and ``step`` in the others, or as ``sizes`` say.

    >>> from delome import load_graph
    >>> stream = Classes(base=4, step=3, order="size")(load_graph("digits"))
    >>> [len(task.classes) for task in stream], stream.kind
    ([4, 3, 3], 'classes:base=4,step=3,order=size')
    """

    base: Annotated[int | None, Param("classes of the first task; none = step", at_least=1)] = None
    step: Annotated[int | None, Param("new classes of each other task; none = classes per task", at_least=1)] = None
    sizes: Annotated[str | None, Param("new classes of each task, e.g. 4+3+3, in place of base and step")] = None
    order: Annotated[str, Param("label, size (largest first), shuffled, or the labels in their order, e.g. 3+0+1")] = (
        "label"
    )
    seed: Annotated[int, Param("seed of a shuffled order, and of which classes return", at_least=0)] = 0
    returning: Annotated[int, Param("earlier classes that come back in each task, with other nodes", at_least=0)] = 0

    summary = "new classes in every task, equal numbers or not; classes may come back"

    @property
    def uses_classes_per_task(self) -> bool:
        return self.sizes is None and self.step is None

    def cut(self, graph: Graph, cutting: Cutting) -> TaskStream:
        order = self._order(graph, cutting)
        return TaskStream(
            graph,
            cutting.classes_per_task,
            tasks=cutting.tasks,
            class_order=order,
            split=cutting.split,
            split_seed=cutting.split_seed,
            sizes=self._sizes(graph, cutting, order),
            returning=self.returning,
            test_graph=cutting.protocol.test_graph,
            inductive=cutting.protocol.inductive,
            return_seed=self.seed,
        )

    def _order(self, graph: Graph, cutting: Cutting) -> list[Any] | None:
        if self.order == "label":
            return None if cutting.class_order is None else list(cutting.class_order)
        if cutting.class_order is not None:
            raise StreamError(f"order={self.order} and class_order are both given: leave out one of them")
        members = members_of(graph)
        labels = list(members)
        if self.order == "size":
            labels.sort(key=lambda label: (-len(members[label]), label))
        elif self.order == "shuffled":
            labels = generator(self.seed, "class order").permutation(labels).tolist()
        else:
            given = listed("order", self.order, "3+0+1")
            if graph.labels_are_text:
                return given
            if not all(LABEL.fullmatch(part) for part in given):
                raise StreamError(f"order must be {', '.join(ORDERS)} or labels such as 3+0+1, not {shown(self.order)}")
            return [int(part) for part in given]
        return [graph.user_label(label) for label in labels]

    def _sizes(self, graph: Graph, cutting: Cutting, order: list[Any] | None) -> list[int] | None:
        if self.sizes is not None:
            if self.base is not None or self.step is not None:
                raise StreamError("sizes says how large tasks are: leave out base and step")
            parts = listed("sizes", self.sizes, "4+3+3")
            if not all(SIZE.fullmatch(part) and int(part) > 0 for part in parts):
                raise StreamError(f"sizes must be numbers of classes such as 4+3+3, not {shown(self.sizes)}")
            return [int(part) for part in parts]
        if self.base is None and self.step is None:
            return None
        step = self.step or cutting.classes_per_task
        name, base = ("step", step) if self.base is None else ("base", self.base)
        large = [graph.user_label(label) for label, nodes in members_of(graph).items() if len(nodes) >= SMALLEST]
        kept = len(large) if order is None else len(set(large) & set(order))
        if base > kept:
            raise StreamError(
                f"{name} must be at most the number of classes with at least {SMALLEST} nodes, {kept}, not {base}"
            )
        return [base, *[step] * ((kept - base) // step)]

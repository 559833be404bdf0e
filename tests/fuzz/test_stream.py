from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from delome import Graph, TaskStream
from delome.errors import StreamError

Attempt = Callable[[Callable[[], Any]], Any]

odd_numbers = st.one_of(
    st.integers(-3, 12),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([None, True, False, 10**5000, -(10**5000), 1j, "2", "٣", b"2", [], [2], (2,), {}, object(), print]),
    st.sampled_from([np.int8(2), np.uint64(2**63), np.int64(-(2**63)), np.float64(2), np.bool_(True), np.array(2)]),
    st.sampled_from([np.array([2]), torch.tensor(2), Decimal(2), Fraction(2), Fraction(1, 2), np.datetime64("NaT")]),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Classes of 1 to 9 nodes with labels of any size, some nodes unknown, hardly any edges."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    label = st.integers(0, 7) | st.sampled_from([10**6, 2**31, 2**32 + 1, 2**63 - 1])
    names = draw(st.lists(label, min_size=len(sizes), max_size=len(sizes), unique=True))
    labels = np.concatenate([np.repeat(names, sizes), np.full(draw(st.integers(0, 3)), -1)]).astype(np.int64)
    labels = np.random.default_rng(draw(st.integers(0, 99))).permutation(labels)
    edges = draw(hnp.arrays(np.int64, (2, 5), elements=st.integers(0, len(labels) - 1)))
    return Graph(edges, np.ones((len(labels), 1)), labels)


@st.composite
def orders(draw: st.DrawFn, graph: Graph) -> Any:
    """Some or all labels of a graph in some order, as they are or spoilt."""
    assert graph.labels is not None
    labels: list[Any] = draw(st.permutations(sorted(set(graph.labels.tolist()) - {-1})))
    labels = labels[: draw(st.integers(0, len(labels)))]
    for _ in range(draw(st.integers(0, 2))):
        labels.insert(draw(st.integers(0, len(labels))), draw(odd_numbers | st.sampled_from([*labels, -1, 0])))
    kinds: list[Callable[[list[Any]], Any]] = [
        list,
        tuple,
        iter,
        lambda order: [float(label) if isinstance(label, int) and abs(label) < 2**53 else label for label in order],
        lambda order: np.array([label for label in order if type(label) is int and abs(label) < 2**63], dtype=np.int64),
        lambda order: np.array([[1, 2], [3, 4]]),
        lambda order: torch.arange(len(order)),
        lambda order: [order],
        lambda order: dict.fromkeys(label for label in order if type(label) is int),
        lambda order: "01",
        lambda order: b"01",
        lambda order: range(10**30),
        lambda order: count(),
        lambda order: 5,
        lambda order: np.array(1),
        lambda order: object(),
        lambda order: None,
    ]
    return draw(st.sampled_from(kinds[:2]) | st.sampled_from(kinds))(labels)


def assert_sound(stream: TaskStream, graph: Graph) -> None:
    """Splits of a task are disjoint, not empty, and together all nodes of its classes; no class is in two tasks."""
    assert graph.labels is not None
    assert len(stream) >= 1
    assert repr(stream).startswith("TaskStream(")
    columns: list[int] = []
    for task in stream:
        columns += task.classes
        assert task.class_labels == tuple(stream.classes[column] for column in task.classes)
        own = np.concatenate([task.train, task.val, task.test])
        assert len(set(task.nodes[own].tolist())) == len(own)
        assert set(task.nodes[own].tolist()) == set(np.flatnonzero(np.isin(graph.labels, task.class_labels)).tolist())
        assert task.graph.num_nodes == len(task.nodes)
        for part in (task.train, task.val, task.test):
            assert set(graph.labels[task.nodes[part]].tolist()) == set(task.class_labels)
    assert columns == list(range(len(stream) * stream.classes_per_task))
    assert not set(stream.dropped) & {stream.classes[column] for column in columns}


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """A graph and options of a stream, few of which are odd."""
    graph = draw(graphs())
    options: dict[str, Any] = {"classes_per_task": draw(st.integers(1, 2))}
    names = ["classes_per_task", "split_seed", "min_class_size"]
    for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
        options[name] = draw(odd_numbers)
    if draw(st.booleans()):
        options["class_order"] = draw(orders(graph))
    return {"graph": graph, "inter_task_edges": draw(st.booleans()), **options}


@pytest.mark.slow
@settings(max_examples=600)
@given(given=arguments())
def test_a_stream_keeps_its_invariants_or_is_refused(given: dict[str, Any], attempt: Attempt) -> None:
    stream = attempt(lambda: TaskStream(**given))
    if stream is not None:
        assert_sound(stream, given["graph"])


TWELVE = Graph([[0], [1]], np.ones((12, 1)), np.repeat([0, 1, 2], 4))


@pytest.mark.slow
@settings(max_examples=150)
@example(name="classes_per_task", value=2.0)
@example(name="classes_per_task", value="2")
@example(name="classes_per_task", value=None)
@example(name="classes_per_task", value=-(10**5000))
@example(name="split_seed", value=0.5)
@example(name="split_seed", value="0")
@example(name="split_seed", value=True)
@example(name="min_class_size", value=float("nan"))
@example(name="min_class_size", value=3.5)
@example(name="graph", value="graph")
@example(name="graph", value=None)
@given(name=st.sampled_from(["classes_per_task", "split_seed", "min_class_size", "graph"]), value=odd_numbers)
def test_a_single_odd_option_is_a_whole_number_or_refused(name: str, value: Any, attempt: Attempt) -> None:
    stream = attempt(lambda: TaskStream(**{"graph": TWELVE, name: value}))
    if stream is not None:
        assert isinstance(value, int | np.integer) and not isinstance(value, bool)
        assert_sound(stream, TWELVE)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ([0, 1.5], "a label in class_order must be a whole number of at most 64 bits, not 1.5"),
        (["0", "1"], "a label in class_order must be a whole number of at most 64 bits, not '0'"),
        ("01", "a label in class_order must be a whole number of at most 64 bits, not '0'"),
        ([True, False], "a label in class_order must be a whole number of at most 64 bits, not True"),
        ([[0, 1]], r"a label in class_order must be a whole number of at most 64 bits, not \[0, 1\]"),
        ([None], "a label in class_order must be a whole number of at most 64 bits, not None"),
        ([10**400], "a label in class_order must be a whole number of at most 64 bits, not 10+…"),
        (5, "class_order must be a list of labels, not 5"),
        (np.array(1), r"class_order must be a list of labels, not array\(1\)"),
        (range(10**30), r"the order of classes names some that the graph does not have: \[3\]"),
        (count(), r"the order of classes names some that the graph does not have: \[3\]"),
    ],
)
def test_an_order_that_is_no_list_of_labels_is_refused(order: Any, reason: str) -> None:
    with pytest.raises(StreamError, match=rf"^{reason}$"):
        TaskStream(TWELVE, 1, class_order=order)


@pytest.mark.parametrize(
    "order", [(2, 0, 1), np.array([2, 0, 1], dtype=np.uint8), iter([2, 0, 1]), {2: "", 0: "", 1: ""}]
)
def test_an_order_may_come_in_any_container(order: Any) -> None:
    stream = TaskStream(TWELVE, np.int64(1), class_order=order)  # type: ignore[arg-type]
    assert stream.classes == (2, 0, 1)

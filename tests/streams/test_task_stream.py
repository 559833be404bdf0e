from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from delome import FineTune, Graph, Learner, TaskStream
from delome.errors import PastDataError, StreamError
from delome.metrics import Score
from delome.progress import Tracker
from delome.streams.columns import KnownClasses, LabelColumns
from delome.streams.tasks import Observation, Task, learning


def graph_of(sizes: list[int], edges: int = 300, seed: int = 0, labels: list[int] | None = None) -> Graph:
    """Random graph with these class sizes, nodes shuffled; node ids are written into the first feature."""
    rng = np.random.default_rng(seed)
    nodes = sum(sizes)
    names = np.arange(len(sizes)) if labels is None else np.array(labels)
    of_node = rng.permutation(np.repeat(names, sizes))
    features = np.stack([np.arange(nodes), rng.normal(size=nodes)], axis=1)
    return Graph(rng.integers(nodes, size=(2, edges)), features, of_node)


def labels_of(graph: Graph) -> np.ndarray:
    assert graph.labels is not None
    return graph.labels


def own_nodes(task: Task) -> np.ndarray:
    """Global ids of the nodes of the task's own classes."""
    return task.nodes[np.concatenate([task.train, task.val, task.test])]


def split_of(stream: TaskStream) -> dict[int, list[list[int]]]:
    """For each original label its global train, validation and test nodes."""
    found: dict[int, list[list[int]]] = {}
    for task in stream:
        labels = labels_of(task.graph)
        for column in task.classes:
            found[stream.classes[column]] = [
                task.nodes[part[labels[part] == stream.classes[column]]].tolist()
                for part in (task.train, task.val, task.test)
            ]
    return found


def test_a_class_that_is_too_small_is_left_out_and_reported() -> None:
    stream = TaskStream(graph_of([10, 10, 10, 1, 10]))
    assert len(stream) == 2
    assert stream.classes == (0, 1, 2, 4)
    assert [task.classes for task in stream] == [(0, 1), (2, 3)]
    assert stream.dropped == {3: "only 1 nodes"}


def test_a_class_too_many_for_the_last_task_is_in_no_task_but_keeps_its_column() -> None:
    graph = graph_of([10] * 5)
    stream = TaskStream(graph)
    assert len(stream) == 2
    assert stream.num_classes == 5
    assert stream.dropped == {4: "left over after the last full task"}
    assert graph.labels is not None
    assert 4 not in {label for task in stream for label in graph.labels[task.nodes].tolist()}


@pytest.mark.parametrize(("size", "expected"), [(3, (1, 1, 1)), (10, (6, 2, 2)), (11, (6, 2, 3))])
def test_a_class_is_split_into_the_hand_computed_sizes(size: int, expected: tuple[int, int, int]) -> None:
    task = TaskStream(graph_of([size]), classes_per_task=1)[0]
    assert (len(task.train), len(task.val), len(task.test)) == expected


@given(st.integers(3, 500))
def test_split_sizes_follow_the_protocol_and_are_never_empty(size: int) -> None:
    task = TaskStream(graph_of([size]), classes_per_task=1)[0]
    held_out = ceil(Fraction(4, 10) * size)
    test = ceil(Fraction(held_out, 2))
    assert (len(task.train), len(task.val), len(task.test)) == (size - held_out, held_out - test, test)
    assert min(len(task.train), len(task.val), len(task.test)) >= 1


def test_every_edge_of_a_task_joins_two_of_its_nodes_and_no_edge_is_lost() -> None:
    graph = graph_of([30] * 6, edges=2000)
    everywhere = graph.adjacency.toarray()
    for task in TaskStream(graph):
        assert np.array_equal(task.graph.adjacency.toarray(), everywhere[np.ix_(task.nodes, task.nodes)])
        assert np.array_equal(task.graph.features[:, 0], task.nodes)
        assert set(task.graph.labels.tolist()) == set(task.classes)


def test_propagation_in_a_task_graph_sees_one_self_loop_at_every_node() -> None:
    for task in TaskStream(graph_of([30] * 6)):
        assert np.count_nonzero(task.graph.adjacency.diagonal()) == 0
        assert np.count_nonzero(task.graph.operator().diagonal()) == task.graph.num_nodes


def test_the_split_depends_on_its_own_seed_alone() -> None:
    graph = graph_of([20] * 4)
    first, again = TaskStream(graph), TaskStream(graph)
    for model_seed, stream in ((0, first), (1, again)):
        FineTune(seed=model_seed, epochs=1).observe(stream[0])
    assert split_of(first) == split_of(again)
    assert split_of(first) != split_of(TaskStream(graph, split_seed=1))


def test_the_split_of_a_class_does_not_depend_on_its_place_in_the_order() -> None:
    graph = graph_of([20] * 4)
    assert split_of(TaskStream(graph)) == split_of(TaskStream(graph, class_order=[2, 0, 3, 1]))
    assert split_of(TaskStream(graph)) == split_of(TaskStream(graph, classes_per_task=1))


def test_classes_of_equal_size_are_split_independently() -> None:
    graph = graph_of([40, 40])
    places = []
    for label, (train, _, _) in split_of(TaskStream(graph)).items():
        members = np.flatnonzero(graph.labels == label).tolist()
        places.append({members.index(node) for node in train})
    assert places[0] != places[1]


def test_parts_of_a_task_have_their_share_of_each_class() -> None:
    task = TaskStream(graph_of([10, 11, 10, 10]))[0]
    labels = labels_of(task.graph)
    assert sorted(labels.tolist()) == [0] * 10 + [1] * 11
    assert sorted(labels[task.train].tolist()) == [0] * 6 + [1] * 6
    assert sorted(labels[task.val].tolist()) == [0] * 2 + [1] * 2
    assert sorted(labels[task.test].tolist()) == [0] * 2 + [1] * 3
    assert sorted([*task.train, *task.val, *task.test]) == list(range(21))


def test_classes_come_in_label_order_and_are_renumbered() -> None:
    stream = TaskStream(graph_of([5, 5, 5, 5], labels=[30, 7, 7000, 2]))
    assert stream.classes == (2, 7, 30, 7000)
    assert [task.classes for task in stream] == [(0, 1), (2, 3)]


def test_a_given_order_decides_which_classes_come_when() -> None:
    graph = graph_of([5, 6, 7, 8])
    stream = TaskStream(graph, class_order=[3, 0, 2, 1])
    assert stream.classes == (3, 0, 2, 1)
    assert [task.graph.num_nodes for task in stream] == [13, 13]
    assert [np.unique(labels_of(graph)[task.nodes]).tolist() for task in stream] == [[0, 3], [1, 2]]
    assert sorted(stream[0].graph.labels.tolist()) == [0] * 5 + [3] * 8
    assert (stream[0].class_labels, stream[0].classes) == ((3, 0), (0, 1))
    observation = stream[0].observation()
    assert observation.classes == (0, 1)
    assert sorted(observation.labels.tolist()) == [0] * 4 + [1] * 3


def test_an_order_may_leave_classes_out() -> None:
    stream = TaskStream(graph_of([5] * 6), class_order=[5, 1])
    assert len(stream) == 1 and stream.classes == (5, 1)


def test_a_column_is_called_by_the_name_of_its_class() -> None:
    named = Graph(np.zeros((2, 0), dtype=int), np.ones((6, 1)), [0] * 3 + [1] * 3, class_names=["cat", "dog"])
    stream = TaskStream(named, class_order=[1, 0])
    assert [stream.class_name(column) for column in (0, 1)] == ["dog", "cat"]
    assert TaskStream(graph_of([3, 3], labels=[4, 9])).class_name(1) == "9"


def test_the_names_in_a_task_graph_are_those_of_its_labels() -> None:
    named = Graph(np.zeros((2, 0), dtype=int), np.ones((6, 1)), [0] * 3 + [1] * 3, class_names=["cat", "dog"])
    graph = TaskStream(named, class_order=[1, 0])[0].graph
    assert graph.class_names is not None
    assert sorted(graph.class_names[label] for label in labels_of(graph)) == ["cat"] * 3 + ["dog"] * 3


def test_labels_may_be_any_large_numbers() -> None:
    stream = TaskStream(graph_of([5, 5], labels=[10**12, 3]))
    assert stream.classes == (3, 10**12)
    assert sorted(stream[0].graph.labels.tolist()) == [3] * 5 + [10**12] * 5
    assert sorted(stream[0].observation().labels.tolist()) == [0] * 3 + [1] * 3


@given(
    st.lists(st.integers(0, 14), min_size=1, max_size=7),
    st.integers(1, 3),
    st.booleans(),
    st.integers(3, 6),
    st.integers(0, 5),
)
def test_tasks_share_no_nodes_and_their_splits_partition_them(
    sizes: list[int], classes_per_task: int, inter_task_edges: bool, smallest: int, seed: int
) -> None:
    kept = [label for label, size in enumerate(sizes) if size >= smallest]
    if sum(sizes) == 0:
        return
    options: dict[str, Any] = {"inter_task_edges": inter_task_edges, "min_class_size": smallest, "split_seed": seed}
    graph = graph_of(sizes, edges=60)
    if len(kept) < classes_per_task:
        with pytest.raises(StreamError):
            TaskStream(graph, classes_per_task, **options)
        return
    stream = TaskStream(graph, classes_per_task, **options)
    assert len(stream) == len(kept) // classes_per_task
    seen: list[int] = []
    for task in stream:
        nodes = own_nodes(task)
        expected = [stream.classes[column] for column in task.classes]
        assert sorted(nodes.tolist()) == np.flatnonzero(np.isin(labels_of(graph), expected)).tolist()
        assert len(set(nodes.tolist())) == len(nodes)
        seen += nodes.tolist()
        assert sorted(task.nodes.tolist()) == sorted(seen if inter_task_edges else nodes.tolist())
        for part in (task.train, task.val, task.test):
            assert set(labels_of(task.graph)[part].tolist()) == set(task.class_labels)
    assert len(set(seen)) == len(seen)
    used = {stream.classes[column] for task in stream for column in task.classes}
    assert used | stream.dropped.keys() == {label for label, size in enumerate(sizes) if size}
    assert not used & stream.dropped.keys()


def test_without_inter_task_edges_each_seen_task_keeps_its_own_graph() -> None:
    stream = TaskStream(graph_of([10] * 6))
    assert stream.seen(stream[1]) == [stream[0], stream[1]]


def test_with_inter_task_edges_all_seen_tasks_live_in_the_one_grown_graph() -> None:
    graph = graph_of([10] * 6, edges=2000)
    stream = TaskStream(graph, inter_task_edges=True)
    for last in stream:
        seen = stream.seen(last)
        assert [task.index for task in seen] == list(range(last.index + 1))
        assert all(task.graph is last.graph for task in seen)
        assert all(np.array_equal(task.nodes, last.nodes) for task in seen)
        everywhere = graph.adjacency.toarray()
        assert np.array_equal(last.graph.adjacency.toarray(), everywhere[np.ix_(last.nodes, last.nodes)])


def test_with_inter_task_edges_a_task_trains_and_is_tested_on_its_own_classes_only() -> None:
    stream = TaskStream(graph_of([10] * 6), inter_task_edges=True)
    for task in stream.seen(stream[2]):
        for part in (task.train, task.val, task.test):
            assert set(labels_of(task.graph)[part].tolist()) == set(task.classes)


def test_the_split_is_the_same_with_and_without_inter_task_edges() -> None:
    graph = graph_of([10] * 6)
    grown = TaskStream(graph, inter_task_edges=True)
    assert split_of(TaskStream(graph)) == split_of(grown)
    last_view = {task.index: sorted(own_nodes(task).tolist()) for task in grown.seen(grown[2])}
    assert last_view == {task.index: sorted(own_nodes(task).tolist()) for task in grown}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"classes_per_task": 0}, "classes_per_task must be at least 1, not 0"),
        (
            {"classes_per_task": 5},
            "cannot make a task of 5 classes: the graph has 4 classes with at least 3 nodes",
        ),
        (
            {"min_class_size": 2},
            "min_class_size must be at least 3 (one node each to train, validate, test), not 2",
        ),
        (
            {"min_class_size": 6},
            "cannot make a task of 2 classes: the graph has 0 classes with at least 6 nodes",
        ),
        ({"class_order": [0, 1, 1]}, "the order of classes names one of them twice"),
        ({"class_order": [0, 9, 8]}, "the order of classes names some that the graph does not have: [8, 9]"),
    ],
)
def test_impossible_streams_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StreamError) as error:
        TaskStream(graph_of([5] * 4), **options)
    assert str(error.value) == sentence


def test_a_graph_without_labels_is_refused() -> None:
    with pytest.raises(StreamError, match=r"^a task stream needs a graph with labels$"):
        TaskStream(graph_of([5, 5]).with_labels(None))


def test_nodes_of_unknown_class_are_in_no_task() -> None:
    graph = graph_of([10] * 4, edges=500)
    assert graph.labels is not None
    labels = graph.labels.copy()
    unknown = np.flatnonzero(labels == 0)[:4]
    labels[unknown] = -1
    stream = TaskStream(graph.with_labels(labels), inter_task_edges=True)
    assert stream.classes == (0, 1, 2, 3) and stream.dropped == {}
    assert sorted(stream[-1].nodes.tolist()) == sorted(set(range(40)) - set(unknown.tolist()))
    with pytest.raises(StreamError, match=r"graph does not have: \[-1\]"):
        TaskStream(graph.with_labels(labels), class_order=[-1, 0])


def test_a_graph_whose_labels_are_all_unknown_is_refused() -> None:
    with pytest.raises(StreamError) as error:
        TaskStream(graph_of([5, 5]).with_labels(np.full(10, -1)))
    assert str(error.value) == "a task stream needs labelled nodes, but every label of the graph is -1, unknown"


def test_a_negative_split_seed_is_refused() -> None:
    with pytest.raises(StreamError, match=r"split_seed must be at least 0, not -1"):
        TaskStream(graph_of([5, 5]), split_seed=-1)


class Looker(Learner):
    """Learns nothing; does what ``look`` says with each observation and keeps what it returns."""

    look: Callable[[Observation], Any]
    found: list[Any]

    @classmethod
    def that(cls, look: Callable[[Observation], Any]) -> Looker:
        learner = cls()
        learner.look = look
        learner.found = []
        return learner

    def after_one_task(self) -> Looker:
        """As if it had learned task 0."""
        self.columns, self.known = LabelColumns("cil", [(0, 1)]), KnownClasses((0, 1))
        self.num_features = 2
        return self

    def learn(self, observation: Observation, tracker: Tracker) -> None:
        self.found.append(self.look(observation))

    def inputs_key(self) -> str:
        return "nothing"

    def inputs(self, graph: Graph, nodes: np.ndarray) -> int:
        return len(nodes)

    def logits(self, inputs: int, task: int) -> torch.Tensor:
        return torch.zeros(inputs, 8)


class DeclaredLooker(Looker):
    needs_past: ClassVar[bool] = True


@pytest.fixture
def stream() -> TaskStream:
    return TaskStream(graph_of([10] * 6))


@pytest.fixture(params=[False, True], ids=["own graphs", "grown graph"])
def any_stream(request: pytest.FixtureRequest) -> TaskStream:
    return TaskStream(graph_of([10] * 6), inter_task_edges=request.param)


def test_an_observation_shows_the_labels_of_training_nodes_and_no_others(any_stream: TaskStream) -> None:
    for task in any_stream:
        observation = task.observation()
        assert observation.graph.labels is None
        assert np.array_equal(observation.train, task.train)
        assert np.array_equal(observation.labels, labels_of(task.graph)[task.train])
        assert observation.graph.num_nodes == len(task.nodes)
        assert (observation.index, observation.classes) == (task.index, task.classes)
        assert observation.num_classes == 6


def test_a_learner_reads_the_task_it_observes(any_stream: TaskStream) -> None:
    learner = Looker.that(lambda observation: observation.graph.num_nodes)
    for task in any_stream:
        learner.observe(task)
    assert learner.found == [len(task.nodes) for task in any_stream]


def test_an_observation_that_a_learner_keeps_is_closed_when_the_next_task_comes(any_stream: TaskStream) -> None:
    learner = Looker.that(lambda observation: observation if not learner.found else learner.found[0].graph)
    learner.observe(any_stream[0])
    with pytest.raises(PastDataError) as error:
        learner.observe(any_stream[1])
    assert str(error.value) == "the data of task 0 is gone: a learner that looks back must declare needs_past = True"


def test_an_observation_is_closed_as_soon_as_its_task_is_learned(stream: TaskStream) -> None:
    learner = Looker.that(lambda observation: observation)
    learner.observe(stream[0])
    with pytest.raises(PastDataError, match="the data of task 0 is gone"):
        _ = learner.found[0].graph


def test_an_observation_is_closed_when_learning_fails(stream: TaskStream) -> None:
    kept: list[Observation] = []

    def fail(observation: Observation) -> None:
        kept.append(observation)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        Looker.that(fail).observe(stream[0])
    with pytest.raises(PastDataError):
        _ = kept[0].graph
    assert stream[0].graph.num_nodes == 20, "the stream must be open again"


@pytest.mark.parametrize("other", [0, 1, 2])
@pytest.mark.parametrize("kind", [Looker, DeclaredLooker])
def test_a_learner_cannot_read_any_task_through_the_stream(kind: type[Looker], other: int, stream: TaskStream) -> None:
    with pytest.raises(PastDataError) as error:
        kind.that(lambda _: stream[other].graph).after_one_task().observe(stream[1])
    assert str(error.value) == (
        f"{kind.__name__} read the graph of task {other} through the stream while learning: "
        "a learner may only read the observation it is given"
    )


def test_a_learner_cannot_make_itself_another_observation(stream: TaskStream) -> None:
    with pytest.raises(PastDataError):
        Looker.that(lambda _: stream[0].observation().graph).after_one_task().observe(stream[1])
    with pytest.raises(PastDataError):
        looker = Looker.that(lambda _: stream[1].observation(with_past=True).past())
        looker.after_one_task().observe(stream[1])


def test_asking_for_the_past_without_having_declared_it_is_an_error(any_stream: TaskStream) -> None:
    with pytest.raises(PastDataError) as error:
        Looker.that(lambda observation: observation.past()).after_one_task().observe(any_stream[1])
    assert str(error.value) == (
        "earlier tasks cannot be read while learning task 1: declare needs_past = True, "
        "and hand in tasks of a TaskStream"
    )


def test_a_learner_that_declared_it_gets_every_earlier_task(any_stream: TaskStream) -> None:
    learner = DeclaredLooker.that(
        lambda observation: [(past.index, past.graph.labels, past.labels.tolist()) for past in observation.past()]
    )
    for task in any_stream:
        learner.observe(task)
    labels = [labels_of(task.graph)[task.train].tolist() for task in any_stream]
    assert learner.found == [[(index, None, labels[index]) for index in range(task.index)] for task in any_stream]


def test_the_past_is_closed_to_a_declared_learner_too_once_its_task_is_learned(stream: TaskStream) -> None:
    learner = DeclaredLooker.that(lambda observation: observation)
    learner.observe(stream[0])
    learner.observe(stream[1])
    with pytest.raises(PastDataError):
        learner.found[1].past()


def test_tasks_can_be_read_again_after_learning(stream: TaskStream) -> None:
    with learning("somebody"), pytest.raises(PastDataError, match="somebody read the graph of task 0"):
        _ = stream[0].graph
    assert stream[0].graph.num_nodes == 20
    learner = Looker.that(lambda _: None)
    learner.observe(stream[0])
    assert len(learner.evaluate(stream.seen(stream[0]))) == 1


def test_a_stream_is_a_sequence_of_tasks(stream: TaskStream) -> None:
    assert len(stream) == 3
    assert [task.index for task in stream] == [0, 1, 2]
    assert stream[-1] is stream[2]
    assert stream[1] in stream


def test_of_a_large_graph_only_the_last_task_stays_in_memory(toy_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    small = TaskStream(toy_graph)
    graphs = [task.graph for task in small]
    assert [task.graph for task in small] == graphs
    monkeypatch.setattr("delome.streams.cut.KEEP_BELOW", toy_graph.nbytes - 1)
    large = TaskStream(toy_graph)
    first = large[0].graph
    assert large[0].graph is first
    assert large[1].graph is not None
    again = large[0].graph
    assert again is not first
    assert np.array_equal(again.features, first.features)
    assert np.array_equal(labels_of(again), labels_of(first))


def test_what_evaluation_reads_is_prepared_once(toy_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delome.streams.cut.KEEP_BELOW", 0)
    stream = TaskStream(toy_graph)
    learner = FineTune(epochs=2, hidden=8)
    for task in stream:
        learner.observe(task)
    expected = [learner.predict(task.graph, task.test) for task in stream]
    first = learner.evaluate(stream)
    monkeypatch.setattr(Graph, "subgraph", None)
    assert learner.evaluate(stream) == first
    for task, columns in zip(stream, expected, strict=True):
        form = learner.inputs_key(), learner.reading, learner.seed
        labels = task.prepared("test", form, lambda *_: pytest.fail("prepared again"))[1]
        assert Score.of(columns, labels).balanced == first[task.index]

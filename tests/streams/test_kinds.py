"""Every kind of stream: what it cuts, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delome import PUMA, TPP, FineTune, Graph, HPNs, Learner, Prototypes, TaskStream, load_graph
from delome.errors import DelomeError, ParameterError, StreamError
from delome.learning import METHODS
from delome.streams import STREAMS, Blurry, Classes, Domains, Protocol, StreamKind, Time, parse_kind
from delome.streams.blurry import largest_remainders, schedule
from delome.streams.cut import CutStream
from delome.streams.grouped import OrderedStream
from delome.streams.kind import written
from delome.testing.subject import same_state

YEARS = np.repeat([2000, 2001, 2003, 2004], 30)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Six classes of 20 nodes, in years 2000 to 2004, of which 2002 has none, and three domains."""
    made = load_graph("synthetic", nodes=120, classes=6, features=8, degree=4)
    order = np.random.default_rng(0).permutation(120)
    years, domains = np.empty(120), np.arange(120) % 3
    years[order] = YEARS
    return made._like(attributes={"node_year": years, "node_domain": domains})


def sizes_of(stream: CutStream) -> list[int]:
    return [len(task.class_labels) for task in stream]


def test_tasks_may_have_unequal_numbers_of_classes(graph: Graph) -> None:
    assert sizes_of(Classes(base=3, step=2)(graph)) == [3, 2]
    assert sizes_of(Classes(base=4)(graph)) == [4, 2]
    assert sizes_of(Classes(step=1)(graph)) == [1] * 6
    assert sizes_of(Classes(sizes="3+1+2")(graph)) == [3, 1, 2]
    assert Classes(base=3, step=2)(graph).dropped == {5: "left over after the last full task"}
    assert sizes_of(Classes(sizes="2+1+2")(graph, tasks=2)) == [2, 1]
    listed: Any = [2, 1, 2]
    assert sizes_of(Classes(sizes=listed)(graph)) == listed


def test_classes_come_by_label_by_size_shuffled_or_as_given() -> None:
    labels = np.repeat(np.arange(4), [4, 9, 6, 9])
    graph = Graph([[0], [1]], np.ones((28, 1)), labels)

    def order(**options: Any) -> list[Any]:
        return [label for task in Classes(step=1, **options)(graph) for label in task.class_labels]

    assert order() == [0, 1, 2, 3]
    assert order(order="size") == [1, 3, 2, 0]
    assert order(order="3+0+2") == order(order=[3, 0, 2]) == [3, 0, 2]
    shuffled = [order(order="shuffled", seed=seed) for seed in range(5)]
    assert all(sorted(each) == [0, 1, 2, 3] for each in shuffled) and len({tuple(each) for each in shuffled}) > 1
    assert order(order="shuffled", seed=3) == shuffled[3]


def test_classes_that_return_bring_other_nodes(graph: Graph) -> None:
    stream = Classes(returning=1)(graph)
    assert [task.class_labels[:2] for task in stream] == [(0, 1), (2, 3), (4, 5)]
    assert sizes_of(stream) == [2, 3, 3]
    nodes = np.concatenate([task.nodes for task in stream])
    assert len(np.unique(nodes)) == len(nodes) == 120
    for task in stream[1:]:
        assert set(task.class_labels[2:]) < set(task.labels_before)
        assert (task.observation().labels == task.classes[2]).any()
    assert stream.describe()["stream"] == stream.kind == "classes:returning=1"


def test_a_period_is_a_task_of_a_graph_that_grows(graph: Graph) -> None:
    stream = Time(period=2)(graph)
    assert isinstance(stream, OrderedStream) and stream.test_graph == "grown"
    assert stream.names == ["until 2002", "2002 to 2004", "from 2004"]
    years = graph.attributes["node_year"]
    for task, allowed in zip(stream, ([2000, 2001], [2003], [2004]), strict=True):
        own = task.nodes[np.concatenate([task.train, task.val, task.test])]
        assert set(years[own]) == set(allowed)
        assert set(years[task.nodes]) == {2000, 2001, 2003, 2004} & set(range(2000, 2002 + 2 * task.index))
    bounded = Time(bounds="2001+2004")(graph)
    assert isinstance(bounded, OrderedStream) and bounded.names == ["until 2001", "2001 to 2004", "from 2004"]
    early = Time(period=1, start=2003)(graph)  # what is earlier belongs to the first period
    assert [len(np.setdiff1d(task.nodes, early[task.index - 1].nodes if task.index else [])) for task in early] == [
        90,
        30,
    ]


def test_the_next_period_is_asked_about_before_it_is_learned(graph: Graph) -> None:
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[graph.attributes["node_year"] == 2004] = np.where(np.arange(30) % 3 == 0, 6, 1)  # a class that is new then
    stream = Time(period=2)(graph.with_labels(labels))
    assert isinstance(stream, OrderedStream)
    (ahead,) = stream.ahead(stream[1])
    asked, later = (each.graph.labels for each in (ahead, stream[2]))
    assert asked is not None and later is not None
    assert ahead.index == 2 and set(asked[ahead.test]) == {1} < set(later[stream[2].test])
    assert (ahead.nodes == stream[2].nodes).all()
    assert stream.ahead(stream[2]) == []
    cut = Time(period=2)(graph, Protocol("cut"))
    assert isinstance(cut, OrderedStream) and (cut.ahead(cut[0])[0].nodes == cut[1].nodes).all()


def test_of_a_class_that_is_rare_in_a_period_nodes_only_take_part_in_propagation() -> None:
    labels = np.array([0] * 5 + [1] * 5 + [2] * 2 + [-1])
    graph = Graph([[0], [12]], np.ones((13, 1)), labels, node_attributes={"node_year": np.zeros(13)})
    stream = Time()(graph)
    assert stream[0].class_labels == (0, 1) and sorted(stream[0].nodes.tolist()) == list(range(13))
    assert set(labels[stream[0].nodes[np.concatenate([stream[0].train, stream[0].val, stream[0].test])]]) == {0, 1}
    assert stream.dropped == {2: "too few nodes in each group"}


def test_a_domain_is_a_task_of_all_classes(graph: Graph) -> None:
    stream = Domains()(graph)
    assert [task.class_labels for task in stream] == [(0, 1, 2, 3, 4, 5)] * 3
    assert all(set(graph.attributes["node_domain"][task.nodes]) == {task.index} for task in stream)


def test_domains_may_be_named_by_text(graph: Graph) -> None:
    countries = np.array(["nl", "de", "fr"])[graph.attributes["node_domain"].astype(int)]
    stream = Domains(column="node_country")(graph._like(attributes={"node_country": countries}))
    assert list(stream.names) == ["node_country de", "node_country fr", "node_country nl"]
    assert all(set(countries[task.nodes]) == {name[-2:]} for task, name in zip(stream, stream.names, strict=True))


def test_a_start_is_proposed_that_leaves_enough_nodes_in_every_period(graph: Graph) -> None:
    years = np.where(np.arange(120) < 2, 1990, graph.attributes["node_year"])
    dated = graph._like(attributes={"node_year": years})
    with pytest.raises(StreamError, match=r"^until 1992 has too few nodes .*: choose start=2000, or longer periods$"):
        Time(period=2)(dated)
    assert list(Time(period=2, start=2000)(dated).names) == ["until 2002", "2002 to 2004", "from 2004"]


@pytest.mark.parametrize("period", [0.1, 0.3, 1e-5])
def test_periods_that_are_fractions_begin_with_the_nodes_that_do(period: float) -> None:
    steps = np.repeat(np.arange(10), 12)
    times = [float(f"{step * period:.12g}") for step in steps]
    graph = Graph(np.zeros((2, 0), int), np.ones((120, 1)), np.arange(120) % 2, node_attributes={"node_year": times})
    stream = Time(period=period)(graph, Protocol())
    assert [np.unique(steps[task.nodes]).tolist() for task in stream] == [[step] for step in range(10)]
    assert "0.30000000000000004" not in " ".join(stream.names)


def test_classes_of_later_groups_are_not_called_small(graph: Graph) -> None:
    late = np.where(graph.labels == 5, 2004.0, 2000 + np.arange(120) % 3)
    stream = Time(period=2)(graph._like(attributes={"node_year": late}), tasks=1)
    assert stream.dropped == {5: "too few nodes in the first 1 group"}


def test_a_split_that_lacks_a_part_in_a_period_is_named(graph: Graph) -> None:
    part = np.arange(120) % 5
    masks = {"train": part < 3, "val": (part == 3) & (np.arange(120) < 5), "test": part == 4}
    given = graph._like(masks=masks)
    sentence = "until 2002 has too few nodes to learn: .* nodes of every part, and 2 are needed"
    with pytest.raises(StreamError, match=f"{sentence}: choose longer periods"):
        Time(period=2)(given)


def test_times_keep_all_their_digits(graph: Graph) -> None:
    for start, text in ((1600000000123.0, "1600000000123.0"), (0.1 + 0.2, "0.30000000000000004"), (2.0, "2")):
        kind = Time(start=start)
        assert written(kind) == f"time:start={text}" and parse_kind(written(kind)) == kind
    shifted = graph._like(attributes={"node_year": graph.attributes["node_year"] * 1e9 + 1})
    assert list(Time(bounds="2001000000002+2004000000000.5")(shifted).names) == [
        "until 2001000000002",
        "2001000000002 to 2004000000000.5",
        "from 2004000000000.5",
    ]


def test_a_protocol_is_a_value_and_a_stream_has_its_usual_one(graph: Graph) -> None:
    assert Time(period=2)(graph, tasks=1).protocol == Protocol("grown")
    assert Classes()(graph, tasks=1).protocol == Protocol("cut")
    assert Blurry(steps=2)(graph, Protocol("joined", inductive=True)).protocol == Protocol("joined", inductive=True)
    with pytest.raises(StreamError, match="a protocol is a Protocol"):
        Classes()(graph, "joined")  # type: ignore[arg-type]


def test_a_learner_refuses_tasks_of_streams_that_it_cannot_learn(graph: Graph) -> None:
    task = Blurry(steps=2)(graph)[0]
    for learner, sentence in (
        (TPP(), "method tpp cannot learn a blurry stream: choose classes, time or domains"),
        (HPNs(setting="til"), "method hpns cannot learn a blurry stream: choose classes, time or domains"),
        (FineTune(setting="til"), "a blurry stream has no tasks that could be known, as setting til assumes"),
    ):
        with pytest.raises(StreamError, match=sentence):
            learner.observe(task)
        assert learner.classes == []


def test_streams_of_ones_own_are_learned_by_every_method(graph: Graph) -> None:
    class Reversed(StreamKind):
        """Classes from the last to the first."""

        def cut(self, graph: Graph, cutting: Any) -> CutStream:
            return TaskStream(graph, class_order=[5, 4, 3, 2, 1, 0], tasks=cutting.tasks)

    stream = Reversed()(graph, tasks=2)
    learner = TPP(epochs=2, hidden=4, pretrain=2)
    for task in stream:
        learner.observe(task)
    assert learner.classes == [5, 4, 3, 2] and stream.kind.endswith("Reversed")


@pytest.mark.parametrize("sigma", [1e-6, 1e300])
def test_very_narrow_and_very_wide_waves_are_computed_without_warnings(sigma: float) -> None:
    shares = schedule(6, 3, sigma, 0.0)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    expected = [[1.0 - (step != place // 2) if sigma < 1 else 1 / 3 for step in range(3)] for place in range(6)]
    np.testing.assert_allclose(shares, expected, atol=1e-12)


def test_proportions_are_a_softmax_of_gaussians() -> None:
    found = schedule(3, 4, 0.2, 0.25)
    times, centres = [0.125, 0.375, 0.625, 0.875], [1 / 6, 0.5, 5 / 6]
    steps = np.array([[np.exp(-((t - mu) ** 2) / 0.08) for mu in centres] for t in times])
    steps /= steps.sum(axis=1, keepdims=True)  # of what a step is made
    expected = 0.75 * steps.T / steps.T.sum(axis=1, keepdims=True) + 0.25 / 4
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(schedule(9, 2, 1e-4, 0.0).sum(axis=1), 1)  # far narrower than a step


def test_counts_are_rounded_to_the_largest_remainders() -> None:
    # ten times (0.46, 0.28, 0.26): 4.6, 2.8, 2.6 → 4, 2, 2 and the two lost go to 0.8 and the first 0.6
    assert largest_remainders(10, np.array([0.46, 0.28, 0.26])).tolist() == [5, 3, 2]


def test_every_node_arrives_once_and_its_class_before_it_is_asked_about(graph: Graph) -> None:
    stream = Blurry(sigma=0.15, steps=6, share=0.1)(graph)
    nodes = np.concatenate([task.nodes for task in stream])
    assert sorted(nodes.tolist()) == list(range(120)) and graph.labels is not None
    for task in stream:
        asked = graph.labels[task.nodes[np.concatenate([task.val, task.test])]]
        assert set(asked) <= set(task.known_labels)
    assert sum(len(task.train) for task in stream) == 72
    blurred, sharp = (Blurry(sigma=sigma, steps=6)(graph) for sigma in (0.3, 0.01))
    assert sizes_of(sharp) == [1] * 6 and min(sizes_of(blurred)) > 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("classes:base=7", "base must be at most the number of classes with at least 3 nodes, 6, not 7"),
        ("classes:sizes=4+4", "cannot make tasks of 8 classes in all: the graph has 6 classes with at least 3 nodes"),
        ("classes:sizes=4+", "sizes must be a list such as 4+3+3, not '4+'"),
        ("classes:sizes=2,base=2", "sizes says how large tasks are: leave out base and step"),
        ("classes:order=9+1", "the order of classes names some that the graph does not have: [9]"),
        ("classes:order=big", "order must be label, size, shuffled or labels such as 3+0+1, not 'big'"),
        ("classes:order=--3+0", "order must be label, size, shuffled or labels such as 3+0+1, not '--3+0'"),
        ("classes:order=" + "9" * 5000, "order must be label, size, shuffled or labels such as 3+0+1, not '9"),
        ("classes:sizes=" + "9" * 5000, "sizes must be numbers of classes such as 4+3+3, not '9"),
        ("time:period=0", "period must be greater than 0, not 0.0"),
        ("time", "2002 to 2003 has no nodes: choose start=2002, or longer periods"),
        ("time:column=node_yaer", "unknown node attribute 'node_yaer': did you mean 'node_year'?"),
        ("time:start=2010", "start 2010 is after the last timestamp, 2004: choose an earlier one"),
        ("time:bounds=2003+2001", "bounds must be numbers in ascending order, not '2003+2001'"),
        ("time:bounds=now", "bounds must be numbers such as 2010+2014, not 'now'"),
        ("time:period=1e-9", "period 1e-09 makes 4e+09 tasks, and at most 10,000 are allowed"),
        ("blurry:sigma=0", "sigma must be at least 1e-06, not 0.0"),
        ("blurry:sigma=-1", "sigma must be at least 1e-06, not -1.0"),
        ("blurry:share=1", "share must be below 1, not 1"),
        ("blurry:steps=200", "step 4 of 200 has no nodes to train, validate and test on: choose fewer steps"),
        ("tme", "unknown stream 'tme': did you mean 'time'? (known: blurry, classes, domains, time)"),
        ("classes:bas=3", "unknown parameter of stream classes 'bas'"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_is_refused_in_a_sentence(graph: Graph, text: str, sentence: str) -> None:
    with pytest.raises(DelomeError) as error:
        parse_kind(text)(graph)
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_timestamps_that_are_missing_are_refused(bad: float) -> None:
    graph = Graph([[0], [1]], np.ones((6, 1)), [0, 1] * 3, node_attributes={"node_year": [bad, 1.0, 1, 1, 1, 1]})
    with pytest.raises(
        StreamError, match="the node_year of 1 node is NaN or infinite: leave out such nodes, or give them a value"
    ):
        Time()(graph)
    with pytest.raises(StreamError, match="the graph has no node attribute 'node_year': give it node_attributes="):
        Time()(Graph([[0], [1]], np.ones((6, 1)), [0, 1] * 3))


def test_a_period_of_one_class_is_refused() -> None:
    graph = Graph([[0], [1]], np.ones((9, 1)), [0] * 3 + [1] * 6, node_attributes={"node_year": [1] * 6 + [2] * 3})
    with pytest.raises(
        StreamError,
        match="from 2 has too few nodes to learn: 1 class has nodes of every part, and 2 are needed: choose longer",
    ):
        Time()(graph)


@pytest.mark.parametrize(
    "text", ["classes", "classes:base=4,step=2", "time:period=2.5,start=1999", "blurry:sigma=0.25"]
)
def test_the_text_of_a_stream_is_read_back(text: str) -> None:
    assert written(parse_kind(text)) == text
    name, _, rest = text.partition(":")
    assert written(parse_kind(f"{name}:{','.join(reversed(rest.split(',')))}" if rest else name)) == text


def test_a_stream_is_named_by_text(graph: Graph) -> None:
    with pytest.raises(ParameterError, match="a stream is named by text such as 'classes:base=4,step=2', not by 3"):
        parse_kind(3)
    with pytest.raises(StreamError, match="a stream is cut from a Graph, not from 'digits'"):
        Classes()("digits")  # type: ignore[arg-type]


KINDS = st.sampled_from(
    [
        "classes", "classes:sizes=3+1+2", "classes:returning=1,order=shuffled", "time:period=2",
        "time:bounds=2001+2004", "domains", "blurry:sigma=0.1,steps=4", "blurry:sigma=0.3,steps=3,share=0.2",
    ]
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    kind=KINDS, test_graph=st.sampled_from(["cut", "joined", "grown"]), inductive=st.booleans(), seed=st.integers(0, 9)
)
def test_no_stream_shows_labels_or_what_is_to_come(
    graph: Graph, kind: str, test_graph: str, inductive: bool, seed: int
) -> None:
    protocol = Protocol(test_graph, inductive)
    stream, again = (parse_kind(kind)(graph, protocol, split_seed=seed) for _ in range(2))
    assert stream.fingerprint() == again.fingerprint()
    assert graph.labels is not None
    arrived: set[int] = set()
    tested: set[int] = set()
    for task, twin in zip(stream, again, strict=True):
        assert all((getattr(task, name) == getattr(twin, name)).all() for name in ("nodes", "train", "val", "test"))
        seen = task.observation()
        assert seen.graph.labels is None and not seen.graph.masks and not seen.graph.attributes
        train, held = set(task.nodes[task.train].tolist()), set(task.nodes[np.r_[task.val, task.test]].tolist())
        own = train | held
        assert len(train) == len(seen.train) and not train & held and not own & arrived
        arrived |= own
        tested |= set(task.nodes[task.test].tolist())
        shown = {tuple(row) for row in seen.graph.features.tolist()}
        to_come = set(np.concatenate([np.empty(0, int), *(each.nodes for each in stream[task.index + 1 :])]).tolist())
        to_come -= set(np.concatenate([each.nodes for each in stream[: task.index + 1]]).tolist())
        assert not shown & {tuple(row) for row in graph.features[sorted(to_come)].tolist()}
        assert inductive != bool(shown & {tuple(row) for row in graph.features[sorted(tested)].tolist()})
        learned = set(np.array(task.known_labels)[seen.labels].tolist())
        assert learned <= set(task.class_labels)
        assert all(set(graph.labels[each.nodes[each.test]]) <= set(task.known_labels) for each in stream.seen(task))


@settings(max_examples=40, deadline=None)
@given(
    kind=KINDS, test_graph=st.sampled_from(["cut", "joined", "grown"]), inductive=st.booleans(), seed=st.integers(0, 9)
)
def test_numbers_of_nodes_tell_neither_class_nor_part_nor_task(
    graph: Graph, kind: str, test_graph: str, inductive: bool, seed: int
) -> None:
    assert graph.labels is not None
    everything = Classes(step=6)(graph)[0].nodes
    place = np.argsort(everything)  # the same for all labels, splits and tasks
    other = graph._like(labels=np.random.default_rng(seed).permutation(graph.labels))
    assert (Classes(step=6)(other, split_seed=seed)[0].nodes == everything).all()
    stream = parse_kind(kind)(graph, Protocol(test_graph, inductive), split_seed=seed)
    for task in [*stream, *(each for last in stream for each in stream.seen(last))]:
        assert (np.diff(place[task.nodes]) > 0).all()
        assert all((np.diff(part) > 0).all() for part in (task.train, task.val, task.test))
        assert (task.graph.labels == graph.labels[task.nodes]).all()
        seen = task.observation()
        shown = np.delete(task.nodes, np.flatnonzero(np.isin(task.nodes, _tested(stream)))) if inductive else task.nodes
        assert (seen.graph.features == graph.features[shown]).all()
        assert (np.array(task.known_labels)[seen.labels] == graph.labels[shown[seen.train]]).all()


def test_nodes_in_order_of_their_labels_are_numbered_at_random() -> None:
    labels = np.repeat(np.arange(2), 500)
    task = TaskStream(Graph(np.zeros((2, 0), int), np.ones((1000, 1)), labels))[0]
    assert task.graph.labels is not None
    before = np.sort(task.train)[np.searchsorted(np.sort(task.train), task.test) - 1]
    assert 0.4 < (task.graph.labels[before] == task.graph.labels[task.test]).mean() < 0.6


def _tested(stream: CutStream) -> np.ndarray:
    return np.concatenate([task.nodes[task.test] for task in stream])


@settings(max_examples=25, deadline=None)
@given(
    kind=KINDS,
    test_graph=st.sampled_from(["cut", "joined", "grown"]),
    inductive=st.booleans(),
    tasks=st.integers(1, 3),
    method=st.sampled_from([Prototypes, PUMA]),
)
def test_what_is_learned_does_not_depend_on_what_is_to_come(
    graph: Graph, kind: str, test_graph: str, inductive: bool, tasks: int, method: type[Learner]
) -> None:
    protocol = Protocol(test_graph, inductive)
    stream = parse_kind(kind)(graph, protocol)
    arrived = np.concatenate([each.nodes for each in stream[:tasks]])
    tested = np.concatenate([each.nodes[each.test] for each in stream[:tasks]])
    hidden = np.setdiff1d(np.arange(graph.num_nodes), np.setdiff1d(arrived, tested) if inductive else arrived)
    features = np.array(graph.features)
    features[hidden] = -7 * features[hidden] + 1
    other = parse_kind(kind)(graph._like(features=features), protocol)
    states = []
    for each in (stream, other):
        learner = method(**{"epochs": 2, "hidden": 4, "budget": 2} if method is PUMA else {})
        for task in each[:tasks]:
            learner.observe(task)
        states.append(learner.state())
    assert len(hidden) or tasks >= len(stream)
    assert same_state(*states)


@pytest.mark.parametrize("name", STREAMS)
def test_every_method_learns_every_stream_that_it_names(name: str, graph: Graph) -> None:
    texts = {"classes": "classes:returning=1,sizes=3+2+1", "time": "time:period=2", "blurry": "blurry:steps=3"}
    stream = parse_kind(texts.get(name, name))(graph)
    small = {"epochs": 2, "hidden": 4, "budget": 2, "features": 8, "pretrain": 2, "dimension": 4}
    kind = STREAMS[name]
    for method in METHODS.values():
        setting = next((each for each in method.settings if each in kind.settings), None)
        if name in method.streams and setting is not None:
            learner = learned(method, setting, small, stream)
            scores = learner.evaluate(stream.seen(stream[-1]))
            assert len(scores) == len(stream) and all(0 <= score <= 100 for score in scores)


def learned(method: type[Learner], setting: Any, small: dict[str, Any], stream: CutStream) -> Learner:
    from delome.parameters import has_parameter

    plain = method(setting=setting)
    learner = method(setting=setting, **{key: value for key, value in small.items() if has_parameter(plain, key)})
    for task in stream:
        learner.observe(task)
    return learner

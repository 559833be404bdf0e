"""What every method must do with live data: graphs that are not cut from a stream, of which some nodes are labelled."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from delome import Graph, TaskStream
from delome.errors import DelomeError, GraphError, PastDataError, StateError
from delome.methods import METHODS
from delome.parameters import parameters_of
from delome.progress import Tracker
from delome.testing import Subject

SMALL = {"epochs": 5, "networks": 3, "encoders": 5, "pretrain": 3, "budget": 3, "hidden": 8, "features": 32}
WIDTH = 6

ON_GCN = {"finetune", "lwf", "ssm-uniform", "replay"}
ON_GAT = {"twp"}
"""The others reach a backbone in the same ways."""


def variants():
    """(name, setting, backbone) of every method that works on live data."""
    for name, method in METHODS.items():
        if method.needs_past:
            continue
        backbones: list[str | None] = ["sgc"] if "backbone" in parameters_of(method) else [None]
        backbones += ["gcn"] * (name in ON_GCN) + ["gat"] * (name in ON_GAT)
        for setting in method.settings:
            for backbone in backbones:
                first = setting == method.settings[0] and backbone == backbones[0]
                yield pytest.param(
                    (name, setting, backbone),
                    id="-".join(filter(None, (name, setting, backbone))),
                    marks=[] if first else pytest.mark.slow,
                )


def learner_of(name, setting=None, backbone=None, **parameters):
    method, parts = METHODS[name], {} if backbone is None else {"backbone": backbone}
    return Subject(method, setting or method.settings[0], parts).make(**SMALL | parameters)


@pytest.fixture(params=list(variants()))
def make(request):
    """Makes learners of one method, setting and backbone, small enough to be quick."""
    name, setting, backbone = request.param
    return lambda **parameters: learner_of(name, **({"setting": setting, "backbone": backbone} | parameters))


def live(*classes, seed=0, width=WIDTH, known=None, names=None):
    """A node for each label; features and edges keep classes apart. ``known``: labels that are not hidden."""
    rng = np.random.default_rng(seed)
    labels = np.array(classes)
    centres = np.stack([np.random.default_rng(label).normal(size=width) for label in labels])
    same = [rng.choice(np.flatnonzero(labels == label), 2) for label in labels]
    edges = np.stack([np.repeat(np.arange(len(labels)), 2), np.concatenate(same)])
    features = 3 * centres + 0.3 * rng.normal(size=(len(labels), width))
    shown = labels if known is None else np.where(known, labels, -1)
    return Graph(edges, features, shown, class_names=names, undirected=True)


def to_data(graph, **more):
    data = graph.to_pyg()
    for name, value in more.items():
        data[name] = value
    return data


NEW = [live(*[100] * 6, *[7] * 6), live(*[50] * 5, *[3] * 5, seed=1)]
MIXED = [NEW[0], live(*[7] * 5, *[3] * 5, seed=1), live(*[3] * 4, *[100] * 4, *[12] * 4, seed=2)]
SINGLE = [live(*[7] * 5), live(*[100] * 5, seed=1), live(*[7] * 5, seed=2)]
FEW = [
    live(*[7] * 9, *[100] * 2, known=np.arange(11) < 10),
    live(*[100] * 3, *[7] * 3, *[3] * 6, seed=1, known=np.arange(12) % 3 == 0),
]
SEQUENCES = {"new": NEW, "mixed": MIXED, "single": SINGLE, "few": FEW}


def observe(learner, graphs):
    for graph in graphs:
        learner.observe(graph)
    return learner


def assert_same_state(a, b):
    # which graphs were learned, labels included, is remembered to recognise them, and changes nothing else
    assert {**a.values, "learned": None} == {**b.values, "learned": None}
    assert a.tensors.keys() == b.tensors.keys()
    for name, tensor in a.tensors.items():
        assert torch.equal(tensor, b.tensors[name]), name


def differs(a, b):
    shapes = [{name: tensor.shape for name, tensor in state.tensors.items()} for state in (a, b)]
    return shapes[0] != shapes[1] or any(not torch.equal(a.tensors[name], b.tensors[name]) for name in a.tensors)


@pytest.mark.parametrize(
    ("sequence", "classes", "tasks"),
    [
        ("new", [7, 100, 3, 50], [(0, 1), (2, 3)]),
        ("mixed", [7, 100, 3, 12], [(0, 1), (0, 2), (1, 2, 3)]),
        ("single", [7, 100], [(0,), (1,), (0,)]),
        ("few", [7, 100, 3], [(0, 1), (0, 1, 2)]),
    ],
)
def test_unseen_labels_get_the_next_columns_and_known_ones_keep_theirs(make, sequence, classes, tasks):
    learner = observe(make(), SEQUENCES[sequence])
    assert learner.classes == classes
    assert learner.columns.tasks == tasks
    assert all(torch.isfinite(tensor).all() for tensor in learner.state().tensors.values())
    for task, columns in enumerate(tasks):
        predicted = learner.predict(SEQUENCES[sequence][task], task=task)
        assert predicted.dtype == np.int64
        allowed = classes if learner.setting == "cil" else [classes[column] for column in columns]
        assert set(predicted.tolist()) <= set(allowed)


def test_the_newest_graph_is_learned(make):
    learner = observe(make(epochs=40, hidden=32, encoders=100, features=128, lr=0.05, epsilon=1000.0), MIXED[:2])
    graph = MIXED[1]
    assert (learner.predict(graph, task=1) == graph.labels).mean() > 0.8


def test_unlabelled_nodes_take_part_in_propagation(make):
    known = np.arange(12) % 2 == 0
    graph = live(*[7] * 6, *[100] * 6, known=known)
    features = graph.features.copy()
    features[~known] *= -1
    other = Graph(graph.adjacency.nonzero()[::-1], features, graph.labels)
    learner = observe(make(), [graph])
    edge_free = type(learner).__name__ == "Private"
    assert differs(learner.state(), observe(make(), [other]).state()) != edge_free


def test_hidden_labels_do_not_matter(make):
    mask = torch.arange(12) % 2 == 0
    data = to_data(live(*[7] * 6, *[100] * 6), train_mask=mask)
    other = to_data(live(*[7] * 6, *[100] * 6), train_mask=mask)
    other.y = torch.where(mask, other.y, torch.randint(0, 9, (12,), generator=torch.Generator().manual_seed(0)))
    hidden = live(*[7] * 6, *[100] * 6, known=mask.numpy())
    expected = observe(make(), [hidden]).state()
    assert expected.values["classes"] == [7, 100]
    assert_same_state(observe(make(), [data]).state(), expected)
    assert_same_state(observe(make(), [other]).state(), expected)


def test_without_a_mask_all_labelled_nodes_of_pyg_data_are_learned(make):
    graph = live(*[7] * 6, *[100] * 6, known=np.arange(12) % 3 > 0)
    learner = observe(make(), [to_data(graph)])
    assert_same_state(learner.state(), observe(make(), [graph]).state())
    assert (learner.predict(to_data(graph), task=0) == learner.predict(graph, task=0)).all()


REFUSED = {
    "another width": (live(7, 7, 3, width=4), StateError, "trained on 6 features, but the graph has 4"),
    "no label": (live(7, 7, 3, known=np.zeros(3, bool)), GraphError, "no node has a label to learn from"),
    "hidden labels": (live(7, 7, 3).with_labels(None), GraphError, "no node has a label to learn from"),
    "empty mask": (
        to_data(live(7, 7, 3), train_mask=torch.zeros(3, dtype=torch.bool)),
        GraphError,
        "no node inside train_mask has a label",
    ),
    "mask of another shape": (
        to_data(live(7, 7, 3), train_mask=torch.ones(3, 2, dtype=torch.bool)),
        GraphError,
        r"true or false for each of the 3 nodes, but it has type bool and shape \(3, 2\)",
    ),
    "mask of another type": (
        to_data(live(7, 7, 3), train_mask=torch.ones(3, dtype=torch.uint8)),
        GraphError,
        r"true or false for each of the 3 nodes, but it has type uint8 and shape \(3,\)",
    ),
    "no features": (Data(edge_index=torch.zeros(2, 0, dtype=torch.long)), GraphError, "has no node features"),
    "another name": (
        Graph([[], []], np.ones((1, WIDTH)), [0], class_names=[*"ab2defgh"]),
        StateError,
        "class 7 has been called 'seven' so far, but this graph calls it 'h'",
    ),
    "an array": (np.ones((3, WIDTH)), GraphError, "a ndarray cannot be learned from: give a task of a TaskStream"),
    "nothing": (None, GraphError, "a NoneType cannot be learned from"),
}


def test_a_refused_observation_leaves_the_learner_as_it_was(make):
    names = [str(label) for label in range(7)] + ["seven"]
    first = live(*[7] * 4, *[2] * 4, names=names)
    learner, undisturbed = make(), make()
    learner.observe(first)
    undisturbed.observe(first)
    before = learner.state()
    for data, error, sentence in REFUSED.values():
        with pytest.raises(error, match=sentence):
            learner.observe(data)
        assert_same_state(learner.state(), before)
    assert learner.class_names == {2: "2", 7: "seven"}
    learner.observe(MIXED[1])
    undisturbed.observe(MIXED[1])
    assert_same_state(learner.state(), undisturbed.state())


def test_a_first_observation_that_is_refused_leaves_nothing(make):
    learner = make()
    with pytest.raises(GraphError):
        learner.observe(REFUSED["no label"][0])
    assert_same_state(learner.state(), make().state())


def test_state_is_all_that_is_carried_over(make):
    whole = observe(make(), MIXED)
    resumed = make()
    for graph in MIXED:
        successor = make()
        successor.load_state(resumed.state())
        successor.observe(graph)
        resumed = successor
    assert_same_state(resumed.state(), whole.state())
    assert resumed.classes == whole.classes
    for task, graph in enumerate(MIXED):
        assert (resumed.predict(graph, task=task) == whole.predict(graph, task=task)).all()


def test_a_graph_that_is_observed_stays_the_users(make):
    graph = live(*[7] * 6, *[100] * 6)
    learner = observe(make(), [graph])
    assert graph.labels.tolist() == [7] * 6 + [100] * 6
    assert graph.num_nodes == 12
    before = learner.state()
    graph.features[:] = 0
    assert_same_state(learner.state(), before)


def test_a_stream_of_one_task_is_its_graph_with_the_labels_of_training_nodes(make, toy_graph):
    stream = TaskStream(toy_graph, class_order=[4, 5])
    task = stream[0]
    known = np.isin(np.arange(task.graph.num_nodes), task.train)
    assert task.graph.labels is not None
    graph = task.graph.with_labels(np.where(known, task.graph.labels, -1))
    by_stream, by_graph = make(), make()
    by_stream.observe(task)
    by_graph.observe(graph)
    assert_same_state(by_stream.state(), by_graph.state())
    assert by_stream.classes == [4, 5]


def test_live_data_may_follow_a_stream(make, toy_graph):
    stream = TaskStream(toy_graph, class_order=[3, 0, 5, 1])
    learner = make()
    learner.observe(stream[0])
    if learner.setting == "cil":
        assert set(learner.predict(stream[0].graph).tolist()) <= {3, 0}
    learner.observe(stream[1])
    scores = learner.evaluate(stream)
    graph = toy_graph.with_labels(np.where(np.isin(toy_graph.labels, [0, 4]), toy_graph.labels, -1))
    learner.observe(graph)
    assert learner.classes == [3, 0, 5, 1, 4]
    assert learner.columns.tasks == [(0, 1), (2, 3), (1, 4)]
    assert set(learner.predict(graph, task=2).tolist()) <= ({0, 4} if learner.setting == "til" else set(range(6)))
    assert len(learner.evaluate(stream)) == len(scores) == 2


def test_a_task_whose_classes_have_other_columns_is_refused(make, toy_graph):
    learner = make()
    learner.observe(toy_graph.with_labels(np.where(toy_graph.labels == 3, 3, -1)))
    before = learner.state()
    stream = TaskStream(toy_graph)
    with pytest.raises(StateError, match=r"task 0 cannot follow 1 learned tasks: .* after live data hand in graphs"):
        learner.observe(stream[0])
    with pytest.raises(StateError, match="task 1 cannot follow what was learned: its stream has had other classes"):
        learner.observe(stream[1])
    assert_same_state(learner.state(), before)
    # the same class in the same column
    learner.observe(TaskStream(toy_graph, 1, class_order=[3, 1])[1])
    assert learner.classes == [3, 1]


def test_evaluation_compares_labels_not_columns(toy_graph):
    # column 0 of the stream is class 0, of the learner class 5
    learner = learner_of("finetune", epochs=60)
    learner.observe(toy_graph.with_labels(np.where(toy_graph.labels >= 4, 9 - toy_graph.labels, -1)))
    assert learner.classes == [4, 5]
    stream = TaskStream(toy_graph.with_labels(9 - toy_graph.labels), class_order=[5, 4])
    assert learner.evaluate(stream)[0] > 90
    graph = stream[0].graph
    assert (learner.predict(graph) == graph.labels).mean() > 0.9


@pytest.mark.parametrize("name", sorted(name for name, method in METHODS.items() if method.needs_past))
def test_methods_that_look_back_refuse_live_data_at_once(name, toy_stream):
    learner = learner_of(name)
    before = learner.state()
    with pytest.raises(
        PastDataError, match=r"only a stream can give: hand in tasks of a TaskStream, or choose another"
    ):
        learner.observe(NEW[0])
    assert_same_state(learner.state(), before)
    learner.observe(toy_stream[0])
    with pytest.raises(PastDataError, match="only a stream can give"):
        learner.observe(NEW[0])
    learner.observe(toy_stream[1])


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("backbone", ["sgc", "gcn", "gat"])
@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("ewc", {"strength": 0.0}),
        ("mas", {"strength": 0.0}),
        ("twp", {"strength": 0.0, "topology_strength": 0.0}),
        ("lwf", {"strength": 0.0, "kaiming_init": False}),
    ],
)
def test_without_strength_it_is_fine_tune_to_the_bit(name, without, backbone, setting):
    common = {"setting": setting, "backbone": backbone}
    powerless, plain = learner_of(name, **common, **without), learner_of("finetune", **common)
    observe(powerless, MIXED)
    observe(plain, MIXED)
    for a, b in zip(powerless.network.parameters(), plain.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_names_of_classes_come_from_graphs():
    learner = learner_of("finetune")
    learner.observe(live(1, 1, 2, 2))
    assert learner.class_names == {}
    learner.observe(live(1, 1, 0, 0, names=["zero", "one"]))
    assert (learner.classes, learner.class_names) == ([1, 2, 0], {1: "one", 0: "zero"})
    assert learner.state().values["class_names"] == ["one", None, "zero"]
    learner.observe(live(2, 3, 2, 3, names=["zero", "one", "two", "three", "four"]))
    assert learner.class_names == {0: "zero", 1: "one", 2: "two", 3: "three"}
    other = learner_of("finetune")
    other.load_state(learner.state())
    assert (other.classes, other.class_names) == (learner.classes, learner.class_names)


def test_names_of_classes_come_from_streams_too():
    graph = live(*[0] * 4, *[1] * 4, names=["cat", "dog"])
    learner = learner_of("finetune")
    learner.observe(TaskStream(graph, class_order=[1, 0])[0])
    assert (learner.classes, learner.class_names) == ([1, 0], {0: "cat", 1: "dog"})
    with pytest.raises(StateError, match="class 1 has been called 'dog' so far, but this graph calls it 'cat'"):
        learner.observe(live(*[0] * 4, *[1] * 4, names=["dog", "cat"]))


def test_a_state_whose_labels_do_not_fit_its_columns_is_refused():
    learner = observe(learner_of("finetune"), MIXED)
    state = learner.state()
    state.values["classes"] = [1, 2]
    with pytest.raises(DelomeError, match="the state has 4 class columns, but labels of 2"):
        learner_of("finetune").load_state(state)


class Interrupting(Tracker):
    def show(self, phase, done, total):
        if phase == "train" and done == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("earlier", [0, 1])
def test_an_interrupted_observation_is_forgotten(make, earlier, tmp_path):
    learner, twin = make(), make()
    for each in (learner, twin):
        observe(each, MIXED[:earlier])
    before = learner.state()
    with pytest.raises(KeyboardInterrupt):
        learner.observe(MIXED[earlier], Interrupting())
    after = learner.state()
    assert after.values == before.values and after.tensors.keys() == before.tensors.keys()
    assert all(torch.equal(after.tensors[name], before.tensors[name]) for name in before.tensors)
    for each in (learner, twin):
        each.observe(MIXED[earlier])
    learned, expected = learner.state(), twin.state()
    assert all(torch.equal(learned.tensors[name], expected.tensors[name]) for name in expected.tensors)

"""What every registered method must do, in every setting and on every backbone it supports."""

import json
from dataclasses import astuple

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from delome import Graph, TaskStream
from delome.backbones import BACKBONES
from delome.errors import DelomeError, ParameterError, PastDataError, StateError
from delome.methods import METHODS, Replay
from delome.parameters import parameters_of, values_of

SMALL = {"epochs": 8, "networks": 10, "encoders": 50, "budget": 8, "hidden": 32, "features": 64}


ON_GAT = {"finetune", "joint", "twp", "ssm-uniform", "delome"}
"""One method of each kind; the others reach a backbone in the same ways."""


def variants():
    """(name, setting, backbone) of every method."""
    for name, method in METHODS.items():
        backbones = BACKBONES if "backbone" in parameters_of(method) else [None]
        if name not in ON_GAT:
            backbones = [each for each in backbones if each != "gat"]
        for setting in method.settings:
            for backbone in backbones:
                name_of_variant = "-".join(filter(None, (name, setting, backbone)))
                marks = [pytest.mark.slow] if backbone == "gat" else []
                yield pytest.param((name, setting, backbone), id=name_of_variant, marks=marks)


@pytest.fixture(params=list(variants()))
def make(request):
    """Makes learners of one method, setting and backbone, small enough to be quick."""
    name, setting, backbone = request.param
    method = METHODS[name]

    def build(**parameters):
        chosen = {"setting": setting, "backbone": backbone} | SMALL | parameters
        return method(**{key: value for key, value in chosen.items() if key in parameters_of(method)})

    return build


def learn(learner, stream):
    for task in stream:
        learner.observe(task)
    return learner


def assert_same_state(a, b):
    assert a.values == b.values
    assert a.tensors.keys() == b.tensors.keys()
    for name, tensor in a.tensors.items():
        assert torch.equal(tensor, b.tensors[name]), name


def test_learns_the_current_task(make, toy_stream):
    learner = make(epochs=40)
    for task in toy_stream:
        learner.observe(task)
        assert learner.evaluate([task])[0] > 85


def test_predicting_changes_nothing(make, toy_stream):
    learner = learn(make(), toy_stream)
    before = learner.state()
    first = learner.predict(toy_stream[1].graph, task=1)
    assert (learner.predict(toy_stream[1].graph, task=1) == first).all()
    assert_same_state(learner.state(), before)


def test_predictions_are_seen_classes_of_the_allowed_columns(make, toy_stream):
    learner = make()
    learner.observe(toy_stream[0])
    learner.observe(toy_stream[1])
    allowed = toy_stream[1].classes if learner.setting == "til" else range(4)
    assert set(learner.predict(toy_stream[2].graph, task=1)) <= set(allowed)


def test_the_same_seed_gives_the_same_bits(make, toy_stream):
    assert_same_state(learn(make(seed=3), toy_stream).state(), learn(make(seed=3), toy_stream).state())


def test_global_random_state_is_neither_read_nor_changed(make, toy_stream):
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002  # the legacy state is what must not be touched
    states = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
    first = learn(make(), toy_stream).state()
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
    torch.manual_seed(2)
    assert_same_state(learn(make(), toy_stream).state(), first)


def test_state_is_all_that_is_carried_over(make, toy_stream, scores_of):
    whole = learn(make(), toy_stream)
    resumed = make()
    for task in toy_stream:
        successor = make()
        successor.load_state(resumed.state())
        successor.observe(task)
        resumed = successor
    assert_same_state(resumed.state(), whole.state())
    restored = make()
    restored.load_state(whole.state())
    for task in toy_stream:
        assert_array_equal(scores_of(restored, task), scores_of(whole, task))


def test_state_is_tensors_and_json(make, toy_stream):
    state = learn(make(), toy_stream).state()
    assert json.loads(json.dumps(state.values)) == state.values
    assert all(isinstance(tensor, torch.Tensor) and not tensor.requires_grad for tensor in state.tensors.values())


def test_state_does_not_alias_the_learner(make, toy_stream):
    learner = make()
    learner.observe(toy_stream[0])
    state = learner.state()
    copies = {name: tensor.clone() for name, tensor in state.tensors.items()}
    learner.observe(toy_stream[1])
    for name, tensor in copies.items():
        assert torch.equal(state.tensors[name], tensor), name


def test_labels_of_validation_and_test_nodes_are_never_read(make, toy_graph):
    def with_labels(labels):
        stream = TaskStream(toy_graph)
        for task in stream:
            stream._graph_after(task.index).labels[:] = labels(task)
        return stream

    def true(task):
        return task._stream._graph_after(task.index).labels

    def corrupted(task):
        labels = true(task).copy()
        held_out = np.concatenate([task.val, task.test])
        labels[held_out] = np.random.default_rng(0).choice(task.classes, len(held_out))
        return labels

    assert_same_state(learn(make(), with_labels(true)).state(), learn(make(), with_labels(corrupted)).state())


def test_storage_stays_within_the_budget(make, toy_stream):
    learner = make()
    for task in toy_stream:
        learner.observe(task)
        rows = learner.storage().rows
        if isinstance(learner, Replay):
            labels = np.concatenate([memory.labels for memory in learner.bank.memories])
            sizes = np.bincount(labels, minlength=learner.columns.seen)
            assert (sizes == SMALL["budget"]).all()
            assert rows == sum(memory.graph.num_nodes for memory in learner.bank.memories)
        elif not learner.needs_past:
            assert rows == 0


def test_storage_is_what_the_method_declares(make, toy_stream):
    learner = learn(make(), toy_stream)
    letters = {
        "b": SMALL["budget"],
        "C": learner.columns.seen,
        "F": 16,
        "T": len(toy_stream),
        "N": sum(task.graph.num_nodes for task in toy_stream),
        "E": sum(task.graph.num_edges for task in toy_stream),
        "D": SMALL["features"],
        "p": sum(each.numel() for each in learner.network.parameters()) if hasattr(learner, "network") else 0,
        "P": sum(len(table) for table in getattr(learner, "tables", {}).values()),
        "d": getattr(learner, "dimension", 0),
        "A": sum(len(made) for made in getattr(learner, "extractors", {}).values()),
    }
    for declared, measured in zip(astuple(learner.keeps), astuple(learner.storage()), strict=True):
        formula = declared.removeprefix("≤ ").replace("·", "*")
        value = eval(formula, letters)
        assert 0 < measured <= value if declared.startswith("≤") else measured == value


def test_nothing_is_stored_before_anything_is_learned(make):
    assert astuple(make().storage()) == (0, 0, 0)


@pytest.mark.parametrize("make", [each for each in variants() if each.values[0][1] == "cil"], indirect=True)
def test_knowing_the_task_never_hurts(make, toy_stream):
    learner = learn(make(), toy_stream)
    informed = make(setting="til")
    informed.load_state(learner.state())
    for with_task, without in zip(informed.evaluate(toy_stream), learner.evaluate(toy_stream), strict=True):
        assert with_task >= without


def test_til_prediction_needs_the_task(make, toy_stream):
    learner = make()
    learner.observe(toy_stream[0])
    if learner.setting == "til":
        with pytest.raises(ParameterError, match="give its index"):
            learner.predict(toy_stream[0].graph)
    else:
        assert len(learner.predict(toy_stream[0].graph)) == toy_stream[0].graph.num_nodes


def test_scores_are_refused_where_predictions_are(make, toy_graph, toy_stream):
    learner = make()
    learner.observe(toy_stream[0])
    learner.evaluate(toy_stream[:1])
    if learner.setting == "til":
        with pytest.raises(ParameterError, match="give its index, 0 to 0"):
            learner.evaluate(toy_stream[1:2])
    narrow = TaskStream(Graph(toy_graph.adjacency.nonzero()[::-1], toy_graph.features[:, :5], toy_graph.labels))
    other = make()
    other.observe(narrow[0])
    with pytest.raises(StateError, match="trained on 5 features, but the graph has 16"):
        other.evaluate(toy_stream[:1])


def odd_streams():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60, 4)) + np.repeat(np.arange(4), 15)[:, None]
    labels = np.repeat(np.arange(4), 15)
    no_edges = Graph(np.zeros((2, 0), int), features, labels)
    yield pytest.param(lambda: TaskStream(no_edges, 1), id="one class a task, no edges")
    yield pytest.param(lambda: TaskStream(no_edges, 4), id="a single task")
    yield pytest.param(lambda: TaskStream(no_edges, 3), id="left-over class")
    yield pytest.param(lambda: TaskStream(no_edges, class_order=[2, 0, 3, 1]), id="another class order")
    tiny = np.repeat(np.arange(4), [3, 3, 50, 4])
    yield pytest.param(lambda: TaskStream(Graph([[0], [1]], features, tiny)), id="classes of three nodes")
    yield pytest.param(lambda: TaskStream(Graph([[0], [1]], features * 0, labels)), id="all features zero")
    yield pytest.param(
        lambda: TaskStream(Graph(rng.integers(60, size=(2, 99)), features, labels), inter_task_edges=True),
        id="inter-task edges",
    )


@pytest.mark.parametrize("odd_stream", list(odd_streams()))
def test_survives_odd_streams(make, odd_stream):
    stream = odd_stream()
    learner = learn(make(epochs=3, batch_size=7), stream)
    accuracies = learner.evaluate(stream.seen(stream[-1]))
    assert len(accuracies) == len(stream)
    assert all(0 <= accuracy <= 100 for accuracy in accuracies)
    assert all(torch.isfinite(tensor).all() for tensor in learner.state().tensors.values())


def test_sparse_features_give_the_same_predictions(make, sparse_stream, sparse_graph):
    dense_graph = Graph(sparse_graph.adjacency.nonzero()[::-1], sparse_graph.features.toarray(), sparse_graph.labels)
    dense_stream = TaskStream(dense_graph)
    sparse, dense = learn(make(epochs=40), sparse_stream), learn(make(epochs=40), dense_stream)
    for a, b in zip(sparse_stream, dense_stream, strict=True):
        agreement = sparse.predict(a.graph, task=a.index) == dense.predict(b.graph, task=b.index)
        assert agreement.mean() > 0.95


def test_nothing_is_predicted_before_anything_is_learned(make, toy_stream):
    with pytest.raises(DelomeError, match="call observe first"):
        make().predict(toy_stream[0].graph, task=0)


def test_parameters_are_plain_values_with_a_meaning(make):
    learner = make()
    assert json.loads(json.dumps(values_of(learner))) == values_of(learner)
    assert all(parameter.param.help for parameter in parameters_of(type(learner)).values())
    assert type(learner)(**values_of(learner)) == learner
    for text in (learner.summary, learner.family, learner.citation, learner.__doc__):
        assert text


def test_no_graph_is_kept_beyond_its_task(make, toy_stream):
    learner = make()
    seen = []
    original = learner._learn

    def keep_graph(observation, tracker):
        seen.append(observation.graph)
        original(observation, tracker)

    learner._learn = keep_graph
    learn(learner, toy_stream)
    for graph in seen:
        with pytest.raises(PastDataError, match="is gone"):
            graph.features  # noqa: B018


def test_tasks_are_observed_once_and_in_order(make, toy_stream):
    learner = make()
    with pytest.raises(StateError, match="task 1 cannot follow 0 learned tasks"):
        learner.observe(toy_stream[1])
    learner.observe(toy_stream[0])
    with pytest.raises(StateError, match="task 0 cannot follow 1 learned tasks"):
        learner.observe(toy_stream[0])


def test_a_refused_task_leaves_the_learner_as_it_was(make, toy_graph, toy_stream):
    narrow = TaskStream(Graph(toy_graph.adjacency.nonzero()[::-1], toy_graph.features[:, :5], toy_graph.labels))
    learner = make(epochs=40)
    learner.observe(toy_stream[0])
    before = learner.state()
    with pytest.raises(StateError, match="trained on 16 features, but the graph has 5"):
        learner.observe(narrow[1])
    assert_same_state(learner.state(), before)
    learner.observe(toy_stream[1])
    assert learner.evaluate([toy_stream[1]])[0] > 85


def test_predicting_no_node_is_no_error(make, toy_stream):
    learner = make()
    learner.observe(toy_stream[0])
    assert learner.predict(toy_stream[0].graph, np.empty(0, int), task=0).tolist() == []


def test_a_learner_that_reads_past_graphs_reports_them_as_storage(make, toy_stream):
    learner = learn(make(), toy_stream)
    if not learner.needs_past:
        assert learner.kept_graphs.bytes == 0
        return
    assert learner.storage().rows == sum(task.graph.num_nodes for task in toy_stream)
    features = sum(task.graph.features.nbytes for task in toy_stream)
    edges = sum(task.graph.adjacency.indices.nbytes + task.graph.adjacency.indptr.nbytes for task in toy_stream)
    assert learner.kept_graphs.bytes == features + edges

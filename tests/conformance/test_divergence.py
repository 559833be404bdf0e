"""What every method must do when numbers overflow: end the task in one sentence, and be what it was before."""

from typing import Any, cast

import numpy as np
import pytest
import torch

from delome import Graph, TaskStream, load
from delome.backbones.two_layers import TwoLayerNetwork
from delome.errors import DelomeError, DivergenceError, PersistenceError, StateError
from delome.learning import GradientLearner, TaskTraining
from delome.methods import METHODS
from delome.methods.gem import project
from delome.parameters import parameters_of
from delome.persistence.state import State
from delome.streams.columns import Setting
from delome.testing import Subject

SMALL = {"epochs": 4, "networks": 3, "encoders": 3, "pretrain": 3, "budget": 3, "hidden": 8, "features": 32}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "finetune, gcn": ("finetune", {"backbone": "gcn"}),
    "finetune, gat": ("finetune", {"backbone": "gat"}),
    "delome, sampled": ("delome", {"memory": "gradient-matching"}),
    "replay, kmeans": ("replay", {"memory": "kmeans"}),
    "replay, raw": ("replay", {"memory": "raw"}),
    "analytic, per task": ("analytic", {"setting": "til", "per_task": True}),
}
SCALE_FREE = {"private"}
"""Methods that read directions of rows alone, in double precision: nothing can overflow."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    name: (name, {}) for name in METHODS if name not in SCALE_FREE
} | MORE


@pytest.fixture(params=VARIANTS)
def make(request):
    name, given = VARIANTS[request.param]
    setting = cast("Setting", given.get("setting", METHODS[name].settings[0]))
    return lambda **more: Subject(METHODS[name], setting, given).make(**SMALL | more)


def stream_of(graph, scale):
    """Tasks of which all but the first have features of this size."""
    features = graph.features.copy()
    features[graph.labels >= 2] *= scale / np.abs(features).max()
    return TaskStream(Graph(graph.adjacency.nonzero()[::-1], features, graph.labels))


def assert_same_state(a, b):
    assert a.values == b.values and a.tensors.keys() == b.tensors.keys()
    assert all(torch.equal(tensor, b.tensors[name]) for name, tensor in a.tensors.items())


@pytest.mark.parametrize("scale", [1e30, 3e37])
def test_a_task_whose_features_overflow_is_refused_and_leaves_the_learner_as_it_was(make, scale, toy_graph, toy_stream):
    stream = stream_of(toy_graph, scale)
    learner, undisturbed = make(), make()
    for each in (learner, undisturbed):
        each.observe(stream[0])
    before = learner.state()
    with pytest.raises(DivergenceError, match="scale"):
        learner.observe(stream[1])
    assert_same_state(learner.state(), before)
    for each in (learner, undisturbed):
        each.observe(toy_stream[1])
    assert_same_state(learner.state(), undisturbed.state())


def test_a_step_size_that_diverges_ends_the_task(make, toy_stream):
    learner = make(lr=1e30)
    if "lr" not in parameters_of(type(learner)):
        return
    with pytest.raises(
        DivergenceError, match=r"the loss of task 0 is not finite in epoch \d: try a smaller lr, or scale the features"
    ):
        learner.observe(toy_stream[0])
    assert not learner.columns.tasks and not learner.state().tensors


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_nodes_whose_scores_are_not_finite_get_no_label(make, value, toy_stream, monkeypatch):
    learner = make()
    learner.observe(toy_stream[0])
    learner.observe(toy_stream[1])
    graph = toy_stream[1].graph
    logits = learner.logits

    def spoiled_logits(inputs, task):
        found = logits(inputs, task).clone()
        found[:7, 3] = value
        return found

    monkeypatch.setattr(learner, "logits", spoiled_logits)
    message = r"7 of 80 nodes have scores that are not finite: scale their features like those that were learned, or"
    with pytest.raises(StateError, match=message):
        learner.predict(graph, task=1)
    with pytest.raises(StateError, match="7 of 16 nodes have scores that are not finite"):
        learner.evaluate(toy_stream[1:2])
    if learner.setting == "til":  # where other tasks do not use that column
        assert len(learner.predict(graph, task=0)) == 80


@pytest.mark.parametrize("name", ["finetune", "analytic", "hpns"])
def test_features_that_overflow_get_no_label(name, toy_stream):
    setting = METHODS[name].settings[0]
    learner = Subject(METHODS[name], setting).make(epochs=2, hidden=256, features=None)
    learner.observe(toy_stream[0])
    huge = Graph([], 3e38 * np.sign(toy_stream[0].graph.features))
    with pytest.raises(StateError, match="80 of 80 nodes have scores that are not finite"):
        learner.predict(huge, task=0)


def spoiled(state, value):
    """The state with one number changed, of the largest tensor of floating-point numbers."""
    sizes = {name: tensor.numel() for name, tensor in state.tensors.items() if tensor.is_floating_point()}
    name = max(sizes, key=lambda name: sizes[name])
    tensors = {name: tensor.clone() for name, tensor in state.tensors.items()}
    tensors[name][-1, ...] = value
    return State(tensors, state.values)


@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
def test_a_state_that_is_not_finite_is_neither_saved_nor_loaded(make, value, toy_stream, tmp_path, monkeypatch):
    learner = make()
    learner.observe(toy_stream[0])
    learner.save(tmp_path)
    state = spoiled(learner.state(), value)
    with pytest.raises(StateError, match="holds numbers that are not finite"):
        make().load_state(state)
    with monkeypatch.context() as patched:
        patched.setattr(learner, "state", lambda: state)
        with pytest.raises(PersistenceError, match="holds numbers that are not finite; try a smaller lr"):
            learner.save(tmp_path)
    assert_same_state(load(tmp_path).state(), learner.state())


def test_importances_that_overflow_are_told():
    # squares of squares: a network that is finite itself can have infinite importances
    rng = np.random.default_rng(0)
    graph = Graph([], 1e10 * rng.normal(size=(40, 4)), np.repeat([0, 1], 20))
    with pytest.raises(DivergenceError, match=r"task 0 has led to numbers that are not finite in 'importance.first'"):
        METHODS["mas"](epochs=50).observe(graph)


def test_gradients_of_old_tasks_that_overflow_end_the_task(toy_graph):
    stream = stream_of(toy_graph, 1e15)
    learner = METHODS["gem"](epochs=4, margin=1e300)
    learner.observe(stream[0])
    with pytest.raises(
        DivergenceError, match=r"the projected gradient of task 1 is not finite in epoch 0: try a small"
    ):
        learner.observe(stream[1])


def test_there_is_no_projection_of_gradients_that_overflow():
    old = torch.tensor([[-1e30, 1.0], [1.0, 1.0]])
    assert project(torch.tensor([1e30, 0.0]), old, 0.5).isnan().all()


def test_a_state_names_all_that_is_not_finite():
    tensors = {"a": torch.ones(2), "b": torch.tensor([1.0, torch.inf]).half(), "c": torch.arange(3)}
    values = {"d": 1, "e": {"x": [1.0, [float("nan")]]}, "f": ["text", None, 2.5]}
    assert State(tensors, values).not_finite() == ["b", "e"]


def test_a_learner_of_ones_own_is_checked_too(toy_stream):
    class Spoiling(TaskTraining):
        def finish(self):
            assert isinstance(self.network, TwoLayerNetwork)
            self.network.first.data[0, 0] = torch.nan

    class Diverging(GradientLearner):
        def begin(self, observation, examples, tracker):
            return Spoiling(self, observation, examples, tracker)

    learner = Diverging(epochs=1, hidden=8)
    with pytest.raises(DelomeError, match=r"task 0 has led to numbers that are not finite in 'model.first'"):
        learner.observe(toy_stream[0])
    assert learner.model is None

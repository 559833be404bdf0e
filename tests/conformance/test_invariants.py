"""What must hold between methods: when they are Fine-tune, and what they reach on an easy stream."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from delome import Task, TaskStream, load_graph
from delome.methods import METHODS
from delome.parameters import parameter_value, parameters_of
from delome.testing import Subject

SMALL = {"epochs": 5, "hidden": 16, "budget": 4, "networks": 5, "encoders": 5, "pretrain": 3, "features": 32}

NOT_FINE_TUNE_AT_FIRST = {
    **dict.fromkeys(["slda", "prototypes", "tpp", "tpp-nodes"], "has no network that is trained"),
    "er": "its loss is not balanced over classes",
    "lwf": "draws other initial weights",
    "delome": "adjusts logits and does not balance classes",
    "replay": "adjusts logits by default",
    **dict.fromkeys(["cat", "puma"], "trains on condensed rows"),
    "hpns": "is another network",
    "analytic": "has no network",
    "private": "has no network",
}

WITHOUT_STRENGTH = {
    "ewc": {"strength": 0.0},
    "mas": {"strength": 0.0},
    "twp": {"strength": 0.0, "topology_strength": 0.0},
    "lwf": {"strength": 0.0, "kaiming_init": False},
}


def make(name, setting=None, backbone=None, **parameters):
    method, parts = METHODS[name], {} if backbone is None else {"backbone": backbone}
    return Subject(method, setting or method.settings[0], parts).make(**SMALL | parameters)


def learn(learner, tasks):
    for task in tasks:
        learner.observe(task)
    return learner


def assert_same_network(a, b):
    for x, y in zip(a.network.parameters(), b.network.parameters(), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("batch_size", [2000, 20])
@pytest.mark.parametrize("name", sorted(set(METHODS) - set(NOT_FINE_TUNE_AT_FIRST)))
def test_the_first_task_is_fine_tune_to_the_bit(toy_stream, name, setting, batch_size):
    common = {"setting": setting, "batch_size": batch_size, "passes": parameter_value(METHODS[name](), "passes")}
    assert_same_network(learn(make(name, **common), toy_stream[:1]), learn(make("finetune", **common), toy_stream[:1]))


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("backbone", ["sgc", "gcn", "gat"])
@pytest.mark.parametrize("name", WITHOUT_STRENGTH)
def test_without_strength_it_is_fine_tune_to_the_bit(toy_stream, name, setting, backbone):
    common = {"setting": setting, "backbone": backbone}
    powerless = learn(make(name, **common, **WITHOUT_STRENGTH[name]), toy_stream)
    assert_same_network(powerless, learn(make("finetune", **common), toy_stream))


def test_the_output_columns_of_an_old_task_decay_in_task_incremental_fine_tuning(toy_stream):
    # Adam's coupled weight decay acts on columns that no loss touches any more
    learner = make("finetune", setting="til", epochs=200, decay="coupled")
    learner.observe(toy_stream[0])
    before = learner.network.second[:, :2].norm()
    learner.observe(toy_stream[1])
    assert learner.network.second[:, :2].norm() < before


@dataclass(eq=False)
class Renumbered(Task):
    """A task whose nodes have other numbers; the order of its training nodes is kept."""

    order: np.ndarray | None = None

    def observation(self, with_past=False, read=lambda graph: graph):
        observation = super().observation(read=read)
        assert self.order is not None
        observation.train = np.argsort(self.order)[observation.train]
        observation._graph = observation._graph.subgraph(self.order)
        return observation


CHOOSES_BY_NUMBER = {"joint", "gem", "ssm-uniform", "ssm-degree", "sem-curvature", "hpns", "puma"}
"""Methods that read past tasks, or draw neighbours or mix unlabelled nodes in the order of their numbers."""


def numbered():
    for name in sorted(set(METHODS) - CHOOSES_BY_NUMBER):
        for backbone in ("sgc", "gcn", "gat") if "backbone" in parameters_of(METHODS[name]) else [None]:
            yield name, backbone


@pytest.mark.parametrize(("name", "backbone"), list(numbered()))
def test_the_numbers_of_nodes_do_not_matter(toy_stream, monkeypatch, name, backbone):
    monkeypatch.setattr("delome.backbones.gat.DROPOUT", 0.0)  # it falls on nodes by number
    rng = np.random.default_rng(0)
    plain, renumbered = (make(name, backbone=backbone) for _ in range(2))
    for task in toy_stream:
        order = rng.permutation(task.graph.num_nodes)
        plain.observe(task)
        renumbered.observe(Renumbered(**vars(task), order=order))
        graph = task.graph
        expected = plain.logits(plain.inputs(graph, order), task.index)
        other = renumbered.inputs(graph.subgraph(order), np.arange(len(order)))
        logits = renumbered.logits(other, task.index)
        torch.testing.assert_close(logits, expected, atol=2e-3, rtol=1e-2)


@pytest.fixture(scope="module")
def easy_stream():
    """Three tasks of two separable classes of 200 nodes."""
    return TaskStream(load_graph("synthetic", nodes=1200, classes=6, features=16, degree=6, noise=0.5))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("finetune", 30, 37),
        ("joint", 99, 100),
        ("analytic", 99, 100),
        ("delome", 95, 100),
        ("cat", 95, 100),
        ("puma", 95, 100),
        ("ssm-uniform", 95, 100),
        ("ssm-degree", 95, 100),
        ("sem-curvature", 95, 100),
    ],
)
def test_accuracy_on_an_easy_stream(easy_stream, name, low, high):
    parameters = {"epochs": 60, "hidden": 64, "budget": 20, "encoders": 300, "features": 128}
    accuracy = np.mean(learn(make(name, **parameters), easy_stream).evaluate(easy_stream))
    assert low <= accuracy <= high

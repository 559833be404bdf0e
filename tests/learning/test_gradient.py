"""The shared loop on a network that grows."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from delome import FineTune, Graph
from delome.backbones.two_layers import TwoLayerNetwork
from delome.learning.training import Schedule
from delome.randomness import generator


def labelled(*labels, seed=0):
    rng = np.random.default_rng(seed)
    return Graph(rng.integers(len(labels), size=(2, 20)), rng.standard_normal((len(labels), 4)), labels)


def network_of(learner: FineTune) -> TwoLayerNetwork:
    assert isinstance(learner.network, TwoLayerNetwork)
    return learner.network


def moments_of(learner):
    parameters = learner.network.named_parameters()
    return {
        name: {key: value.clone() for key, value in learner.optimizer.state[each].items()} for name, each in parameters
    }


@pytest.mark.parametrize("backbone", ["sgc", "gat"])
def test_adam_keeps_its_moments_of_old_columns_and_starts_at_zero_for_new_ones(backbone):
    learner = FineTune(epochs=3, hidden=8, backbone=backbone)
    learner.observe(labelled(0, 0, 1, 1, 1))
    before = moments_of(learner)
    learner.grow(5)
    parameters = dict(learner.network.named_parameters())
    assert [id(each) for each in learner.optimizer.param_groups[0]["params"]] == [
        id(each) for each in parameters.values()
    ]
    assert len(learner.optimizer.state) == len(parameters)
    for name, moments in moments_of(learner).items():
        assert moments["step"] == 3
        for key in ("exp_avg", "exp_avg_sq"):
            old = before[name][key]
            assert moments[key].shape == parameters[name].shape
            assert moments[key].is_contiguous()
            assert torch.equal(moments[key][..., : old.shape[-1]], old)
            assert (moments[key][..., old.shape[-1] :] == 0).all()


def test_a_step_after_growing_is_the_hand_computed_one():
    learner = FineTune(epochs=3, hidden=8, lr=0.01, weight_decay=0.1)
    learner.observe(labelled(0, 0, 1, 1, 1))
    m, v = (moments_of(learner)["second"][key].double().numpy() for key in ("exp_avg", "exp_avg_sq"))
    learner.grow(5)
    weights = network_of(learner).second.detach().double().numpy()
    rng = np.random.default_rng(0)
    for parameter in learner.network.parameters():
        parameter.grad = torch.from_numpy(rng.standard_normal(parameter.shape).astype(np.float32))
    gradient = network_of(learner).second.grad.double().numpy() + 0.1 * weights
    learner.optimizer.step()
    m, v = (np.pad(each, ((0, 0), (0, 3))) for each in (m, v))
    m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
    step = 0.01 * (m / (1 - 0.9**4)) / (np.sqrt(v / (1 - 0.999**4)) + 1e-8)
    np.testing.assert_allclose(network_of(learner).second.detach().numpy(), weights - step, atol=1e-6)


def test_what_new_columns_start_from_depends_on_the_seed_and_their_number_alone():
    grown = []
    for first in (labelled(0, 0, 1, 1), labelled(3, 3, 9, 9, seed=1)):
        learner = FineTune(epochs=2, hidden=8, seed=4)
        learner.observe(first)
        learner.grow(3)
        grown.append(network_of(learner).second[:, 2:].detach())
    assert torch.equal(*grown)
    other = FineTune(epochs=2, hidden=8, seed=5)
    other.observe(labelled(0, 0, 1, 1))
    other.grow(3)
    assert not torch.equal(network_of(other).second[:, 2:], grown[0])
    other.network.grow(6, generator(5, "new columns", 3))
    assert network_of(other).second.shape == (8, 6)


def test_the_network_of_live_data_has_a_column_for_each_class_and_that_of_a_stream_does_not_grow(toy_stream):
    learner = FineTune(epochs=2, hidden=8)
    for graph, classes in ((labelled(5, 5, 6), 2), (labelled(6, 6, 5), 2), (labelled(1, 2, 5), 4)):
        learner.observe(graph)
        assert network_of(learner).second.shape == (8, classes)
    learner = FineTune(epochs=2, hidden=8)
    learner.observe(toy_stream[0])
    second = network_of(learner).second
    learner.observe(toy_stream[1])
    assert network_of(learner).second is second and second.shape == (8, 6)


def test_coupled_decay_moves_a_weight_without_gradient_at_full_speed_and_decoupled_decay_does_not():
    moved = {}
    for decay in ("coupled", "decoupled"):
        learner = FineTune(hidden=1, decay=decay, lr=0.005, weight_decay=5e-4)
        learner.reset(1, 1)
        with torch.no_grad():
            network_of(learner).first.fill_(1.0)
        for _ in range(100):
            network_of(learner).first.grad = torch.zeros(1, 1)
            learner.optimizer.step()
        moved[decay] = network_of(learner).first.item()
    # a constant sign of the gradient makes every step of Adam lr; while w shrinks slowly, steps are a little smaller
    assert moved["coupled"] == pytest.approx(0.5, abs=0.1)
    assert moved["decoupled"] == pytest.approx((1 - 0.005 * 5e-4) ** 100, abs=1e-6)


@pytest.mark.parametrize(("setting", "usual"), [("cil", torch.optim.Adam), ("til", torch.optim.AdamW)])
def test_decay_is_coupled_in_cil_and_decoupled_in_til_unless_it_is_said(setting, usual):
    kinds = {None: usual, "coupled": torch.optim.Adam, "decoupled": torch.optim.AdamW}
    for decay, kind in kinds.items():
        learner = FineTune(hidden=1, setting=setting, decay=decay)
        learner.reset(1, 1)
        assert type(learner.optimizer) is kind
    assert FineTune().decay is None


@pytest.mark.parametrize("decay", ["coupled", "decoupled"])
def test_training_takes_the_steps_of_torchs_own_optimiser(decay):
    learner = FineTune(epochs=3, hidden=8, decay=decay, weight_decay=0.1)
    graph = labelled(0, 0, 1, 1, 1)
    learner.reset(4, 2)
    weights = [each.detach().clone().requires_grad_() for each in learner.network.parameters()]
    learner.observe(graph)
    kind = torch.optim.Adam if decay == "coupled" else torch.optim.AdamW
    optimizer = kind(weights, lr=0.005, weight_decay=0.1)
    rows, labels = torch.from_numpy(graph.propagate(2)), torch.tensor([0, 0, 1, 1, 1])
    for _ in range(3):
        optimizer.zero_grad()
        logits = (rows @ weights[0]).relu() @ weights[1]
        torch.nn.functional.cross_entropy(logits, labels, weight=torch.tensor([1 / 2, 1 / 3])).backward()
        optimizer.step()
    for ours, wanted in zip(learner.network.parameters(), weights, strict=True):
        torch.testing.assert_close(ours.detach(), wanted.detach())


OBSERVING_IMPORTS = """
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from delome import Replay, TaskStream, load_graph
from delome.progress import Tracker


class Watching(Tracker):
    def __init__(self) -> None:
        super().__init__()
        self.imported: set[str] = set()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        before = set(sys.modules)
        with super()._timed(name):
            yield
        self.imported |= sys.modules.keys() - before


tracker = Watching()
stream = TaskStream(load_graph("synthetic", nodes=60, classes=4))
Replay(memory="kmeans", budget=2, epochs=1).observe(stream[0], tracker)
assert {"torch._dynamo", "sklearn.cluster"} <= sys.modules.keys()
print(*sorted(tracker.imported))
"""


@pytest.mark.slow
def test_imports_are_not_counted_among_the_seconds_of_a_task() -> None:
    # a new process, because in this one everything is imported
    done = subprocess.run([sys.executable, "-c", OBSERVING_IMPORTS], capture_output=True, text=True, check=True)
    assert not {name for name in done.stdout.split() if name.startswith(("torch._dynamo", "sklearn"))}
    assert len(done.stdout.split()) < 10


def test_shuffles_are_those_of_the_learners_seed(monkeypatch):
    seen = []

    def recorded(*values):
        seen.append(values)
        return Schedule(*values)

    monkeypatch.setattr("delome.learning.gradient.Schedule", recorded)
    FineTune(epochs=1, hidden=4, batch_size=3, seed=5).observe(labelled(0, 0, 1, 1))
    assert seen == [(3, 5, 0, False)]

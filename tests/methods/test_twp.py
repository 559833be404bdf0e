import numpy as np
import pytest
import torch

from delome import FineTune, Graph, TaskStream
from delome.methods import EWC, TWP


def learn(learner, stream, count=3):
    for task in list(stream)[:count]:
        learner.observe(task)
    return learner


def weights(learner):
    return [parameter.detach().clone() for parameter in learner.network.parameters()]


@pytest.mark.parametrize("backbone", ["sgc", "gcn", "gat"])
@pytest.mark.parametrize("setting", ["cil", "til"])
def test_without_strength_it_is_fine_tune_to_the_bit(toy_stream, backbone, setting):
    common = {"epochs": 5, "hidden": 16, "setting": setting, "backbone": backbone}
    plain = learn(FineTune(**common), toy_stream)
    penalised = learn(TWP(strength=0.0, topology_strength=0.0, **common), toy_stream)
    assert all(torch.equal(a, b) for a, b in zip(weights(plain), weights(penalised), strict=True))


def test_without_topology_it_is_ewc_to_the_bit(toy_stream):
    common = {"epochs": 5, "hidden": 16, "strength": 100.0}
    ewc, twp = learn(EWC(**common), toy_stream), learn(TWP(topology_strength=0.0, **common), toy_stream)
    assert all(torch.equal(a, b) for a, b in zip(weights(ewc), weights(twp), strict=True))


@pytest.mark.parametrize("backbone", ["sgc", "gcn", "gat"])
def test_topology_importance_is_the_squared_gradient_by_finite_differences(toy_stream, backbone):
    learner = TWP(epochs=5, hidden=8, backbone=backbone, strength=0.0, topology_strength=3.0)
    learner.observe(toy_stream[0])
    graph = toy_stream[0].graph
    with torch.no_grad():
        for parameter, importance in zip(learner.network.parameters(), learner.importance, strict=True):
            flat, wanted = parameter.view(-1), importance.view(-1)
            entry = int(wanted.argmax())
            step, before = 3e-3, flat[entry].item()
            values = []
            for moved in (before + step, before - step):
                flat[entry] = moved
                values.append(learner.network.topology(graph).item())
            flat[entry] = before
            slope = (values[0] - values[1]) / (2 * step)
            assert 3.0 * slope**2 == pytest.approx(wanted[entry].item(), rel=0.05, abs=1e-6)


def test_a_graph_without_edges_has_no_topology_importance(toy_graph):
    edgeless = TaskStream(Graph(np.zeros((2, 0), int), toy_graph.features, toy_graph.labels))
    for backbone in ("sgc", "gcn", "gat"):
        learner = TWP(epochs=2, hidden=8, backbone=backbone, strength=0.0)
        learner.observe(edgeless[0])
        assert all((importance == 0).all() for importance in learner.importance)


def test_gats_attention_is_important_to_its_topology(toy_stream):
    learner = TWP(epochs=2, hidden=8, backbone="gat", strength=0.0)
    learner.observe(toy_stream[0])
    names = [name for name, _ in learner.network.named_parameters()]
    largest = {name: importance.max().item() for name, importance in zip(names, learner.importance, strict=True)}
    assert largest["first"] > 0 and largest["first_attention"] > 0
    assert largest["second"] == largest["second_attention"] == 0

import numpy as np
import pytest
import torch
from torch.nn import functional

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


def attention(rows, graph):
    """α of every edge by its definition, node by node."""
    parts = []
    for v in range(graph.num_nodes):
        into = [v, *graph.adjacency[[v]].indices.tolist()]
        scores = torch.stack([rows[u] @ rows[v].tanh() for u in into])
        parts.append(functional.leaky_relu(scores, 0.2).softmax(dim=0))
    return torch.cat(parts)


@pytest.mark.parametrize("backbone", ["sgc", "gcn"])
def test_topology_importance_is_the_squared_gradient_of_the_norm_of_attention(toy_stream, backbone):
    learner = TWP(epochs=5, hidden=8, backbone=backbone, strength=0.0, topology_strength=3.0)
    learner.observe(toy_stream[0])
    graph, network = toy_stream[0].graph, learner.network
    # SGC: between the logits; GCN: between the outputs of the first layer before ReLU
    propagated = torch.from_numpy(graph.propagate(2 if backbone == "sgc" else 1))
    rows = propagated @ network.first
    if backbone == "sgc":
        rows = rows.relu() @ network.second
    norm = attention(rows, graph).square().sum().sqrt()
    slopes = torch.autograd.grad(norm, list(network.parameters()), allow_unused=True, materialize_grads=True)
    for slope, importance in zip(slopes, learner.importance, strict=True):
        expected = 3.0 * slope.square()
        torch.testing.assert_close(importance, expected, rtol=1e-2, atol=1e-3 * expected.max().item())


def test_gats_topology_importance_is_the_squared_gradient_by_finite_differences(toy_stream):
    learner = TWP(epochs=5, hidden=8, backbone="gat", strength=0.0, topology_strength=3.0)
    learner.observe(toy_stream[0])
    graph = toy_stream[0].graph
    with torch.no_grad():
        for parameter, importance in zip(
            list(learner.network.parameters())[:3:2], learner.importance[:3:2], strict=True
        ):
            flat, wanted = parameter.view(-1), importance.view(-1)
            entry = int(wanted.argmax())
            step, before = 3e-3, flat[entry].item()
            values = []
            for moved in (before + step, before - step):
                flat[entry] = moved
                values.append(learner.network.topology(graph).item())
            flat[entry] = before
            slope = (values[0] - values[1]) / (2 * step)
            assert 3.0 * slope**2 == pytest.approx(wanted[entry].item(), rel=0.05)


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_both_importances_enter_the_loss_with_their_strengths(uneven_stream, last_step, snapshot, balanced, setting):
    def task_loss(network, task):
        logits, labels = network.train_logits(task)
        first = 2 * task.index if setting == "til" else 0
        return balanced(logits[:, first : 2 * task.index + 2], labels - first)

    strengths = {"strength": 100.0, "topology_strength": 10_000.0}
    learner = TWP(epochs=4, hidden=8, lr=0.05, weight_decay=0.0, setting=setting, **strengths)
    old = []
    for task in uneven_stream[:2]:
        learner.observe(task)
        optimum = snapshot(learner)
        norm = attention(optimum.logits(task.graph, np.arange(task.graph.num_nodes)), task.graph).norm()
        old.append((optimum.weights, optimum.gradient(task_loss(optimum, task)), optimum.gradient(norm)))
    step = last_step(learner, uneven_stream[2])

    def penalty(which):
        return sum(
            (slopes[which][name].square() * (weight - optimum[name].detach()).square()).sum()
            for optimum, *slopes in old
            for name, weight in step.weights.items()
        )

    step.assert_minimises(task_loss(step, uneven_stream[2]), 100 * penalty(0), 10_000 * penalty(1))


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

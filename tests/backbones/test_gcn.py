from typing import Literal

import numpy as np
import pytest
import torch

from delome import Graph
from delome.backbones import GCN
from delome.backbones.attention import InEdges, topology_norm
from delome.backbones.gcn import GCNNetwork
from delome.backbones.sampling import SampledNodes

CPU = torch.device("cpu")
Norm = Literal["sym", "none"]
NORMS: tuple[Norm, ...] = ("sym", "none")


def gcn(norm: Norm = "sym") -> GCNNetwork:
    return GCN(hidden=16, norm=norm).network(5, 3, np.random.default_rng(0), CPU)


def random_graph(seed: int = 1, nodes: int = 12) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph(rng.integers(nodes, size=(2, 25)), rng.standard_normal((nodes, 5)), np.zeros(nodes, int))


def operator_of(network: GCNNetwork, graph: Graph) -> np.ndarray:
    adjacency = graph.adjacency.toarray().astype(float) + np.eye(graph.num_nodes)
    scale = np.diag(adjacency.sum(axis=1) ** -0.5)
    assert isinstance(network.backbone, GCN)
    return adjacency if network.backbone.norm == "none" else scale @ adjacency @ scale


def formula(network: GCNNetwork, graph: Graph) -> np.ndarray:
    operator = operator_of(network, graph)
    first, second = (weight.detach().numpy() for weight in (network.first, network.second))
    return operator @ np.maximum(operator @ graph.features @ first, 0) @ second


@pytest.mark.parametrize("norm", NORMS)
def test_logits_equal_the_formula(norm):
    graph, network = random_graph(), gcn(norm)
    logits = network(network.prepare(graph)).detach().numpy()
    np.testing.assert_allclose(logits, formula(network, graph), atol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_selected_rows_have_the_same_logits_and_read_only_what_they_reach(norm):
    graph, network = random_graph(), gcn(norm)
    inputs = network.prepare(graph)
    index = np.array([3, 0, 3, 9])
    chosen = inputs.select(index)
    np.testing.assert_allclose(network(chosen).detach().numpy(), formula(network, graph)[index], atol=1e-5)
    reached = set(index.tolist()) | set(graph.adjacency[index].indices.tolist())
    assert len(chosen.reached) == len(reached)
    assert len(chosen) == len(index) != len(reached)


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_equal_automatic_differentiation_of_the_dense_formula(norm):
    graph, network = random_graph(), gcn(norm)
    network(network.prepare(graph)).square().sum().backward()
    operator = torch.from_numpy(operator_of(network, graph)).float()
    first, second = (weight.detach().clone().requires_grad_() for weight in (network.first, network.second))
    dense = operator @ (operator @ torch.from_numpy(graph.features) @ first).relu() @ second
    dense.square().sum().backward()
    torch.testing.assert_close(network.first.grad, first.grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(network.second.grad, second.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_a_union_of_graphs_has_the_logits_of_its_parts(norm):
    network, graphs = gcn(norm), [random_graph(1), random_graph(2, nodes=7)]
    union = network.backbone.join([network.prepare(graph) for graph in graphs])
    expected = np.concatenate([formula(network, graph) for graph in graphs])
    np.testing.assert_allclose(network(union).detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_rows_without_edges_pass_through_the_layers(norm):
    network, features = gcn(norm), np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
    expected = (torch.from_numpy(features) @ network.first).relu() @ network.second
    torch.testing.assert_close(network(network.prepare(Graph.edgeless(features))), expected)


@pytest.fixture
def path() -> Graph:
    """0 – 1 – 2 – 3 with the features 1, 2, 4, 8."""
    return Graph([[0, 1, 2], [1, 2, 3]], [[1.0], [2.0], [4.0], [8.0]], undirected=True)


def summing() -> GCNNetwork:
    """One hidden unit and one column, both of weight 1, on sums over neighbours."""
    network = GCN(hidden=1, norm="none").network(1, 1, np.random.default_rng(0), CPU)
    with torch.no_grad():
        network.first.fill_(1.0)
        network.second.fill_(1.0)
    return network


def test_without_normalisation_neighbours_are_summed_up_twice(path):
    # 1 + 2, 1 + 2 + 4, 2 + 4 + 8, 4 + 8; and the same sums of 3, 7, 14, 12
    network = summing()
    assert network.embed(path, np.arange(4)).ravel().tolist() == [3, 7, 14, 12]
    assert network(network.prepare(path)).ravel().tolist() == [10, 24, 33, 26]


def test_a_sampled_sum_over_every_neighbour_is_the_sum_over_all(path):
    network = summing()
    nodes = np.array([3, 0, 0, 2])
    sampled = SampledNodes.of(network, path, nodes, (2, 2))
    assert network(sampled.draw(np.random.default_rng(0))).ravel().tolist() == [26, 10, 10, 33]


def test_a_sampled_sum_over_every_neighbour_is_the_sum_over_all_of_a_random_graph():
    graph, network = random_graph(nodes=30), gcn("none")
    nodes = np.array([4, 0, 17, 4])
    drawn = SampledNodes.of(network, graph, nodes, (30, 30)).draw(np.random.default_rng(0))
    np.testing.assert_allclose(network(drawn).detach().numpy(), formula(network, graph)[nodes], rtol=1e-5, atol=1e-5)


def test_weights_of_edges_count_in_sums(path):
    heavy = Graph([[0, 1, 2], [1, 2, 3]], path.features, edge_weight=[10.0, 1.0, 1.0], undirected=True)
    network = summing()
    # 1 + 20, 10 + 2 + 4, 14, 12; and 21 + 160, 210 + 16 + 14, 16 + 14 + 12, 26
    assert network(network.prepare(heavy)).ravel().tolist() == [181, 240, 42, 26]


def test_both_kinds_are_prepared_apart(path):
    sym, none = (GCN(norm=norm).prepare(path, CPU) for norm in NORMS)
    assert not torch.equal(sym.reached.dense(), none.reached.dense())
    assert GCN(norm="none", hidden=8).prepare(path, CPU) is none


@pytest.mark.parametrize("norm", NORMS)
def test_topology_is_that_of_the_first_layers_outputs_and_embeddings_are_its_units(norm):
    graph, network = random_graph(), gcn(norm)
    outputs = torch.from_numpy(operator_of(network, graph) @ graph.features).float() @ network.first
    torch.testing.assert_close(network.topology(graph), topology_norm(outputs, InEdges.of(graph, CPU)))
    nodes = np.array([7, 2, 2])
    torch.testing.assert_close(network.embed(graph, nodes), outputs.relu()[nodes])

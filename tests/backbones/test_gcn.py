import numpy as np
import torch

from delome import Graph
from delome.backbones import GCN

CPU = torch.device("cpu")


def gcn() -> GCN:
    return GCN(5, 16, 3, np.random.default_rng(0), CPU)


def random_graph(seed: int = 1, nodes: int = 12) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph(rng.integers(nodes, size=(2, 25)), rng.standard_normal((nodes, 5)), np.zeros(nodes, int))


def formula(network: GCN, graph: Graph) -> np.ndarray:
    adjacency = graph.adjacency.toarray().astype(float) + np.eye(graph.num_nodes)
    scale = np.diag(adjacency.sum(axis=1) ** -0.5)
    operator = scale @ adjacency @ scale
    first, second = (weight.detach().numpy() for weight in (network.first, network.second))
    return operator @ np.maximum(operator @ graph.features @ first, 0) @ second


def test_logits_equal_the_formula():
    graph, network = random_graph(), gcn()
    logits = network(network.prepare(graph)).detach().numpy()
    np.testing.assert_allclose(logits, formula(network, graph), atol=1e-5)


def test_selected_rows_have_the_same_logits_and_read_only_what_they_reach():
    graph, network = random_graph(), gcn()
    inputs = network.prepare(graph)
    index = np.array([3, 0, 3, 9])
    chosen = inputs.select(index)
    np.testing.assert_allclose(network(chosen).detach().numpy(), formula(network, graph)[index], atol=1e-5)
    reached = set(index.tolist()) | set(graph.adjacency[index].indices.tolist())
    assert len(chosen.reached) == len(reached)


def test_gradients_equal_automatic_differentiation_of_the_dense_formula():
    graph, network = random_graph(), gcn()
    network(network.prepare(graph)).square().sum().backward()
    operator = torch.from_numpy(graph.operator().toarray())
    first, second = (weight.detach().clone().requires_grad_() for weight in (network.first, network.second))
    dense = operator @ (operator @ torch.from_numpy(graph.features) @ first).relu() @ second
    dense.square().sum().backward()
    torch.testing.assert_close(network.first.grad, first.grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(network.second.grad, second.grad, atol=1e-4, rtol=1e-4)


def test_a_union_of_graphs_has_the_logits_of_its_parts():
    network, graphs = gcn(), [random_graph(1), random_graph(2, nodes=7)]
    union = network.join([network.prepare(graph) for graph in graphs])
    expected = np.concatenate([formula(network, graph) for graph in graphs])
    np.testing.assert_allclose(network(union).detach().numpy(), expected, atol=1e-5)


def test_rows_without_edges_pass_through_the_layers():
    network, features = gcn(), np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
    expected = (torch.from_numpy(features) @ network.first).relu() @ network.second
    torch.testing.assert_close(network(network.prepare(Graph.edgeless(features))), expected)

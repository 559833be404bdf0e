import numpy as np
import scipy.sparse as sp
import torch

from delome import Graph
from delome.backbones import SGC
from delome.backbones.attention import InEdges, topology_norm
from delome.backbones.sgc import SGCNetwork

CPU = torch.device("cpu")


def sgc(features: int, classes: int = 3, hidden: int = 256) -> SGCNetwork:
    return SGC(hidden=hidden).network(features, classes, np.random.default_rng(0), CPU)


def random_graph(nodes: int = 12, features: int = 5) -> Graph:
    rng = np.random.default_rng(1)
    return Graph(rng.integers(nodes, size=(2, 30)), rng.standard_normal((nodes, features)), np.zeros(nodes, int))


def test_number_of_parameters():
    assert sum(parameter.numel() for parameter in sgc(7, classes=4).parameters()) == 256 * 7 + 256 * 4


def test_weights_start_uniform_within_one_over_root_fan_in():
    network = sgc(100, classes=64)
    for weight, fan_in in ((network.first, 100), (network.second, 256)):
        assert weight.abs().max() <= fan_in**-0.5
        torch.testing.assert_close(weight.var(), torch.tensor(1 / (3 * fan_in)), rtol=0.05, atol=0)
        assert abs(weight.mean()) < 4 * (3 * fan_in * weight.numel()) ** -0.5


def test_logits_equal_the_formula():
    graph, network = random_graph(), sgc(5)
    adjacency = graph.adjacency.toarray().astype(float) + np.eye(12)
    scale = np.diag(adjacency.sum(axis=1) ** -0.5)
    operator = scale @ adjacency @ scale
    first, second = (weight.detach().numpy() for weight in (network.first, network.second))
    expected = np.maximum(operator @ operator @ graph.features @ first, 0) @ second
    np.testing.assert_allclose(network(network.prepare(graph)).detach().numpy(), expected, atol=1e-5)


def test_rows_without_edges_are_read_as_they_are():
    network, features = sgc(5), np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
    logits = network(network.prepare(Graph.edgeless(features)))
    expected = (torch.from_numpy(features) @ network.first).relu() @ network.second
    torch.testing.assert_close(logits, expected)


def test_sparse_and_dense_features_give_the_same_logits_and_gradients():
    rng = np.random.default_rng(3)
    features = sp.random(40, 200, 0.01, format="csr", dtype=np.float32, rng=rng)
    edges, labels = rng.integers(40, size=(2, 30)), np.zeros(40, int)
    results = []
    for form in (features, features.toarray()):
        network = sgc(200)
        logits = network(network.prepare(Graph(edges, form, labels)))
        logits.square().sum().backward()
        results.append((logits.detach(), network.first.grad))
    for sparse, dense in zip(*results, strict=True):
        torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=1e-4)


def test_a_graph_is_prepared_once():
    graph, network = random_graph(), sgc(5)
    assert network.prepare(graph) is network.prepare(graph)


def test_topology_is_that_of_the_logits_and_embeddings_are_hidden_units():
    graph, network = random_graph(), sgc(5, hidden=16)
    units = (torch.from_numpy(graph.propagate(2)) @ network.first).relu()
    torch.testing.assert_close(network.topology(graph), topology_norm(units @ network.second, InEdges.of(graph, CPU)))
    nodes = np.array([7, 2, 2])
    torch.testing.assert_close(network.embed(graph, nodes), units[nodes])

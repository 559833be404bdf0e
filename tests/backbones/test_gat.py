import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional

from delome import FineTune, Graph
from delome.backbones import GAT
from delome.backbones.gat import GATNetwork
from delome.errors import ParameterError
from delome.randomness import torch_generator

CPU = torch.device("cpu")


def gat(features: int = 5, hidden: int = 16, classes: int = 3) -> GATNetwork:
    return GAT(hidden=hidden).network(features, classes, np.random.default_rng(0), CPU)


def random_graph(seed: int = 1, nodes: int = 12) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph(rng.integers(nodes, size=(2, 25)), rng.standard_normal((nodes, 5)), np.zeros(nodes, int))


def slow_layer(graph: Graph, rows: torch.Tensor, weight: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
    """The formula, head by head and node by node."""
    heads = attention.shape[1]
    out = []
    for head, projected in enumerate((rows @ weight).split(weight.shape[1] // heads, dim=1)):
        a_source, a_target = attention[0, head], attention[1, head]
        sums = []
        for v in range(graph.num_nodes):
            into = [v, *graph.adjacency[[v]].indices.tolist()]
            scores = torch.stack([projected[u] @ a_source + projected[v] @ a_target for u in into])
            sums.append(functional.leaky_relu(scores, 0.2).softmax(dim=0) @ projected[into])
        out.append(torch.stack(sums))
    return torch.cat(out, dim=1)


def formula(network: GATNetwork, graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden units and logits."""
    rows = torch.from_numpy(graph.features)
    hidden = functional.elu(slow_layer(graph, rows, network.first, network.first_attention))
    return hidden, slow_layer(graph, hidden, network.second, network.second_attention)


def test_weights_start_by_xaviers_normal_distribution_with_the_gain_of_relu():
    network = gat(300, 256, 40)
    fans = {"first": 300 + 256, "second": 256 + 40, "first_attention": 256 + 32, "second_attention": 40 + 40}
    for name, parameter in network.named_parameters():
        # gain √2 times √(2 / fans); 80 draws estimate a deviation to within about 8 %
        assert parameter.std().item() == pytest.approx(
            2 * fans[name] ** -0.5, rel=0.3 if parameter.numel() < 100 else 0.1
        )


def test_logits_and_gradients_equal_the_formula():
    graph, network = random_graph(), gat()
    logits, expected = network(network.prepare(graph)), formula(network, graph)[1]
    torch.testing.assert_close(logits, expected)
    parameters = list(network.parameters())
    slopes = torch.autograd.grad(logits.square().sum(), parameters)
    for slope, wanted in zip(slopes, torch.autograd.grad(expected.square().sum(), parameters), strict=True):
        torch.testing.assert_close(slope, wanted, atol=1e-4, rtol=1e-4)


def test_selected_rows_have_the_same_logits_and_read_only_two_hops():
    network = gat()
    path = Graph([range(9), range(1, 10)], np.random.default_rng(0).standard_normal((10, 5)), undirected=True)
    index = np.array([4, 4, 9])
    chosen = network.prepare(path).select(index)
    torch.testing.assert_close(network(chosen), formula(network, path)[1][index])
    assert len(chosen.features) == 8  # 2 to 6 and 7 to 9


def test_a_union_of_graphs_has_the_logits_of_its_parts():
    network, graphs = gat(), [random_graph(1), random_graph(2, nodes=7)]
    union = network.backbone.join([network.prepare(graph) for graph in graphs])
    torch.testing.assert_close(network(union), torch.cat([formula(network, graph)[1] for graph in graphs]))


def test_rows_without_edges_pass_through_the_layers():
    network, features = gat(), np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
    expected = functional.elu(torch.from_numpy(features) @ network.first) @ network.second
    torch.testing.assert_close(network(network.prepare(Graph.edgeless(features))), expected)


def test_hidden_units_of_nodes():
    graph, network = random_graph(), gat()
    index = np.array([3, 0, 3])
    torch.testing.assert_close(network.embed(graph, index), formula(network, graph)[0][index])


def test_topology_is_the_norm_of_the_first_layers_attention():
    # every node of a ring with equal features attends to its neighbours and itself alike: n · heads · 3 · (1/3)²
    ring = Graph([range(6), [1, 2, 3, 4, 5, 0]], np.ones((6, 5)), undirected=True)
    assert gat().topology(ring).item() == pytest.approx((6 * 8 / 3) ** 0.5, rel=1e-6)


def test_sparse_and_dense_features_give_the_same_logits():
    rng = np.random.default_rng(3)
    features = sp.random(40, 200, 0.01, format="csr", dtype=np.float32, rng=rng)
    edges, network = rng.integers(40, size=(2, 30)), gat(200)
    sparse, dense = (network(network.prepare(Graph(edges, form))) for form in (features, features.toarray()))
    torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_dropout_keeps_the_mean_and_needs_noise(form):
    features = form(np.eye(200, dtype=np.float32))
    network = gat(200)
    rows = network.prepare(Graph.edgeless(features)).features
    dropped = rows.dropped(0.6, torch_generator(CPU, 0, "dropout")).dense().diagonal()
    assert set(dropped.tolist()) == {0.0, 2.5}
    assert 0.3 < (dropped > 0).float().mean() < 0.5
    inputs = network.prepare(random_graph_of(200))
    with network.dropout_from(torch_generator(CPU, 0, "dropout")):
        assert not torch.equal(network(inputs), network(inputs))
    assert torch.equal(network(inputs), network(inputs))


def test_features_are_dropped_before_the_first_layer():
    network = gat(200)
    inputs = network.prepare(random_graph_of(200))
    with network.dropout_from(torch_generator(CPU, 0, "dropout")):
        projected = network._projected(inputs)
    kept = inputs.features.dropped(0.6, torch_generator(CPU, 0, "dropout"))
    torch.testing.assert_close(projected.flatten(1), kept.times(network.first))
    assert not torch.equal(projected, network._projected(inputs))


def random_graph_of(features: int) -> Graph:
    rng = np.random.default_rng(4)
    return Graph(rng.integers(20, size=(2, 60)), rng.standard_normal((20, features)))


def test_there_is_no_noise_after_training(toy_stream):
    learner = FineTune(backbone="gat", hidden=16, epochs=2)
    learner.observe(toy_stream[0])
    assert learner.network.noise is None


def test_hidden_units_must_be_shared_by_the_heads():
    with pytest.raises(ParameterError, match="multiple of 8, not 20"):
        GAT(hidden=20)
    with pytest.raises(ParameterError, match="multiple of 8, not 20"):
        FineTune(backbone="gat", hidden=20)

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from delome import Graph
from delome.backbones.attention import InEdges, attend, edge_softmax, topology_norm

CPU = torch.device("cpu")


def edges_of(graph: Graph) -> InEdges:
    return InEdges(graph.operator(), np.arange(graph.num_nodes), CPU)


def random_graph(seed: int = 1, nodes: int = 12, edges: int = 40) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph(rng.integers(nodes, size=(2, edges)), rng.standard_normal((nodes, 5)), np.zeros(nodes, int))


def slow_norm(rows: torch.Tensor, graph: Graph) -> torch.Tensor:
    """The definition, node by node."""
    total = torch.zeros((), dtype=rows.dtype)
    for v in range(graph.num_nodes):
        into = [v, *graph.adjacency[[v]].indices.tolist()]
        scores = torch.stack([rows[u] @ rows[v].tanh() for u in into])
        total = total + torch.nn.functional.leaky_relu(scores, 0.2).softmax(dim=0).square().sum()
    return total.sqrt()


def test_softmax_over_in_edges_adds_up_to_one_for_each_target_and_head():
    edges = edges_of(random_graph())
    scores = torch.randn(edges.pattern.nnz, 3, generator=torch.Generator().manual_seed(0)) * 50
    weights = edge_softmax(scores, edges.targets, 12)
    sums = torch.zeros(12, 3).index_add(0, edges.targets, weights)
    torch.testing.assert_close(sums, torch.ones(12, 3))


def test_a_single_in_edge_has_weight_one_whatever_its_score():
    weights = edge_softmax(torch.tensor([[1e4], [-1e4]]), torch.tensor([0, 1]), 2)
    assert weights.ravel().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("at_once", [3, 1000])
def test_weighted_sums_and_their_gradients(at_once, monkeypatch):
    monkeypatch.setattr("delome.backbones.attention.EDGES_AT_ONCE", at_once)
    edges = edges_of(random_graph())
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(edges.pattern.nnz, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    values = torch.rand(12, 2, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    expected = torch.zeros(12, 2, 3, dtype=torch.float64).index_add(
        0, edges.targets, weights[:, :, None] * values[edges.sources]
    )
    torch.testing.assert_close(attend(weights, values, edges), expected)
    assert torch.autograd.gradcheck(lambda a, x: attend(a, x, edges), (weights, values))


def test_chunks_cover_every_target_and_edge_once():
    edges = edges_of(random_graph())
    for size in (1, 3, 7, 1000):
        chunks = edges.chunks(size)
        assert [i for nodes, _ in chunks for i in range(nodes.start, nodes.stop)] == list(range(12))
        assert [i for _, part in chunks for i in range(part.start, part.stop)] == list(range(edges.pattern.nnz))


@pytest.mark.parametrize("at_once", [1, 5, 2**18])
def test_topology_norm_and_its_gradient_equal_the_definition(at_once):
    graph = random_graph()
    rows = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    norm, expected = topology_norm(rows, edges_of(graph), at_once), slow_norm(rows, graph)
    torch.testing.assert_close(norm, expected)
    (slope,), (expected_slope,) = torch.autograd.grad(norm, rows), torch.autograd.grad(expected, rows)
    torch.testing.assert_close(slope, expected_slope)
    assert torch.autograd.gradcheck(lambda h: topology_norm(h, edges_of(graph), at_once), (rows,))


def test_nodes_without_neighbours_have_no_topology_to_preserve():
    graph = Graph.edgeless(np.eye(4, dtype=np.float32))
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    norm = topology_norm(rows, edges_of(graph))
    assert norm.item() == 2.0
    assert torch.autograd.grad(norm, rows)[0].abs().max() == 0


def test_a_selection_keeps_the_edges_of_its_targets_and_finds_each_target_among_its_sources():
    edges = edges_of(random_graph())
    index = np.array([7, 2, 7])
    chosen, sources = edges.select(index)
    assert (sources[chosen.own] == index).all()
    np.testing.assert_array_equal(chosen.pattern.toarray() != 0, (edges.pattern[index].toarray() != 0)[:, sources])


def test_a_union_keeps_its_parts_apart():
    parts = [edges_of(random_graph(1)), edges_of(random_graph(2, nodes=5, edges=6)).select(np.array([3]))[0]]
    union = InEdges.join(parts)
    expected = sp.block_diag([part.pattern for part in parts]).toarray()
    np.testing.assert_array_equal(union.pattern.toarray(), expected)
    assert union.own.tolist() == [*range(12), *(12 + parts[1].own)]

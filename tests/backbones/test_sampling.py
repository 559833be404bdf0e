import numpy as np
import pytest
import scipy.sparse as sp
import torch

from delome import FineTune, Graph
from delome.backbones import BACKBONES
from delome.backbones.examples import Examples
from delome.backbones.sampling import SampledNodes, join, sample_block
from delome.backbones.two_layers import TwoLayerNetwork, TwoLayers
from delome.errors import ParameterError
from delome.learning import METHODS, GradientLearner
from delome.learning.training import Schedule
from delome.parameters import has_parameter

CPU = torch.device("cpu")


def random_graph(seed=1, nodes=30, edges=200):
    rng = np.random.default_rng(seed)
    return Graph(rng.integers(nodes, size=(2, edges)), rng.standard_normal((nodes, 5)), np.zeros(nodes, int))


def network(backbone):
    kind = BACKBONES[backbone]
    assert issubclass(kind, TwoLayers)
    return kind(hidden=16).network(5, 3, np.random.default_rng(0), CPU)


def sampled(backbone, graph, nodes, fanouts):
    return SampledNodes.of(network(backbone), graph, nodes, fanouts)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_at_most_fanout_distinct_in_neighbours_and_the_node_itself():
    graph = random_graph()
    nodes = np.array([4, 0, 17])
    block, sources = sample_block(graph, nodes, 3, np.random.default_rng(0))
    for row, node in enumerate(nodes):
        drawn = sources[block.pattern[[row]].indices]
        neighbours = graph.adjacency[[node]].indices
        assert len(set(drawn)) == len(drawn) == 1 + min(3, len(neighbours))
        assert node in drawn and set(drawn) <= {node, *neighbours}
        assert sources[block.own[row]] == node


def test_every_neighbour_is_drawn_equally_often():
    star = Graph([range(1, 11), [0] * 10], np.ones((11, 1)))
    rng = np.random.default_rng(0)
    drawn = np.concatenate([sample_block(star, np.array([0]), 3, rng)[1] for _ in range(2000)])
    counts = np.bincount(drawn, minlength=11)
    assert counts[0] == 2000
    assert abs(counts[1:] - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)


def test_the_operator_of_a_block_uses_degrees_inside_the_block():
    block, sources = sample_block(
        Graph([[1, 2], [0, 0]], np.ones((3, 1)), undirected=False), np.array([0, 1]), 9, np.random.default_rng(0)
    )
    # 0 receives from 0, 1, 2; 1 from itself; 1 sends twice
    assert sources.tolist() == [0, 1, 2]
    np.testing.assert_allclose(block.operator().toarray(), [[3**-0.5, 6**-0.5, 3**-0.5], [0, 2**-0.5, 0]], rtol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_with_every_neighbour_gat_reads_exactly_what_it_reads_without_sampling(form):
    graph = random_graph()
    graph = Graph(graph.adjacency.nonzero()[::-1], form(graph.features))
    nodes = np.array([3, 3, 8])
    inputs = sampled("gat", graph, nodes, (100, 100))
    expected = inputs.network(inputs.network.prepare(graph).select(nodes))
    torch.testing.assert_close(inputs.network(inputs.draw(rng())), expected)


@pytest.mark.parametrize("backbone", ["sgc", "gcn"])
def test_on_a_ring_with_every_neighbour_the_block_operators_are_the_full_one(backbone):
    # every node has in-degree and out-degree 3 inside the blocks of all nodes, as in the graph
    ring = Graph([range(12), [*range(1, 12), 0]], rng().standard_normal((12, 5)), undirected=True)
    inputs = sampled(backbone, ring, np.arange(12), (9, 9))
    expected = inputs.network(inputs.network.prepare(ring))
    torch.testing.assert_close(inputs.network(inputs.draw(rng())), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_each_step_draws_anew_and_the_seed_decides(backbone):
    graph, nodes = random_graph(), np.arange(10)
    logits = []
    for seed in (0, 0, 1):
        inputs, draws = sampled(backbone, graph, nodes, (2, 2)), rng(seed)
        logits.append([inputs.network(inputs.draw(draws)) for _ in range(2)])
    assert not torch.equal(*logits[0])
    assert torch.equal(logits[0][0], logits[1][0]) and torch.equal(logits[0][1], logits[1][1])
    assert not torch.equal(logits[0][0], logits[2][0])


@pytest.mark.parametrize("backbone", BACKBONES)
def test_rows_of_several_graphs_come_in_the_order_that_was_asked_for(backbone):
    graphs = [random_graph(seed, nodes=12, edges=30) for seed in (1, 2)]
    parts = [sampled(backbone, graph, np.arange(12), (100, 100)) for graph in graphs]
    union = join(parts[0].network, parts).select(np.array([20, 3, 13, 0]))
    assert isinstance(union, SampledNodes)
    logits = union.network(union.draw(rng()))
    for part, rows, nodes in ((0, [1, 3], [3, 0]), (1, [0, 2], [8, 1])):
        alone = sampled(backbone, graphs[part], np.array(nodes), (100, 100))
        torch.testing.assert_close(logits[rows], alone.network(alone.draw(rng())))


def test_a_batch_is_drawn_once_and_read_by_all():
    inputs = sampled("gcn", random_graph(), np.arange(20), (2, 2))
    examples = Examples(inputs, torch.zeros(20, dtype=torch.long), torch.zeros(20, dtype=torch.long))
    for batch_size in (None, 7):
        for batch in Schedule(batch_size, 0, 0).batches(examples)(0):
            assert not isinstance(batch.inputs, SampledNodes)
            assert torch.equal(inputs.network(batch.inputs), inputs.network(batch.inputs))


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if issubclass(method, GradientLearner)])
@pytest.mark.parametrize(("backbone", "batch_size"), [("sgc", 25), ("gcn", 2000), ("gat", 2000)])
def test_methods_learn_from_sampled_neighbourhoods(toy_stream, name, backbone, batch_size):
    wanted = {"epochs": 30, "lr": 0.005, "hidden": 16, "encoders": 30, "budget": 8}
    wanted |= {"backbone": backbone, "batch_size": batch_size}
    known = METHODS[name]()
    learner = METHODS[name](fanout="3,2", setting="til", **{k: v for k, v in wanted.items() if has_parameter(known, k)})
    for task in toy_stream:
        learner.observe(task)
    assert learner.evaluate(toy_stream)[-1] > 75


def test_evaluation_reads_all_neighbours(toy_stream):
    learner = FineTune(epochs=2, hidden=16, fanout="1,1")
    learner.observe(toy_stream[0])
    graph = toy_stream[0].graph
    rows = torch.from_numpy(graph.propagate(2))
    assert isinstance(learner.network, TwoLayerNetwork)
    expected = ((rows @ learner.network.first).relu() @ learner.network.second)[:, :2].argmax(dim=1)
    assert learner.predict(graph).tolist() == expected.tolist()


@pytest.mark.parametrize("text", ["25", "25,10,5", "a,b", "", "-1,2", "2.5,1"])
def test_a_fanout_that_is_not_two_numbers_is_refused(text):
    with pytest.raises(ParameterError, match="two whole numbers such as 25,10"):
        FineTune(fanout=text)

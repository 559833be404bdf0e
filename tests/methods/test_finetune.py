import numpy as np
import pytest
import torch

from delome import FineTune, Graph, TaskStream
from delome.backbones.two_layers import TwoLayerNetwork


def observe_all(learner, stream):
    for task in stream:
        learner.observe(task)
    return learner


def network_of(learner: FineTune) -> TwoLayerNetwork:
    assert isinstance(learner.network, TwoLayerNetwork)
    return learner.network


@pytest.fixture
def overlapping_graph(toy_graph):
    """Classes that share a direction, as features of real graphs do."""
    return Graph(np.stack(toy_graph.adjacency.nonzero())[::-1], toy_graph.features + 1, toy_graph.labels)


def test_old_tasks_are_forgotten_in_cil(overlapping_graph):
    stream = TaskStream(overlapping_graph)
    learner = observe_all(FineTune(epochs=200), stream)
    *old, new = learner.evaluate(stream)
    assert max(old) < 5
    assert new > 95


def test_columns_outside_the_slice_do_not_matter(toy_stream):
    learner = FineTune(epochs=5)
    learner.observe(toy_stream[0])
    before = learner.predict(toy_stream[0].graph)
    with torch.no_grad():
        network_of(learner).second[:, 2:] = 1e6
    assert (learner.predict(toy_stream[0].graph) == before).all()


def test_in_til_infinite_columns_of_other_tasks_do_not_matter(toy_stream):
    learner = observe_all(FineTune(epochs=30, setting="til"), toy_stream)
    before = learner.evaluate([toy_stream[1]])
    with torch.no_grad():
        network_of(learner).second[:, [0, 1, 4, 5]] = torch.inf
    assert learner.evaluate([toy_stream[1]]) == before


def share_left(stream, **parameters):
    """How long the columns of an old task are after two more tasks, compared with what they were."""
    learner = FineTune(epochs=200, setting="til", **parameters)
    learner.observe(stream[0])
    before = network_of(learner).second[:, :2].norm().item()
    learner.observe(stream[1])
    learner.observe(stream[2])
    return network_of(learner).second[:, :2].norm().item() / before


def test_coupled_decay_takes_the_columns_of_an_old_task_away_in_til(toy_stream):
    assert share_left(toy_stream, decay="coupled") < 0.9


def test_decay_is_decoupled_in_til_and_leaves_the_columns_of_an_old_task(toy_stream):
    # no gradient reaches them, and Adam's moments of the first task push them a little further; weights shrink by
    # lr · weight_decay in each of 400 steps
    usual, without = share_left(toy_stream), share_left(toy_stream, weight_decay=0.0)
    assert usual == share_left(toy_stream, decay="decoupled")
    assert usual / without == pytest.approx((1 - 0.005 * 5e-4) ** 400, rel=1e-3)


def test_model_and_optimiser_are_carried_over(toy_stream):
    learner = FineTune(epochs=3)
    learner.observe(toy_stream[0])
    network, optimizer = network_of(learner), learner.optimizer
    learner.observe(toy_stream[1])
    assert learner.model is network
    assert optimizer is not None and learner.optimizer is optimizer
    assert optimizer.state[network.first]["step"].item() == 6


def test_node_ids_do_not_matter(toy_stream):
    learner = FineTune(epochs=20)
    learner.observe(toy_stream[0])
    graph = toy_stream[0].graph
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    assert (learner.predict(graph.subgraph(order)) == learner.predict(graph)[order]).all()


def test_training_by_hand_gives_the_same_weights(toy_stream):
    task = toy_stream[0]
    learner = FineTune(epochs=4, hidden=8)
    learner.reset(task.graph.num_features, toy_stream.num_classes)
    first, second = (weight.detach().clone().requires_grad_() for weight in learner.network.parameters())
    rows = torch.from_numpy(task.graph.propagate(2)[task.train])
    labels = torch.from_numpy(task.graph.labels[task.train])
    optimizer = torch.optim.Adam([first, second], lr=0.005, weight_decay=5e-4)
    for _ in range(4):
        optimizer.zero_grad()
        logits = ((rows @ first).relu() @ second)[:, :2]
        weight = 1 / torch.bincount(labels).float()
        torch.nn.functional.cross_entropy(logits, labels, weight=weight).backward()
        optimizer.step()
    learner.model = None
    learner.observe(task)
    torch.testing.assert_close(network_of(learner).first.detach(), first.detach(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(network_of(learner).second.detach(), second.detach(), atol=1e-5, rtol=1e-4)


def test_a_graph_of_another_width_is_refused(toy_stream):
    learner = FineTune(epochs=1)
    learner.observe(toy_stream[0])
    other = Graph([[0], [1]], np.ones((3, 2)), [0, 0, 1])
    with pytest.raises(Exception, match="trained on 16 features, but the graph has 2"):
        learner.predict(other)


def test_inter_task_edges_leave_only_the_current_training_nodes_in_the_loss(overlapping_graph):
    stream = TaskStream(overlapping_graph, inter_task_edges=True)
    learner = observe_all(FineTune(epochs=200), stream)
    accuracies = learner.evaluate(stream.seen(stream[2]))
    assert accuracies[2] > 95
    assert max(accuracies[:2]) < 5

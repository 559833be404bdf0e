import numpy as np
import pytest
import torch

from delome import TPP, Graph, TaskStream, TPPNodes, load_graph
from delome.graph import disjoint_union
from delome.methods.tpp import Asked, TaskHead, _Reader, smoothed, without_isolated

SMALL = {"hidden": 16, "pretrain": 5, "epochs": 60, "lr": 0.02}


@pytest.fixture(scope="module")
def stream():
    return TaskStream(load_graph("synthetic", nodes=240, classes=6, features=16, degree=6, noise=1.0))


@pytest.fixture(scope="module")
def learned(stream):
    learners = {}
    for kind in (TPP, TPPNodes):
        learners[kind] = kind(**SMALL)
        for task in stream:
            learners[kind].observe(task)
    return learners


def test_a_profile_of_equal_nodes_of_equal_degree_is_their_features_over_the_root_of_the_degree():
    ring = Graph(np.stack([np.arange(5), np.roll(np.arange(5), 1)]), np.full((5, 2), 6.0))
    np.testing.assert_allclose(smoothed(ring, np.arange(5)), np.full((5, 2), 6 / np.sqrt(3)), rtol=1e-6)


def test_nodes_without_edges_are_joined_to_some_that_have_edges():
    graph = Graph([[0], [1]], np.ones((4, 1)))
    joined = without_isolated(graph, np.random.default_rng(0))
    edges = set(zip(*joined.adjacency.nonzero(), strict=True))
    assert {(0, 1), (1, 0)} < edges and len(edges) == 6
    for node in (2, 3):
        (other,) = [b for a, b in edges if a == node]
        assert other in (0, 1) and (other, node) in edges
    lonely = Graph(np.zeros((2, 0), int), np.ones((3, 1)))
    assert without_isolated(lonely, np.random.default_rng(0)) is lonely


def test_prompts_are_added_to_features_before_propagation(stream, learned):
    """Against the definition: propagate features that the prompts were added to."""
    learner, graph, nodes = learned[TPP], stream[1].graph, stream[1].test
    head = learner.heads[2]
    x = torch.from_numpy(graph.features)
    attention = (x @ head.prompts["attention"] + head.prompts["offset"]).softmax(dim=1)
    prompted = graph.with_features((x + attention @ head.prompts["prompt"]).numpy())
    hidden = torch.from_numpy(prompted.propagate(2)[nodes]) @ learner.encoder.first
    expected = learner.encoder.second_layer(hidden) @ head.weight + head.bias
    asked = learner._asked(graph, nodes, torch.zeros(1, 16))
    torch.testing.assert_close(_Reader(asked, learner.encoder).scores(head), expected, rtol=1e-4, atol=1e-4)


def test_a_single_prompt_is_added_as_it_is(stream):
    from delome.graph.rows import Rows
    from delome.learning.grace import Encoder

    graph, nodes = stream[0].graph, np.arange(3)
    encoder = Encoder(torch.eye(16), torch.eye(16))
    prompts = {"attention": torch.randn(16, 1), "offset": torch.zeros(1), "prompt": torch.full((1, 16), 100.0)}
    head = TaskHead(torch.zeros(16), torch.eye(16), torch.zeros(16), prompts)
    asked = Asked(torch.zeros(1, 16), Rows.of(graph.propagate(2)[nodes], torch.device("cpu")), graph, nodes)
    added = torch.from_numpy(graph.with_features(graph.features + np.float32(100)).propagate(2)[nodes]).relu()
    torch.testing.assert_close(_Reader(asked, encoder).scores(head), added, rtol=1e-4, atol=1e-3)


def test_the_network_is_frozen_after_the_first_task(stream):
    learner = TPP(**SMALL)
    learner.observe(stream[0])
    before = learner.encoder.first.clone(), learner.encoder.second.clone()
    learner.observe(stream[1])
    assert torch.equal(learner.encoder.first, before[0]) and torch.equal(learner.encoder.second, before[1])
    assert not learner.heads[0].prompts and learner.heads[1].prompts.keys() == {"attention", "offset", "prompt"}


def test_nothing_is_forgotten_if_every_task_is_recognised(stream):
    learner, first = TPP(**SMALL), []
    for task in stream:
        learner.observe(task)
        first.append(learner.evaluate([task])[0])
    assert min(first) > 80
    assert learner.evaluate(stream) == first


def test_as_published_all_nodes_that_are_asked_about_are_of_one_task(stream, learned):
    graphs = [task.graph for task in stream]
    starts = np.cumsum([0, *(graph.num_nodes for graph in graphs[:-1])])
    asked = np.concatenate([start + task.test for start, task in zip(starts, stream, strict=True)])
    labels = np.concatenate([task.graph.labels[task.test] for task in stream])
    predicted = {kind: learned[kind].predict(disjoint_union(graphs), asked) for kind in (TPP, TPPNodes)}
    assert any(set(predicted[TPP].tolist()) <= set(task.classes) for task in stream)
    assert (predicted[TPP] == labels).mean() < 0.4 < (predicted[TPPNodes] == labels).mean()


def test_node_by_node_the_nearest_profile_decides(stream, learned):
    learner, task = learned[TPPNodes], stream[1]
    rows = smoothed(task.graph, task.test)
    profiles = torch.stack([head.profile for head in learner.heads])
    nearest = torch.cdist(rows.double(), profiles.double()).argmin(dim=1).numpy()
    assert (learner.predict(task.graph, task.test) // 2 == nearest).all()


def test_if_the_task_is_known_it_need_not_be_recognised(stream):
    learner = TPP(setting="til", **SMALL)
    for task in stream:
        learner.observe(task)
    moved = stream[0].graph.with_features(stream[0].graph.features + np.float32(50))  # nearer to nothing
    assert set(learner.predict(moved, task=1).tolist()) <= {2, 3}

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from delome import Graph, TaskStream
from delome.backbones import SGC
from delome.memories.experience import Experience, _half_median, distance_to_mean, others_within


def line_stream(values, labels):
    """Nodes on a line without edges; every class is in one task."""
    features = np.asarray(values, dtype=np.float32)[:, None]
    return TaskStream(Graph(np.zeros((2, 0), int), features, np.asarray(labels)), len(set(labels)))


def test_the_node_with_no_other_class_near_is_picked_first():
    rows, others = torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([[1.2], [5.1]])
    assert others_within(rows, others, 0.5).tolist() == [0, 1, 1]


def test_mean_of_0_1_2_9_is_3_and_2_is_nearest():
    assert distance_to_mean(torch.tensor([[0.0], [1.0], [2.0], [9.0]])).argmin() == 2


def test_counts_in_blocks_equal_the_full_distance_matrix():
    generator = torch.Generator().manual_seed(0)
    rows, others = torch.randn(700, 3, generator=generator), torch.randn(300, 3, generator=generator)
    expected = ((rows[:, None] - others[None]).norm(dim=2) < 0.8).sum(dim=1)
    assert torch.equal(others_within(rows, others, 0.8), expected)


def test_counts_do_not_suffer_from_long_vectors():
    generator = torch.Generator().manual_seed(0)
    rows, others = (0.05 * torch.randn(n, 100, generator=generator) + 100 for n in (60, 50))
    radius = 0.7
    exact = ((rows[:, None].double() - others[None].double()).norm(dim=2) < radius).sum(dim=1)
    assert 0 < exact.float().mean() < 50
    assert torch.equal(others_within(rows, others, radius), exact)


def test_mf_stores_the_nodes_nearest_to_their_class_mean(build, toy_stream):
    task = toy_stream[0]
    memory = build(Experience(budget=5, sampler="mf"), task)
    for column in task.classes:
        nodes = task.train[task.graph.labels[task.train] == column]
        rows = task.graph.features[nodes]
        distances = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
        expected = rows[np.argsort(distances)[:5]]
        stored = memory.graph.features[memory.labels == column]
        np.testing.assert_allclose(np.sort(stored, axis=0), np.sort(expected, axis=0))


def test_cm_avoids_nodes_near_other_classes(build):
    # class 0 at 0 … 9, class 1 beside its upper half, each place ten times
    places = np.repeat(np.arange(10), 10)
    stream = line_stream([*places, *(places + 5.1)], [0] * 100 + [1] * 100)
    memory = build(Experience(budget=20, sampler="cm", radius=0.5), stream[0])
    assert (memory.graph.features[memory.labels == 0] < 5).all()
    assert (memory.graph.features[memory.labels == 1] > 9.5).all()


def test_ties_are_broken_at_random(build):
    stream = line_stream([*range(30), *(np.arange(30) + 100)], [0] * 30 + [1] * 30)
    memories = [build(Experience(budget=3, sampler="cm"), stream[0], seed=seed) for seed in range(5)]
    assert len({tuple(memory.graph.features.ravel()) for memory in memories}) == 5


def test_without_a_radius_half_the_median_distance_counts(build):
    places = np.repeat(np.arange(10), 10)
    stream = line_stream([*places, *(places + 5.1)], [0] * 100 + [1] * 100)
    fixed = build(Experience(budget=5, sampler="cm", radius=1e-9), stream[0])
    median = build(Experience(budget=5, sampler="cm", radius=None), stream[0])
    assert median.graph.features[median.labels == 0].max() < 4
    assert not np.array_equal(fixed.graph.features, median.graph.features)


def test_half_the_median_of_1_2_3_is_1():
    assert _half_median(torch.tensor([[0.0]]), torch.tensor([[1.0], [2.0], [3.0]])) == 1.0
    assert _half_median(torch.tensor([[0.0]]), torch.empty(0, 1)) == 0.0


def test_classes_larger_than_the_sample_are_ranked_and_stored_from_the_same_nodes(build):
    # nodes of class 0 lie far from class 1 except every second one, which must never be stored
    near = np.arange(4000) % 2 == 0
    stream = line_stream([*np.where(near, 0.0, 50.0), *([0.1] * 4000)], [0] * 4000 + [1] * 4000)
    memory = build(Experience(budget=100, sampler="cm", radius=0.5), stream[0])
    assert (memory.graph.features[memory.labels == 0] == 50).all()


@pytest.mark.parametrize("sampler", ["mf", "cm", "random"])
def test_raw_training_rows_within_the_budget(build, toy_stream, sampler):
    task = toy_stream[1]
    for budget in (1, 7, 1000):
        memory = build(Experience(budget=budget, sampler=sampler), task)
        train = {row.tobytes() for row in task.graph.features[task.train]}
        assert {row.tobytes() for row in memory.graph.features} <= train
        sizes = np.bincount(task.graph.labels[task.train])[list(task.classes)]
        assert np.bincount(memory.labels)[list(task.classes)].tolist() == np.minimum(budget, sizes).tolist()


def test_distances_can_be_taken_between_embeddings(build, toy_stream):
    task = toy_stream[0]
    network = SGC(hidden=4).network(16, 6, np.random.default_rng(0), torch.device("cpu"))
    stored = []
    for space in ("raw", "embedding"):
        memory = build(Experience(budget=1, sampler="mf", space=space), task, network=network)
        stored.append(memory.graph.features)
    nodes = task.train[task.graph.labels[task.train] == 0]
    units = np.maximum(task.graph.propagate(2)[nodes] @ network.first.detach().numpy(), 0)
    nearest = nodes[np.linalg.norm(units - units.mean(axis=0), axis=1).argmin()]
    np.testing.assert_array_equal(stored[1][0], task.graph.features[nearest])
    assert not np.array_equal(*stored)


def test_sparse_features_stay_sparse(build, sparse_stream):
    assert sp.issparse(build(Experience(budget=5, sampler="cm"), sparse_stream[0]).graph.features)

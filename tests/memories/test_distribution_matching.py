import numpy as np
import pytest
import torch

from delome.errors import ParameterError
from delome.graph.sparse import to_dense
from delome.memories.distribution_matching import DistributionMatching, distribution_distance, mean_embeddings


def distance(memory, task, encoder):
    """Distance between a memory and its task, class by class, from the definition."""
    propagated, total = task.graph.propagate(2), 0.0
    for column in task.classes:
        nodes = task.train[task.graph.labels[task.train] == column]
        means = []
        for rows in (propagated[nodes], memory.graph.features[memory.labels == column]):
            embedded = np.maximum(rows @ encoder, 0)
            means.append((embedded / np.linalg.norm(embedded, axis=1, keepdims=True)).mean(axis=0))
        total += ((means[0] - means[1]) ** 2).sum()
    return total


def test_the_distance_is_the_one_of_the_definition(build, toy_stream):
    task, rng = toy_stream[0], np.random.default_rng(3)
    memory = build(DistributionMatching(budget=5, encoders=1), task)
    encoder = rng.standard_normal((16, 64)).astype(np.float32)
    by_class = [task.train[task.graph.labels[task.train] == column] for column in task.classes]
    real = torch.from_numpy(task.graph.propagate(2)[np.concatenate(by_class)])
    wanted = mean_embeddings(real, torch.from_numpy(encoder), [len(nodes) for nodes in by_class])
    reached = mean_embeddings(torch.from_numpy(memory.graph.features), torch.from_numpy(encoder), [5, 5])
    assert distribution_distance(wanted, reached).item() == pytest.approx(distance(memory, task, encoder), rel=1e-5)


def test_the_distance_is_zero_for_the_rows_themselves_in_any_order():
    generator = torch.Generator().manual_seed(0)
    rows, encoder = torch.randn(9, 4, generator=generator), torch.randn(4, 32, generator=generator)
    own = mean_embeddings(rows, encoder, [4, 5])
    assert distribution_distance(own, own) == 0
    shuffled = mean_embeddings(rows[[2, 0, 1, 3, 8, 4, 6, 5, 7]], encoder, [4, 5])
    assert distribution_distance(own, shuffled).item() < 1e-12


def test_a_row_that_switches_every_unit_off_is_no_division_by_zero():
    rows = torch.zeros(2, 3, requires_grad=True)
    mean_embeddings(rows, torch.ones(3, 4), [1, 1]).sum().backward()
    assert rows.grad is not None and torch.isfinite(rows.grad).all()


def test_learning_brings_memory_and_class_together(build, toy_stream):
    task = toy_stream[0]
    encoders = np.random.default_rng(9).standard_normal((5, 16, 256)).astype(np.float32)
    distances = []
    for count in (1, 200):
        memory = build(DistributionMatching(budget=5, encoders=count, lr=1e-2), task)
        distances.append(np.mean([distance(memory, task, encoder) for encoder in encoders]))
    assert distances[1] < 0.2 * distances[0]


def test_it_starts_from_raw_features_of_distinct_training_nodes(build, toy_stream):
    task = toy_stream[0]
    memory = build(DistributionMatching(budget=5, encoders=1, lr=1e-12), task)
    train = {row.tobytes() for row in task.graph.features[task.train]}
    stored = {row.tobytes() for row in memory.graph.features}
    assert stored <= train and len(stored) == 10


def test_sparse_columns_that_no_node_uses_stay_empty(build, sparse_stream):
    task = sparse_stream[0]
    memory = build(DistributionMatching(budget=5, encoders=5), task)
    used = np.unique(task.graph.features.indices)
    columns = np.flatnonzero(np.asarray(abs(memory.graph.features).sum(axis=0)).ravel())
    assert set(columns) <= set(used)
    assert memory.graph.num_features == 300


def test_in_closed_form_the_expected_distance_is_lower_than_with_many_encoders(build, toy_stream):
    task = toy_stream[0]
    encoders = np.random.default_rng(9).standard_normal((20, 16, 512)).astype(np.float32)
    distances = [
        np.mean([distance(build(builder, task), task, encoder) for encoder in encoders])
        for builder in (
            DistributionMatching(budget=5, encoders="exact"),
            DistributionMatching(budget=5, encoders=300, lr=1e-2),
        )
    ]
    assert distances[0] < distances[1]


def test_in_closed_form_no_row_is_a_real_row_and_empty_columns_stay_empty(build, sparse_stream):
    task = sparse_stream[0]
    memory = build(DistributionMatching(budget=5, encoders="exact"), task)
    features = to_dense(memory.graph.features)
    assert np.bincount(memory.labels).tolist() == [5, 5]
    for column in task.classes:
        real = to_dense(task.graph.propagate(2))[task.train[task.graph.labels[task.train] == column]]
        rows = features[memory.labels == column]
        assert (rows[:, ~real.any(axis=0)] == 0).all()
        assert np.linalg.norm(real[None] - rows[:, None], axis=2).min() > 1e-2


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_in_closed_form_rows_are_matched_after_the_hops_of_the_encoder(build, toy_stream, hops):
    task = toy_stream[0]
    memory = build(DistributionMatching(budget=5, encoders="exact", encoder_hops=hops), task)
    real = task.graph.propagate(hops)[task.train]
    for column in task.classes:
        rows = real[task.graph.labels[task.train] == column]
        lengths = np.linalg.norm(memory.graph.features[memory.labels == column], axis=1)
        np.testing.assert_allclose(lengths, np.linalg.norm(rows, axis=1).mean(), rtol=1e-4)


@pytest.mark.parametrize("encoders", [0, "many", 2.5, None, True])
def test_encoders_are_a_positive_number_or_exact(encoders):
    with pytest.raises(ParameterError, match="encoders must be"):
        DistributionMatching(encoders=encoders)


def test_encoders_are_matched_in_closed_form_unless_a_number_is_given(build, toy_stream):
    usual, exact, sampled = (
        to_dense(build(builder, toy_stream[0]).graph.features)
        for builder in (
            DistributionMatching(budget=3),
            DistributionMatching(budget=3, encoders="exact"),
            DistributionMatching(budget=3, encoders=5),
        )
    )
    assert np.array_equal(usual, exact)
    assert not np.array_equal(usual, sampled)

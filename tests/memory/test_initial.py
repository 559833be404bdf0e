import numpy as np

from delome.memory.initial import initial_rows
from delome.sparse import used_columns


def test_noise_has_the_moments_of_the_class(toy_stream):
    observation = toy_stream[0].observation()
    nodes = observation.train[observation.labels == 0]
    real = observation.graph.propagate(2)[nodes]
    columns = used_columns(observation.graph.features)
    many = np.concatenate(
        [initial_rows("noise", observation, nodes, columns, 1000, 2, np.random.default_rng(r)) for r in range(60)]
    )
    error = real.std(axis=0) / np.sqrt(len(many))
    assert (np.abs(many.mean(axis=0) - real.mean(axis=0)) < 5 * error).all()
    np.testing.assert_allclose(many.std(axis=0), real.std(axis=0), rtol=0.1)


def test_rows_of_nodes_come_without_replacement(toy_stream):
    observation = toy_stream[0].observation()
    nodes = observation.train[observation.labels == 1]
    columns = used_columns(observation.graph.features)
    for kind, features in (("raw", observation.graph.features), ("propagated", observation.graph.propagate(2))):
        rows = initial_rows(kind, observation, nodes, columns, 10_000, 2, np.random.default_rng(0))
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(features[nodes], axis=0))

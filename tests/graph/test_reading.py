import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph, TaskStream, load, load_graph
from delome.errors import StateError
from delome.graph.reading import Projected
from delome.methods import METHODS
from delome.parameters import has_parameter


def random_graph(rows=40, width=300):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((rows, width)) * (rng.random((rows, width)) < 0.2)
    return Graph(rng.integers(rows, size=(2, 90)), features.astype(np.float32), rng.integers(2, size=rows))


def test_projecting_before_propagation_is_projecting_propagated_rows():
    graph = random_graph()
    projected = Projected(columns=20)(graph, seed=3)
    propagated_first = Projected(columns=20)(Graph.edgeless(graph.propagate(2)), seed=3).features
    assert projected.features.shape == (40, 20)
    np.testing.assert_allclose(projected.propagate(2), propagated_first, atol=1e-5)


def test_products_of_rows_are_kept_on_average():
    graph = random_graph()
    expected = graph.features @ graph.features.T
    found = [Projected(columns=50)(graph, seed).features for seed in range(200)]
    mean = np.mean([each @ each.T for each in found], axis=0)
    # the product of one draw is off by about √((|x|²|y|² + ⟨x, y⟩²) / 50)
    off = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / 50 / 200)
    assert (np.abs(mean - expected) < 5 * off).all()
    assert np.abs(found[0] @ found[0].T - expected).max() > 5 * off.min()


def test_the_columns_are_those_of_the_seed_whatever_form_features_have():
    graph = random_graph()
    sparse = Graph(np.zeros((2, 0), dtype=int), sp.csr_array(graph.features))
    dense = Projected(columns=20)(graph, seed=1).features
    np.testing.assert_allclose(Projected(columns=20)(sparse, seed=1).features, dense, atol=1e-5)
    assert not np.allclose(Projected(columns=20)(graph, seed=2).features, dense)


def test_a_graph_with_no_more_features_than_columns_is_read_as_it_is():
    graph = random_graph(width=20)
    assert Projected(columns=20)(graph, seed=0) is graph
    assert Projected()(graph, seed=0) is graph
    assert Projected(columns=19)(graph, seed=0).num_features == 19


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_from_random_columns_and_is_saved_with_them(name, tmp_path):
    stream = TaskStream(load_graph("synthetic", nodes=120, classes=4, features=64))
    kind = METHODS[name]
    small = {"epochs": 30, "budget": 5, "encoders": 20, "features": 64, "epsilon": 100.0}
    given = {
        parameter: value
        for parameter, value in small.items()
        if has_parameter(kind(setting=kind.settings[-1]), parameter)
    }
    learner = kind(columns=24, setting=kind.settings[-1], seed=5, **kind.repeats_with, **given)
    for task in stream:
        learner.observe(task)
    assert (learner.width, learner.num_features) == (24, 64)
    learner.save(tmp_path / "model")
    again = load(tmp_path / "model")
    graph = stream[1].graph
    np.testing.assert_array_equal(again.scores(graph, task=1), learner.scores(graph, task=1))
    assert learner.evaluate([stream[1]])[0] > 60
    with pytest.raises(StateError, match="trained on 64 features, but the graph has 24"):
        learner.predict(Projected(columns=24)(graph, seed=5), task=1)


def test_a_memory_of_fewer_columns_takes_fewer_bytes():
    stream = TaskStream(load_graph("synthetic", nodes=120, classes=4, features=64))
    sizes = []
    for columns in (None, 16):
        learner = METHODS["delome"](columns=columns, budget=5, epochs=1)
        learner.observe(stream[0])
        sizes.append(learner.storage().floats)
    assert sizes == [10 * 64, 10 * 16]

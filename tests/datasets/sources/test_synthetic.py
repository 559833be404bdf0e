from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delome import Graph
from delome.datasets.sources import synthetic
from delome.errors import DatasetError


def labels_of(graph: Graph) -> np.ndarray:
    assert graph.labels is not None
    return graph.labels


def homophily(graph: Graph) -> float:
    edges, labels = graph.adjacency.tocoo(), labels_of(graph)
    return float((labels[edges.row] == labels[edges.col]).mean())


def test_the_graph_has_the_sizes_asked_for() -> None:
    graph = synthetic.load(nodes=3001, classes=7, features=12)
    assert (graph.num_nodes, graph.num_features) == (3001, 12)
    assert np.unique(labels_of(graph)).tolist() == list(range(7))


@pytest.mark.parametrize("degree", [2.0, 10.0, 25.5])
def test_the_average_degree_is_close_to_the_one_asked_for(degree: float) -> None:
    graph = synthetic.load(nodes=20_000, degree=degree)
    # pairs drawn twice count once: below one in a hundred here
    assert graph.num_edges / graph.num_nodes == pytest.approx(degree, rel=0.02)


def test_edges_go_both_ways() -> None:
    adjacency = synthetic.load(nodes=500).adjacency
    assert (adjacency != adjacency.T).nnz == 0


@pytest.mark.parametrize("classes", [2, 3, 10, 40])
@pytest.mark.parametrize("asked", [0.0, 0.2, 0.8, 1.0])
def test_the_share_of_edges_inside_a_class_is_the_one_asked_for(classes: int, asked: float) -> None:
    graph = synthetic.load(nodes=20_000, classes=classes, homophily=asked)
    # 100,000 pairs: standard error below 0.002; repeated pairs inside small classes take off less than 0.005
    assert homophily(graph) == pytest.approx(asked, abs=0.01)


def test_homophily_holds_for_imbalanced_classes_too() -> None:
    graph = synthetic.load(nodes=20_000, classes=5, homophily=0.3, imbalance=20)
    assert homophily(graph) == pytest.approx(0.3, abs=0.01)


def test_without_imbalance_classes_are_equal() -> None:
    counts = np.bincount(labels_of(synthetic.load(nodes=1000, classes=8)))
    assert counts.tolist() == [125] * 8


@pytest.mark.parametrize("imbalance", [2, 10, 100])
def test_the_largest_class_is_the_asked_number_of_times_the_smallest(imbalance: float) -> None:
    counts = np.bincount(labels_of(synthetic.load(nodes=50_000, imbalance=imbalance)))
    assert counts.max() / counts.min() == pytest.approx(imbalance, rel=0.02)
    assert (np.diff(counts) < 0).all(), "sizes must fall from class to class"


@given(st.integers(1, 60), st.integers(0, 400), st.floats(1, 1e5))
def test_every_class_has_nodes_and_the_first_is_the_largest(classes: int, extra: int, imbalance: float) -> None:
    nodes = 3 * classes + extra
    graph = synthetic.load(nodes=nodes, classes=classes, imbalance=imbalance, features=1, degree=1)
    counts = np.bincount(labels_of(graph), minlength=classes)
    assert counts.sum() == nodes and len(counts) == classes
    assert counts.min() >= 1
    assert counts.argmax() == 0


def test_without_noise_nodes_of_a_class_share_a_centre_of_unit_length() -> None:
    graph = synthetic.load(nodes=100, classes=4, noise=0)
    for label in range(4):
        rows = graph.features[graph.labels == label]
        assert (rows == rows[0]).all()
        assert np.linalg.norm(rows[0]) == pytest.approx(1, abs=1e-6)


def test_noise_is_the_typical_distance_from_the_centre() -> None:
    graph = synthetic.load(nodes=10_000, classes=2, features=50, noise=3)
    rows = graph.features[graph.labels == 0]
    spread = np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert spread == pytest.approx(3, rel=0.02)


def test_the_seed_decides_everything() -> None:
    first, again, other = (synthetic.load(seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.features, again.features)
    assert (first.adjacency != again.adjacency).nnz == 0
    assert not np.array_equal(first.features, other.features)
    assert (first.adjacency != other.adjacency).nnz > 0


def test_one_class_holds_all_edges() -> None:
    assert homophily(synthetic.load(nodes=50, classes=1)) == 1


def test_degree_zero_is_a_graph_without_edges() -> None:
    assert synthetic.load(nodes=50, degree=0).num_edges == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"classes": 0}, "classes must be at least 1"),
        ({"nodes": 29, "classes": 10}, "nodes must be at least 3 for each class"),
        ({"features": 0}, "features must be at least 1"),
        ({"degree": -1.0}, "degree must not be negative"),
        ({"homophily": 1.1}, "homophily must be between 0 and 1"),
        ({"homophily": -0.1}, "homophily must be between 0 and 1"),
        ({"homophily": float("nan")}, "homophily must be between 0 and 1"),
        ({"imbalance": 0.5}, "imbalance must be at least 1"),
        ({"noise": -1.0}, "noise must not be negative"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DatasetError) as error:
        synthetic.load(**options)
    assert str(error.value) == f"synthetic dataset: {sentence}"


@pytest.mark.parametrize("options", [{"seed": -1}, {"degree": float("inf")}])
def test_options_that_no_graph_can_have_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DatasetError, match=next(iter(options))):
        synthetic.load(**options)


@pytest.mark.slow
def test_a_million_nodes_work() -> None:
    graph = synthetic.load(nodes=1_000_000, classes=20, features=16, degree=10, imbalance=5)
    assert graph.num_nodes == 1_000_000
    assert graph.num_edges == pytest.approx(10_000_000, rel=0.01)
    assert homophily(graph) == pytest.approx(0.8, abs=0.01)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph, Learner, load_graph
from delome.graph import neighbourhood, reading
from delome.graph.neighbourhood import seen_by
from delome.graph.reading import times_random
from delome.graph.sparse import to_dense
from delome.learning import METHODS
from delome.parameters import filled
from delome.registry import Registry


@pytest.fixture(autouse=True)
def small_graphs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbourhood, "CUT_FROM", 0)


def chain(count: int = 400, **options: Any) -> Graph:
    """A path with a few chords; its features are random."""
    rng = np.random.default_rng(0)
    ends = np.concatenate([np.stack([np.arange(count - 1), np.arange(1, count)]), rng.integers(count, size=(2, 30))], 1)
    weights = rng.random(ends.shape[1]) + 0.1 if options.pop("weighted", False) else None
    features = rng.standard_normal((count, 5)).astype(np.float32)
    if options.pop("sparse", False):
        features = sp.csr_array(np.where(rng.random((count, 40)) < 0.03, 1.5, 0.0).astype(np.float32))
    return Graph(ends, features, rng.integers(4, size=count), edge_weight=weights, **options)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"undirected": False}, {"sparse": True}], ids=str)
def test_nodes_have_the_rows_of_the_whole_graph(options: dict[str, Any], hops: int) -> None:
    graph, nodes = chain(**options), np.array([7, 399, 0, 200, 7])
    part, own = seen_by(graph, nodes, hops)
    assert part.num_nodes < 100
    found, wanted = part.propagate(hops)[own], chain(**options).propagate(hops)[nodes]
    if "sparse" in options:
        np.testing.assert_allclose(to_dense(found), to_dense(wanted), rtol=0, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_degrees_are_those_of_the_whole_graph() -> None:
    # the neighbour 0 of node 1 has 50 others, of which node 1 sees nothing at one hop
    star = Graph(np.stack([np.zeros(50, dtype=int), np.arange(1, 51)]), np.ones((51, 1)))
    part, own = seen_by(star, np.array([1]), 1)
    assert part.num_nodes == 2
    assert part.propagate(1)[own][0, 0] == pytest.approx(1 / 2 + 1 / np.sqrt(2 * 51))


def test_what_was_computed_or_is_hardly_smaller_is_used_as_a_whole() -> None:
    graph = chain()
    everybody = np.arange(graph.num_nodes)
    assert seen_by(graph, everybody, 2)[0] is graph
    assert seen_by(graph, np.array([3]), 2)[0] is not graph
    graph.scale()
    assert seen_by(graph, np.array([3]), 2)[0] is not graph
    graph.propagate(2)
    part, own = seen_by(graph, np.array([3]), 2)
    assert part is graph and own.tolist() == [3]


def test_a_small_graph_is_used_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    monkeypatch.setattr(neighbourhood, "CUT_FROM", graph.num_edges + 1)
    assert seen_by(graph, np.array([3]), 2)[0] is graph


@pytest.mark.parametrize(
    "options",
    [
        {"backbone": "sgc"}, {"backbone": "gcn"}, {"backbone": "gcn", "backbone.norm": "none"}, {"backbone": "gat"},
        {"method": "analytic", "features": 64},
    ],
    ids=str,
)  # fmt: skip
def test_one_node_of_a_large_graph_is_classified_without_the_rest(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = dict(options)
    kind = METHODS.find(options.pop("method", "finetune"))
    given = options if "features" in options else {"epochs": 3, **options}
    learner: Learner = kind(**filled(kind, given, Registry.importable))
    learner.observe(chain())
    propagated: list[int] = []
    operator = Graph._operator

    def counted(self: Graph) -> Any:
        propagated.append(self.num_nodes)
        return operator(self)

    monkeypatch.setattr(Graph, "_operator", counted)
    graph, nodes = chain(), np.array([5, 311])
    scores = [learner.scores(graph, nodes=[node]) for node in nodes]
    assert all(count < 50 for count in propagated)
    np.testing.assert_allclose(np.concatenate(scores), learner.scores(graph)[nodes], rtol=1e-5, atol=1e-6)


def test_a_part_of_a_generated_graph_is_that_of_the_whole() -> None:
    graph = load_graph("synthetic", nodes=3000, classes=3, degree=4)
    nodes = np.random.default_rng(0).choice(3000, 10, replace=False)
    part, own = seen_by(graph, nodes, 2)
    assert part.num_nodes < 600
    np.testing.assert_array_equal(part.propagate(2)[own], graph.propagate(2)[nodes])


@pytest.mark.parametrize("method", ["finetune", "analytic"])
def test_of_a_few_nodes_only_features_within_reach_are_projected(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain(sparse=True)
    options = {"reading.columns": 8, **({"epochs": 5} if method == "finetune" else {"features": 64})}
    kind = METHODS.importable(method)
    learner = kind(**filled(kind, options, Registry.importable))
    learner.observe(graph)
    rows: list[int] = []

    def projected(features: Any, columns: int, seed: int) -> Any:
        rows.append(features.shape[0])
        return times_random(features, columns, seed)

    monkeypatch.setattr(reading, "times_random", projected)
    nodes = np.array([7, 399, 200])
    wanted = learner.scores(graph, nodes)
    assert rows == []  # what was projected to be learned is read again
    np.testing.assert_allclose(learner.scores(chain(sparse=True), nodes), wanted, rtol=0, atol=1e-5)
    assert len(rows) == 1 and rows[0] < 100
    learner.scores(chain(sparse=True))
    assert rows[1:] == [400]

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph, TaskStream, load_graph
from delome.datasets.catalogue import DATASETS, parse_name
from delome.datasets.sources.twins import TWINS, class_sizes, twin
from delome.errors import DatasetError

SCALES = {"corafull": 0.2, "arxiv": 0.2, "reddit": 0.04, "products": 0.01}


@pytest.fixture(scope="module", params=SCALES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def graph(name: str) -> Graph:
    return twin(name, SCALES[name], seed=3)


def labels_of(graph: Graph) -> np.ndarray:
    assert graph.labels is not None
    return graph.labels


def same(first: Graph, second: Graph) -> bool:
    def arrays(graph: Graph) -> list[np.ndarray]:
        features = graph.features
        content = [features] if isinstance(features, np.ndarray) else [features.data, features.indices, features.indptr]
        return [graph.adjacency.indices, graph.adjacency.indptr, labels_of(graph), *content]

    return all(np.array_equal(one, other) for one, other in zip(arrays(first), arrays(second), strict=True))


def test_the_counts_are_the_published_ones_times_the_scale(name: str, graph: Graph) -> None:
    shape, scale = TWINS[name], SCALES[name]
    assert graph.num_nodes == round(shape.nodes * scale)
    assert graph.num_edges == pytest.approx(shape.edges * scale, abs=2)
    assert graph.num_features == shape.features
    assert np.unique(labels_of(graph)).tolist() == list(range(shape.classes))


def test_the_largest_and_smallest_class_are_those_of_the_published_graph(name: str, graph: Graph) -> None:
    shape, scale = TWINS[name], SCALES[name]
    counts = np.bincount(labels_of(graph))
    assert counts.max() == pytest.approx(shape.largest * scale, rel=0.01, abs=1)
    assert counts.min() == pytest.approx(max(5, shape.smallest * scale), abs=1)
    assert counts[-1] == counts.min()


@pytest.mark.parametrize("name", TWINS)
def test_at_full_size_class_sizes_span_the_published_range(name: str) -> None:
    shape = TWINS[name]
    sizes = class_sizes(shape)
    assert sizes.sum() == shape.nodes
    assert sizes[0] == pytest.approx(shape.largest, abs=10)
    assert sizes[-1] == max(shape.smallest, 5)
    assert (np.diff(sizes) <= 0).all()


def test_class_sizes_follow_the_real_ones_of_corafull() -> None:
    # sizes of the 1st, 10th, 20th, … largest class of the published graph
    published = {0: 928, 9: 521, 19: 370, 29: 285, 39: 212, 49: 129, 59: 91, 69: 15}
    sizes = class_sizes(TWINS["corafull"])
    # the law is one curve: the widest gap, near the small end, is just above a factor of two
    assert all(1 / 2.3 < sizes[rank] / size < 1.5 for rank, size in published.items())


def test_the_share_of_edges_inside_a_class_is_the_published_one(name: str, graph: Graph) -> None:
    edges, labels = graph.adjacency.tocoo(), labels_of(graph)
    assert (labels[edges.row] == labels[edges.col]).mean() == pytest.approx(TWINS[name].homophily, abs=0.001)


def test_strays_have_no_neighbour_of_their_own_class(name: str, graph: Graph) -> None:
    edges, labels = graph.adjacency.tocoo(), labels_of(graph)
    own = np.bincount(edges.row[labels[edges.row] == labels[edges.col]], minlength=graph.num_nodes)
    if strays := TWINS[name].strays:
        # nodes of few edges or of a tiny class may have none by chance as well
        assert strays - 0.01 < (own == 0).mean() < strays + 0.05


def test_edges_go_both_ways_unless_the_original_is_directed(name: str, graph: Graph) -> None:
    one_way = (graph.adjacency != graph.adjacency.T).nnz
    assert (one_way > 0) == (name == "arxiv")


def test_the_parts_are_what_a_graph_must_hold(graph: Graph) -> None:
    adjacency = graph.adjacency
    assert adjacency.dtype == bool and adjacency.data.all()
    assert adjacency.indices.dtype == adjacency.indptr.dtype == np.int32
    assert adjacency.diagonal().sum() == 0
    # not read from the flag that the generator itself has set
    fresh = sp.csr_array((adjacency.data, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    assert fresh.has_canonical_format
    assert graph.features.dtype == np.float32
    assert graph.labels.dtype == np.int64
    values = graph.features if isinstance(graph.features, np.ndarray) else graph.features.data
    assert np.isfinite(values).all()


def test_the_graph_is_the_one_that_checking_its_parts_would_give(name: str) -> None:
    made = twin(name, SCALES[name])
    edges = made.adjacency.tocoo()
    assert same(made, Graph(np.stack([edges.col, edges.row]), made.features, made.labels, undirected=False))


def test_degrees_have_a_heavy_tail_and_few_nodes_are_isolated(name: str, graph: Graph) -> None:
    received, sent = np.diff(graph.adjacency.indptr), np.bincount(graph.adjacency.indices, minlength=graph.num_nodes)
    assert received.max() > 4 * received.mean()  # a small twin of reddit has classes too small for more
    assert received.mean() > 1.1 * np.median(received)
    assert (received + sent == 0).mean() < 0.01


def test_degrees_are_those_of_the_published_citation_graphs() -> None:
    # quantiles 0.5, 0.9, 0.99 of the degrees of CoraFull, and of the citations received and made in ogbn-arxiv
    corafull, arxiv = twin("corafull").adjacency, twin("arxiv").adjacency
    quantiles = [0.5, 0.9, 0.99]
    assert np.quantile(np.diff(corafull.indptr), quantiles) == pytest.approx([4, 13, 39], rel=0.15)
    assert np.quantile(np.diff(arxiv.indptr), quantiles) == pytest.approx([1, 12, 87], rel=0.15, abs=1)
    assert np.quantile(np.bincount(arxiv.indices), quantiles) == pytest.approx([4, 18, 37], rel=0.55)


def test_words_are_as_dense_as_the_published_ones_and_no_node_is_without() -> None:
    features = twin("corafull", 0.1).features
    assert sp.issparse(features) and features.indices.dtype == np.int32
    assert (features.data == 1).all()
    assert features.nnz / np.prod(features.shape) == pytest.approx(0.007, rel=0.001)
    assert np.diff(features.indptr).min() >= 1


def test_classes_can_be_learned_but_not_without_error(graph: Graph) -> None:
    rows, labels, learned = [], [], []
    for task in TaskStream(graph):
        propagated = task.graph.propagate(2)
        rows.append(propagated if isinstance(propagated, np.ndarray) else propagated.toarray())
        labels.append(labels_of(task.graph))
        learned.append(np.isin(np.arange(task.graph.num_nodes), task.train))
    features, label, train = (np.concatenate(each) for each in (rows, labels, learned))
    means = np.stack([features[train & (label == each)].mean(axis=0) for each in range(label.max() + 1)])
    nearest = ((means**2).sum(axis=1) - 2 * features[~train] @ means.T).argmin(axis=1)
    accuracy = (nearest == label[~train]).mean()
    chance = np.bincount(label).max() / len(label)
    assert accuracy > 2 * chance
    assert accuracy < 0.98


def test_the_same_seed_gives_the_same_bits_and_another_another_graph(name: str, graph: Graph) -> None:
    assert same(graph, twin(name, SCALES[name], seed=3))
    other = twin(name, SCALES[name], seed=4)
    assert not np.array_equal(labels_of(graph), labels_of(other))
    assert not np.array_equal(graph.adjacency.indices, other.adjacency.indices)
    assert np.array_equal(np.bincount(labels_of(graph)), np.bincount(labels_of(other))), "sizes belong to the twin"


def test_drawing_in_smaller_chunks_gives_a_graph_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delome.datasets.sources.twins.CHUNK", 1000)
    graph = twin("products", 0.001)
    assert graph.num_edges == pytest.approx(TWINS["products"].edges * 0.001, abs=2)
    assert (graph.adjacency != graph.adjacency.T).nnz == 0


def test_a_twin_is_named_as_a_variant_of_synthetic() -> None:
    assert same(load_graph("synthetic:products,scale=0.001"), twin("products", 0.001))
    assert same(load_graph("synthetic:products, scale=0.001,seed=1"), twin("products", 0.001, 1))
    assert same(load_graph("synthetic:products", scale=0.001), twin("products", 0.001))


@pytest.mark.parametrize(("name", "budget"), [("corafull", 60), ("arxiv", 400), ("reddit", 400), ("products", 400)])
def test_a_twin_alone_is_the_published_size_with_the_papers_budget(name: str, budget: int) -> None:
    dataset, options = parse_name(f"synthetic:{name}")
    assert options == {}
    assert dataset.options == {"scale": 1.0, "seed": 0}
    assert dataset.budget == budget
    assert dataset.summary and "\n" not in dataset.summary


def test_synthetic_without_a_twin_is_what_it_was() -> None:
    dataset, options = parse_name("synthetic:nodes=300")
    assert dataset is DATASETS["synthetic"]
    assert options == {"nodes": 300}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "synthetic:product,scale=0.1",
            "unknown variant of dataset synthetic 'product': did you mean 'products'? "
            "(known: arxiv, corafull, products, reddit)",
        ),
        (
            "synthetic:products,nodes=50",
            "unknown option of dataset synthetic 'nodes' (known: scale, seed)",
        ),
        ("synthetic:products,0.1", "'0.1' in dataset 'synthetic:products,0.1' is not of the form option=value"),
        ("synthetic:products,scale=0", "twin products: scale must be greater than 0 and finite, not 0"),
        ("synthetic:products,scale=-1", "twin products: scale must be greater than 0 and finite, not -1"),
        ("synthetic:products,seed=-1", "twin products: seed must not be negative"),
        (
            "synthetic:corafull,scale=0.001",
            "twin corafull: scale 0.001 leaves fewer than 5 nodes for each of 70 classes: "
            "take a scale of 0.018 or more",
        ),
        (
            "synthetic:products,scale=20",
            "twin products: scale 20 gives 2,474,365,600 edges, more than 32-bit indices can count: "
            "take a scale below 17.4",
        ),
    ],
)
def test_twins_that_cannot_be_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(DatasetError) as error:
        load_graph(name)
    assert str(error.value) == sentence


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_a_scale_must_be_a_finite_number(scale: float) -> None:
    with pytest.raises(DatasetError, match="scale must be greater than 0 and finite"):
        twin("arxiv", scale)


def test_an_unknown_twin_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(DatasetError, match="unknown twin 'redit': did you mean 'reddit'"):
        twin("redit")


@pytest.mark.parametrize(("name", "scale"), [("corafull", 0.018), ("reddit", 0.001), ("products", 0.0001)])
def test_a_scale_without_room_for_the_edges_is_refused_with_one_that_has_it(name: str, scale: float) -> None:
    with pytest.raises(DatasetError, match=r"its classes are too small for \d+ edges a node") as error:
        twin(name, scale)
    enough = float(str(error.value).split()[-3])
    assert scale < enough < 0.05
    assert twin(name, enough).num_edges == pytest.approx(TWINS[name].edges * enough, abs=2)


def test_a_graph_larger_than_the_published_one_can_be_had() -> None:
    graph = twin("corafull", 3.0)
    assert graph.num_nodes == 3 * TWINS["corafull"].nodes
    assert graph.num_edges == pytest.approx(3 * TWINS["corafull"].edges, abs=2)

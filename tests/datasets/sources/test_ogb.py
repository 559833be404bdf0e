from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delome.datasets.fetching.reading import Reading, Statistics, silent
from delome.datasets.sources import ogb

Refusal = Callable[[Callable[[], object]], str]
Unpack = Callable[[dict[str, bytes], Path], None]
SIZES = Statistics(12, 24, 4, 3)


def read(members: dict[str, bytes], folder: Path, unpack: Unpack, undirected: bool = False) -> Reading:
    unpack(members, folder / "unpacked")
    (folder / "workspace").mkdir()
    return ogb.read(folder / "unpacked/mini/raw", folder / "workspace", SIZES, silent, undirected=undirected)


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("layout", ["ogb_text", "ogb_binary"])
def test_both_layouts_give_the_graph_that_was_written(
    layout: str, undirected: bool, mini: Any, tmp_path: Path, unpack: Unpack
) -> None:
    reading = read(getattr(mini, layout)(), tmp_path, unpack, undirected)
    mini.assert_equals(reading.graph, undirected=undirected)
    assert reading.published_edges == 24
    assert reading.graph.adjacency.indices.dtype == np.int32
    assert reading.graph.attributes.keys() == {"node_year"}
    assert np.array_equal(reading.graph.attributes["node_year"], mini.years)


def test_published_edges_count_loops_and_repetitions_as_stored(mini: Any, tmp_path: Path, unpack: Unpack) -> None:
    edges = np.concatenate([mini.edges, mini.edges[:, :1], [[3], [3]]], axis=1)
    reading = read(replace(mini, edges=edges).ogb_text(), tmp_path, unpack, undirected=True)
    assert reading.published_edges == 26
    assert reading.graph.num_edges == 48


def test_class_names_come_from_the_mapping(mini: Any, tmp_path: Path, unpack: Unpack) -> None:
    graph = read(mini.ogb_text(), tmp_path, unpack).graph
    assert graph.class_names == ("arxiv cs na", "arxiv cs mm", "logic, in cs")


def test_a_folder_without_mapping_and_split_is_enough(mini: Any, tmp_path: Path, unpack: Unpack) -> None:
    members = {name: content for name, content in mini.ogb_text().items() if Path(name).name in ogb.TEXT_LAYOUT}
    graph = read(members, tmp_path, unpack).graph
    mini.assert_equals(graph, undirected=False)
    assert graph.class_names is None and graph.attributes == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"2010\n", "node attribute 'node_year' must be one number or text for each of the 12 nodes"),
        (b"2010,1\n" * 12, "node_year.csv.gz"),
        (b"soon\n" * 12, "node_year.csv.gz"),
    ],
)
def test_years_that_are_not_one_for_each_node_are_refused(
    text: bytes, reason: str, mini: Any, tmp_path: Path, unpack: Unpack, refusal: Refusal
) -> None:
    members = mini.ogb_text() | {"mini/raw/node_year.csv.gz": gzip.compress(text)}
    assert reason in refusal(lambda: read(members, tmp_path, unpack))


def test_features_in_text_are_mapped_not_loaded(mini: Any, tmp_path: Path, unpack: Unpack) -> None:
    features = read(mini.ogb_text(), tmp_path, unpack).graph.features
    assert isinstance(features, np.memmap) and features.flags.writeable
    features[0] = 7  # stays in memory
    assert np.array_equal(np.load(tmp_path / "workspace/features.npy"), mini.features)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("edge.csv.gz", b"0,1\n", "has 1 edges instead of 24"),
        ("edge.csv.gz", b"0,1\n" * 25, "has more edges instead of 24"),
        ("edge.csv.gz", b"0,12\n" * 24, "names a node that is not among the 12 nodes"),
        ("edge.csv.gz", b"-1,0\n" * 24, "names a node that is not among the 12 nodes"),
        ("edge.csv.gz", b"", "has 0 edges instead of 24"),
        ("node-feat.csv.gz", b"1,2,3\n", "has 1 rows for 12 nodes"),
        ("node-feat.csv.gz", b"1,2,3\n" * 13, "has more rows for 12 nodes"),
        ("node-feat.csv.gz", b"", "has 0 rows for 12 nodes"),
        ("node-feat.csv.gz", b"1e39\n" * 12, "contains NaN or infinite values"),
        ("node-label.csv.gz", b"0\n1\n", "has 2 labels for 12 nodes"),
        ("node-label.csv.gz", b"0.5\n" * 12, "must hold one whole number for each node"),
        ("num-node-list.csv.gz", b"12\n12\n", "must hold one number, the size of the only graph"),
        ("num-node-list.csv.gz", b"", "must hold one number, the size of the only graph"),
        ("num-edge-list.csv.gz", b"-3\n", "must hold one number, the size of the only graph"),
    ],
)
def test_files_that_contradict_each_other_are_refused(
    name: str, text: bytes, reason: str, mini: Any, tmp_path: Path, unpack: Unpack, refusal: Refusal
) -> None:
    members = mini.ogb_text() | {f"mini/raw/{name}": gzip.compress(text)}
    sentence = refusal(lambda: read(members, tmp_path, unpack))
    assert sentence == f"'{tmp_path / 'unpacked/mini/raw' / name}' {reason}"


def test_negative_labels_are_refused(mini: Any, tmp_path: Path, unpack: Unpack, refusal: Refusal) -> None:
    sentence = refusal(lambda: read(replace(mini, labels=mini.labels - 2).ogb_text(), tmp_path, unpack))
    assert sentence == (
        f"'{tmp_path / 'unpacked/mini/raw'}' holds no usable graph: "
        "labels must not be negative, except -1 for unknown ones, but -2 occurs"
    )


@pytest.mark.parametrize(
    "text", [b"\xff", b"idx,name\nzero,a\n", b"i,n\n0\n"], ids=["not text", "not a number", "too few columns"]
)
def test_a_broken_mapping_is_refused(text: bytes, mini: Any, tmp_path: Path, unpack: Unpack, refusal: Refusal) -> None:
    members = mini.ogb_text() | {"mini/mapping/labelidx2arxivcategeory.csv.gz": gzip.compress(text)}
    assert "is not a list of labels and names: " in refusal(lambda: read(members, tmp_path, unpack))


@pytest.mark.parametrize(
    "changes",
    [
        {"features": np.full((12, 4), np.nan)},
        {"features": np.ones(12)},
        {"edges": np.zeros((2, 3, 4), dtype=int)},
        {"edges": np.full((2, 24), 12)},
        {"edges": np.full((2, 24), 0.5)},
        {"labels": np.arange(11)},
    ],
)
def test_a_broken_binary_layout_is_refused(
    changes: dict[str, np.ndarray], mini: Any, tmp_path: Path, unpack: Unpack, refusal: Refusal
) -> None:
    sentence = refusal(lambda: read(replace(mini, **changes).ogb_binary(), tmp_path, unpack))
    assert sentence.startswith(f"'{tmp_path / 'unpacked/mini/raw'}")


@pytest.mark.parametrize("name", ["data.npz", "node-label.npz"])
def test_a_binary_file_without_its_arrays_is_refused(
    name: str, mini: Any, tmp_path: Path, unpack: Unpack, refusal: Refusal
) -> None:
    members = mini.ogb_binary()
    np.savez(tmp_path / "other.npz", other=np.ones(3))
    members[f"mini/raw/{name}"] = (tmp_path / "other.npz").read_bytes()
    sentence = refusal(lambda: read(members, tmp_path, unpack))
    assert sentence.startswith(f"'{tmp_path / 'unpacked/mini/raw' / name}' has no array")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("raw/num-node-list", b"1" * 10_000_000),
        ("raw/edge", b"1,2\n" * 1_000_000),
        ("raw/node-label", b"1\n" * 1_000_000),
        ("raw/node_year", b"1\n" * 1_000_000),
        ("raw/node-feat", b"1,2,3,4\n" * 1_000_000),
        ("mapping/labelidx2arxivcategeory", b"i,n\n" + b"x" * 1_000_000),
    ],
)
def test_a_small_file_that_holds_more_than_the_dataset_can_is_refused(
    name: str, text: bytes, mini: Any, tmp_path: Path, unpack: Unpack, refusal: Refusal
) -> None:
    members = mini.ogb_text() | {f"mini/{name}.csv.gz": gzip.compress(text)}
    sentence = refusal(lambda: read(members, tmp_path, unpack))
    assert f"{name}.csv.gz' is refused: it holds more than " in sentence

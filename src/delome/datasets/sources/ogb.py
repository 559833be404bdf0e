"""Node-property datasets of the Open Graph Benchmark (Hu et al., 2020), in their text and their binary layout.

The archives also hold ``split/`` (the benchmark's own split, not used: streams split every class by their own
protocol) and ``mapping/`` (what the ids stand for; the names of the classes are taken from it if it exists). Years of
nodes are read if there are any.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from delome.datasets.fetching.arrays import read_arrays, require
from delome.datasets.fetching.reading import Progress, Reading, Statistics
from delome.datasets.fetching.tables import gunzipped, read_table
from delome.errors import DatasetError, GraphError
from delome.graph import Graph

TEXT_LAYOUT = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz", "num-node-list.csv.gz", "num-edge-list.csv.gz")
BINARY_LAYOUT = ("data.npz", "node-label.npz")
LAYOUTS = (TEXT_LAYOUT, BINARY_LAYOUT)
YEAR = "node_year"
"""Node attribute that says when a node came."""
LONGEST_NAME = 1000
"""Bytes of a line that names a class."""


class Parts(NamedTuple):
    """What is read of a graph; ``years`` if it has them."""

    edges: np.ndarray
    features: np.ndarray
    labels: np.ndarray
    years: np.ndarray | None


def read(raw: Path, workspace: Path, sizes: Statistics, progress: Progress, *, undirected: bool) -> Reading:
    """Reads the folder ``raw/``; with ``undirected`` an edge is stored once and its reverse is added.

    The published numbers of edges count the stored ones.
    """
    in_text = all((raw / name).is_file() for name in TEXT_LAYOUT)
    edges, features, labels, years = (_read_text if in_text else _read_binary)(raw, workspace, sizes, progress)
    progress("building the graph", 0, None)
    try:
        # features are checked block by block as they are read, and may be larger than memory: edges and labels are
        # checked with an empty column in their place
        checked = Graph(
            edges,
            np.zeros((len(features), 1), dtype=np.float32),
            labels,
            class_names=_class_names(raw.parent / "mapping", sizes.classes),
            undirected=undirected,
            node_attributes={} if years is None else {YEAR: years},
        )
    except GraphError as error:
        raise DatasetError(f"'{raw}' holds no usable graph: {error}") from None
    return Reading(checked._like(features=features), edges.shape[1])


def _read_text(raw: Path, workspace: Path, sizes: Statistics, progress: Progress) -> Parts:
    nodes, expected = (_only_number(raw / f"num-{what}-list.csv.gz") for what in ("node", "edge"))
    edge_file, label_file, feature_file = (raw / f"{what}.csv.gz" for what in ("edge", "node-label", "node-feat"))
    edges = _read_edges(edge_file, nodes, expected, read_table(edge_file, "integer", 2, 2 * sizes.edges, progress))
    label_blocks = read_table(label_file, "real", 1, sizes.nodes, progress)
    labels = _whole(label_file, np.concatenate([np.empty((0, 1)), *label_blocks])[:, 0])
    if len(labels) != nodes:
        raise DatasetError(f"'{label_file}' has {len(labels):,} labels for {nodes:,} nodes")
    years, year_file = None, raw / f"{YEAR}.csv.gz"
    if year_file.is_file():
        year_blocks = read_table(year_file, "integer", 1, sizes.nodes, progress)
        years = np.concatenate([np.empty((0, 1), dtype=np.int64), *year_blocks])
    rows = read_table(feature_file, "real", None, sizes.nodes * sizes.features, progress)
    return Parts(edges, _read_features(feature_file, nodes, workspace / "features.npy", rows), labels, years)


def _only_number(file: Path) -> int:
    """The content of a file that lists one number for each graph, of which there is one."""
    numbers = np.concatenate([np.empty((0, 1), dtype=np.int64), *read_table(file, "integer", 1, 1)])
    if numbers.shape != (1, 1) or numbers[0, 0] < 0:
        raise DatasetError(f"'{file}' must hold one number, the size of the only graph")
    return int(numbers[0, 0])


def _read_edges(file: Path, nodes: int, expected: int, rows: Iterator[np.ndarray]) -> np.ndarray:
    index = np.int32 if nodes < 2**31 else np.int64
    blocks, count = [np.empty((2, 0), dtype=index)], 0
    for block in rows:
        count += len(block)
        if block.min() < 0 or block.max() >= nodes:
            raise DatasetError(f"'{file}' names a node that is not among the {nodes:,} nodes")
        blocks.append(block.T.astype(index))
        if count > expected:
            break
    if count != expected:
        raise DatasetError(f"'{file}' has {'more' if count > expected else count} edges instead of {expected:,}")
    return np.concatenate(blocks, axis=1)


def _read_features(file: Path, nodes: int, target: Path, blocks: Iterator[np.ndarray]) -> np.ndarray:
    """Writes the features to ``target`` while they are read, and maps them."""
    count = 0
    with target.open("wb") as sink:
        for block in blocks:
            with np.errstate(over="ignore"):
                rows = block.astype(np.float32, order="C")
            if not np.isfinite(rows).all():
                raise DatasetError(f"'{file}' contains NaN or infinite values")
            if not count:
                header = {"descr": "<f4", "fortran_order": False, "shape": (nodes, rows.shape[1])}
                np.lib.format.write_array_header_1_0(sink, header)
            count += len(rows)
            if count > nodes:
                break
            sink.write(rows.astype("<f4", copy=False).data)
    if count != nodes or not count:
        raise DatasetError(f"'{file}' has {'more' if count > nodes else count} rows for {nodes:,} nodes")
    mapped: np.ndarray = np.load(target, mmap_mode="c", allow_pickle=False)
    return mapped


def _read_binary(raw: Path, workspace: Path, sizes: Statistics, progress: Progress) -> Parts:
    data_file, label_file = (raw / name for name in BINARY_LAYOUT)
    progress(f"reading {data_file.name}", 0, None)
    names = ("edge_index", "node_feat", "num_nodes_list", "num_edges_list")
    data = read_arrays(data_file, (*names, YEAR), sizes.most_bytes)
    require(data_file, data, *names)
    labels = read_arrays(label_file, ("node_label",), sizes.most_bytes)
    require(label_file, labels, "node_label")
    edges, features = data["edge_index"], data["node_feat"]
    if features.ndim != 2 or features.dtype.kind not in "fiub" or not np.isfinite(features).all():
        raise DatasetError(f"'{data_file}' must have a table of finite numbers as node_feat")
    if edges.ndim != 2 or (data["num_nodes_list"].tolist(), data["num_edges_list"].tolist()) != (
        [len(features)],
        [edges.shape[1]],
    ):
        raise DatasetError(f"'{data_file}' must hold one graph, with as many nodes and edges as its lists say")
    whole = _whole(label_file, labels["node_label"].ravel())
    return Parts(edges, features.astype(np.float32, copy=False), whole, data.get(YEAR))


def _whole(file: Path, values: np.ndarray) -> np.ndarray:
    """Labels as whole numbers; unlabelled nodes (NaN) cannot be part of a stream."""
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all() or (values != np.floor(values)).any():
        raise DatasetError(f"'{file}' must hold one whole number for each node")
    return values.astype(np.int64)


def _class_names(mapping: Path, classes: int) -> list[str] | None:
    """Names from ``labelidx2….csv.gz``, whose lines after the header are label and name."""
    for file in sorted(mapping.glob("labelidx2*.csv.gz")):
        try:
            text = b"".join(gunzipped(file, LONGEST_NAME * (classes + 1))).decode()
            _, *rows = csv.reader(io.StringIO(text, newline=""))
            names = {int(row[0]): row[1] for row in rows if row}
        except (OSError, ValueError, IndexError, csv.Error) as error:
            raise DatasetError(f"'{file}' is not a list of labels and names: {error}") from None
        if sorted(names) == list(range(len(names))):
            return [names[label] for label in range(len(names))]
    return None

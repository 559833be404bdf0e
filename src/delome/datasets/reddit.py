"""The Reddit graph of GraphSAGE: two npz archives, one with features and labels, one with the adjacency matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from delome.datasets.arrays import read_arrays, require
from delome.datasets.reading import Progress, Reading, Statistics
from delome.errors import DatasetError, GraphError
from delome.graph import Graph

LAYOUT = ("reddit_data.npz", "reddit_graph.npz")


def read(raw: Path, workspace: Path, sizes: Statistics, progress: Progress) -> Reading:
    """Reads features, labels and edges. Each edge is stored in both directions; weights are all one and not read.

    The published node split (``node_types``) is not used: streams split every class by their own protocol.
    """
    data_file, graph_file = (raw / name for name in LAYOUT)
    progress(f"reading {graph_file.name}", 0, None)
    matrix = read_arrays(graph_file, ("shape", "row", "col"), sizes.most_bytes)
    require(graph_file, matrix, "shape", "row", "col")
    progress(f"reading {data_file.name}", 0, None)
    data = read_arrays(data_file, ("feature", "label"), sizes.most_bytes)
    require(data_file, data, "feature", "label")
    nodes = len(data["label"])
    if matrix["shape"].tolist() != [nodes, nodes]:
        raise DatasetError(f"'{graph_file}' has a matrix of shape {matrix['shape'].tolist()} for {nodes:,} labels")
    if matrix["row"].ndim != 1 or matrix["row"].shape != matrix["col"].shape:
        raise DatasetError(
            f"'{graph_file}' is damaged: its edges have {matrix['row'].size:,} sources "
            f"and {matrix['col'].size:,} targets"
        )
    edges = np.stack([matrix.pop("row"), matrix.pop("col")])
    try:
        return Reading(Graph(edges, data["feature"], data["label"], undirected=False), edges.shape[1])
    except GraphError as error:
        raise DatasetError(f"'{raw}' holds no usable graph: {error}") from None

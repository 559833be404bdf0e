from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from torch_geometric.io import read_npz

from delome import Graph
from delome.datasets import bag_of_words
from delome.datasets.reading import Statistics, silent

WriteNpz = Callable[..., Path]


def assert_equal_to_pyg(graph: Graph, file: Path) -> None:
    data = read_npz(str(file), to_undirected=True)
    coo = graph.adjacency.tocoo()
    theirs = sp.csr_array((np.ones(data.num_edges), data.edge_index.numpy()[::-1]), graph.adjacency.shape)
    assert graph.num_edges == data.num_edges == len(coo.row)
    assert (theirs.astype(bool) != graph.adjacency).nnz == 0
    assert (sp.csr_array(data.x.numpy()) != graph.features).nnz == 0
    assert np.array_equal(graph.labels, data.y.numpy())


def test_a_file_reads_exactly_like_in_pyg(write_npz: WriteNpz) -> None:
    file = write_npz()
    reading = bag_of_words.read(file.parent, file.parent, Statistics(24, 96, 5, 4), silent, file=file.name)
    assert_equal_to_pyg(reading.graph, file)
    assert reading.published_edges == 96


@pytest.mark.parametrize("name", ["coauthor_cs.npz", "cora_ml.npz"])
def test_a_published_file_reads_exactly_like_in_pyg(name: str, shared_data: Path, tmp_path: Path) -> None:
    reading = bag_of_words.read(shared_data, tmp_path, Statistics(24, 96, 5, 4), silent, file=name)
    assert_equal_to_pyg(reading.graph, shared_data / name)
    assert sp.issparse(reading.graph.features)


def test_dense_features_become_occurrences_too(write_npz: WriteNpz) -> None:
    dense = np.array([[0.0, 2.5, -1.0]] * 24, dtype=np.float32)
    without_csr = dict.fromkeys(("attr_data", "attr_indices", "attr_indptr", "attr_shape"))
    file = write_npz(features=dense, **without_csr)
    graph = bag_of_words.read(file.parent, file.parent, Statistics(24, 96, 5, 4), silent, file=file.name).graph
    assert graph.features[0].tolist() == [0, 1, -1]
    assert graph.features.dtype == np.float32

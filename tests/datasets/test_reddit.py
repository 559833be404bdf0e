from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from delome.datasets import reddit
from delome.datasets.reading import Reading, Statistics, silent

Refusal = Callable[[Callable[[], object]], str]
Unpack = Callable[[dict[str, bytes], Path], None]


@pytest.fixture
def read(tmp_path: Path, unpack: Unpack) -> Callable[[dict[str, bytes]], Reading]:
    def read(members: dict[str, bytes]) -> Reading:
        unpack(members, tmp_path)
        return reddit.read(tmp_path, tmp_path, Statistics(12, 48, 4, 3), silent)

    return read


def test_the_graph_is_the_one_that_was_written(mini: Any, read: Callable[..., Reading]) -> None:
    reading = read(mini.reddit())
    mini.assert_equals(reading.graph, undirected=True)
    assert reading.published_edges == reading.graph.num_edges == 48


def test_it_reads_like_in_pyg(mini: Any, tmp_path: Path, unpack: Unpack, read: Callable[..., Reading]) -> None:
    from torch_geometric.datasets import Reddit

    unpack(mini.reddit(), tmp_path / "pyg/raw")
    data = Reddit(str(tmp_path / "pyg"))[0]
    graph = read(mini.reddit()).graph
    coo = graph.adjacency.tocoo()
    assert set(map(tuple, data.edge_index.T.tolist())) == set(zip(coo.col.tolist(), coo.row.tolist(), strict=True))
    assert np.array_equal(graph.features, data.x.numpy())
    assert np.array_equal(graph.labels, data.y.numpy())


def matrix(form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    sp.save_npz(buffer, sp.eye(options.pop("nodes", 12), format=form))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (matrix("csr"), "has no array 'row': it must hold shape, row, col"),
        (matrix("coo", nodes=5), "has a matrix of shape [5, 5] for 12 labels"),
        (b"nothing", "is not a readable npz archive: File is not a zip file"),
    ],
)
def test_another_matrix_is_refused(
    content: bytes, reason: str, mini: Any, read: Callable[..., Reading], tmp_path: Path, refusal: Refusal
) -> None:
    sentence = refusal(lambda: read(mini.reddit() | {"reddit_graph.npz": content}))
    assert sentence == f"'{tmp_path / 'reddit_graph.npz'}' {reason}"


def test_pickled_arrays_are_never_unpickled(
    mini: Any, read: Callable[..., Reading], tmp_path: Path, refusal: Refusal
) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, feature=np.array([{}] * 12, dtype=object), label=mini.labels)
    sentence = refusal(lambda: read(mini.reddit() | {"reddit_data.npz": buffer.getvalue()}))
    assert sentence == f"'{tmp_path / 'reddit_data.npz'}' has no array 'feature': it must hold feature, label"


def test_a_bad_graph_is_refused(mini: Any, read: Callable[..., Reading], tmp_path: Path, refusal: Refusal) -> None:
    features = mini.features.copy()
    features[0, 0] = np.nan
    sentence = refusal(lambda: read(replace(mini, features=features).reddit()))
    assert sentence.startswith(f"'{tmp_path}' holds no usable graph: features contain 1 NaN")

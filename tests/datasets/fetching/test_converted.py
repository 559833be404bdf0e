from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph, TaskStream
from delome.datasets.fetching import converted

ABOUT = {"dataset": "toy", "published": {"nodes": 240}}


@pytest.fixture(params=["dense", "sparse"])
def graph(request: pytest.FixtureRequest, toy_graph: Graph, sparse_graph: Graph) -> Graph:
    return toy_graph if request.param == "dense" else sparse_graph


@pytest.fixture
def folder(graph: Graph, tmp_path: Path) -> Path:
    converted.write(graph, tmp_path / "converted", ABOUT, {"toy.npz": "0" * 64})
    return tmp_path / "converted"


def test_a_graph_comes_back_as_it_was(graph: Graph, folder: Path) -> None:
    again = converted.read(folder, ABOUT)
    assert again is not None
    for ours, theirs in ((again.adjacency, graph.adjacency), (again.features, graph.features)):
        assert type(ours) is type(theirs) or isinstance(ours, np.memmap)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        if sp.issparse(theirs):
            for part in ("data", "indices", "indptr"):
                assert np.array_equal(getattr(ours, part), getattr(theirs, part))
                assert getattr(ours, part).dtype == getattr(theirs, part).dtype
        else:
            assert np.array_equal(ours, theirs)
    assert np.array_equal(again.labels, graph.labels)
    assert again.class_names == graph.class_names


def test_class_names_come_back(tmp_path: Path) -> None:
    named = Graph([[0], [1]], np.eye(2), [0, 1], class_names=["á", "b, c"])
    converted.write(named, tmp_path / "named", ABOUT, {})
    again = converted.read(tmp_path / "named", ABOUT)
    assert again is not None and again.class_names == ("á", "b, c")


def is_mapped(array: np.ndarray | None) -> bool:
    """Whether an array is a view of a mapped file."""
    return array is not None and (isinstance(array, np.memmap) or is_mapped(array.base))


def test_arrays_are_mapped_and_the_files_never_change(folder: Path) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    graph = converted.read(folder, ABOUT)
    assert graph is not None
    values = graph.features if isinstance(graph.features, np.ndarray) else graph.features.data
    assert is_mapped(values) and is_mapped(graph.adjacency.indices)
    values[...] = 7
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_stream_is_cut_and_propagated_from_a_mapped_graph(graph: Graph, folder: Path) -> None:
    again = converted.read(folder, ABOUT)
    assert again is not None
    for ours, theirs in zip(TaskStream(again), TaskStream(graph), strict=True):
        one, other = ours.graph.propagate(2), theirs.graph.propagate(2)
        assert (one != other).nnz == 0 if sp.issparse(one) else np.array_equal(one, other)


def test_nothing_is_read_from_nothing(tmp_path: Path) -> None:
    assert converted.read(tmp_path / "absent", ABOUT) is None


def test_the_form_of_another_dataset_is_not_read(folder: Path) -> None:
    assert converted.read(folder, ABOUT | {"published": {"nodes": 241}}) is None


@pytest.mark.parametrize("name", ["labels.npy", "adjacency_indices.npy", "adjacency_indptr.npy"])
@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_a_damaged_array_is_noticed(name: str, harm: str, folder: Path) -> None:
    file = folder / name
    content = bytearray(file.read_bytes())
    if harm == "delete":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(content[:-8])
    else:
        content[-1] ^= 1
        file.write_bytes(content)
    assert converted.read(folder, ABOUT) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "3"])
def test_a_damaged_manifest_is_noticed(text: str, folder: Path) -> None:
    (folder / "manifest.json").write_text(text)
    assert converted.read(folder, ABOUT) is None


@pytest.mark.parametrize("key", ["format", "about", "shape", "class_names", "files"])
def test_a_manifest_with_a_missing_or_senseless_entry_is_noticed(key: str, folder: Path) -> None:
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in manifest.items() if name != key}))
    assert converted.read(folder, ABOUT) is None
    file.write_text(json.dumps(manifest | {key: 17}))
    assert converted.read(folder, ABOUT) is None


def test_an_older_format_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converted, "FORMAT", converted.FORMAT + 1)
    assert converted.read(folder, ABOUT) is None

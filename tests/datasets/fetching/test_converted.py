from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph, TaskStream
from delome.datasets.fetching import converted
from delome.persistence.reading import sha256_of

ABOUT = {"dataset": "toy", "published": {"nodes": 240}}
MOST = 10**6


@pytest.fixture(params=["dense", "sparse"])
def graph(request: pytest.FixtureRequest, toy_graph: Graph, sparse_graph: Graph) -> Graph:
    return toy_graph if request.param == "dense" else sparse_graph


@pytest.fixture
def folder(graph: Graph, tmp_path: Path) -> Path:
    converted.write(graph, tmp_path / "converted", ABOUT, {"toy.npz": "0" * 64})
    return tmp_path / "converted"


def test_a_graph_comes_back_as_it_was(graph: Graph, folder: Path) -> None:
    again = converted.read(folder, ABOUT, MOST)
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
    assert again.labels is not None and graph.labels is not None
    assert np.array_equal(again.labels, graph.labels)
    assert again.class_names == graph.class_names
    assert again.undirected == graph.undirected


def test_years_of_nodes_come_back_unless_they_are_not_one_number_for_each(tmp_path: Path) -> None:
    dated = Graph([[0], [1]], np.eye(2), [0, 1], node_attributes={"node_year": [2011, 2010]})
    converted.write(dated, tmp_path / "dated", ABOUT, {})
    again = converted.read(tmp_path / "dated", ABOUT, MOST)
    assert again is not None and again.attributes["node_year"].tolist() == [2011, 2010]
    converted.write(dated._like(attributes={"node_year": np.arange(3)}), tmp_path / "three", ABOUT, {})
    assert converted.read(tmp_path / "three", ABOUT, MOST) is None


@pytest.mark.parametrize("undirected", [True, False])
def test_whether_edges_count_in_both_directions_comes_back(undirected: bool, tmp_path: Path) -> None:
    directed = Graph([[0], [1]], np.eye(2), [0, 1], undirected=undirected)
    converted.write(directed, tmp_path / "directed", ABOUT, {})
    again = converted.read(tmp_path / "directed", ABOUT, MOST)
    assert again is not None and again.undirected is undirected


def test_class_names_come_back(tmp_path: Path) -> None:
    named = Graph([[0], [1]], np.eye(2), [0, 1], class_names=["á", "b, c"])
    converted.write(named, tmp_path / "named", ABOUT, {})
    again = converted.read(tmp_path / "named", ABOUT, MOST)
    assert again is not None and again.class_names == ("á", "b, c")


def is_mapped(array: np.ndarray | None) -> bool:
    """Whether an array is a view of a mapped file."""
    return array is not None and (isinstance(array, np.memmap) or is_mapped(array.base))


def test_arrays_are_mapped_and_the_files_never_change(folder: Path) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    graph = converted.read(folder, ABOUT, MOST)
    assert graph is not None
    values = graph.features if isinstance(graph.features, np.ndarray) else graph.features.data
    assert is_mapped(values) and is_mapped(graph.adjacency.indices)
    values[...] = 7
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_stream_is_cut_and_propagated_from_a_mapped_graph(graph: Graph, folder: Path) -> None:
    again = converted.read(folder, ABOUT, MOST)
    assert again is not None
    for ours, theirs in zip(TaskStream(again), TaskStream(graph), strict=True):
        one, other = ours.graph.propagate(2), theirs.graph.propagate(2)
        assert (one != other).nnz == 0 if sp.issparse(one) else np.array_equal(one, other)


def test_nothing_is_read_from_nothing(tmp_path: Path) -> None:
    assert converted.read(tmp_path / "absent", ABOUT, MOST) is None


def test_the_form_of_another_dataset_is_not_read(folder: Path) -> None:
    assert converted.read(folder, ABOUT | {"published": {"nodes": 241}}, MOST) is None


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
    assert converted.read(folder, ABOUT, MOST) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "3"])
def test_a_damaged_manifest_is_noticed(text: str, folder: Path) -> None:
    (folder / "manifest.json").write_text(text)
    assert converted.read(folder, ABOUT, MOST) is None


@pytest.mark.parametrize("key", ["format", "about", "shape", "class_names", "undirected", "files"])
def test_a_manifest_with_a_missing_or_senseless_entry_is_noticed(key: str, folder: Path) -> None:
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in manifest.items() if name != key}))
    assert converted.read(folder, ABOUT, MOST) is None
    file.write_text(json.dumps(manifest | {key: 17}))
    assert converted.read(folder, ABOUT, MOST) is None


def test_an_older_format_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converted, "FORMAT", converted.FORMAT + 1)
    assert converted.read(folder, ABOUT, MOST) is None


def rewrite(folder: Path, name: str, array: np.ndarray) -> None:
    """Another array in place of one, with the right checksum."""
    np.save(folder / name, array)
    agree(folder)


def agree(folder: Path, **entries: object) -> None:
    """Makes the manifest agree with the files, and changes these entries of it."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {name: sha256_of(folder / name) for name in manifest["files"]}
    (folder / "manifest.json").write_text(json.dumps(manifest | entries))


@pytest.mark.parametrize("index", [2**30, -(2**31), 2**31 - 1, -1, 240])
@pytest.mark.parametrize("part", ["indices", "indptr"])
@pytest.mark.parametrize("matrix", ["adjacency", "features"])
def test_indices_that_lead_outside_are_noticed(
    matrix: str, part: str, index: int, sparse_graph: Graph, tmp_path: Path
) -> None:
    place = tmp_path / "converted"
    converted.write(sparse_graph, place, ABOUT, {})
    array = np.load(place / f"{matrix}_{part}.npy")
    for position in (0, len(array) // 2, -1):
        changed = array.copy()
        changed[position] = 300 if (matrix, index) == ("features", 240) else index
        rewrite(place, f"{matrix}_{part}.npy", changed)
        assert converted.read(place, ABOUT, MOST) is None
    rewrite(place, f"{matrix}_{part}.npy", array)
    assert converted.read(place, ABOUT, MOST) is not None


ODD_ARRAYS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "unsorted indices": ("adjacency_indices", lambda array: array[::-1]),
    "indices of another type": ("adjacency_indices", lambda array: array.astype(np.float32)),
    "indices in a table": ("adjacency_indices", lambda array: array[:, None]),
    "too few indices": ("adjacency_indices", lambda array: array[:-1]),
    "pointers that fall": ("adjacency_indptr", lambda array: array[::-1]),
    "too few pointers": ("adjacency_indptr", lambda array: array[:-1]),
    "too few labels": ("labels", lambda array: array[:-1]),
    "labels in a table": ("labels", lambda array: array[:, None]),
    "labels of another type": ("labels", lambda array: array.astype(np.float32)),
    "negative labels": ("labels", lambda array: array - 2),
    "text as labels": ("labels", lambda array: array.astype(str)),
    "features of another type": ("features", lambda array: array.astype(np.int64)),
    "too few features": ("features", lambda array: array[:-1]),
    "flat features": ("features", lambda array: array.ravel()),
}


@pytest.mark.parametrize("name", ODD_ARRAYS)
def test_arrays_that_do_not_make_a_graph_are_noticed(name: str, toy_graph: Graph, tmp_path: Path) -> None:
    place = tmp_path / "converted"
    converted.write(toy_graph, place, ABOUT, {})
    file, change = ODD_ARRAYS[name]
    rewrite(place, f"{file}.npy", change(np.load(place / f"{file}.npy")))
    assert converted.read(place, ABOUT, MOST) is None


@pytest.mark.parametrize("names", [["a"] * 5, [1] * 6, [None] * 6, "abcdef", {"a": 1}, 7, True])
def test_class_names_that_are_none_or_too_few_are_noticed(names: object, toy_graph: Graph, tmp_path: Path) -> None:
    place = tmp_path / "converted"
    converted.write(toy_graph, place, ABOUT, {})
    agree(place, class_names=names)
    assert converted.read(place, ABOUT, MOST) is None
    agree(place, class_names=["a"] * 6)
    assert converted.read(place, ABOUT, MOST) is not None


@pytest.mark.parametrize("shape", [[10**12, 16], [240, 10**12], [2**63, 0], [240.0, 16.0], [240], "ab", [True, 16]])
def test_a_shape_that_the_arrays_do_not_have_is_noticed(shape: object, toy_graph: Graph, tmp_path: Path) -> None:
    place = tmp_path / "converted"
    converted.write(toy_graph, place, ABOUT, {})
    agree(place, shape=shape)
    assert converted.read(place, ABOUT, MOST) is None


@pytest.mark.parametrize("name", ["../labels.npy", "/etc/passwd", "labels.txt", "more.npy"])
def test_a_manifest_names_no_file_but_those_of_a_graph(name: str, folder: Path) -> None:
    np.save(folder.parent / "labels.npy", np.zeros(240, dtype=np.int64))
    np.save(folder / "more.npy", np.zeros(240, dtype=np.int64))
    (folder / "labels.txt").write_bytes((folder / "labels.npy").read_bytes())
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = sha256_of(folder / name)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert converted.read(folder, ABOUT, MOST) is None


def test_a_pipe_a_large_file_and_a_deep_manifest_are_noticed(folder: Path) -> None:
    assert converted.read(folder, ABOUT, (folder / "adjacency_indices.npy").stat().st_size - 1) is None
    manifest, labels = (folder / "manifest.json").read_text(), (folder / "labels.npy").read_bytes()
    (folder / "labels.npy").unlink()
    os.mkfifo(folder / "labels.npy")
    assert converted.read(folder, ABOUT, MOST) is None
    (folder / "labels.npy").unlink()
    (folder / "labels.npy").write_bytes(labels)
    (folder / "manifest.json").write_text(
        manifest.replace('"sources": {', '"sources": {"x": ' + "[" * 900 + "]" * 900 + ",")
    )
    assert converted.read(folder, ABOUT, MOST) is None
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    assert converted.read(folder, ABOUT, MOST) is None

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.io import read_npz

from delome import Graph, TaskStream
from delome.datasets import files
from delome.errors import DatasetError, DelomeError, GraphError

Refusal = Callable[[Callable[[], object]], str]
WriteNpz = Callable[..., Path]


def edge_set(graph: Graph) -> set[tuple[int, int]]:
    coo = graph.adjacency.tocoo()
    return set(zip(coo.col.tolist(), coo.row.tolist(), strict=True))


def ring(undirected: bool) -> set[tuple[int, int]]:
    """Edges of the file that ``write_npz`` writes."""
    edges = {(node, (node + step) % 24) for node in range(24) for step in (1, 5)}
    return edges | {(v, u) for u, v in edges} if undirected else edges


def damage(file: Path, start: int, count: int = 40) -> None:
    content = bytearray(file.read_bytes())
    content[start : start + count] = bytes(byte ^ 0xFF for byte in content[start : start + count])
    file.write_bytes(content)


@pytest.mark.parametrize("undirected", [False, True])
def test_an_npz_holds_edges_from_row_to_column(undirected: bool, write_npz: WriteNpz) -> None:
    graph = files.load(str(write_npz()), undirected=undirected)
    assert edge_set(graph) == ring(undirected)
    assert graph.labels.tolist() == np.repeat(np.arange(4), 6).tolist()


def test_csr_features_stay_sparse_and_keep_their_values(write_npz: WriteNpz) -> None:
    file = write_npz()
    graph = files.load(str(file))
    assert sp.issparse(graph.features)
    with np.load(file) as archive:
        expected = sp.csr_array(
            (archive["attr_data"], archive["attr_indices"], archive["attr_indptr"]), shape=(24, 5)
        ).toarray()
    assert np.array_equal(graph.features.toarray(), expected)


def test_dense_features_are_read_too(write_npz: WriteNpz) -> None:
    dense = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float16)
    without_csr = dict.fromkeys(("attr_data", "attr_indices", "attr_indptr", "attr_shape"))
    graph = files.load(str(write_npz(features=dense, **without_csr)))
    assert isinstance(graph.features, np.ndarray) and graph.features.dtype == np.float32
    assert np.array_equal(graph.features, dense)


def test_edge_weights_may_be_left_out(write_npz: WriteNpz) -> None:
    assert edge_set(files.load(str(write_npz(adj_data=None)), undirected=False)) == ring(False)


def test_class_names_are_read(write_npz: WriteNpz) -> None:
    graph = files.load(str(write_npz(class_names=np.array(["a", "b", "c", "d"]))))
    assert graph.class_names == ("a", "b", "c", "d")


def test_a_compressed_archive_reads_the_same(write_npz: WriteNpz, tmp_path: Path) -> None:
    with np.load(write_npz()) as archive:
        np.savez_compressed(tmp_path / "small.npz", **dict(archive))
    assert edge_set(files.load(str(tmp_path / "small.npz"))) == ring(True)


def test_a_home_folder_in_the_path_is_found(write_npz: WriteNpz, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_npz()
    monkeypatch.setenv("HOME", str(file.parent))
    assert files.load("~/graph.npz").num_nodes == 24


def test_pickled_arrays_are_ignored_and_never_unpickled(write_npz: WriteNpz, tmp_path: Path) -> None:
    trap = np.array([_Trap(tmp_path / "sprung")], dtype=object)
    graph = files.load(str(write_npz(node_names=trap)))
    assert graph.num_nodes == 24
    assert not (tmp_path / "sprung").exists()


def test_pickled_labels_are_refused(write_npz: WriteNpz, tmp_path: Path) -> None:
    labels = np.array([_Trap(tmp_path / "sprung")] * 24, dtype=object)
    with pytest.raises(DatasetError, match="its labels are pickled objects, which are never read"):
        files.load(str(write_npz(labels=labels)))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("undirected", [False, True])
def test_a_file_reads_like_in_pyg(undirected: bool, write_npz: WriteNpz) -> None:
    _assert_equal_to_pyg(write_npz(), undirected)


def test_a_published_file_reads_like_in_pyg(shared_data: Path) -> None:
    _assert_equal_to_pyg(shared_data / "cora_ml.npz", undirected=True)


def _assert_equal_to_pyg(file: Path, undirected: bool) -> None:
    graph = files.load(str(file), undirected=undirected)
    data = read_npz(str(file), to_undirected=undirected)
    assert edge_set(graph) == set(map(tuple, data.edge_index.T.tolist()))
    assert np.array_equal(graph.labels, data.y.numpy())
    # PyG turns positive features into ones
    assert np.array_equal(graph.features.toarray() > 0, data.x.numpy() > 0)


@pytest.mark.parametrize(
    ("name", "nodes", "features", "classes", "tasks"),
    [
        ("cora70", 11_694, 9_568, 70, 35),
        ("corafull_knn256", 19_793, 256, 70, 35),
        ("coauthor_cs", 18_333, 6_805, 15, 7),
        ("amazon_computers", 13_752, 767, 10, 5),
        ("cora_ml", 2_995, 2_879, 7, 3),
        ("arxiv_tape", 169_343, 200, 40, 20),
    ],
)
def test_real_graphs_have_their_documented_sizes(
    name: str, nodes: int, features: int, classes: int, tasks: int, shared_data: Path
) -> None:
    graph = files.load(str(shared_data / f"{name}.npz"))
    assert (graph.num_nodes, graph.num_features, len(np.unique(graph.labels))) == (nodes, features, classes)
    assert len(TaskStream(graph)) == tasks


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"adj_indptr": None}, "has no array 'adj_indptr': it must hold adj_* and attr_* or features"),
        ({"attr_data": None}, "has no array 'attr_data': it must hold adj_* and attr_* or features"),
        ({"adj_indices": np.full(48, 99)}, "has a broken adj_* matrix: indices must be < 24"),
    ],
)
def test_an_incomplete_or_broken_archive_is_refused(
    changes: dict[str, np.ndarray | None], reason: str, write_npz: WriteNpz
) -> None:
    file = write_npz(**changes)
    with pytest.raises(DatasetError) as error:
        files.load(str(file))
    assert str(error.value) == f"'{file}' {reason}"


@pytest.mark.parametrize(
    "changes",
    [
        {"adj_indices": np.full(48, -1)},
        {"adj_indices": np.arange(5)},
        {"adj_indices": np.array(3), "adj_data": None},
        {"adj_indices": np.full(48, 0.5)},
        {"adj_indptr": np.arange(7)},
        {"adj_indptr": np.full(25, 48)},
        {"adj_shape": np.array(24)},
        {"adj_shape": np.array([24, -24])},
        {"adj_shape": np.array(["a", "b"])},
        {"adj_data": np.ones(3)},
        {"adj_data": np.full(48, "a")},
        {"attr_data": np.ones(3)},
        {"attr_indices": np.full(3, 10**6)},
    ],
)
def test_broken_matrices_are_refused(changes: dict[str, np.ndarray | None], write_npz: WriteNpz) -> None:
    with pytest.raises(DatasetError, match=r"has a broken (adj|attr)_\* matrix: .+"):
        files.load(str(write_npz(**changes)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"features": np.full((24, 2), np.nan)},
            "features contain 48 NaN or infinite values: replace them before loading",
        ),
        (
            {"labels": np.zeros(7, dtype=int)},
            "there must be one label for each of the 24 nodes, but labels have shape (7,)",
        ),
        ({"labels": np.full(24, -2)}, "labels must not be negative, except -1 for unknown ones, but -2 occurs"),
        ({"labels": np.full(24, 0.5)}, "labels must be whole numbers, or text, not float64"),
    ],
)
def test_a_bad_graph_in_a_file_is_refused_with_the_name_of_the_file(
    changes: dict[str, np.ndarray | None], reason: str, write_npz: WriteNpz
) -> None:
    file = write_npz(**changes)
    with pytest.raises(GraphError) as error:
        files.load(str(file))
    assert str(error.value) == f"'{file}' holds no usable graph: {reason}"


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_a_missing_file_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"absent{suffix}"
    with pytest.raises(DatasetError) as error:
        files.load(str(path))
    assert str(error.value) == f"there is no file '{path}': check the path after 'file:'"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "graph.npz").mkdir()
    with pytest.raises(DatasetError, match="there is no file"):
        files.load(str(tmp_path / "graph.npz"))


def test_an_unknown_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as error:
        files.load(str(tmp_path / "graph.csv"))
    assert str(error.value) == f"cannot read '{tmp_path / 'graph.csv'}': expected a file that ends in .npz or .pt"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_archive_is_refused(share: float, write_npz: WriteNpz) -> None:
    file = write_npz()
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DatasetError, match="is not a readable npz archive"):
        files.load(str(file))


@pytest.mark.parametrize("start", [60, 100, 200, 400])
def test_a_damaged_archive_is_refused(start: int, write_npz: WriteNpz, tmp_path: Path) -> None:
    with np.load(write_npz()) as archive:
        np.savez_compressed(tmp_path / "damaged.npz", **dict(archive))
    damage(tmp_path / "damaged.npz", start)
    with pytest.raises(DatasetError, match="is not a readable npz archive"):
        files.load(str(tmp_path / "damaged.npz"))


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    with (tmp_path / "array.npz").open("wb") as stream:
        np.save(stream, np.ones(3))
    with pytest.raises(DatasetError, match="is not a readable npz archive"):
        files.load(str(tmp_path / "array.npz"))


@given(st.binary(max_size=60), st.sampled_from([".npz", ".pt"]))
def test_arbitrary_bytes_are_refused_in_one_line(content: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"noise{suffix}"
        file.write_bytes(content)
        with pytest.raises(DelomeError) as error:
            files.load(str(file))
    assert "\n" not in str(error.value)


def saved(tmp_path: Path, content: object) -> Path:
    file = tmp_path / "graph.pt"
    torch.save(content, file)
    return file


def small_data() -> Data:
    return Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1]))


def test_reading_pyg_data_leaves_what_torch_may_unpickle_as_it_was(tmp_path: Path) -> None:
    before = torch.serialization.get_safe_globals()
    files.load(str(saved(tmp_path, small_data())))
    assert set(torch.serialization.get_safe_globals()) == set(before)


@pytest.mark.parametrize("undirected", [False, True])
def test_pyg_data_saved_with_torch_is_read(undirected: bool, tmp_path: Path) -> None:
    graph = files.load(str(saved(tmp_path, small_data())), undirected=undirected)
    assert edge_set(graph) == ({(0, 1), (1, 2)} | ({(1, 0), (2, 1)} if undirected else set()))
    assert np.array_equal(graph.features, np.eye(3))
    assert graph.labels.tolist() == [0, 1, 1]


def test_pyg_data_with_masks_and_other_tensors_is_read(tmp_path: Path) -> None:
    data = small_data()
    data.train_mask = torch.tensor([True, False, False])
    data.year = torch.tensor([[2001], [2002], [2003]])
    assert files.load(str(saved(tmp_path, data))).num_nodes == 3


def test_a_graph_written_to_pyg_reads_back(tmp_path: Path) -> None:
    graph = Graph([[0, 2], [1, 1]], [[1.0], [2.0], [3.0]], [0, 1, 0])
    back = files.load(str(saved(tmp_path, graph.to_pyg())), undirected=False)
    assert edge_set(back) == edge_set(graph)
    assert np.array_equal(back.features, graph.features)


def test_pyg_data_without_features_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    file = saved(tmp_path, Data(y=torch.tensor([0, 1])))
    with pytest.raises(GraphError) as error:
        files.load(str(file))
    assert str(error.value) == f"'{file}' holds no usable graph: the PyG data has no node features: set data.x"


def test_something_else_in_a_pt_is_refused(tmp_path: Path) -> None:
    file = saved(tmp_path, {"x": torch.ones(2)})
    with pytest.raises(DatasetError) as error:
        files.load(str(file))
    assert str(error.value) == f"'{file}' holds a dict, not a torch_geometric.data.Data"


class _Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.sprung),)


@pytest.mark.parametrize("hidden_in_data", [False, True])
def test_a_malicious_pickle_is_refused_and_does_nothing(hidden_in_data: bool, tmp_path: Path) -> None:
    trap = _Trap(tmp_path / "sprung")
    data = small_data()
    data.extra = trap
    file = saved(tmp_path, data if hidden_in_data else trap)
    with pytest.raises(DatasetError, match=r"is not a PyG Data saved with torch\.save") as error:
        files.load(str(file))
    assert not (tmp_path / "sprung").exists()
    assert "\n" not in str(error.value) and "\x1b" not in str(error.value)


def test_the_trap_of_these_tests_does_spring_when_it_is_unpickled(tmp_path: Path) -> None:
    torch.load(io.BytesIO(saved(tmp_path, _Trap(tmp_path / "sprung")).read_bytes()), weights_only=False)
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_pt_is_refused(share: float, tmp_path: Path) -> None:
    file = saved(tmp_path, small_data())
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DatasetError, match=r"is not a PyG Data saved with torch\.save"):
        files.load(str(file))


def test_a_file_holds_what_the_data_in_it_holds(tmp_path: Path) -> None:
    mask = torch.tensor([True, False, False])
    data = Data(
        x=torch.ones(3, 1),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        edge_weight=torch.tensor([2.0, 0.5]),
        y=torch.tensor([0, 1, 1]),
        train_mask=mask,
        val_mask=~mask,
    )
    torch.save(data, tmp_path / "own.pt")
    graph = files.load(str(tmp_path / "own.pt"))
    assert graph.fingerprint() == Graph.from_pyg(data).fingerprint()
    assert (graph.num_edges, graph.weighted, list(graph.masks)) == (4, True, ["train", "val"])
    assert not files.load(str(tmp_path / "own.pt"), weights=False).weighted


def test_weights_and_masks_of_an_npz_are_read(write_npz: Callable[..., Path]) -> None:
    mask = np.arange(24) % 2 == 0
    file = str(write_npz(adj_data=np.linspace(0.5, 2, 48), train_mask=mask))
    graph = files.load(file, undirected=False)
    assert graph.masks["train"].tolist() == mask.tolist()
    assert graph.weighted and sorted(graph.adjacency.data) == pytest.approx(np.linspace(0.5, 2, 48))
    assert not files.load(file, weights=False).weighted
    assert not files.load(str(write_npz())).weighted, "weights that are all 1 are none"


def test_arrays_beside_the_layout_are_not_read(write_npz: WriteNpz) -> None:
    file = write_npz()
    expected = files.load(str(file)).fingerprint()
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }"
        archive.writestr("extra.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        archive.writestr("large.npy", bytes(110 << 20))
        archive.writestr("notes.txt", b"mine")
    assert file.stat().st_size < 10**6
    assert files.load(str(file)).fingerprint() == expected


def test_a_small_file_of_large_features_is_refused(write_npz: WriteNpz, refusal: Refusal) -> None:
    file = write_npz()
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", bytes(110 << 20))
    assert refusal(lambda: files.load(str(file))).startswith(f"'{file}' is refused: its arrays would take 115,")


def test_a_pt_that_was_compressed_far_beyond_its_size_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    torch.save(Data(x=torch.eye(3), edge_index=torch.tensor([[0], [1]])), tmp_path / "plain.pt")
    file = tmp_path / "small.pt"
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
        archive.writestr("plain/data/99", bytes(110 << 20))
    sentence = refusal(lambda: files.load(str(file)))
    assert sentence.startswith(f"'{file}' is refused: it would unpack to 115,")

"""Miniature archives in the raw formats, fetched over loopback and loaded through the code of the published ones."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph, load_graph
from delome.datasets import DATASETS
from delome.datasets.catalogue import Dataset
from delome.datasets.fetching import converted
from delome.datasets.fetching.download import ATTEMPTS
from delome.datasets.fetching.reading import Statistics
from delome.datasets.sources import ogb, reddit
from delome.datasets.sources.published import PUBLISHED, Published
from delome.persistence.reading import sha256_of
from delome.streams import Protocol, Time

Refusal = Callable[[Callable[[], object]], str]
Unpack = Callable[[dict[str, bytes], Path], None]
Zipped = Callable[[dict[str, bytes]], bytes]

CONVERTED = {"checksums.json", "converted", "converted/manifest.json", "converted/labels.npy"} | {
    f"converted/adjacency_{part}.npy" for part in ("indices", "indptr")
}
DENSE = CONVERTED | {"converted/features.npy"}
DATED = DENSE | {"converted/node_year.npy"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def arxiv(server: Any, mini: Any, zipped: Zipped) -> Published:
    """A small dataset with the reader of ogbn-arxiv, on the server."""
    server.files["/data/mini.zip"] = zipped(mini.ogb_text())
    return Published(
        "mini", f"{server.url}/data/mini.zip", PUBLISHED["arxiv"].read, ogb.LAYOUTS, Statistics(12, 24, 4, 3)
    )


def content_of(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_published_datasets_are_in_the_catalogue_with_their_usual_budgets() -> None:
    assert PUBLISHED.keys() <= DATASETS.keys()
    assert [DATASETS[name].budget for name in ("corafull", "arxiv", "reddit", "products")] == [60, 400, 400, 400]
    for name, entry in PUBLISHED.items():
        assert entry.name == name and DATASETS[name].published is entry and DATASETS[name].options == {}
        assert entry.url.startswith("https://") and entry.archive.endswith((".npz", ".zip"))


def test_the_catalogue_loads_from_the_given_root(
    arxiv: Published, mini: Any, root: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    monkeypatch.setitem(DATASETS._entries, "mini", Dataset(arxiv.load, "small", 5, published=arxiv))
    mini.assert_equals(load_graph("mini", data_root=root), undirected=False)
    monkeypatch.setenv("DELOME_DATA", str(root.parent / "other"))
    mini.assert_equals(load_graph("mini"), undirected=False)
    assert (root.parent / "other/mini/converted").is_dir()
    assert refusal(lambda: load_graph("mini:nodes=3")) == "dataset 'mini' has no options, but 'nodes' was given"


def test_the_text_layout_of_ogb(arxiv: Published, mini: Any, root: Path, files_in: Callable[[Path], set[str]]) -> None:
    graph = arxiv.load(root)
    mini.assert_equals(graph, undirected=False)
    assert graph.class_names == ("arxiv cs na", "arxiv cs mm", "logic, in cs")
    assert isinstance(graph.features, np.memmap)
    assert files_in(root / "mini") == DATED | {"mini.zip"}


def test_years_are_converted_too_and_a_stream_can_be_cut_by_them(arxiv: Published, mini: Any, root: Path) -> None:
    for _ in range(2):  # from the archive, and from the converted form
        graph = arxiv.load(root)
        assert np.array_equal(graph.attributes["node_year"], mini.years)
    graph = graph.with_labels(np.tile([0, 0, 0, 1, 1, 1], 2))
    graph.attributes["node_year"] = np.repeat([2011, 2010], 6)
    assert [sorted(task.nodes.tolist()) for task in Time()(graph, Protocol())] == [[*range(6, 12)], [*range(6)]]


def test_a_form_that_was_converted_without_years_is_made_again(arxiv: Published, mini: Any, root: Path) -> None:
    assert PUBLISHED["arxiv"].attributes == ("node_year",) and PUBLISHED["products"].attributes == ()
    arxiv.load(root)
    place = root / "mini/converted"
    manifest = json.loads((place / "manifest.json").read_text())
    del manifest["files"]["node_year.npy"]
    (place / "manifest.json").write_text(json.dumps(manifest))
    (place / "node_year.npy").unlink()
    assert arxiv.load(root).attributes == {}  # nothing says that there should be years
    assert np.array_equal(replace(arxiv, attributes=("node_year",)).load(root).attributes["node_year"], mini.years)


def test_products_get_the_reverse_of_each_edge(arxiv: Published, mini: Any, root: Path) -> None:
    mini.assert_equals(replace(arxiv, read=PUBLISHED["products"].read).load(root), undirected=True)


def test_the_binary_layout_of_ogb(
    arxiv: Published, server: Any, mini: Any, zipped: Zipped, root: Path, files_in: Callable[[Path], set[str]]
) -> None:
    server.files["/data/mini.zip"] = zipped(mini.ogb_binary())
    mini.assert_equals(arxiv.load(root), undirected=False)
    assert files_in(root / "mini") == DATED | {"mini.zip"}


def test_the_layout_of_reddit(
    server: Any, mini: Any, zipped: Zipped, root: Path, files_in: Callable[[Path], set[str]]
) -> None:
    server.files["/reddit.zip"] = zipped(mini.reddit())
    entry = Published(
        "reddit", f"{server.url}/reddit.zip", PUBLISHED["reddit"].read, (reddit.LAYOUT,), Statistics(12, 48, 4, 3)
    )
    mini.assert_equals(entry.load(root), undirected=True)
    assert files_in(root / "reddit") == DENSE | {"reddit.zip"}


def test_the_layout_of_corafull(
    server: Any, write_npz: Callable[..., Path], root: Path, files_in: Callable[[Path], set[str]]
) -> None:
    file = write_npz("cora.npz")
    server.files["/cora.npz"] = file.read_bytes()
    entry = replace(PUBLISHED["corafull"], url=f"{server.url}/cora.npz", statistics=Statistics(24, 96, 5, 4))
    graph = entry.load(root)
    with np.load(file) as arrays:
        words = sp.csr_array((arrays["attr_data"], arrays["attr_indices"], arrays["attr_indptr"]), (24, 5)).toarray()
        adjacency = sp.csr_array((arrays["adj_data"], arrays["adj_indices"], arrays["adj_indptr"]), (24, 24))
    assert sp.issparse(graph.features)
    assert np.array_equal(graph.features.toarray(), words > 0)
    assert (graph.adjacency != (adjacency + adjacency.T).astype(bool)).nnz == 0
    assert graph.labels.tolist() == np.repeat(np.arange(4), 6).tolist()
    parts = {f"converted/features_{part}.npy" for part in ("data", "indices", "indptr")}
    assert files_in(root / "corafull") == CONVERTED | parts | {"cora.npz"}


@pytest.mark.parametrize(
    ("name", "file"),
    [("coauthor_cs", "coauthor_cs.npz"), ("amazon_computers", "amazon_computers.npz"), ("cora_ml", "cora_ml.npz")],
)
def test_real_files_placed_by_hand_have_the_published_statistics(
    name: str, file: str, shared_data: Path, root: Path
) -> None:
    entry = replace(PUBLISHED[name], url="http://127.0.0.1:9/nowhere")
    (root / name).mkdir(parents=True)
    shutil.copy(shared_data / file, root / name / PUBLISHED[name].archive)
    graph = entry.load(root)
    assert graph.num_edges == entry.statistics.edges
    assert set(np.unique(graph.features.data)) == {1}


def test_the_second_load_needs_neither_the_network_nor_the_raw_files(
    arxiv: Published, server: Any, mini: Any, root: Path
) -> None:
    first = arxiv.load(root)
    server.files.clear()
    server.asked.clear()
    (root / "mini/mini.zip").unlink()
    mini.assert_equals(arxiv.load(root), undirected=False)
    assert server.asked == []
    assert (first.adjacency != arxiv.load(root).adjacency).nnz == 0


def test_a_converted_dataset_is_read_from_a_folder_that_cannot_be_written(
    arxiv: Published, mini: Any, root: Path
) -> None:
    arxiv.load(root)
    before = content_of(root)
    (root / "mini").chmod(0o555)
    mini.assert_equals(arxiv.load(root), undirected=False)
    (root / "mini").chmod(0o755)
    assert content_of(root) == before


def test_progress_tells_each_step(arxiv: Published, root: Path) -> None:
    seen: list[str] = []
    arxiv.load(root, progress=lambda activity, done, total: seen.append(activity))
    steps = list(dict.fromkeys(seen))
    assert steps[:3] == ["downloading mini.zip", "verifying mini.zip", "unpacking mini.zip"]
    assert {"reading edge.csv.gz", "reading node-feat.csv.gz"} <= set(steps[3:-1])
    assert steps[-1] == "converting mini, which agrees with its published statistics"


@pytest.mark.parametrize("below", [".", "raw", "deep/er/arxiv/raw"])
def test_raw_files_placed_by_hand_are_used_and_kept(
    below: str, arxiv: Published, server: Any, mini: Any, root: Path, unpack: Unpack
) -> None:
    raw = {Path(name).name: content for name, content in mini.ogb_text().items() if "/raw/" in name}
    unpack(raw, root / "mini" / below)
    assert arxiv.cached(root) == "raw files"
    mini.assert_equals(arxiv.load(root), undirected=False)
    assert server.asked == []
    assert raw.items() <= content_of(root / "mini" / below).items()
    recorded = json.loads((root / "mini/checksums.json").read_text())
    assert recorded == {name: hashlib.sha256(raw[name]).hexdigest() for name in ogb.TEXT_LAYOUT}


def test_an_archive_placed_by_hand_is_used(arxiv: Published, server: Any, mini: Any, root: Path) -> None:
    (root / "mini").mkdir(parents=True)
    (root / "mini/mini.zip").write_bytes(server.files["/data/mini.zip"])
    mini.assert_equals(arxiv.load(root), undirected=False)
    assert server.asked == []


def test_what_is_cached_can_be_asked(arxiv: Published, root: Path) -> None:
    assert arxiv.cached(root) == "nothing"
    assert not root.exists()
    arxiv.load(root)
    assert arxiv.cached(root) == "converted"
    shutil.rmtree(root / "mini/converted")
    assert arxiv.cached(root) == "raw files"


@pytest.mark.parametrize("name", ["labels.npy", "features.npy", "adjacency_indices.npy", "manifest.json"])
def test_a_damaged_converted_form_is_made_again(
    name: str, arxiv: Published, server: Any, mini: Any, root: Path, files_in: Callable[[Path], set[str]]
) -> None:
    arxiv.load(root)
    server.asked.clear()
    whole = content_of(root)
    file = root / "mini/converted" / name
    file.write_bytes(file.read_bytes()[:-5] + b".....")
    mini.assert_equals(arxiv.load(root), undirected=False)
    assert content_of(root) == whole
    assert server.asked == []


def test_a_form_of_an_older_version_is_made_again(
    arxiv: Published, mini: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arxiv.load(root)
    monkeypatch.setattr(converted, "FORMAT", 99)
    mini.assert_equals(arxiv.load(root), undirected=False)
    assert json.loads((root / "mini/converted/manifest.json").read_text())["format"] == 99


def test_what_a_killed_process_left_is_removed(
    arxiv: Published, root: Path, files_in: Callable[[Path], set[str]]
) -> None:
    (root / "mini/.working-abc/new").mkdir(parents=True)
    (root / "mini/.working-abc/new/labels.npy").write_bytes(b"half")
    (root / "mini/.lock").touch()
    arxiv.load(root)
    assert files_in(root / "mini") == DATED | {"mini.zip"}


def test_two_loads_at_once_share_one_download(
    arxiv: Published, server: Any, mini: Any, root: Path, files_in: Callable[[Path], set[str]]
) -> None:
    graphs: list[Graph] = []
    threads = [threading.Thread(target=lambda: graphs.append(arxiv.load(root))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(graphs) == 4
    for graph in graphs:
        mini.assert_equals(graph, undirected=False)
    assert len(server.asked) == 1
    assert files_in(root / "mini") == DATED | {"mini.zip"}


def test_an_interrupted_download_is_continued_by_the_next_load(
    arxiv: Published, server: Any, mini: Any, root: Path, refusal: Refusal, files_in: Callable[[Path], set[str]]
) -> None:
    server.drops = [100] * ATTEMPTS
    assert f"stopped after {100 * ATTEMPTS} of" in refusal(lambda: arxiv.load(root))
    assert files_in(root / "mini") == {"mini.zip.part"}
    server.asked.clear()
    mini.assert_equals(arxiv.load(root), undirected=False)
    assert server.asked == [f"bytes={100 * ATTEMPTS}-"]
    assert files_in(root / "mini") == DATED | {"mini.zip"}


def test_offline_the_missing_file_and_its_place_are_named(
    arxiv: Published, server: Any, root: Path, refusal: Refusal
) -> None:
    entry = replace(arxiv, url="http://127.0.0.1:9/mini.zip")
    assert refusal(lambda: entry.load(root)) == (
        "cannot download 'http://127.0.0.1:9/mini.zip' (Connection refused): "
        f"try again or put mini.zip into '{root / 'mini'}' by hand"
    )
    assert not (root / "mini").exists()


BAD_DOWNLOADS: dict[str, tuple[Callable[[Any, Zipped], bytes], str]] = {
    "page": (lambda mini, zipped: b"<html>sign in</html>", "the server sent a web page instead"),
    "truncated zip": (lambda mini, zipped: zipped(mini.ogb_text())[:-30], "is not a readable zip archive: "),
    "hostile path": (
        lambda mini, zipped: zipped(mini.ogb_text() | {"../../evil": b"x"}),
        "is refused: its member '../../evil' lies outside its folder",
    ),
    "truncated gzip": (
        lambda mini, zipped: zipped(
            mini.ogb_text() | {"mini/raw/edge.csv.gz": mini.ogb_text()["mini/raw/edge.csv.gz"][:-12]}
        ),
        "mini.zip/mini/raw/edge.csv.gz' is damaged or incomplete: ",
    ),
    "other archive": (lambda mini, zipped: zipped({"a.txt": b""}), "it has no edge.csv.gz"),
    "other graph": (
        lambda mini, zipped: zipped(replace(mini, labels=mini.labels // 2, edges=mini.edges[:, :20]).ogb_text()),
        "is not the published mini: it has 20 edges instead of 24 and 2 classes instead of 3",
    ),
    "bad graph": (
        lambda mini, zipped: zipped(replace(mini, labels=mini.labels - 2).ogb_text()),
        "mini.zip/mini/raw' holds no usable graph: "
        "labels must not be negative, except -1 for unknown ones, but -2 occurs",
    ),
    "unknown labels": (
        lambda mini, zipped: zipped(replace(mini, labels=mini.labels - 1).ogb_text()),
        "is not the published mini: it has 2 classes instead of 3",
    ),
}


@pytest.mark.parametrize("case", BAD_DOWNLOADS)
def test_a_bad_download_ends_in_one_sentence_and_leaves_nothing(
    case: str, arxiv: Published, server: Any, mini: Any, zipped: Zipped, root: Path, refusal: Refusal
) -> None:
    good = server.files["/data/mini.zip"]
    make, reason = BAD_DOWNLOADS[case]
    server.files["/data/mini.zip"] = make(mini, zipped)
    assert reason in refusal(lambda: arxiv.load(root))
    assert list(root.iterdir()) == []
    assert not (root.parent / "evil").exists()
    server.files["/data/mini.zip"] = good
    mini.assert_equals(arxiv.load(root), undirected=False)


def test_a_download_with_another_checksum_is_thrown_away(
    arxiv: Published, server: Any, mini: Any, root: Path, refusal: Refusal
) -> None:
    right = hashlib.sha256(server.files["/data/mini.zip"]).hexdigest()
    sentence = refusal(lambda: replace(arxiv, sha256="0" * 64).load(root))
    assert f"has SHA-256 {right[:12]}… instead of 000000000000…" in sentence
    assert list(root.iterdir()) == []
    mini.assert_equals(replace(arxiv, sha256=right).load(root), undirected=False)


def test_a_later_download_must_be_the_first_one_again(
    arxiv: Published, server: Any, mini: Any, zipped: Zipped, root: Path, refusal: Refusal
) -> None:
    arxiv.load(root)
    first = json.loads((root / "mini/checksums.json").read_text())["mini.zip"]
    assert first == sha256_of(root / "mini/mini.zip")
    server.files["/data/mini.zip"] = zipped(mini.ogb_text() | {"new": b""})
    (root / "mini/mini.zip").unlink()
    shutil.rmtree(root / "mini/converted")
    assert f"instead of {first[:12]}…" in refusal(lambda: arxiv.load(root))
    assert set(content_of(root / "mini")) == {"checksums.json"}


def test_a_file_on_disk_that_proves_wrong_is_named_and_kept(
    arxiv: Published, server: Any, root: Path, refusal: Refusal
) -> None:
    (root / "mini").mkdir(parents=True)
    (root / "mini/mini.zip").write_bytes(b"not an archive")
    sentence = refusal(lambda: arxiv.load(root))
    assert sentence.startswith(f"'{root / 'mini/mini.zip'}' is not a readable zip archive")
    assert content_of(root) == {"mini/mini.zip": b"not an archive"}


def test_a_root_that_is_a_file_is_refused(arxiv: Published, root: Path, refusal: Refusal) -> None:
    root.write_text("mine")
    assert refusal(lambda: arxiv.load(root)) == (
        f"cannot write into '{root / 'mini'}' (Not a directory): choose another folder with --data-root"
    )
    assert root.read_text() == "mine"


def test_a_full_disk_keeps_the_download(
    arxiv: Published, mini: Any, root: Path, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(converted, "write", full)
        assert refusal(lambda: arxiv.load(root)) == (
            f"cannot write into '{root / 'mini'}' (No space left on device): choose another folder with --data-root"
        )
    assert set(content_of(root / "mini")) == {"mini.zip"}
    mini.assert_equals(arxiv.load(root), undirected=False)


def test_an_interruption_while_reading_keeps_the_download(arxiv: Published, mini: Any, root: Path) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(arxiv, read=interrupted).load(root)
    assert set(content_of(root / "mini")) == {"mini.zip"}
    mini.assert_equals(arxiv.load(root), undirected=False)


def test_each_reader_is_bound_to_the_direction_of_its_dataset() -> None:
    for name, undirected in (("arxiv", False), ("products", True)):
        read = PUBLISHED[name].read
        assert isinstance(read, partial) and read.keywords == {"undirected": undirected}

from __future__ import annotations

import gzip
import io
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph
from delome.errors import DelomeError


@dataclass
class Server:
    """Serves ``files`` on loopback, as badly as it is told to."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    with_ranges: bool = True
    with_length: bool = True
    shift: int = 0
    """How far from the wanted place a range is sent."""
    drops: list[int] = field(default_factory=list)
    """After how many bytes of the body the next answers lose their connection."""
    asked: list[str] = field(default_factory=list)
    """The ``Range`` of each request, empty if there was none."""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range", "")
        self.asked.append(wanted)
        content = self.files.get(request.path)
        if content is None:
            request.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-") or 0) if self.with_ranges else 0
        if start and start >= len(content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(content)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206 if start else 200)
        if start:
            first = start + self.shift
            request.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        if self.with_length:
            request.send_header("Content-Length", str(len(content) - start))
        for name, value in self.headers.items():
            request.send_header(name, value)
        request.end_headers()
        body = content[start:]
        request.wfile.write(body[: self.drops.pop(0)] if self.drops else body)
        request.close_connection = True


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        state.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        listening.shutdown()
        thread.join()


def _npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _csv_gz(rows: np.ndarray) -> bytes:
    text = "".join(",".join(map(repr, row)) + "\n" for row in np.atleast_2d(rows).tolist())
    return gzip.compress(text.encode())


@dataclass(frozen=True)
class Mini:
    """A graph of 12 nodes, 3 classes and 4 features as plain arrays."""

    edges: np.ndarray
    features: np.ndarray
    labels: np.ndarray

    @property
    def years(self) -> np.ndarray:
        """When each node came, in no order."""
        return 2010 + (np.arange(12) * 5) % 4

    def assert_equals(self, graph: Graph, *, undirected: bool) -> None:
        expected = Graph(self.edges, self.features, self.labels, undirected=undirected)
        assert (graph.adjacency != expected.adjacency).nnz == 0
        assert np.array_equal(graph.features, expected.features) and graph.features.dtype == np.float32
        assert graph.labels is not None and expected.labels is not None
        assert np.array_equal(graph.labels, expected.labels)

    def symmetric(self) -> Mini:
        return replace(self, edges=np.concatenate([self.edges, self.edges[::-1]], axis=1))

    def ogb_text(self) -> dict[str, bytes]:
        """Every member of an archive in the benchmark's text layout."""
        return {
            "mini/raw/edge.csv.gz": _csv_gz(self.edges.T),
            "mini/raw/node-feat.csv.gz": _csv_gz(self.features),
            "mini/raw/node-label.csv.gz": _csv_gz(self.labels[:, None]),
            "mini/raw/num-node-list.csv.gz": _csv_gz(np.array([[len(self.labels)]])),
            "mini/raw/num-edge-list.csv.gz": _csv_gz(np.array([[self.edges.shape[1]]])),
            "mini/raw/node_year.csv.gz": _csv_gz(self.years[:, None]),
            "mini/split/time/train.csv.gz": _csv_gz(np.arange(6)[:, None]),
            "mini/mapping/labelidx2arxivcategeory.csv.gz": gzip.compress(
                b'label idx,arxiv category\n0,arxiv cs na\n2,"logic, in cs"\n1,arxiv cs mm\n'
            ),
            "mini/mapping/README.md": b"what the ids stand for",
            "mini/RELEASE_v1.txt": b"",
        }

    def ogb_binary(self) -> dict[str, bytes]:
        data = _npz(
            edge_index=self.edges,
            node_feat=self.features,
            node_year=self.years[:, None],
            num_nodes_list=np.array([len(self.labels)]),
            num_edges_list=np.array([self.edges.shape[1]]),
        )
        return {
            "mini/raw/data.npz": data,
            "mini/raw/node-label.npz": _npz(node_label=self.labels[:, None].astype(np.float32)),
        }

    def reddit(self) -> dict[str, bytes]:
        """Both directions of each edge, as published."""
        both = self.symmetric().edges
        buffer = io.BytesIO()
        sp.save_npz(buffer, sp.coo_matrix((np.ones(both.shape[1]), (both[0], both[1])), shape=(len(self.labels),) * 2))
        data = _npz(
            feature=self.features.astype(np.float64),
            label=self.labels,
            node_types=np.ones(len(self.labels), dtype=int),
            node_ids=np.arange(len(self.labels)),
        )
        return {"reddit_data.npz": data, "reddit_graph.npz": buffer.getvalue()}


@pytest.fixture
def mini() -> Mini:
    rng = np.random.default_rng(0)
    node = np.arange(12)
    edges = np.concatenate([[node, (node + 1) % 12], [node, (node + 5) % 12]], axis=1)
    return Mini(edges, rng.normal(size=(12, 4)).astype(np.float32), np.repeat(np.arange(3), 4))


@pytest.fixture
def zipped() -> Callable[[dict[str, bytes]], bytes]:
    """An archive of these members."""

    def write(members: dict[str, bytes]) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return buffer.getvalue()

    return write


@pytest.fixture
def unpack() -> Callable[[dict[str, bytes], Path], None]:
    """Writes the members of an archive as files."""

    def write(members: dict[str, bytes], folder: Path) -> None:
        for name, content in members.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    return write


@pytest.fixture
def refusal() -> Callable[[Callable[[], object]], str]:
    """The one sentence with which a call is refused."""

    def refused(call: Callable[[], object]) -> str:
        with pytest.raises(DelomeError) as error:
            call()
        sentence = str(error.value)
        assert "\n" not in sentence and ". " not in sentence and not sentence.endswith("."), sentence
        return sentence

    return refused


@pytest.fixture
def files_in() -> Callable[[Path], set[str]]:
    """Relative paths of everything in a folder."""
    return lambda folder: {path.relative_to(folder).as_posix() for path in folder.rglob("*")}

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph
from delome.graph import graph as module
from delome.graph.sparse import to_dense


def made(sparse: bool) -> Graph:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 40, size=(2, 30))
    features = (rng.random((40, 4000)) < 0.0005).astype(np.float32) if sparse else rng.random((40, 7), dtype=np.float32)
    return Graph(edges, sp.csr_array(features) if sparse else features)


def refuse(*_: Any) -> Any:
    raise AssertionError("it was there already")


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_what_one_has_propagated_the_others_read(sparse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARED_FROM", 0)
    alone, first, second = made(sparse), made(sparse), made(sparse)
    first.shared = second.shared = tmp_path / "shared"
    wanted = alone.propagate(2)
    assert isinstance(wanted, np.ndarray) != sparse
    found = [first.propagate(2)]
    monkeypatch.setattr(module, "times", refuse)
    found.append(second.hidden().propagate(2))
    for each in found:
        assert isinstance(each, type(wanted)) and np.array_equal(to_dense(each), to_dense(wanted))
        assert not isinstance(each, np.ndarray) or each.flags.writeable
    assert not [name for name in (tmp_path / "shared").iterdir() if name.name.startswith(".")]


def test_other_hops_and_other_graphs_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARED_FROM", 0)
    graph = made(False)
    part = graph.subgraph(np.arange(20))
    wanted = [graph.propagate(1), graph.propagate(2), part.propagate(2)]
    again = made(False)
    again.shared = tmp_path
    smaller = again.subgraph(np.arange(20))
    found = [again.propagate(1), again.propagate(2), smaller.propagate(2)]
    assert all(np.array_equal(one, other) for one, other in zip(wanted, found, strict=True))
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_cannot_be_written_or_read_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARED_FROM", 0)
    (tmp_path / "file").touch()
    graph, wanted = made(False), made(False).propagate(2)
    graph.shared = tmp_path / "file"
    assert np.array_equal(graph.propagate(2), wanted)
    damaged = made(False)
    damaged.shared = tmp_path
    (tmp_path / f"{damaged.content_fingerprint()}-2").mkdir()
    (tmp_path / f"{damaged.content_fingerprint()}-2" / "dense.npy").write_bytes(b"nothing")
    assert np.array_equal(damaged.propagate(2), wanted)


def test_small_graphs_are_not_shared(tmp_path: Path) -> None:
    graph = made(False)
    graph.shared = tmp_path
    graph.propagate(2)
    assert list(tmp_path.iterdir()) == []

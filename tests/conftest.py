from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import settings

from delome import Graph, Task, TaskStream, load_graph
from delome.cli import main
from delome.learning import METHODS, Learner
from delome.streams.columns import Setting
from delome.testing.subject import Subject, bag_of_words

# the graphs of the tests are tiny: threads would only wait for each other
torch.set_num_threads(1)

settings.register_profile("delome", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("delome")


@pytest.fixture(scope="session", autouse=True)
def heeded_signals() -> None:
    """Signals do what they do in a terminal, also where the tests themselves were started by nohup or in the back."""
    usual: dict[str, Any] = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
    for name, handler in usual.items():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(__file__).parents[1] / "../shared/data"
    if not folder.is_dir():
        pytest.skip("the real graphs are not there: expected ../shared/data beside the repository")
    return folder


@pytest.fixture
def write_npz(tmp_path: Path) -> Callable[..., Path]:
    """Writes a valid graph file: 24 nodes, 4 classes of 6, 48 directed edges, 5 sparse features.

    Arrays given by name replace those of the file; ``None`` leaves one out.
    """

    def write(name: str = "graph.npz", seed: int = 0, **changes: np.ndarray | None) -> Path:
        rng = np.random.default_rng(seed)
        step = np.arange(24)
        adjacency = sp.csr_array((np.ones(48), (np.tile(step, 2), np.r_[(step + 1) % 24, (step + 5) % 24])), (24, 24))
        features = sp.csr_array(rng.integers(0, 3, size=(24, 5)).astype(np.float32))
        arrays = {f"adj_{part}": getattr(adjacency, part) for part in ("data", "indices", "indptr", "shape")}
        arrays |= {f"attr_{part}": getattr(features, part) for part in ("data", "indices", "indptr", "shape")}
        arrays |= {"labels": np.repeat(np.arange(4), 6)} | changes
        file = tmp_path / name
        np.savez(file, **{key: array for key, array in arrays.items() if array is not None})
        return file

    return write


@pytest.fixture(scope="session")
def toy_graph() -> Graph:
    """Six separable classes of 40 nodes, 16 features."""
    return load_graph("synthetic", nodes=240, classes=6, features=16, degree=6, noise=0.5)


@pytest.fixture
def toy_stream(toy_graph: Graph) -> TaskStream:
    """Three tasks of two classes."""
    return TaskStream(toy_graph)


@pytest.fixture(scope="session")
def scores_of() -> Callable[[Learner, Task], np.ndarray]:
    """What a learner decides by: a score of every class column for every node of a task."""

    def scores(learner: Learner, task: Task) -> np.ndarray:
        return learner.logits(
            learner.inputs(learner.read(task.graph), np.arange(task.graph.num_nodes)), task.index
        ).numpy()

    return scores


TINY = {
    "epochs": 1, "hidden": 8, "dimension": 2, "budget": 2, "features": 5, "encoders": 2, "networks": 2, "stored": 4,
    "neighbours_first": 2, "neighbours_second": 2,
}  # fmt: skip


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Learner]:
    """Makes learners whose states are as small as can be."""

    def make(method: str, setting: Setting = "cil", **options: Any) -> Learner:
        return Subject(METHODS[method], setting, options).make(**TINY)

    return make


@pytest.fixture
def balanced() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Class-balanced cross-entropy by torch's class weights."""

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        weights = 1 / torch.bincount(labels, minlength=logits.shape[1]).clamp(min=1)
        return torch.nn.functional.cross_entropy(logits, labels, weight=weights)

    return loss


@pytest.fixture(scope="session")
def sparse_graph() -> Graph:
    """Four classes of 30 nodes with bag-of-words features: words of the class's own and one common word."""
    return bag_of_words()


@pytest.fixture
def sparse_stream(sparse_graph: Graph) -> TaskStream:
    """Two tasks of two classes with sparse features."""
    return TaskStream(sparse_graph)


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def notes(self) -> list[str]:
        """What stderr holds beside progress."""
        return [
            line
            for line in self.err.splitlines()
            if not re.match(r"delome: (seed \d+, )?task \d+ \(\d+ of \d+\): ", line)
        ]

    @property
    def document(self) -> dict:
        """The JSON document that is all of stdout."""
        return json.loads(self.out)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder in which commands run."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def cli(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs a command line in this process, in ``folder``."""
    monkeypatch.setenv("COLUMNS", "320")
    monkeypatch.setenv("DELOME_DATA", str(folder.parent / "data"))

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["delome", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main()
        out, err = capfd.readouterr()
        code = leaving.value.code or 0
        assert isinstance(code, int)
        return Outcome(code, out, err)

    return run


@pytest.fixture
def read_only() -> Callable[[Path], AbstractContextManager[None]]:
    """While such a block runs, nothing below a folder can be changed, as on a disk that is mounted so."""

    def refuse(folder: Path, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            reads = name == "open" and not arguments[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not isinstance(path, int) and not reads and Path(path).absolute().is_relative_to(folder):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return real(path, *arguments, **options)

        return call

    @contextmanager
    def block(folder: Path) -> Iterator[None]:
        calls = {name: getattr(os, name) for name in ("open", "mkdir", "rmdir", "unlink", "replace", "rename", "chmod")}
        with pytest.MonkeyPatch.context() as patch:
            for name, real in calls.items():
                patch.setattr(os, name, refuse(folder, name, real))
            yield

    return block

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delome import Graph

MINE = """
from delome import FineTune
from delome.backbones import SGC


class Small(SGC):
    hidden = 4


class Mine(FineTune):
    backbone = Small()
    summary = "fine-tuning of a small network"
"""


@pytest.fixture
def graph() -> Callable[..., Graph]:
    """Makes a graph of 24 nodes with these labels, those of a class beside each other."""

    def make(*labels: int, seed: int = 0, **options: Any) -> Graph:
        rng, nodes = np.random.default_rng(seed), np.arange(24)
        of_nodes = np.repeat(labels, 24 // len(labels))
        features = 0.3 * rng.normal(size=(24, 5)) + np.eye(5)[of_nodes % 5]
        return Graph(np.stack([nodes, (nodes + 1) % 24]), features.astype(np.float32), of_nodes, **options)

    return make


@pytest.fixture
def mine(folder: Path) -> Iterator[str]:
    """A method of one's own in the current folder, by the name that a person types."""
    (folder / "my_methods.py").write_text(MINE)
    yield "my_methods:Mine"
    sys.modules.pop("my_methods", None)
    sys.path[:] = [place for place in sys.path if place != str(folder)]


@pytest.fixture
def files_of() -> Callable[[Path], dict[str, bytes]]:
    """Content of every file below a folder."""

    def read(place: Path) -> dict[str, bytes]:
        return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}

    return read

"""Streams on the command line: what cannot be cut is one sentence and exit code 2, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delome import load_graph

Cli = Callable[..., Any]
YEARS = 2000 + np.arange(60) % 3


def save(place: Path, **attributes: Any) -> str:
    """A graph of four classes of 15 nodes in a file, with attributes of nodes."""
    graph = load_graph("synthetic", nodes=60, classes=4, features=4)
    assert graph.labels is not None
    adjacency = graph.adjacency.astype(np.float32)
    np.savez(
        place, adj_data=adjacency.data, adj_indices=adjacency.indices, adj_indptr=adjacency.indptr,
        adj_shape=adjacency.shape, features=graph.features, labels=graph.labels, **attributes,
    )  # fmt: skip
    return f"file:{place.name}"


def one_class_in_the_last_year() -> np.ndarray:
    labels = load_graph("synthetic", nodes=60, classes=4, features=4).labels
    assert labels is not None
    years = np.full(60, 2000)
    years[np.flatnonzero(labels == 3)[:5]] = 2001
    return years


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no timestamps": ("time", {}, "the graph has no node attribute 'node_year'"),
    "another column": ("time:column=node_day", {"node_year": YEARS}, "unknown node attribute 'node_day'"),
    "missing timestamps": (
        "time",
        {"node_year": np.where(np.arange(60) < 2, np.nan, YEARS)},
        "the node_year of 2 nodes is NaN or infinite",
    ),
    "a period without nodes": (
        "time",
        {"node_year": np.where(YEARS == 2001, 2003, YEARS)},
        "2001 to 2002 has no nodes: choose start=2001, or longer periods",
    ),
    "a period of one class": (
        "time",
        {"node_year": one_class_in_the_last_year()},
        "from 2001 has too few nodes to learn: 1 class has nodes of every part, and 2 are needed: choose longer",
    ),
    "no length": ("time:period=0", {"node_year": YEARS}, "period must be greater than 0"),
    "a length that is no number": ("time:period=long", {"node_year": YEARS}, "period must be a number, not 'long'"),
    "no domains": ("domains", {}, "the graph has no node attribute 'node_domain'"),
    "a domain without label": (
        "domains",
        {"node_domain": np.where(np.arange(60) < 1, np.inf, YEARS)},
        "the node_domain of 1 node is NaN or infinite",
    ),
    "no width": ("blurry:sigma=0", {}, "sigma must be at least 1e-06, not 0"),
    "a negative width": ("blurry:sigma=-0.1", {}, "sigma must be at least 1e-06, not -0.1"),
    "no steps": ("blurry:steps=0", {}, "steps must be at least 1, not 0"),
    "a large base": ("classes:base=5", {}, "base must be at most the number of classes with at least 3 nodes, 4"),
    "too many classes": ("classes:sizes=3+3", {}, "cannot make tasks of 6 classes in all"),
    "an empty task": ("classes:sizes=3+0", {}, "sizes must be numbers of classes such as 4+3+3, not '3+0'"),
    "a class that is not there": (
        "classes:order=0+9",
        {},
        "the order of classes names some that the graph does not have",
    ),
    "a large step": ("classes:step=5", {}, "step must be at most the number of classes with at least 3 nodes, 4"),
    "a parameter twice": ("classes:base=2,base=3", {}, "base of stream classes is given twice"),
    "no value": ("classes:sizes=", {}, "'sizes=' of stream classes has no value"),
    "a list with commas": ("classes:sizes=2,1,1", {}, "lists have a + between them"),
    "two ways to say when": ("time:bounds=2001,period=3", {"node_year": YEARS}, "leave out start and period"),
    "a time that is text": ("time", {"node_year": YEARS.astype(str)}, "node_year is text"),
    "endless time": ("time", {"node_year": YEARS * 1e300}, "makes 2e+300 tasks"),
    "a domain of few nodes": (
        "domains",
        {"node_domain": np.arange(60)},
        "node_domain 0 has too few nodes to learn: 0 classes have nodes of every part, and 2 are needed: leave out",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_cut_is_refused_in_a_sentence(name: str, cli: Cli, folder: Path) -> None:
    stream, attributes, sentence = BAD[name]
    dataset = save(folder / "graph.npz", **attributes)
    outcome = cli("run", "--dataset", dataset, "--method", "prototypes", "--stream", stream, "--out", "run")
    assert outcome.code == 2 and outcome.out == ""
    (line,) = [each for each in outcome.err.splitlines() if each.strip()]
    assert sentence in line and "Traceback" not in line
    assert not (folder / "run").exists()


def test_timestamps_need_not_be_sorted(cli: Cli, folder: Path) -> None:
    dataset = save(folder / "graph.npz", node_year=YEARS[::-1])
    outcome = cli("run", "--dataset", dataset, "--method", "prototypes", "--stream", "time", "--json", "--out", "run")
    assert outcome.code == 0 and '"stream": "time"' in outcome.out

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from rich.console import Console

from delome import Graph, TaskStream
from delome.graph.statistics import GraphStatistics
from delome.reporting.datasets import describe_dataset


def described(graph: Graph, name: str = "mine", classes_per_task: int = 2) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    stream = TaskStream(graph, classes_per_task)
    console.print(describe_dataset(name, GraphStatistics.of(graph), stream, None, None))
    return console.file.getvalue()  # type: ignore[attr-defined]


def path_graph(labels: list[int], **options: Any) -> Graph:
    nodes = np.arange(len(labels) - 1)
    return Graph(np.stack([nodes, nodes + 1]), np.eye(len(labels), 3), labels, **options)


def test_sizes_homophily_and_degree_are_in_words() -> None:
    text = described(path_graph([0] * 4 + [1] * 4 + [-1] * 2))
    assert "mine: 10 nodes, 18 edges (undirected, both directions counted), 3 features" in text
    assert "2 classes of 4 to 4 nodes, 2 nodes of unknown class" in text
    assert "edges within a class (homophily): 85.7 %" in text  # 6 of the 7 between labelled nodes
    assert "mean degree 1.8, 0 isolated nodes" in text
    assert "stream: 1 task of 2 classes, 0 classes left out" in text


def test_every_class_has_a_bar_as_long_as_it_is_large() -> None:
    text = described(path_graph([0] * 8 + [1] * 4 + [2] * 4))
    rows = re.findall(r"│ +(\S+) +│ +(.+?) +│ +(\d+) +│ (█+)", text)
    assert [(task, name.split()[0], int(size)) for task, name, size, _ in rows] == [
        ("0", "0", 8), ("0", "1", 4), ("–", "2", 4)
    ]  # fmt: skip
    assert [len(bar) for *_, bar in rows] == [40, 20, 20]
    assert "2 (left over after the last full task)" in text and "1 class left out" in text


def test_a_graph_without_edges_has_no_homophily() -> None:
    assert "no edges\n" in re.sub(" +\n", "\n", described(Graph([], np.eye(8, 3), [0] * 4 + [1] * 4)))
    unknown = Graph([[0], [8]], np.eye(9, 3), [0] * 4 + [1] * 4 + [-1])
    assert "no edges between nodes whose classes are known" in described(unknown)


def test_names_are_shown_as_they_are() -> None:
    text = described(path_graph([0] * 4 + [1] * 4, class_names=["[bold]ape[/]", "bee\x1b[2J"]), name="file:[/x].npz")
    assert "file:[/x].npz: 8 nodes" in text and "[bold]ape[/]" in text
    assert "\x1b" not in text

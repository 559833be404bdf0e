"""A dataset for a terminal: sizes, and its classes as bars."""

from __future__ import annotations

import math
from pathlib import Path

from rich.bar import Bar
from rich.console import Group
from rich.table import Table

from delome.datasets.sources.published import Published
from delome.graph.statistics import GraphStatistics
from delome.printable import counted
from delome.reporting.terminal import literal
from delome.streams.task_stream import TaskStream

BAR_WIDTH = 40


def describe_dataset(
    name: str, found: GraphStatistics, stream: TaskStream, published: Published | None, data_root: Path | None
) -> Group:
    """Statistics in words, then one line a class with its task and a bar of its size."""
    kind = f"sparse, {100 * found.density:.2g} % non-zero" if found.sparse else "dense"
    direction = "undirected, both directions counted" if found.undirected else "directed"
    sizes = sorted(found.class_sizes.values())
    unknown = found.nodes - sum(sizes)
    lines = [
        f"[bold]{literal(name)}[/bold]: {found.nodes:,} nodes, {found.edges:,} edges ({direction}), "
        f"{found.features:,} features ({kind}), {len(sizes)} classes of {sizes[0]:,} to {sizes[-1]:,} nodes"
        + (f", {unknown:,} nodes of unknown class" if unknown else ""),
        _homophily(found),
        f"mean degree {found.edges / found.nodes:.1f}, {found.isolated:,} isolated nodes",
        f"stream: {counted(len(stream), 'task')} of {counted(stream.classes_per_task, 'class')}, "
        f"{counted(len(stream.dropped), 'class')} left out",
    ]
    if published is not None:
        lines += [
            "agrees with the published numbers of nodes, edges, features and classes",
            f"cached in {literal(published.folder(data_root))}: {', '.join(_cached(published, data_root))}",
        ]
    table = Table("task", "class", "nodes", "", title="Classes in the order they arrive")
    for task in stream:
        for column in task.classes:
            _add_class(
                table, str(task.index), stream.class_name(column), found.class_sizes[stream.classes[column]], sizes
            )
    for label, why in stream.dropped.items():
        _add_class(table, "–", f"{label} ({why})", found.class_sizes[label], sizes)
    return Group(*lines, table)


def _homophily(found: GraphStatistics) -> str:
    if not found.edges:
        return "no edges"
    if math.isnan(found.homophily):
        return "no edges between nodes whose classes are known"
    return f"edges within a class (homophily): {100 * found.homophily:.1f} %"


def _cached(published: Published, data_root: Path | None) -> list[str]:
    """Files and folders of a dataset with their megabytes."""
    parts = []
    for place in sorted(published.folder(data_root).iterdir()):
        files = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
        parts.append(f"{literal(place.name)} ({sum(file.stat().st_size for file in files) / 1e6:,.1f} MB)")
    return parts


def _add_class(table: Table, task: str, name: str, size: int, sizes: list[int]) -> None:
    table.add_row(task, literal(name), f"{size:,}", Bar(sizes[-1], 0, size, width=BAR_WIDTH))

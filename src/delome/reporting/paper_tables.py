"""Tables of an experiment: rows of one dataset that were measured in one way, so that all in a table compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delome.paper.measured import how_measured
from delome.reporting.names import short_names
from delome.reporting.paper_notes import Rows


def tables_of(found: Mapping[str, Any]) -> dict[str, Rows]:
    """The rows of a document by the titles of their tables: the dataset, and how they were measured if it has several
    tables."""
    names = short_names(row["dataset"] for row in found["rows"])
    tables: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in found["rows"]:
        tables.setdefault((row["dataset"], how_measured(row)), []).append(row)
    datasets = [dataset for dataset, _ in tables]
    return {
        names[dataset] + (_in_words(*how) if datasets.count(dataset) > 1 else ""): rows
        for (dataset, how), rows in tables.items()
    }


def _in_words(left_out: tuple[str, ...], settings: tuple[str, ...]) -> str:
    """
    >>> _in_words(("tasks after the first 5",), ("columns=8",)), _in_words((), ())
    (' (without tasks after the first 5; columns=8)', '')
    """
    parts = [*([f"without {', '.join(left_out)}"] if left_out else []), *settings]
    return f" ({'; '.join(parts)})" if parts else ""

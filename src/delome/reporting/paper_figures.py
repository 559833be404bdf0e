"""Figures of an experiment of the paper, from its document: bars, curves over budgets or imbalance, maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from delome.paper.experiment import drawn_as
from delome.reporting import charts
from delome.reporting.charts import Data, Drawn, Figure
from delome.reporting.looks import COLOURS, DASHES, SHAPES, Look, looks_of, looks_of_rows
from delome.reporting.paper import HEADINGS
from delome.reporting.paper_notes import Rows
from delome.reporting.paper_tables import tables_of

HOLLOW = "Hollow points mark reported values."
TICK = "Ticks mark reported values."


def series_of(found: Mapping[str, Any]) -> dict[str, Drawn]:
    """The rows of a document by label, in their order there, each with the look of its method."""
    labels = list(dict.fromkeys(row["label"] for row in found["rows"]))
    methods = [drawn_as(found["name"], label) for label in labels]
    rows = zip(labels, methods, looks_of_rows(methods, looks_of(methods)), strict=True)
    return {label: Drawn(label, method, look) for label, method, look in rows}


def paper_figures(found: Mapping[str, Any]) -> list[Figure]:
    """Figures of all tables of a document."""
    draw = {"curve": _curve, "map": _maps}.get(found["form"], _bars)
    tables = tables_of(found).items()
    return [figure for number, each in enumerate(tables, start=1) for figure in draw(found, *each, number)]


def _numbers(row: Mapping[str, Any], metric: str) -> dict[str, Any] | None:
    numbers = row["metrics"][metric]
    if (middle := numbers["measured"]) is None:
        return None
    std = numbers.get("std") or 0.0
    return {
        "mean": middle, "std": std, "low": middle - std, "high": middle + std, "reported": numbers.get("reported")
    }  # fmt: skip


def _bars(found: Mapping[str, Any], name: str, rows: Rows, number: int) -> Iterator[Figure]:
    series = series_of(found)
    for metric in rows[0]["metrics"]:
        data: Data = []
        for row in rows:
            if (numbers := _numbers(row, metric)) is not None:
                data.append({"label": row["label"], "method": series[row["label"]].method} | numbers)
        if not data:
            continue
        reported = any(row["reported"] is not None for row in data)
        heading = HEADINGS.get(metric, metric)
        unit = heading if metric not in ("aa", "af") else {"aa": "AA, %", "af": "AF, points"}[metric]
        spec = charts.bars(data, list(series.values()), x=unit, reported=reported)
        caption = _caption("Lines", rows, TICK if reported else "")
        title = f"{heading} on {name}"
        yield Figure(f"{found['name']}-{number}-{metric}", title, caption, spec)


def _caption(marks: str, rows: Sequence[Mapping[str, Any]], reported: str) -> str:
    """What is drawn beside means; of one seed there is no spread."""
    spread = any(numbers.get("std") is not None for row in rows for numbers in row["metrics"].values())
    return " ".join([*([f"{marks} are one standard deviation over seeds."] if spread else []), reported]).strip()


def _curve(found: Mapping[str, Any], name: str, rows: Rows, number: int) -> Iterator[Figure]:
    rows = [row for row in rows if row["x"] is not None]
    series = series_of(found)
    for metric in rows[0]["metrics"] if rows else ():
        data: Data = []
        for row in rows:
            if (numbers := _numbers(row, metric)) is not None:
                place = {"label": row["label"], "method": series[row["label"]].method, "x": row["x"]}
                data.append(place | numbers)
        if not data:
            continue
        reported = any(row["reported"] is not None for row in data)
        spec = charts.lines(
            data, list(series.values()), x=str(found["x"]), y=str(found["y"]), log=True, reported=reported
        )
        caption = _caption("Bands", rows, HOLLOW if reported else "")
        legend = list(series.values())
        yield Figure(f"{found['name']}-{number}-{metric}", name, caption, spec, "wide", legend=legend)


def _maps(found: Mapping[str, Any], name: str, rows: Rows, number: int) -> Iterator[Figure]:
    place = rows[0]["dataset"], rows[0]["settings"]
    points = [point for point in found.get("points", []) if (point["dataset"], point.get("settings", [])) == place]
    if not points:
        return
    groups = list(dict.fromkeys(str(point["group"]) for point in points))
    looks = {
        group: Look(COLOURS[k % len(COLOURS)], SHAPES[k % len(SHAPES)], DASHES[0]) for k, group in enumerate(groups)
    }
    limits = {axis: _limits([point[axis] for point in points]) for axis in ("x", "y")}
    panels = list(dict.fromkeys(point["panel"] for point in points))
    size = "half" if len(panels) == 4 else "cell"  # two above two, rather than three and one
    for order, panel in enumerate(panels):
        data = [{part: point[part] for part in ("x", "y", "group")} for point in points if point["panel"] == panel]
        spec = charts.scatter(data, looks, limits)
        legend = [Drawn(f"class {group}", group, look) for group, look in looks.items()]
        file, caption = f"{found['name']}-{number}-map-{order + 1}", f"{name}: {len(data)} points"
        memory = series_of(found).get(panel)
        method = "" if memory is None else memory.method
        yield Figure(file, panel, caption, spec, size, legend=legend, method=method)


def _limits(values: list[float]) -> tuple[float, float]:
    margin = 0.04 * (max(values) - min(values)) or 1.0
    return min(values) - margin, max(values) + margin

"""Figures as Vega-Lite specifications: data, and which column is which axis. Names from elsewhere are data only."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from delome.reporting.looks import Look

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
INK = "currentColor"
HIDDEN = "hidden"
"""The parameter of a figure that lists the methods which are switched off."""
MOST_NUMBERS = 12
"""Tasks of an accuracy matrix whose cells have room for numbers."""

Data = list[dict[str, Any]]
Spec = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure: its name in links and files, what stands above and below it, and its specification.

    ``size`` is ``wide``, ``half`` or ``cell``, the share of a page that it takes; ``limits`` are those of the colours
    of a heat map, its own and those of all it is compared with; the ``legend`` stands below it. A figure of one
    ``method`` disappears with it when it is switched off. A ``hint`` at what can be done with it is not printed.
    """

    name: str
    title: str
    caption: str
    spec: Spec
    size: str = "half"
    limits: tuple[float, float] | None = None
    shared_limits: tuple[float, float] | None = None
    legend: Sequence[Drawn] = ()
    method: str = ""
    hint: str = ""

    @property
    def has_lines(self) -> bool:
        """Whether series are drawn as lines, with markers or without."""
        return any("strokeDash" in layer["encoding"] for layer in self.spec["layer"])

    @property
    def file_name(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


@dataclass(frozen=True)
class Drawn:
    """A series by name: the method by which it is switched on and off, and its look."""

    label: str
    method: str
    look: Look


def config(ink: str = INK, font: str = FONT) -> Spec:
    """What all figures share; on a page the ink is that of the text around them, also in the dark and on paper."""
    axis = {f"{part}Color": ink for part in ("label", "title", "grid", "domain", "tick")}
    quiet = {"gridOpacity": 0.13, "domainOpacity": 0.35, "tickOpacity": 0.35}
    text = {"titleFontWeight": 500, "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 190}
    return {
        "font": font,
        "background": None,
        "view": {"stroke": None},
        "axis": axis | quiet | text,
        "text": {"color": ink, "fontSize": 12},
        "title": {"color": ink},
    }


def lines(data: Data, series: Sequence[Drawn], *, x: str, y: str, log: bool = False, reported: bool = False) -> Spec:
    """Means over seeds against a number, with a band from ``low`` to ``high``; what was ``reported`` is hollow.

    Rows that are ``level`` are thin lines to compare with, without points.
    """
    places = sorted({row["x"] for row in data})
    ticks = {"values": places} if log and len(places) <= 10 else {"tickMinStep": 1, "tickCount": 8}
    across = {
        "field": "x",
        "type": "quantitative",
        "title": x,
        "scale": {"type": "log", "nice": False, "padding": 16}
        if log
        else {"zero": False, "nice": False, "padding": 12},
        "axis": {"grid": False, "format": ".3~s" if places[-1] >= 1000 else ".3~g", **ticks},
    }
    up = _measure("mean", y)
    words = [_told("label", "series"), _told("x", x, ".4~g"), _told("mean", y, ".2f")]
    looks = _scales(series, "colour", "shape", "dash")
    own = [{"filter": "!datum.level"}]
    layers: Data = [
        {
            "transform": own,
            "mark": {"type": "area", "opacity": 0.16},
            "encoding": {"y": _measure("low", y), "y2": {"field": "high"}, "color": looks["colour"]},
        },
        {
            "transform": own,
            "mark": {"type": "line", "strokeWidth": 2.25},
            "encoding": {"y": up, "color": looks["colour"], "strokeDash": looks["dash"]},
        },
        {
            "transform": own,
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
            "encoding": {"y": up, "color": looks["colour"], "shape": looks["shape"], "tooltip": words},
        },
    ]
    if any(row.get("level") for row in data):
        layers.insert(
            0,
            {
                "transform": [{"filter": "datum.level"}],
                "mark": {"type": "line", "strokeWidth": 1.25, "opacity": 0.55},
                "encoding": {"y": up, "color": looks["colour"], "strokeDash": looks["dash"], "tooltip": words},
            },
        )
    if reported:
        layers.append(
            {
                "transform": [{"filter": "datum.reported != null"}],
                "mark": {"type": "point", "filled": False, "size": 90, "strokeWidth": 2},
                "encoding": {"y": _measure("reported", y), "color": looks["colour"], "shape": looks["shape"]},
            }
        )
    return _spec(data, layers, {"x": across}, height=300)


def bars(data: Data, series: Sequence[Drawn], *, x: str, reported: bool = False) -> Spec:
    """A bar for each series with the standard deviation over seeds; a tick is what was reported."""
    looks = _scales(series, "colour")
    labels = [each.label for each in series]
    down = {
        "field": "label",
        "type": "nominal",
        "title": None,
        "sort": labels,
        "axis": {"ticks": False, "domain": False, "labelLimit": 280},
    }
    words = [_told("label", "series"), _told("mean", x, ".2f"), _told("std", "std over seeds", ".2f")]
    across = {"field": "mean", "type": "quantitative", "title": x, "axis": {"tickCount": 6}}
    layers: Data = [
        {
            "mark": {"type": "bar", "height": {"band": 0.62}, "cornerRadiusEnd": 3},
            "encoding": {"x": across, "color": looks["colour"], "tooltip": words},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 1.5, "color": INK},
            "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
        },
    ]
    if reported:
        layers.append(
            {
                "transform": [{"filter": "datum.reported != null"}],
                "mark": {"type": "tick", "thickness": 3, "color": INK, "size": 22},
                "encoding": {
                    "x": {"field": "reported", "type": "quantitative"},
                    "tooltip": [_told("label", "series"), _told("reported", "reported", ".1f")],
                },
            }
        )
    return _spec(data, layers, {"y": down}, height=28 * len(data) + 4)


def trade_off(data: Data, series: Sequence[Drawn], *, x: str, y: str, log: bool = True) -> Spec:
    """Points of cost and AA, which a legend names: names beside them would cover each other wherever methods are
    close, or the page is narrow. On a logarithmic axis zero has a place, too. Markers let through what they cover.

    AA is placed by the logarithm of its error 100 − AA: between 99.0 and 99.5 there is then as much room as between 80
    and 90, and methods that fail are in the figure without pressing together those that one decides between.
    """
    looks = _scales(series, "colour", "shape")
    across = {"field": "x", "type": "quantitative", "title": x, **_cost_axis([row["x"] for row in data], log)}
    placed: Data = [row | {"error": max(LEAST_ERROR, 100 - row["mean"])} for row in data]
    up = {
        "field": "error",
        "type": "quantitative",
        "title": y,
        "scale": {"type": "log", "reverse": True, "nice": False, "padding": 14},
        "axis": {
            "values": round_values([row["error"] for row in placed]),
            "labelExpr": "format(100 - datum.value, '.4~g')",
            "labelOverlap": True,
        },
    }
    words = [_told("label", "series"), _told("x", x, ",.4~g"), _told("mean", y, ".2f")]
    mark = {"type": "point", "filled": False, "size": 130, "strokeWidth": 2, "fillOpacity": 0.35}
    encoding = {
        "y": up, "color": looks["colour"], "fill": looks["colour"], "shape": looks["shape"], "tooltip": words
    }  # fmt: skip
    return _spec(placed, [{"mark": mark, "encoding": encoding}], {"x": across}, height=300)


LEAST_ERROR = 0.05
"""Percent, below which methods are not told apart: an error of 0 has no logarithm."""


def _cost_axis(values: Sequence[float], log: bool) -> Spec:
    """Scale and ticks of costs."""
    if not log:
        return {"scale": {"zero": False, "nice": False, "padding": 30}, "axis": {"tickCount": 6, "format": ".3~g"}}
    least = min((value for value in values if value > 0), default=1.0)
    with_zero = {"type": "symlog", "constant": least} if min(values) <= 0 else {"type": "log"}
    form = ".2~s" if max(values) >= 10_000 else ".2~g"
    ticks = {"values": round_values(values), "labelOverlap": True}
    return {
        "scale": {**with_zero, "nice": False, "padding": 30},
        "axis": {"labelExpr": f"format(datum.value, '{form}')", **ticks},
    }


ROUND = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))
"""Numbers between 1 and 10, the roundest first."""

MOST_TICKS = 6


def round_values(values: Sequence[float]) -> list[float]:
    """Round numbers for the ticks of a logarithmic axis: the roundest of which at least three are in the range, and no
    more than there is room for; of a range that is too narrow for them, equal steps.

    >>> round_values([0, 2_700, 5_400_000]), round_values([0.4, 4]), round_values([0.031, 0.19])
    ([0.0, 10000.0, 100000.0, 1000000.0], [0.5, 1.0, 2.0], [0.05, 0.07, 0.1, 0.15])
    >>> round_values([3.4, 5.9]), round_values([0, 53_900, 54_200])
    ([3.5, 4.0, 4.5, 5.0, 5.5], [0.0, 53900.0, 54000.0, 54100.0, 54200.0])
    """
    above = [value for value in values if value > 0]
    if not above:
        return [0.0]
    low, high = min(above), max(above)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps in ROUND:
        found = [each for power in powers for step in steps if low <= (each := float(f"{step}e{power}")) <= high]
        if len(found) >= 3:
            break
    else:
        found = _equal_steps(low, high)
    found = found[:: math.ceil(len(found) / MOST_TICKS)] if found else [low]
    return [*([0.0] if min(values) <= 0 else []), *found]


def _equal_steps(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten in a range, as many as there is room for; none of a single number."""
    if high <= low:
        return []
    power = math.floor(math.log10(high - low))
    for step in (float(f"{digit}e{exponent}") for exponent in (power - 1, power) for digit in (1, 2, 5)):
        first, last = math.ceil(low / step), math.floor(high / step)
        if last - first < MOST_TICKS:
            break
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def heat_map(matrix: Sequence[Sequence[float]], limits: tuple[float, float]) -> Spec:
    """An accuracy matrix; of a short stream every cell says its number, also where all colours are nearly the same."""
    data: Data = [{"after": t, "on": j, "value": value} for t, row in enumerate(matrix) for j, value in enumerate(row)]
    values = [row["value"] for row in data]
    digits = 1 if len(matrix) <= 8 or max(values) - min(values) < 10 else 0
    marks = {"labelAngle": 0, "ticks": False, "domain": False, "labelOverlap": True}
    across = {"field": "on", "type": "ordinal", "title": "evaluated on task", "axis": marks}
    down = {"field": "after", "type": "ordinal", "title": "after learning task", "axis": marks}
    words = [_told("after", "after task"), _told("on", "on task"), _told("value", "accuracy, %", ".2f")]
    scale = {"scheme": "viridis", "domainMin": {"expr": "low"}, "domainMax": {"expr": "high"}, "clamp": True}
    layers: Data = [
        {
            "mark": {"type": "rect", "cornerRadius": 2},
            "encoding": {
                "color": {"field": "value", "type": "quantitative", "scale": scale, "legend": None},
                "tooltip": words,
            },
        }
    ]
    if len(matrix) <= MOST_NUMBERS:
        dark = {"test": "(datum.value - low) / max(high - low, 0.001) < 0.6", "value": "white"}
        layers.append(
            {
                "mark": {"type": "text", "fontSize": 11 if len(matrix) <= 8 else 9},
                "encoding": {
                    "text": {"field": "value", "type": "quantitative", "format": f".{digits}f"},
                    "color": {"condition": dark, "value": "black"},
                },
            }
        )
    found = _spec(data, layers, {"x": across, "y": down}, height=250)
    found["params"] = [{"name": "low", "value": limits[0]}, {"name": "high", "value": limits[1]}]
    del found["transform"]
    return found


def scatter(data: Data, looks: Mapping[str, Look], limits: Mapping[str, tuple[float, float]]) -> Spec:
    """Points of a map in the plane, by class; all maps of a figure have the same limits."""
    series = [Drawn(label, label, look) for label, look in looks.items()]
    found = _scales(series, "colour", "shape", field="group")
    axes = {
        axis: {
            "field": axis, "type": "quantitative", "axis": None,
            "scale": {"domain": list(limits[axis]), "nice": False, "zero": False},
        }
        for axis in ("x", "y")
    }  # fmt: skip
    mark = {"type": "point", "filled": True, "size": 34, "opacity": 0.75}
    encoding = axes | {"color": found["colour"], "shape": found["shape"], "tooltip": [_told("group", "class")]}
    spec = _spec(data, [{"mark": mark, "encoding": encoding}], {}, height=250)
    del spec["transform"]
    return spec


def _spec(data: Data, layers: Data, shared: Spec, height: Any) -> Spec:
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": height,
        "data": {"values": data},
        "params": [{"name": HIDDEN, "value": []}],
        "transform": [{"filter": f"indexof({HIDDEN}, datum.method) < 0"}],
        "encoding": shared,
        "layer": layers,
    }


def _scales(series: Sequence[Drawn], *parts: str, field: str = "label") -> dict[str, Spec]:
    """Colour, marker and dashes of each series, by its label."""
    domain = [each.label for each in series]
    ranges: dict[str, list[Any]] = {
        "colour": [each.look.colour for each in series],
        "shape": [each.look.shape for each in series],
        "dash": [list(each.look.dash) for each in series],
    }
    return {
        part: {
            "field": field,
            "type": "nominal",
            "scale": {"domain": domain, "range": ranges[part]},
            "legend": None,
        }
        for part in parts
    }


def _measure(field: str, title: str) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False, "nice": False, "padding": 8},
    }


def _told(field: str, title: str, number: str = "") -> Spec:
    kind = "quantitative" if number else "nominal"
    return {"field": field, "type": kind, "title": title, **({"format": number} if number else {})}

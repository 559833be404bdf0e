"""A figure as a file of its own, for a paper: on white, with its legend, in a font of the same width everywhere."""

from __future__ import annotations

from typing import Any

from delome.reporting.charts import INK, SCHEMA, Data, Figure, Spec, config

BLACK = "#222222"
FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"
"""Three fonts with the same widths, the first of which vl-convert measures text with: nothing is cut or covered."""
WIDTH = 420
LETTER, LINE = 6.5, 18
"""Pixels of a letter, and of a line of the legend."""
SAMPLE = 26
"""Pixels of what stands before a name in the legend."""


def exported(figure: Figure) -> Spec:
    """The specification of a file."""
    chart = _inked({name: part for name, part in figure.spec.items() if name not in ("$schema", "params")})
    return {
        "$schema": SCHEMA,
        "title": figure.title,
        "config": config(BLACK, FONT) | {"background": "white"},
        "padding": 8,
        "params": figure.spec["params"],
        "vconcat": [chart | {"width": WIDTH}, *([_legend(figure)] if figure.legend else [])],
    }


def _inked(part: Any) -> Any:
    """A part of a figure, drawn in black where it had the ink of a page."""
    if isinstance(part, dict):
        return {name: _inked(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_inked(each) for each in part]
    return BLACK if part == INK else part


def _legend(figure: Figure) -> Spec:
    """Names beside samples of what is drawn: lines with their markers, or markers alone."""
    widest = SAMPLE + 16 + LETTER * max(len(each.label) for each in figure.legend)
    columns = max(1, int(WIDTH // widest))
    data: Data = []
    for number, each in enumerate(figure.legend):
        start = number % columns * WIDTH / columns
        place = {"x": start, "middle": start + SAMPLE / 2, "end": start + SAMPLE, "y": number // columns}
        look = {"colour": each.look.colour, "shape": each.look.shape, "dash": list(each.look.dash)}
        data.append({"label": each.label} | place | look)
    colour = {"field": "colour", "type": "nominal", "scale": None}
    dash = {"field": "dash", "type": "nominal", "scale": None}
    shape = {"field": "shape", "type": "nominal", "scale": None}
    layers: Data = [
        {
            "mark": {"type": "rule", "strokeWidth": 2.25},
            "encoding": {"x": _across("x"), "x2": {"field": "end"}, "color": colour, "strokeDash": dash},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
            "encoding": {"x": _across("middle"), "color": colour, "shape": shape},
        },
        {
            "mark": {"type": "text", "align": "left", "baseline": "middle", "dx": 6, "color": BLACK},
            "encoding": {"x": _across("end"), "text": {"field": "label", "type": "nominal"}},
        },
    ]
    lines = data[-1]["y"] + 1
    down = {"field": "y", "type": "quantitative", "axis": None, "scale": {"domain": [lines - 0.5, -0.5]}}
    return {
        "width": WIDTH,
        "height": LINE * lines,
        "data": {"values": data},
        "encoding": {"y": down},
        "layer": layers if figure.has_lines else layers[1:],
    }


def _across(field: str) -> Spec:
    return {"field": field, "type": "quantitative", "axis": None, "scale": {"domain": [0, WIDTH], "nice": False}}

from __future__ import annotations

from typing import Any

import pytest

from delome.learning import METHODS
from delome.paper.experiment import NAMES, drawn_as, load_experiment
from delome.reporting.looks import look_of
from delome.reporting.paper_figures import paper_figures, series_of
from delome.reporting.sheets import paper_sheets


def numbers(measured: float | None, reported: float | None = None, within: bool | None = None) -> dict[str, Any]:
    difference = None if reported is None or measured is None else measured - reported
    spread = {"std": 0.5, "reported_std": 1.0, "seeds": 3}
    return {"measured": measured, "reported": reported, "difference": difference, "within": within} | spread


def row(label: str, aa: dict[str, Any], **changes: Any) -> dict[str, Any]:
    how: dict[str, Any] = {"notes": [], "settings": [], "left_out": [], "command": ""}
    return {"label": label, "dataset": "arxiv", "x": None, "metrics": {"aa": aa}, "runs": []} | how | changes


def document(rows: list[dict[str, Any]], form: str = "table", **changes: Any) -> dict[str, Any]:
    return {"name": "cil", "title": "T", "form": form, "x": "rows per class", "y": "AA, %", "rows": rows} | changes


def texts(found: dict[str, Any]) -> list[list[str]]:
    (sheet,) = paper_sheets(found)
    return [sheet.heads, *([cell.text for cell in line] for line in sheet.rows)]


def test_reported_and_measured_stand_side_by_side_with_their_difference() -> None:
    rows = [row("DeLoMe", numbers(50.0, 50.6, True), notes=["a", "b"]), row("Joint", numbers(49.0, 51.3, False))]
    found = document([*rows, row("analytic", numbers(52.0)), row("EWC", numbers(None, 8.5))])
    assert texts(found) == [
        ["method", "AA reported", "AA measured", "difference"],
        ["DeLoMe", "50.6 ± 1.0", "50.0 ± 0.5", "−0.6"],
        ["Joint", "51.3 ± 1.0", "49.0 ± 0.5", "−2.3"],
        ["analytic", "", "52.0 ± 0.5", ""],
        ["EWC", "8.5 ± 1.0", "", ""],
    ]
    (sheet,) = paper_sheets(found)
    assert sheet.rows[0][0].notes == [1, 2] and sheet.rows[1][0].notes == []
    assert [line[3].within for line in sheet.rows] == [True, False, None, None]


def test_nothing_reported_is_a_narrower_table_and_seconds_keep_their_digits() -> None:
    found = document([row("CaT", {}, metrics={"memory_seconds": numbers(0.00123)}, selection="honest: x 1")])
    assert texts(found) == [["method", "memory, s"], ["CaT", "0.00123 ± 0.5"]]
    (sheet,) = paper_sheets(found)
    assert sheet.notes == ["Seeds: 3; the paper has 5.", "Selected on validation nodes, honest: CaT x 1."]


def test_rows_look_like_their_methods_in_other_figures() -> None:
    series = series_of(
        document([row(label, numbers(1.0)) for label in ("DeLoMe", "DeLoMe (our defaults)", "odd × row")])
    )
    assert [each.method for each in series.values()] == ["delome", "delome", "odd × row"]
    assert series["DeLoMe"].look == look_of("delome") and series["DeLoMe (our defaults)"].look.colour == "#d55e00"
    assert len({each.look for each in series.values()}) == 3


@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_every_experiment_has_the_look_and_the_switch_of_a_method(name: str) -> None:
    labels = [each.label for each in load_experiment(name).rows]
    series = series_of(document([row(label, numbers(1.0)) for label in labels], name=name))
    assert all(each.method in METHODS for each in series.values())
    assert all(each.look.colour == look_of(each.method).colour for each in series.values())
    assert len({(each.look.colour, each.look.shape) for each in series.values()}) == len(labels)


def test_rows_that_are_a_method_with_settings_are_drawn_as_it() -> None:
    assert [drawn_as("ablation", label) for label in ("lossless × debiased", "sampled × plain")] == ["delome", "replay"]
    memories = ("ERGNN", "DeLoMe", "random propagated rows")
    assert [drawn_as("expressiveness", label) for label in memories] == ["ergnn", "delome", "replay"]


def test_a_table_is_drawn_as_bars_with_what_was_reported() -> None:
    (figure,) = paper_figures(document([row("DeLoMe", numbers(50.0, 50.6)), row("EWC", numbers(None, 8.5))]))
    assert figure.spec["data"]["values"] == [
        {"label": "DeLoMe", "method": "delome", "mean": 50.0, "std": 0.5, "low": 49.5, "high": 50.5, "reported": 50.6}
    ]
    assert figure.spec["layer"][-1]["mark"]["type"] == "tick" and "Ticks mark reported values" in figure.caption
    (figure,) = paper_figures(document([row("DeLoMe", numbers(50.0))]))
    assert figure.spec["layer"][-1]["mark"]["type"] == "rule"


def test_a_curve_has_its_places_on_the_axis_and_each_dataset_a_figure() -> None:
    rows = [row("CaT", numbers(70.0 + x), x=x, dataset=name) for name in ("arxiv", "digits") for x in (5, 60)]
    first, second = paper_figures(document(rows, "curve"))
    assert (first.title, second.title) == ("arxiv", "digits")
    assert [(value["x"], value["mean"]) for value in first.spec["data"]["values"]] == [(5, 75.0), (60, 130.0)]
    assert first.spec["encoding"]["x"]["axis"]["values"] == [5, 60]
    assert first.spec["encoding"]["x"]["title"] == "rows per class"


def test_a_map_has_a_panel_for_each_memory_with_the_same_limits() -> None:
    points = [
        {"dataset": "digits", "panel": panel, "x": x, "y": -x, "group": group}
        for panel, x in (("nodes", 10.0), ("DeLoMe", 0.0))
        for group in ("ape", "bee")
    ]
    rows = [row("DeLoMe", {}, dataset="digits", metrics={"same_class": numbers(99.0)})]
    nodes, memory = paper_figures(document(rows, "map", points=points))
    assert (nodes.title, nodes.caption, memory.title) == ("nodes", "digits: 2 points", "DeLoMe")
    assert (nodes.method, memory.method) == ("", "delome")
    for figure in (nodes, memory):
        encoding = figure.spec["layer"][0]["encoding"]
        assert encoding["x"]["scale"]["domain"] == [-0.4, 10.4] and encoding["y"]["scale"]["domain"] == [-10.4, 0.4]
        assert encoding["color"]["scale"]["domain"] == ["ape", "bee"]


def test_four_maps_are_two_above_two() -> None:
    def sizes(panels: int) -> set[str]:
        points = [{"dataset": "digits", "panel": str(k), "x": k, "y": k, "group": "a"} for k in range(panels)]
        rows = [row("DeLoMe", {}, dataset="digits", metrics={"same_class": numbers(99.0)})]
        return {figure.size for figure in paper_figures(document(rows, "map", points=points))}

    assert (sizes(4), sizes(3)) == ({"half"}, {"cell"})


def test_only_figures_with_lines_have_lines_in_their_legends() -> None:
    points = [{"dataset": "digits", "panel": "nodes", "x": 0, "y": 0, "group": "a"}]
    rows = [row("DeLoMe", {}, dataset="digits", metrics={"same_class": numbers(99.0)})]
    (scatter,) = paper_figures(document(rows, "map", points=points))
    assert not scatter.has_lines

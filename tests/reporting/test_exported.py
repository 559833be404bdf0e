from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from delome.experiment.collection import Record
from delome.reporting.charts import Figure
from delome.reporting.exported import SAMPLE, WIDTH, exported
from delome.reporting.run_figures import run_figures
from delome.reporting.series import groups_of

Make = Callable[..., Record]


def figures(records: list[Record]) -> dict[str, Figure]:
    (group,) = groups_of(records)
    return {figure.name.removeprefix("1-digits-cil-"): figure for figure in run_figures(group)}


def legend(figure: Figure) -> dict[str, Any]:
    _, found = exported(figure)["vconcat"]
    return found


def test_a_legend_shows_lines_as_they_are_drawn(record: Make) -> None:
    found = legend(figures([record(), record("ewc")])["curve"])
    assert [layer["mark"]["type"] for layer in found["layer"]] == ["rule", "point", "text"]
    assert [(row["label"], row["colour"], row["shape"], row["dash"]) for row in found["data"]["values"]] == [
        ("ewc", "#56b4e9", "triangle-up", [6, 3]),
        ("delome", "#d55e00", "triangle-down", [1, 0]),
    ]


def test_a_legend_of_points_has_no_lines(record: Make) -> None:
    found = legend(figures([record(), record("ewc")])["seconds"])
    assert [layer["mark"]["type"] for layer in found["layer"]] == ["point", "text"]


def test_what_has_its_names_on_an_axis_or_in_its_title_needs_no_legend(record: Make) -> None:
    found = figures([record(), record("ewc")])
    assert all(len(exported(found[name])["vconcat"]) == 1 for name in ("forgetting", "matrix-1-ewc"))


@pytest.mark.parametrize("tau", [1, 10**30], ids=["short", "long"])
def test_entries_of_a_legend_stand_beside_each_other_only_if_they_fit(record: Make, tau: int) -> None:
    rows = legend(figures([record(config={"loss.tau": tau * k}) for k in range(1, 6)])["curve"])["data"]["values"]
    places = [(row["x"], row["y"]) for row in rows]
    assert len({*places}) == 5 and (len({x for x, _ in places}) == 1) == (tau > 1)
    for (x, y), row in zip(places, rows, strict=True):
        neighbours = [other - x for other, line in places if line == y and other > x]
        assert min([*neighbours, WIDTH]) > SAMPLE + 6 * len(row["label"]) or tau > 1


def test_fonts_have_the_same_width_everywhere_and_ink_is_black(record: Make) -> None:
    for figure in figures([record(), record("ewc")]).values():
        text = json.dumps(exported(figure))
        assert "currentColor" not in text and "system-ui" not in text
        assert re.search(r"\"font\": \"'Liberation Sans', Arial, Helvetica", text)

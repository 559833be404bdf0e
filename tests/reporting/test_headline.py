from __future__ import annotations

from typing import Any

from delome.reporting.headline import headline_sheet


def row(label: str, aa: float | None, reported: float | None = None, **changes: Any) -> dict[str, Any]:
    numbers = {"measured": aa, "std": 0.5, "seeds": 3, "reported": reported, "reported_std": 1.0}
    how: dict[str, Any] = {"notes": [], "settings": [], "left_out": [], "command": ""}
    return {"label": label, "dataset": "corafull", "x": None, "metrics": {"aa": numbers}} | how | changes


def document(*rows: dict[str, Any], name: str = "cil", form: str = "table") -> dict[str, Any]:
    return {"name": name, "title": "T", "form": form, "x": None, "rows": list(rows)}


def texts(*documents: dict[str, Any]) -> list[list[str]]:
    sheet = headline_sheet(documents)
    return [] if sheet is None else [sheet.heads, *([cell.text for cell in row] for row in sheet.rows)]


def test_delome_stands_beside_the_best_that_does_not_keep_every_graph() -> None:
    rows = [row("Joint", 95.0), row("GEM", 94.0), row("CaT", 90.04), row("ERGNN", 90.0), row("DeLoMe", 91.0, 81.0)]
    assert texts(document(*rows, row("DeLoMe (our defaults)", 92.0))) == [
        ["experiment", "on", "AA of DeLoMe", "reported", "best other", "its AA", "of Joint"],
        ["cil", "corafull", "91.0 ± 0.5", "81.0 ± 1.0", "CaT and 1 other", "90.0 ± 0.5", "95.0 ± 0.5"],
    ]


def test_every_dataset_and_way_of_measuring_has_a_row_and_empty_columns_are_left_out() -> None:
    digits = [row(label, 99.0, dataset="digits", settings=own) for label in ("CaT", "DeLoMe") for own in ([], ["a=1"])]
    heads, *rows = texts(document(*digits))
    assert heads == ["experiment", "on", "AA of DeLoMe", "best other", "its AA"]
    assert [line[1] for line in rows] == ["digits", "digits (a=1)"]


def test_without_a_comparison_there_is_no_headline() -> None:
    assert texts(document(row("DeLoMe", 91.0))) == texts(document(row("CaT", 91.0), row("DeLoMe", None))) == []
    assert texts(document(row("CaT", 90.0), row("DeLoMe", 91.0), form="curve")) == []

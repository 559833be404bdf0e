from __future__ import annotations

from collections.abc import Callable
from typing import Any

from delome.experiment.collection import Record
from delome.reporting.series import groups_of
from delome.reporting.sheets import curve_sheet, group_sheet, selection_sheet

Make = Callable[..., Record]
OTHER = [[100.0], [60.0, 90.0], [40.0, 85.0, 85.0]]


def test_the_table_has_means_and_spreads_in_the_order_of_methods_and_marks_the_best(record: Make) -> None:
    one = record("finetune", metrics={"aa": 20.0, "bytes": 0.0, "seconds": 0.5})
    (group,) = groups_of([record(seed=0), record(seed=1, rows=OTHER), one])
    sheet = group_sheet(group)
    assert sheet.heads == ["method", "seeds", "AA", "AF", "when learned", "anytime", "seconds", "kept"]
    first, second = sheet.rows
    assert [cell.text for cell in second][:4] == ["delome", "2", "71.67 ± 2.36", "−25.00 ± 10.61"]
    assert [cell.text for cell in first][-2:] == ["0.5", "0 B"]
    assert not any(cell.best for cell in first)  # what learns little is not praised for being quick
    assert [cell.best for cell in second] == [False, False, True, True, True, True, True, True]
    assert second[2].value is not None and round(second[2].value, 3) == 71.667
    assert "rows have 1 to 2 seeds" in sheet.notes


def test_marked_methods_are_named_with_their_marks_and_not_the_best_if_asked_together(record: Make) -> None:
    together, learned = {"asked": "together"}, {"learned_from": "all nodes"}
    records = [record("tpp", metrics={"aa": 99.0}, config=together), record(metrics={"aa": 90.0})]
    (group,) = groups_of([*records, record("puma", metrics={"aa": 95.0}, config=learned)])
    rows = [(line[0].text, line[2].best) for line in group_sheet(group).rows]
    assert rows == [("delome", False), ("tpp †", False), ("puma ‡", True)]
    assert any(note.startswith("† tpp:") for note in group_sheet(group).notes)


def test_what_is_bold_is_what_the_headlines_say(record: Make) -> None:
    joint = record("joint", metrics={"aa": 99.0, "af": 5.0, "seconds": 0.1, "bytes": 1.0})
    near = record("cat", metrics={"aa": 72.0, "af": -1.0, "seconds": 1.0, "bytes": 0.0})
    (group,) = groups_of([joint, near, record()])
    sheet = group_sheet(group)
    bold = {head: [row[0].text for row in sheet.rows if row[k].best] for k, head in enumerate(sheet.heads)}
    assert {name: bold[name] for name in ("AA", "AF", "seconds", "kept")} == {
        "AA": ["delome"], "AF": ["cat"], "seconds": ["cat"], "kept": ["delome"]
    }  # fmt: skip
    assert not any(cell.best for row in group_sheet(groups_of([record()])[0]).rows for cell in row)


def test_forward_transfer_has_a_column_where_there_is_some(record: Make) -> None:
    (group,) = groups_of([record(metrics={"forward": 12.5})])
    sheet = group_sheet(group)
    assert sheet.rows[0][sheet.heads.index("forward transfer")].text == "12.50"


def test_how_parameters_were_selected_is_the_last_column(record: Make) -> None:
    (group,) = groups_of([record(selection="honest: tau 1"), record("finetune")])
    sheet = group_sheet(group)
    assert sheet.heads[-1] == "selection" and [line[-1].text for line in sheet.rows] == ["–", "honest: tau 1"]


def test_a_method_of_your_own_is_shown_without_its_module(record: Make) -> None:
    (group,) = groups_of([record("my.module:Mine")])
    assert group_sheet(group).rows[0][0].text == "Mine"


def test_numbers_of_the_curve_are_there_unless_the_stream_is_long(record: Make) -> None:
    (group,) = groups_of([record(seed=0), record(seed=1, rows=OTHER)])
    sheet = curve_sheet(group)
    assert sheet is not None and sheet.heads == ["series", "0", "1", "2"]
    assert [cell.text for cell in sheet.rows[0]] == ["delome", "95.00", "75.00", "71.67"]
    (group,) = groups_of([record(tasks=51)])
    assert curve_sheet(group) is None


def test_a_selection_shows_candidates_scores_and_the_winner() -> None:
    tried: list[dict[str, Any]] = [
        {"chosen": {"strength": 1.0}, "validation_aa": [50.0, 60.0]},
        {"chosen": {"strength": 10.0}, "validation_aa": [70.0]},
        {"chosen": {"strength": 100.0}, "validation_aa": []},
    ]
    run = {"method": "ewc", "dataset": "file:a/b.npz", "parameters": {"setting": "cil"}}
    found = {"protocol": "honest", "tasks": 3, "run": run, "candidates": tried, "winner": 1}
    assert selection_sheet(found, {"ewc": "EWC"}).title.startswith("EWC on b")
    sheet = selection_sheet(found, {})
    assert sheet.title == "ewc on b (CIL; honest, first 3 tasks)"
    assert [[cell.text for cell in line] for line in sheet.rows] == [
        ["strength 1", "55.00", ""], ["strength 10", "70.00", "chosen"], ["strength 100", "failed", ""]
    ]  # fmt: skip

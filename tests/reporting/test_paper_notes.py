from __future__ import annotations

from typing import Any

from delome.reporting.paper_notes import commands, conditions, footnotes, marks


def row(label: str, **changes: Any) -> dict[str, Any]:
    metrics = {"aa": {"measured": 50.0, "seeds": 5, "reported": None, "difference": None, "within": None}}
    how: dict[str, Any] = {"notes": [], "settings": [], "left_out": [], "command": "", "selection": ""}
    return {"label": label, "dataset": "digits", "x": None, "metrics": metrics} | how | changes


def seeds(number: int) -> dict[str, Any]:
    return {"aa": {"measured": 50.0, "seeds": number, "reported": None, "difference": None}}


def said(*rows: dict[str, Any], form: str = "table") -> list[str]:
    return conditions(rows, form)


def test_notes_are_numbered_as_they_appear_and_rows_name_them_in_order() -> None:
    rows = [row("A", notes=["all", "second", "first"]), row("B", notes=["third", "second", "all"])]
    of_all, notes = footnotes(rows)
    assert (of_all, notes) == (["all", "second"], ["first", "third"])
    rows.insert(0, row("C", notes=["third"]))
    of_all, notes = footnotes(rows)
    assert (of_all, notes) == ([], ["third", "all", "second", "first"])
    assert [marks(each, notes) for each in rows] == [[1], [2, 3, 4], [1, 2, 3]]


def test_unequal_numbers_of_seeds_are_named() -> None:
    assert said(row("A"), row("B")) == ["Seeds: 5."]
    three, one = row("A", metrics=seeds(3)), row("Fine-tune", metrics=seeds(1))
    assert said(three, row("B", metrics=seeds(3)), one) == ["Seeds: 3 (Fine-tune: 1); the paper has 5."]
    assert said(one) == ["Seeds: 1; the paper has 5."]
    assert said(one, form="map") == ["Seeds: 1."]


def test_of_a_curve_the_places_are_named_that_have_other_seeds() -> None:
    curve = [row("A", x=x, metrics=seeds(5 if x < 30 else 2)) for x in (5, 15, 60)]
    flat = [row("B", x=x, metrics=seeds(2)) for x in (5, 15)]
    assert said(*curve, row("C", x=5), *flat) == ["Seeds: 5 (A at 60, B: 2); the paper has 5."]


def test_protocol_and_values_of_a_selection_are_named() -> None:
    honest = [
        row(label, selection=f"honest (first 3 tasks): strength {value}") for label, value in (("A", 1), ("B", 2))
    ]
    first = "Selected on validation nodes, honest (first 3 tasks): A strength 1; B strength 2."
    assert said(*honest, row("Fine-tune")) == ["Seeds: 5.", first]
    unlike = "Rows differ in how their parameters were selected: compare them with care."
    assert said(*honest, row("C", selection="benchmark: tau 1")) == [
        "Seeds: 5.", first, "Selected on validation nodes, benchmark: C tau 1.", unlike
    ]  # fmt: skip
    assert said(*honest, row("D", defaults=True)) == ["Seeds: 5.", first, "Not selected, our defaults: D.", unlike]
    assert said(row("D", defaults=True)) == ["Seeds: 5.", "Not selected, our defaults: D."]


def test_settings_and_what_was_left_out_are_named() -> None:
    assert said(row("A", settings=["columns=8", "epochs=5"], left_out=["tasks after the first 5", "more"])) == [
        "Seeds: 5.",
        "Run with columns=8, epochs=5 where the method has these parameters.",
        "Left out: tasks after the first 5, more.",
    ]


def test_a_missing_difference_is_explained() -> None:
    numbers = {"measured": 50.0, "seeds": 5, "reported": 60.0, "difference": None, "within": None}
    why = "The paper's numbers are of all tasks: no difference is given."
    assert said(row("A", metrics={"aa": numbers})) == ["Seeds: 5.", why]
    assert said(row("A", metrics={"aa": numbers}), row("B", metrics={"aa": numbers | {"difference": 1.0}})) == [
        "Seeds: 5."
    ]
    assert said(row("A", metrics={"aa": numbers | {"measured": None}})) == ["Seeds: 5."]


def test_every_command_that_measured_a_row_is_kept_once() -> None:
    assert commands([row("A", command="one"), row("B", command="two"), row("C", command="one"), row("D")]) == [
        "one",
        "two",
    ]


def test_a_note_on_nearly_all_rows_names_the_others_instead() -> None:
    rows = [row(label, notes=["drawn"]) for label in "ABCDEF"]
    assert footnotes([*rows, row("Joint")]) == (["All but Joint: drawn"], [])
    assert footnotes([*rows[:5], row("Joint")]) == ([], ["drawn"])  # few enough to be marked
    assert footnotes([*rows, *(row(f"other {k}") for k in range(6))]) == ([], ["drawn"])
    assert footnotes([*rows, row("A", dataset="cora")]) == ([], ["drawn"])  # a name does not tell them apart


def test_tasks_and_budgets_are_named_beside_those_of_the_paper() -> None:
    def how(dataset: str, *budgets: int | None, **changes: Any) -> list[str]:
        rows = [row(f"M{k}", dataset=dataset, tasks=7, budget=each, **changes) for k, each in enumerate(budgets)]
        return said(*rows)[1:]

    paper = "; the paper has 60 on CoraFull and 400 on its other graphs."
    assert how("digits", 20, None) == ["Tasks: 7.", f"Memory rows per class: 20{paper}"]
    assert how("corafull", 60) == ["Tasks: 7.", "Memory rows per class: 60."]
    assert how("arxiv", 60) == ["Tasks: 7.", "Memory rows per class: 60; the paper has 400."]
    assert how("digits", 5, 20) == ["Tasks: 7.", f"Memory rows per class: 5 (M0), 20 (M1){paper}"]
    assert how("digits", 5, 20, x=5.0) == how("digits", None) == ["Tasks: 7."]

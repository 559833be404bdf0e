from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from delome.commands.paper import paper
from delome.experiment.seed_folder import finished_result
from delome.paper.experiment import Cell, load_experiment
from delome.paper.measured import comma_separated, compared, described, measure, merged

SMALL = "synthetic:nodes=60,classes=4"


def cell_of(name: str, dataset: str, label: str) -> Cell:
    return next(cell for cell in load_experiment(name).asked([dataset]).cells() if cell.row.label == label)


def number_of(name: str, label: str, metric: str, *values: float, dataset: str = "corafull") -> dict[str, Any]:
    experiment = load_experiment(name)
    return compared(experiment, cell_of(name, dataset, label), metric, [{metric: value} for value in values])


def test_a_measurement_stands_beside_what_is_reported() -> None:
    assert number_of("cil", "Fine-tune", "aa", 3.0, 4.2) == {  # the paper: 3.5 ± 0.5
        "measured": pytest.approx(3.6),
        "std": pytest.approx(0.8485, abs=1e-4),
        "seeds": 2,
        "reported": 3.5,
        "reported_std": 0.5,
        "difference": pytest.approx(0.1),
        "within": True,
    }
    assert number_of("cil", "Fine-tune", "aa", 4.04)["within"] is True  # +0.5, as it is shown
    assert number_of("cil", "Fine-tune", "aa", 4.1)["within"] is False
    assert number_of("cil", "Fine-tune", "aa", 2.9)["within"] is False
    assert number_of("cil", "Fine-tune", "aa", 3.1)["std"] is None


def test_what_is_not_reported_has_no_difference() -> None:
    for found in (
        number_of("cil", "Joint", "af", -2.0),  # the paper has no forgetting of Joint
        number_of("cil", "DeLoMe (our defaults)", "aa", 80.0),
        number_of("cil", "DeLoMe", "aa", 80.0, dataset="digits"),
    ):
        assert found["measured"] is not None
        assert [found[name] for name in ("reported", "reported_std", "difference", "within")] == [None] * 4
    without_std = number_of("ablation", "lossless × plain", "aa", 70.0)  # 78.5 in the paper, without a spread
    assert without_std["difference"] == pytest.approx(-8.5) and without_std["within"] is None
    nothing = number_of("cil", "DeLoMe", "aa")
    assert (nothing["measured"], nothing["difference"], nothing["seeds"]) == (None, None, 0)


def test_seconds_are_those_of_a_tasks_memory_and_of_all_evaluations() -> None:
    result = {
        "tasks": [{"seconds": {"memory": 1.0, "train": 9.0}}, {"seconds": {"memory": 4.0}}],
        "seconds": {"evaluate": 3.5},
    }
    assert measure(result, "memory_seconds") == 2.5
    assert measure(result, "inference_seconds") == 3.5
    without = {"tasks": [{"seconds": {"train": 9.0}}], "seconds": {"evaluate": 1.0}}
    assert measure(without, "memory_seconds") == 0.0


def test_there_is_no_difference_between_the_first_tasks_and_all() -> None:
    experiment = load_experiment("cil").asked(["corafull"], ["joint"], quick=True)
    for lengths, given in (({"corafull": 35}, False), ({"corafull": 5}, True)):
        known = experiment.with_lengths(lengths)
        found = compared(known, known.cells()[0], "aa", [{"aa": 80.0}])
        assert found["reported"] is not None and (found["difference"] is not None) == given


def test_notes_touch_the_rows_they_name() -> None:
    experiment = load_experiment("cil")
    rows = [
        {
            "label": label,
            "dataset": dataset,
            "x": None,
            "metrics": {"aa": number_of("cil", label, "aa", 1.0, dataset=dataset)},
        }
        for label, dataset in (
            ("ERGNN", "arxiv"),
            ("SEM-curvature", "digits"),
            ("analytic", "digits"),
            ("DeLoMe", "arxiv"),
        )
    ]
    found = described(experiment, rows, "delome paper cil")
    texts = [row["notes"] for row in found["rows"]]
    assert [any("800 rows per class" in text for text in each) for each in texts] == [True, False, False, False]
    assert [any("balanced Forman" in text for text in each) for each in texts] == [False, True, False, False]
    assert [any("took this row from another paper" in text for text in each) for each in texts] == [
        True,
        False,
        False,
        False,
    ]
    assert [any("Arxiv is directed" in text for text in each) for each in texts] == [True, False, False, True]
    assert texts[2] == []
    assert all(row["command"] == "delome paper cil" for row in found["rows"])


def test_numbers_are_those_of_the_runs(tmp_path: Path) -> None:
    report = paper(
        "cil", tmp_path, datasets=[SMALL], methods=["finetune", "ewc"], seeds=2, assignments=["epochs=2"], jobs=1
    )
    (found,) = report.documents
    assert [(row["budget"], row["tasks"]) for row in found["rows"]] == [(None, 2)] * 2
    assert report.failed == {} and [row["label"] for row in found["rows"]] == ["Fine-tune", "EWC"]
    for row in found["rows"]:
        results = [finished_result(tmp_path / row["runs"][0], seed) for seed in (0, 1)]
        for metric in ("aa", "af"):
            values = [result[metric] for result in results if result is not None]
            assert row["metrics"][metric]["measured"] == pytest.approx(sum(values) / 2)
    assert all(row["settings"] == ["epochs=2"] and row["left_out"] == [] for row in found["rows"])
    assert (tmp_path / "paper/cil.csv").read_text() == comma_separated(found)
    lines = comma_separated(found).splitlines()
    assert len(lines) == 5 and lines[0] == (
        "dataset,row,x,metric,measured,std,seeds,reported,reported_std,difference,within,selection,settings,left_out,"
        "budget,tasks"
    )
    assert lines[1].startswith('"synthetic:nodes=60,classes=4",Fine-tune,,aa,')


def test_a_csv_has_differences_and_how_rows_were_measured() -> None:
    numbers = {"aa": number_of("cil", "Fine-tune", "aa", 4.0, 4.2)}
    row = {"label": "Fine-tune", "dataset": "corafull", "x": None, "metrics": numbers, "selection": "honest: a 1, b 2"}
    experiment = load_experiment("cil").asked(["corafull"], quick=True, assignments=["epochs=2", "columns=4"])
    (line,) = csv.DictReader(comma_separated(described(experiment, [row], "")).splitlines())
    assert float(line["difference"]) == pytest.approx(0.6) and (line["within"], line["seeds"]) == ("no", "2")
    assert (line["selection"], line["settings"]) == ("honest: a 1, b 2", "columns=4; epochs=2")
    assert line["left_out"] == "tasks after the first 5"


def document_of(*rows: tuple[str, str, list[str]], **changes: Any) -> dict[str, Any]:
    made = [
        {"dataset": dataset, "label": label, "x": None, "settings": settings, "left_out": []}
        for dataset, label, settings in rows
    ]
    return {"name": "cil", "rows": made} | changes


def places(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(row["dataset"], row["label"], ",".join(row["settings"])) for row in found["rows"]]


def test_rows_that_were_measured_otherwise_stay_with_their_own_settings() -> None:
    before = document_of(("digits", "EWC", ["epochs=5"]), ("cora", "Joint", []), ("cora", "EWC", []))
    found = document_of(("cora", "Joint", ["columns=8"]), ("dblp", "Joint", ["columns=8"]))
    assert places(merged(found, before)) == [
        ("digits", "EWC", "epochs=5"),
        ("cora", "Joint", ""),
        ("cora", "EWC", ""),
        ("cora", "Joint", "columns=8"),
        ("dblp", "Joint", "columns=8"),
    ]


def test_rows_that_were_measured_alike_are_joined_in_the_order_of_the_experiment() -> None:
    before = document_of(("digits", "EWC", []), ("digits", "Fine-tune", []), marker=1)
    found = document_of(("digits", "Joint", []), ("digits", "EWC", []), marker=2)
    together = merged(found, before)
    assert [row["label"] for row in together["rows"]] == ["Fine-tune", "Joint", "EWC"]
    assert together["rows"][2] is found["rows"][1] and together["marker"] == 2


def test_points_of_a_map_stay_with_their_rows() -> None:
    def point(dataset: str, panel: str, *settings: str) -> dict[str, Any]:
        return {"dataset": dataset, "panel": panel, "settings": list(settings)}

    before = document_of(("digits", "DeLoMe", []), ("cora", "DeLoMe", []))
    before["points"] = [point(name, "DeLoMe") | {"x": 1} for name in ("digits", "cora")]
    new = [point("cora", "DeLoMe") | {"x": 2}, point("cora", "DeLoMe", "columns=8")]
    found = document_of(("cora", "DeLoMe", []), ("cora", "DeLoMe", ["columns=8"])) | {"points": new}
    assert merged(found | {"name": "embeddings"}, before)["points"] == [before["points"][0], *new]


def test_imbalance_is_training_nodes_of_a_class_over_rows_of_its_memory(tmp_path: Path) -> None:
    options: dict[str, Any] = {"datasets": [SMALL], "methods": ["delome"], "seeds": 1, "assignments": ["epochs=1"]}
    report = paper(["budget-cil", "imbalance"], tmp_path, jobs=1, **options)
    budgets, imbalance = report.documents
    assert [row["x"] for row in budgets["rows"]] == [5, 10, 15, 30, 60]
    # 15 nodes of each class, of which 9 are for training
    assert [row["x"] for row in imbalance["rows"]] == [9 / budget for budget in (5, 10, 15, 30, 60)]
    assert [row["runs"] for row in imbalance["rows"]] == [row["runs"] for row in budgets["rows"]]

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delome.commands.paper import paper
from delome.experiment.seed_folder import finished_result
from delome.paper.experiment import Cell, load_experiment
from delome.paper.measured import comma_separated, compared, described, measure

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


def test_notes_are_numbered_and_touch_the_rows_they_name() -> None:
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
    texts = [[found["notes"][number - 1] for number in row["notes"]] for row in found["rows"]]
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
    assert len(found["notes"]) == len(set(found["notes"]))


def test_numbers_are_those_of_the_runs(tmp_path: Path) -> None:
    report = paper(
        "cil", tmp_path, datasets=[SMALL], methods=["finetune", "ewc"], seeds=2, assignments=["epochs=2"], jobs=1
    )
    (found,) = report.documents
    assert report.failed == {} and [row["label"] for row in found["rows"]] == ["Fine-tune", "EWC"]
    for row in found["rows"]:
        results = [finished_result(tmp_path / row["runs"][0], seed) for seed in (0, 1)]
        for metric in ("aa", "af"):
            values = [result[metric] for result in results if result is not None]
            assert row["metrics"][metric]["measured"] == pytest.approx(sum(values) / 2)
    assert found["notes"][-1] == "Methods that have it were run with epochs=2."
    assert (tmp_path / "paper/cil.csv").read_text() == comma_separated(found)
    lines = comma_separated(found).splitlines()
    assert lines[0].startswith("dataset,row,x,metric,measured") and len(lines) == 5
    assert lines[1].startswith('"synthetic:nodes=60,classes=4",Fine-tune,,aa,')


def test_imbalance_is_training_nodes_of_a_class_over_rows_of_its_memory(tmp_path: Path) -> None:
    options: dict[str, Any] = {"datasets": [SMALL], "methods": ["delome"], "seeds": 1, "assignments": ["epochs=1"]}
    report = paper(["budget-cil", "imbalance"], tmp_path, jobs=1, **options)
    budgets, imbalance = report.documents
    assert [row["x"] for row in budgets["rows"]] == [5, 10, 15, 30, 60]
    # 15 nodes of each class, of which 9 are for training
    assert [row["x"] for row in imbalance["rows"]] == [9 / budget for budget in (5, 10, 15, 30, 60)]
    assert [row["runs"] for row in imbalance["rows"]] == [row["runs"] for row in budgets["rows"]]

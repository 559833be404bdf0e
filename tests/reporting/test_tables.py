from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from delome.experiment import RunConfig, RunResult, SeedResult, TaskResult
from delome.learning.footprint import Footprint
from delome.reporting.tables import accuracy_table, phase_table, summary_lines

HAND_COMPUTED = [[90.0], [80.0, 70.0], [60.0, 65.0, 95.0]]


def printed(content: RenderableType) -> str:
    output = io.StringIO()
    Console(file=output, width=300, color_system=None).print(content)
    return output.getvalue()


def cells(text: str) -> list[list[str]]:
    """Cells of the body of a printed table."""
    return [[cell.strip() for cell in line.strip("│\n").split("│")] for line in text.splitlines() if line[:1] == "│"]


def seed_of(rows: list[list[float]], seed: int = 0) -> SeedResult:
    storage = Footprint(rows=1200, floats=76_800, bytes=326_400)
    tasks = [TaskResult(row, row, row, row, {}, storage) for row in rows]
    tasks[0].seconds = {"train": 1.25, "memory": 2.5}
    return SeedResult(seed, tasks)


def result_of(*matrices: list[list[float]], dropped: dict[int, str] | None = None, **options: Any) -> RunResult:
    config = RunConfig.resolve(seeds=len(matrices), **options)
    seeds = [seed_of(rows, seed) for seed, rows in enumerate(matrices)]
    graph = {"nodes": 1797, "edges": 20_000, "features": 64, "directions": "both", "weighted": False}
    stream = {"graph": graph, "split": {"kind": "random, 60/20/20 per class", "seed": 0}}
    return RunResult(config, seeds, dropped or {}, stream)


def plain(lines: list[str]) -> list[str]:
    return [Text.from_markup(line).plain for line in lines]


def test_the_table_shows_the_matrix_and_averages_after_each_task() -> None:
    text = printed(accuracy_table(result_of(HAND_COMPUTED)))
    assert cells(text) == [
        ["0", "90.0", "", "", "90.0", "–"],
        ["1", "80.0", "70.0", "", "75.0", "-10.0"],
        ["2", "60.0", "65.0", "95.0", "73.3", "-17.5"],
    ]
    assert "seed 0" in text


def test_the_table_of_several_seeds_shows_their_mean() -> None:
    text = printed(accuracy_table(result_of(HAND_COMPUTED, [[100.0], [60.0, 90.0], [40.0, 85.0, 85.0]])))
    assert cells(text) == [
        ["0", "95.0", "", "", "95.0", "–"],
        ["1", "70.0", "80.0", "", "75.0", "-25.0"],
        ["2", "50.0", "75.0", "90.0", "71.7", "-25.0"],
    ]
    assert "mean of 2 seeds" in text


def test_a_long_stream_shows_its_first_and_last_tasks_and_says_so() -> None:
    matrix = [[float(j) for j in range(t + 1)] for t in range(20)]
    text = printed(accuracy_table(result_of(matrix), width=80))
    rows = cells(text)
    assert "tasks 3 to 16 are in matrix.csv" in text
    assert rows[-1] == ["19", "0.0", "1.0", "2.0", "…", "17.0", "18.0", "19.0", "9.5", "+0.0"]
    assert rows[2] == ["2", "0.0", "1.0", "2.0", "", "", "", "", "1.0", "+0.0"]
    assert rows[3] == ["3", "0.0", "1.0", "2.0", "…", "", "", "", "1.5", "+0.0"]


@pytest.mark.parametrize("width", [50, 60, 80, 100, 120])
@pytest.mark.parametrize("tasks", [1, 5, 12, 13, 35])
def test_the_table_fits_the_terminal_with_every_number_whole(width: int, tasks: int) -> None:
    # everything is forgotten: the longest numbers there can be
    matrix = [[0.0] * t + [100.0] for t in range(tasks)]
    output = io.StringIO()
    Console(file=output, width=width, color_system=None).print(accuracy_table(result_of(matrix), width))
    lines = output.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    numbers = [cell for row in cells("\n".join(lines)) for cell in row if cell not in ("", "…", "–")]
    assert all(re.fullmatch(r"\d+|[+-]?\d+\.\d", number) for number in numbers)


@pytest.mark.parametrize("value", [0.0, 25.0, 49.99, 50.0, 75.0, 100.0])
def test_every_accuracy_has_a_colour(value: float) -> None:
    output = io.StringIO()
    console = Console(file=output, width=200, color_system="truecolor", force_terminal=True)
    console.print(accuracy_table(result_of([[value]])))
    assert "\x1b[38;2;" in output.getvalue()


def test_forgotten_tasks_are_redder_and_kept_tasks_greener() -> None:
    cells_of_column = accuracy_table(result_of([[100.0], [0.0, 100.0]])).columns[1]._cells
    styles = [cell.style for cell in cells_of_column]
    assert styles == ["rgb(0,200,0)", "rgb(255,0,0)"]


def test_seconds_are_shown_by_phase_and_in_total() -> None:
    text = printed(phase_table(result_of(HAND_COMPUTED, HAND_COMPUTED)))
    assert cells(text) == [["5.0", "2.5", "7.5"]]
    assert all(name in text for name in ("memory", "train", "total"))


def test_the_summary_says_average_accuracy_and_forgetting_with_their_spread() -> None:
    lines = plain(summary_lines(result_of(HAND_COMPUTED, [[100.0], [60.0, 90.0], [40.0, 85.0, 85.0]])))
    # AA 73.33 and 70; AF -17.5 and -32.5
    assert lines[0] == "AA 71.67 ± 2.36   AF -25.00 ± 10.61"
    # AA after each task: 90, 75, 73.33 and 100, 75, 70; on the diagonal: 90, 70, 95 and 100, 90, 85
    assert lines[1].endswith("anytime accuracy 80.56 ± 1.57   learning accuracy 88.33 ± 4.71")


def test_the_summary_of_one_task_has_no_forgetting() -> None:
    assert plain(summary_lines(result_of([[80.0]])))[0] == "AA 80.00   AF undefined for a single task"


def test_the_summary_names_everything_a_number_depends_on() -> None:
    lines = plain(summary_lines(result_of(HAND_COMPUTED, setting="til", classes_per_task=3, inter_task_edges=True)))
    assert lines[2] == "delome on digits, TIL, sgc backbone, budget 20, seeds [0]"
    assert lines[3] == "1,797 nodes, 20,000 edges (taken in both directions), 64 features"
    assert lines[4] == (
        "class-balanced accuracy on test nodes, after each task (transductive); split: random, 60/20/20 per class; "
        "3 classes per task, with inter-task edges"
    )
    assert lines[5] == "kept for old tasks: 1,200 rows, 76,800 values, 326,400 bytes"


def test_a_method_without_budget_says_so() -> None:
    assert "budget none" in plain(summary_lines(result_of(HAND_COMPUTED, method="finetune")))[2]


def test_classes_left_out_are_reported_and_long_lists_are_cut() -> None:
    few = plain(summary_lines(result_of(HAND_COMPUTED, dropped={7: "only 1 nodes"})))[-1]
    assert few == "1 class left out: 7 (only 1 nodes)"
    many = plain(summary_lines(result_of(HAND_COMPUTED, dropped=dict.fromkeys(range(9), "only 2 nodes"))))[-1]
    assert many == "9 classes left out: 0 (only 2 nodes), 1 (only 2 nodes), 2 (only 2 nodes)…"


@pytest.mark.parametrize("dataset", ["file:graphs[old]/g.npz", "file:graphs[/old]/g.npz"])
def test_brackets_in_a_path_are_shown_as_they_are(dataset: str) -> None:
    assert f"delome on {dataset}, " in printed("\n".join(summary_lines(result_of(HAND_COMPUTED, dataset=dataset))))

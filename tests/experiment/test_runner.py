from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest

from delome import FineTune, TaskStream, load_graph
from delome.errors import PersistenceError
from delome.experiment import RunConfig, RunFolder, RunResult, SeedResult, TaskResult, run
from delome.progress import Tracker

ISSUE_KEYS = {
    "dataset", "method", "setting", "backbone", "budget", "seeds", "aa", "aa_std", "af", "af_std", "matrices", "curve",
    "seconds", "memory", "protocol", "versions",
}  # fmt: skip


# few edges and much noise: on an easy graph every accuracy is 100 and nothing could be told apart
HARD = "synthetic:nodes=140,classes=7,noise=8,degree=1"


def small_config(**options: object) -> RunConfig:
    return RunConfig.resolve(HARD, "finetune", epochs=2, **options)


def seed_of(rows: list[list[float]], seed: int = 0) -> SeedResult:
    return SeedResult(seed, [TaskResult(row, row, row, row) for row in rows])


@pytest.fixture(scope="module")
def result() -> RunResult:
    config = small_config(seeds=3, seed=4)
    return run(config, config.stream())


def test_every_seed_is_evaluated_on_all_seen_tasks_after_every_task(result: RunResult) -> None:
    assert [seed.seed for seed in result.seeds] == [4, 5, 6]
    for seed in result.seeds:
        assert [len(row) for row in seed.matrix.rows] == [1, 2, 3]
        assert [len(row) for row in seed.micro.rows] == [1, 2, 3]


@pytest.mark.parametrize("inter_task_edges", [False, True])
def test_the_matrices_are_those_of_the_loop_a_person_writes(inter_task_edges: bool) -> None:
    config = small_config(inter_task_edges=inter_task_edges)
    found = run(config, config.stream()).seeds[0]
    stream, learner = config.stream(), FineTune(epochs=2)
    for measured, task in zip(found.tasks, stream, strict=True):
        learner.observe(task)
        assert measured.accuracies == learner.evaluate(stream.seen(task))
        assert measured.micro == [score.micro for score in learner.score(stream.seen(task))]
        on_validation_nodes = learner.score(stream.seen(task), "val")
        assert measured.validation == [score.balanced for score in on_validation_nodes]
        assert measured.validation_micro == [score.micro for score in on_validation_nodes]
    assert found.validation.rows != found.matrix.rows


def test_a_seed_gives_the_same_numbers_whatever_seeds_came_before_it(result: RunResult) -> None:
    config = small_config(seed=6)
    again = run(config, config.stream()).seeds[0]
    assert (again.matrix, again.micro) == (result.seeds[2].matrix, result.seeds[2].micro)


def test_labels_that_nothing_predicts_are_guessed_at_chance() -> None:
    graph = load_graph("synthetic", nodes=2000, classes=6)
    assert graph.labels is not None
    unrelated = graph.with_labels(np.random.default_rng(0).permutation(graph.labels))
    config = small_config(setting="til")
    aa, _ = run(config, TaskStream(unrelated)).aa
    # two classes a task and 400 test nodes: the standard error is 2.5
    assert aa == pytest.approx(50, abs=8)


def test_seeds_differ(result: RunResult) -> None:
    assert result.seeds[0].matrix != result.seeds[1].matrix


def test_average_and_spread_are_taken_over_seeds(result: RunResult) -> None:
    assert result.af is not None
    forgetting = [seed.matrix.af for seed in result.seeds if seed.matrix.af is not None]
    assert len(forgetting) == len(result.seeds)
    for (average, spread), values in (
        (result.aa, [seed.matrix.aa for seed in result.seeds]),
        (result.af, forgetting),
    ):
        assert average == pytest.approx(mean(values), abs=1e-9)
        assert spread == pytest.approx(stdev(values), abs=1e-9)
    assert result.curve == pytest.approx(
        [mean(values) for values in zip(*(seed.matrix.curve for seed in result.seeds), strict=True)], abs=1e-9
    )


def test_mean_spread_and_curve_of_hand_computed_matrices() -> None:
    matrices = [[[90.0], [80.0, 70.0]], [[70.0], [80.0, 90.0]]]
    result = RunResult(small_config(seeds=2), [seed_of(matrix, seed) for seed, matrix in enumerate(matrices)], {}, {})
    assert result.aa == pytest.approx((80, 50**0.5), abs=1e-9)
    assert result.af == pytest.approx((0, 200**0.5), abs=1e-9)
    assert result.curve == pytest.approx([80, 80], abs=1e-9)


def test_one_seed_has_no_spread() -> None:
    result = RunResult(small_config(), [seed_of([[90.0], [80.0, 70.0]])], {}, {})
    assert (result.aa, result.af) == ((75.0, 0.0), (-10.0, 0.0))


def test_the_document_of_one_seed_has_no_standard_deviations(result: RunResult) -> None:
    one, three = (replace(result, seeds=result.seeds[:number]).as_dict() for number in (1, 3))
    assert (one["aa_std"], one["af_std"]) == (None, None)
    assert three["aa_std"] == result.aa[1] and three["af_std"] is not None


def test_a_stream_of_one_task_has_no_forgetting() -> None:
    config = small_config(classes_per_task=7)
    document = run(config, config.stream()).as_dict()
    assert document["af"] is None and document["af_std"] is None
    assert len(document["curve"]) == 1


def test_the_document_has_the_promised_keys_and_is_json(result: RunResult) -> None:
    document = result.as_dict()
    assert document.keys() >= ISSUE_KEYS
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_document_says_the_protocol_beside_the_numbers(result: RunResult) -> None:
    document = result.as_dict()
    assert document["dataset"] == HARD
    assert (document["method"], document["setting"], document["backbone"]) == ("finetune", "cil", "sgc")
    assert document["budget"] is None
    assert document["seeds"] == [4, 5, 6]
    assert document["protocol"]["accuracy"] == "class-balanced"
    assert document["protocol"]["dropped_classes"] == {"6": "left over after the last full task"}
    assert document["matrices"] == [seed.matrix.rows for seed in result.seeds]


def test_seconds_of_all_phases_are_counted(result: RunResult) -> None:
    assert {"prepare", "train", "evaluate"} <= result.seconds.keys()
    assert all(seconds > 0 for seconds in result.seconds.values())
    assert result.seconds["train"] == pytest.approx(sum(seed.seconds["train"] for seed in result.seeds))


def test_a_replay_method_reports_what_it_keeps() -> None:
    config = RunConfig.resolve(
        "synthetic:nodes=80,classes=4",
        "delome",
        budget=3,
        epochs=2,
        assignments=["memory=gradient-matching", "networks=2", "hidden=8"],
    )
    memory = run(config, config.stream()).as_dict()["memory"]
    assert memory["rows"] == 3 * 4
    assert memory["floats"] == 3 * 4 * 32
    assert memory["bytes"] >= 4 * memory["floats"]


def test_each_task_gets_a_tracker_of_its_own() -> None:
    asked = []

    def make_tracker(seed: int, task: int, tasks: int) -> Tracker:
        asked.append((seed, task, tasks))
        return Tracker()

    config = small_config(seeds=2)
    run(config, config.stream(), make_tracker=make_tracker)
    assert asked == [(seed, task, 3) for seed in (0, 1) for task in (0, 1, 2)]


def test_the_folder_gets_the_matrix_and_the_result_of_every_seed(tmp_path: Path) -> None:
    config = small_config(seeds=2)
    stream = config.stream()
    result = run(config, stream, RunFolder.open(tmp_path, config, stream))
    for seed in result.seeds:
        with (tmp_path / f"seed-{seed.seed}" / "matrix.csv").open(newline="") as file:
            header, *rows = csv.reader(file)
        assert header == ["after_task", "task_0", "task_1", "task_2"]
        assert [row[0] for row in rows] == ["0", "1", "2"]
        for row, expected in zip(rows, seed.matrix.rows, strict=True):
            written = [cell for cell in row[1:] if cell]
            assert [float(cell) for cell in written] == pytest.approx(expected, abs=5e-5)
            assert len(row) == 4
        written = json.loads((tmp_path / f"seed-{seed.seed}" / "result.json").read_text())
        assert written["finished"] is True
        assert written["matrix"] == seed.matrix.rows
        assert [task["accuracies"] for task in written["tasks"]] == seed.matrix.rows
        assert written["memory"] == {"rows": 0, "floats": 0, "bytes": 0}


@pytest.mark.parametrize("successor", [False, True])
def test_a_run_whose_folder_is_moved_away_ends_and_writes_nothing_under_the_old_name(
    successor: bool, tmp_path: Path
) -> None:
    config = RunConfig.resolve("synthetic:nodes=60,classes=6", "finetune", epochs=2, assignments=["hidden=4"])
    stream, place, moved = config.stream(), tmp_path / "run", tmp_path / "moved"

    def move(seed: int, task: int, tasks: int) -> Tracker:
        if task == 1:
            place.rename(moved)
            if successor:
                RunFolder.open(place, config, stream).close()
        return Tracker()

    with RunFolder.open(place, config, stream) as folder:
        with pytest.raises(PersistenceError, match="was moved away or removed while it was written to"):
            run(config, stream, folder, move, checkpoint_every=0)
        folder.discard_if_empty()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["moved", *(["run"] if successor else [])]
    if successor:
        assert sorted(each.name for each in place.iterdir()) == ["config.json", "events.jsonl"]
    with RunFolder.open(moved, config, stream) as folder:
        assert len(run(config, stream, folder).seeds[0].tasks) == 3


@pytest.mark.parametrize("name", ["seed-0/progress", "seed-0/model", "seed-0"])
def test_a_link_in_a_run_folder_does_not_lead_to_files_elsewhere(name: str, tmp_path: Path) -> None:
    config = small_config()
    stream, place, other = config.stream(), tmp_path / "run", tmp_path / "other"
    FineTune().save(other)
    (other / ".writing-mine").write_text("precious")
    before = {file.name: file.read_bytes() for file in other.iterdir()}
    RunFolder.open(place, config, stream).close()
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).symlink_to(other, target_is_directory=True)
    with (
        pytest.raises(PersistenceError, match=rf"'.*{name}' is a link: replace it by the folder it leads to"),
        RunFolder.open(place, config, stream) as folder,
    ):
        run(config, stream, folder, checkpoint_every=0)
    assert {file.name: file.read_bytes() for file in other.iterdir()} == before

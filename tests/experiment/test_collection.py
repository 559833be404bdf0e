from __future__ import annotations

import time
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from delome import sweep
from delome.errors import ParameterError
from delome.experiment import RunConfig, RunFolder, run
from delome.experiment.collection import INDEX, collect
from delome.experiment.comparison import tabulate
from delome.experiment.folder import mark_as_asked
from delome.experiment.plan import Plan
from delome.experiment.seed_folder import RESULT_KIND, TASKS_KIND
from delome.experiment.selection import FOLDER as SELECTIONS
from delome.experiment.selection import KIND as SELECTION_KIND
from delome.experiment.selection import Selection
from delome.persistence.documents import append_document, read_document, write_document

SMALL = "synthetic:nodes=60,classes=4"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods with two seeds each."""
    out = tmp_path_factory.mktemp("runs")
    for method in ("finetune", "delome"):
        config = RunConfig.resolve(SMALL, method, epochs=2, seeds=2, budget=3)
        with RunFolder.open(out / config.slug, config, config.stream()) as folder:
            run(config, config.stream(), folder)
    return out


def test_there_is_a_record_for_each_seed_of_each_run(runs: Path) -> None:
    records = collect([runs])
    assert sorted((each.config["method"], each.seed) for each in records) == [
        (method, seed) for method in ("delome", "finetune") for seed in (0, 1)
    ]
    record = next(each for each in records if each.config["method"] == "delome")
    assert (record.config["memory.budget"], record.config["memory"], record.tasks) == (3, "kernel-matching", 2)
    found = read_document(Path(record.folder) / f"seed-{record.seed}" / "result.json", RESULT_KIND)
    for name in ("aa", "af", "learning", "anytime", "last", "micro_aa", "validation_aa"):
        assert record.metrics[name] == found[name]
    assert record.metrics["bytes"] == found["memory"]["bytes"]
    assert collect([Path(record.folder)]) == [each for each in records if each.folder == record.folder]
    with pytest.raises(ParameterError, match="is not a folder"):
        collect([runs / "absent"])


def test_the_index_notices_what_is_new_changed_gone_or_damaged(runs: Path, tmp_path: Path) -> None:
    import shutil

    out = tmp_path / "runs"
    shutil.copytree(runs, out)
    before = collect([out])
    assert (out / INDEX).exists() and collect([out]) == before
    file = Path(before[0].folder) / f"seed-{before[0].seed}" / "result.json"
    time.sleep(0.01)
    write_document(file, RESULT_KIND, read_document(file, RESULT_KIND) | {"aa": 12.5})
    assert collect([out])[0].metrics["aa"] == 12.5
    file.write_text("{}")
    assert len(collect([out])) == 3
    shutil.rmtree(file.parent)
    assert len(collect([out])) == 3
    (out / INDEX).write_text("[]")
    assert len(collect([out])) == 3


def test_curves_and_matrices_are_remembered_and_a_run_folder_gets_no_index(runs: Path) -> None:
    for _ in range(2):  # read, and then from the index
        for found in collect([runs]):
            (file,) = Path(found.folder).glob(f"seed-{found.seed}/result.json")
            written = read_document(file, RESULT_KIND)
            assert found.matrix is not None and len(found.matrix) == found.tasks == len(found.curve)
            for own, rows in zip(found.matrix, written["matrix"], strict=True):
                assert own == [round(value, 3) for value in rows]
            assert found.curve == pytest.approx(written["curve"], abs=1e-3)
    assert collect([Path(found.folder)]) and not (Path(found.folder) / INDEX).exists()


def test_a_run_that_was_asked_for_is_shown_although_a_selection_has_tried_it(tmp_path: Path) -> None:
    plan: dict[str, Any] = {"dataset": SMALL, "method": "lwf", "epochs": 1}
    sweep(Plan(plan), tmp_path, select=Selection("benchmark", 1, {"strength": [1.0, 10.0]}), jobs=1)
    shown = {each.config["strength"] for each in collect([tmp_path]) if not each.candidate and each.tasks == 2}
    other = ({1.0, 10.0} - shown).pop()
    sweep(Plan(plan | {"set": {"strength": other}}), tmp_path, jobs=1)
    shown = {each.config["strength"] for each in collect([tmp_path]) if not each.candidate and each.tasks == 2}
    assert shown == {1.0, 10.0}


def test_an_honest_selection_that_saw_all_tasks_says_so(tmp_path: Path) -> None:
    plan = Plan({"dataset": SMALL, "method": "lwf", "epochs": 1})
    report = sweep(plan, tmp_path, select=Selection("honest", 3, {"strength": [1.0, 10.0]}), jobs=1)
    (label,) = report.selections.values()
    assert label.startswith("honest (first 3 tasks, which are all): strength")
    assert label in {each.selection for each in collect([tmp_path])}


def test_copies_and_backups_of_a_run_count_once(runs: Path, tmp_path: Path) -> None:
    import shutil

    for name in ("one", "two", "one.backup-1"):
        shutil.copytree(runs, tmp_path / name)
    assert len(collect([tmp_path])) == len(collect([tmp_path, tmp_path / "one"])) == 4
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "two")
    assert collect([tmp_path]) == []  # what --fresh has set aside


def test_results_that_cannot_be_read_are_reported(runs: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(runs, tmp_path / "runs")
    first, *_, last = sorted((tmp_path / "runs").glob("*/seed-*/result.json"))
    first.write_text(first.read_text().replace('"format": 2', '"format": 1'))
    last.write_text("{}")
    problems: list[str] = []
    assert len(collect([tmp_path], problems)) == 2
    assert [problem.split("'")[1] for problem in problems] == [str(first), str(last)]
    assert "has format '1'" in problems[0] and problems[1].endswith("; it is left out")


def test_runs_that_are_given_one_by_one_keep_the_marks_of_their_selection(runs: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(runs, tmp_path / "runs")
    first, second = sorted(folder for folder in (tmp_path / "runs").iterdir() if folder.is_dir())
    candidates = [{"whole": each.name, "tried": each.name, "chosen": {"tau": 1.0}} for each in (first, second)]
    (tmp_path / "runs" / SELECTIONS).mkdir()
    content = {"protocol": "honest", "tasks": 3, "candidates": candidates, "winner": 0}
    write_document(tmp_path / "runs" / SELECTIONS / "one.json", SELECTION_KIND, content)
    found = collect([tmp_path / "runs"])
    assert {(each.selection, each.candidate) for each in found} == {
        ("honest (first 3 tasks): tau 1", False),
        ("", True),
    }
    assert collect(sorted((tmp_path / "runs").glob("*/"))) == found


def test_the_whole_run_of_a_candidate_that_is_no_longer_the_winner_is_not_shown(runs: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(runs, tmp_path / "runs")
    folders = sorted(folder.name for folder in (tmp_path / "runs").iterdir() if folder.is_dir())
    candidates = [{"whole": name, "tried": f"first-tasks-{name}", "chosen": {"tau": 1.0}} for name in folders]
    (tmp_path / "runs" / SELECTIONS).mkdir()
    content = {"protocol": "honest", "tasks": 3, "candidates": candidates, "winner": 0}
    write_document(tmp_path / "runs" / SELECTIONS / "one.json", SELECTION_KIND, content)
    assert {Path(each.folder).name for each in collect([tmp_path]) if not each.candidate} == {folders[0]}
    mark_as_asked(tmp_path / "runs" / folders[1])
    assert {Path(each.folder).name for each in collect([tmp_path]) if not each.candidate} == set(folders)


def test_of_two_copies_of_a_run_the_finished_one_counts(runs: Path, tmp_path: Path) -> None:
    import shutil

    (source,) = runs.glob("*finetune*")
    for name in ("a", "b"):
        shutil.copytree(source, tmp_path / name)
    file = tmp_path / "a" / "seed-0" / "result.json"
    write_document(file, RESULT_KIND, read_document(file, RESULT_KIND) | {"finished": False})
    assert [(Path(each.folder).name, each.finished) for each in collect([tmp_path])] == [("b", True), ("a", True)]


def test_what_copies_of_a_run_are_does_not_depend_on_the_order_of_folders(runs: Path, tmp_path: Path) -> None:
    import shutil

    places = [tmp_path / name for name in ("tried", "asked", "chosen")]
    for place in places:
        shutil.copytree(runs, place)
    first, second = sorted(folder.name for folder in runs.iterdir() if folder.is_dir())
    candidates = [{"whole": name, "tried": name, "chosen": {"tau": 1.0}} for name in (first, second)]
    for place, protocol, winner in ((places[0], "honest", 1), (places[2], "benchmark", 0)):
        (place / SELECTIONS).mkdir()
        content = {"protocol": protocol, "tasks": None, "candidates": candidates, "winner": winner}
        write_document(place / SELECTIONS / "one.json", SELECTION_KIND, content)

    def marks(*folders: Path) -> set[tuple[str, str, bool]]:
        return {(Path(each.folder).name, each.selection, each.candidate) for each in collect(folders)}

    for pair in permutations(places[:2]):
        assert marks(*pair) == {(first, "", False), (second, "honest: tau 1", False)}
    for order in permutations(places):
        assert marks(*order) == {(first, "benchmark: tau 1", False), (second, "honest: tau 1", False)}


def test_an_unfinished_run_is_found_by_what_it_has_measured_so_far(runs: Path, tmp_path: Path) -> None:
    import shutil

    (source,) = runs.glob("*finetune*")
    shutil.copytree(source, tmp_path / "run")
    place = tmp_path / "run" / "seed-0"
    found = read_document(place / "result.json", RESULT_KIND)
    (place / "result.json").unlink()
    about = {"run": found["run"], "seed": 0}
    append_document(place / "tasks.jsonl", TASKS_KIND, {**about, "task": 0, **found["tasks"][0]})
    shutil.rmtree(tmp_path / "run" / "seed-1")
    (record,) = collect([tmp_path])
    assert (record.tasks, record.finished, record.metrics["aa"]) == (1, False, found["matrix"][0][0])
    before = record
    for cut in (lambda: (place / "tasks.jsonl").write_text("cut sh"), lambda: (place / "tasks.jsonl").unlink()):
        cut()
        problems: list[str] = []
        (record,) = collect([tmp_path], problems)
        assert (record.run, record.seed, record.config) == (before.run, before.seed, before.config) and not problems
        assert (record.tasks, record.finished, record.metrics) == (0, False, {})
    assert tabulate(collect([runs, tmp_path])).footnotes == []  # it is finished elsewhere
    assert tabulate(collect([tmp_path])).footnotes == ["1 unfinished run is left out"]


def test_200_runs_are_read_from_the_index(runs: Path, tmp_path: Path) -> None:
    import shutil

    for number in range(50):
        for source in runs.iterdir():
            if source.is_dir():
                copy = tmp_path / f"{source.name}-{number}"
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("model"))
                for file in copy.glob("seed-*/result.json"):
                    found = read_document(file, RESULT_KIND)
                    write_document(file, RESULT_KIND, found | {"run": f"{found['run']}-{number}"})
    assert len(collect([tmp_path])) == 200
    start = time.monotonic()
    assert len(collect([tmp_path])) == 200
    assert time.monotonic() - start < 1

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from delome import sweep
from delome.errors import ParameterError
from delome.experiment import RunConfig, RunFolder, run
from delome.experiment.collection import INDEX, Record, collect
from delome.experiment.comparison import tabulate
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


def record(method: str = "delome", seed: int = 0, aa: float = 90.0, **changes: Any) -> Record:
    config = {"dataset": "d", "setting": "cil", "method": method, "backbone": "sgc", "memory.budget": 5}
    config |= changes.pop("config", {})
    protocol = {"split": "random 0", "tasks": 3} | changes.pop("protocol", {})
    made = Record(
        f"runs/{method}", f"{method}{config}", seed, config, protocol, {"aa": aa, "af": -1.0}, 3, True, [aa], [[aa]]
    )
    return replace(made, **changes)


def test_rows_are_means_over_seeds_and_the_best_of_a_group_is_known() -> None:
    records = [record(seed=0, aa=90), record(seed=1, aa=92), record("ergnn", 0, 80), record("ergnn", 1, 80)]
    table = tabulate(records)
    assert table.columns == ["dataset", "setting", "method", "backbone", "budget"]
    assert [(row.settings["method"], row.spread("aa")) for row in table.rows] == [
        ("delome", (91.0, pytest.approx(2**0.5))),
        ("ergnn", (80.0, 0.0)),
    ]
    assert table.best("aa") == {0} and table.footnotes == []


def test_a_paired_test_compares_common_seeds() -> None:
    first = [record(seed=seed, aa=aa) for seed, aa in enumerate((90, 92, 95))]
    second = [record("ergnn", seed, aa) for seed, aa in enumerate((88, 91, 91, 0))]
    (found,) = tabulate(first + second).compare("delome", "ergnn", "aa")
    # differences 2, 1, 4: mean 7/3, standard error 0.8819, t 2.6458 with 2 degrees of freedom
    assert found.seeds == 3 and found.difference == pytest.approx(7 / 3)
    assert found.p == pytest.approx(0.118, abs=5e-4)
    assert found.low == pytest.approx(-1.4612, abs=1e-3) and found.high == pytest.approx(6.1279, abs=1e-3)
    (one,) = tabulate([first[0], second[0]]).compare("delome", "ergnn", "aa")
    assert one.p is None and one.in_words("aa").endswith("1 common seeds: too few for a test")
    with pytest.raises(ParameterError, match="unknown method in these results 'lwf'"):
        tabulate(first).compare("delome", "lwf", "aa")
    with pytest.raises(ParameterError, match="no runs of delome and ergnn share"):
        tabulate([first[0], second[3]]).compare("delome", "ergnn", "aa")


def test_only_rows_that_were_measured_alike_are_compared_and_captions_tell_them_apart() -> None:
    splits = [{"protocol": {"split": f"random {seed}"}, "config": {"split_seed": seed}} for seed in (0, 1)]
    records = [
        record("delome", seed, 90.0 + seed + each, **split) for seed in (0, 1) for each, split in enumerate(splits)
    ]
    records += [record("ergnn", seed, 80.0, **split) for seed in (0, 1) for split in splits]
    table = tabulate(records)
    found = [each.in_words("aa") for each in table.compare("delome", "ergnn", "aa")]
    assert [each.partition(":")[0] for each in found] == [
        f"delome − ergnn (d, cil, sgc, 5, split_seed {seed})" for seed in (0, 1)
    ]
    assert {table.rows[number].settings["method"] for number in table.best("aa")} == {"delome"}
    assert len(table.best("aa")) == 2  # the best of each split
    alone = tabulate([record(), record("ergnn", protocol={"graph": "abc"})])
    assert alone.best("aa") == set()
    with pytest.raises(ParameterError, match=r"share dataset, .* how they were measured \(graph, split, tasks\)"):
        alone.compare("delome", "ergnn", "aa")
    taus = [record(seed=seed, aa=90.0 + seed * tau, config={"loss.tau": tau}) for seed in (0, 1) for tau in (1, 2)]
    captions = {
        each.in_words("aa").partition(":")[0] for each in tabulate(taus + records[4:]).compare("delome", "ergnn", "aa")
    }
    assert captions == {f"delome − ergnn (d, cil, sgc, 5, tau {tau}, split_seed 0)" for tau in (1, 2)}
    with pytest.raises(ParameterError, match="told apart by method: add it to --by"):
        tabulate(records, by=["dataset"]).compare("delome", "ergnn", "aa")


def test_rounding_is_no_spread() -> None:
    records = [record(seed=seed, aa=0.1 + seed) for seed in range(3)]
    records += [record("ergnn", seed, seed + 0.1 + 0.2 - 0.1) for seed in range(3)]
    (found,) = tabulate(records).compare("delome", "ergnn", "aa")
    assert found.p is None and found.in_words("aa").endswith("AA -0.10, 3 common seeds: no spread over seeds")


@pytest.mark.parametrize(
    ("other", "note"),
    [
        ({"protocol": {"split": "random 1"}}, "rows of d differ in split: random 0, random 1; do not compare them"),
        ({"protocol": {"tasks": 5}}, "rows of d differ in tasks: 3, 5; do not compare them"),
        ({"config": {"inter_task_edges": True}}, "rows of d differ in test graph: cut, grown"),
        ({"config": {"test_graph": "joined"}}, "rows of d differ in test graph: cut, joined"),
        ({"config": {"inductive": True}}, "rows of d differ in test nodes: inductive, transductive"),
        ({"config": {"stream_kind": "blurry"}}, "rows of d differ in stream: blurry, classes"),
        ({"protocol": {"graph": "abc"}}, "d was not the same graph in all runs; do not compare them"),
        ({"selection": "honest"}, "parameters were selected for some rows only"),
        ({"finished": False}, "1 unfinished run is left out"),
        ({"candidate": True}, "1 run that a selection has only tried is left out (--candidates shows it)"),
    ],
)
def test_what_cannot_be_compared_is_said(other: dict[str, Any], note: str) -> None:
    table = tabulate([record(), record("ergnn", **other)])
    assert any(found.startswith(note) for found in table.footnotes), table.footnotes


def test_rows_that_average_over_different_settings_are_not_compared() -> None:
    both = [record(config={"setting": setting}) for setting in ("cil", "til")]
    table = tabulate([*both, record("hpns", aa=99.0, config={"setting": "til"})], by=["method"])
    assert table.footnotes[1] == "rows do not average over the same setting: do not compare them"
    assert table.best("aa") == set()


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


def test_methods_that_were_trained_otherwise_are_named() -> None:
    records = [record(method, config={"epochs": 200, "backbone.hidden": 256}) for method in ("delome", "ergnn", "cat")]
    records.append(record("joint", config={"epochs": 25, "backbone.hidden": 256}))
    assert tabulate(records).footnotes == ["methods differ in epochs: joint 25; others 200"]
    assert tabulate(records[:3]).footnotes == []
    # within a method it is a column, and needs no footnote
    assert tabulate([*records, record("cat", config={"epochs": 5})]).footnotes == []


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


def test_of_two_copies_of_a_run_the_finished_one_counts(runs: Path, tmp_path: Path) -> None:
    import shutil

    (source,) = runs.glob("*finetune*")
    for name in ("a", "b"):
        shutil.copytree(source, tmp_path / name)
    file = tmp_path / "a" / "seed-0" / "result.json"
    write_document(file, RESULT_KIND, read_document(file, RESULT_KIND) | {"finished": False})
    assert [(Path(each.folder).name, each.finished) for each in collect([tmp_path])] == [("b", True), ("a", True)]


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
    (place / "tasks.jsonl").write_text("cut sh")
    problems: list[str] = []
    assert collect([tmp_path], problems) == [] and not problems


def test_runs_of_one_seed_are_one_sample() -> None:
    first = [record(seed=seed, aa=90.0 + seed) for seed in range(3)]
    first += [record(seed=seed, aa=80.0 + 2 * seed, config={"memory.budget": 20}) for seed in range(3)]
    second = [record("finetune", seed, 10.0, config={"memory.budget": None}) for seed in range(3)]
    (found,) = tabulate(first + second, by=["method"]).compare("delome", "finetune", "aa")
    assert found.seeds == 3 and found.difference == pytest.approx(76.5)
    # a method without a memory is compared with each budget
    assert [each.seeds for each in tabulate(first + second).compare("delome", "finetune", "aa")] == [3, 3]


def test_rows_that_average_over_more_than_seeds_say_so() -> None:
    records = [record(aa=80), record(aa=90, config={"memory.budget": 20})]
    assert [row.settings["budget"] for row in tabulate(records).rows] == [5, 20]
    table = tabulate(records, by=["method"])
    (row,) = table.rows
    assert row.spread("aa") == (85.0, 0.0) and row.seeds == [0]  # of one seed, whatever it averages over
    assert table.footnotes == ["rows average over budget (5, 20)"]
    with pytest.raises(ParameterError, match="unknown setting 'metod'"):
        tabulate(records, by=["metod"])
    with pytest.raises(ParameterError, match="unknown metric 'ab'"):
        tabulate(records, metrics=["ab"])
    # candidates are shown when they are asked for
    tried = [record(), record(candidate=True, config={"memory.budget": 7})]
    assert (len(tabulate(tried).rows), len(tabulate(tried, candidates=True).rows)) == (1, 2)


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

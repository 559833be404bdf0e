"""A seed's part of a run folder: where it resumes, and what it refuses to resume from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import delome
import delome.progress
from delome.errors import RunFolderError
from delome.experiment import RunConfig, RunFolder, Stop, run
from delome.experiment.seed_folder import RESULT, RESULT_KIND, TASKS, TASKS_KIND, SeedFolder
from delome.persistence.documents import append_document, read_document, read_documents, write_document
from delome.persistence.files import write_bytes
from delome.persistence.reading import holds

CONFIG = RunConfig.resolve("synthetic:nodes=120,classes=6,noise=8,degree=1", "finetune", epochs=2)


class Interrupted(Exception):
    pass


def run_until(folder: Path, tasks: int) -> None:
    """Runs so many tasks, and is interrupted in the one after them."""
    stream = CONFIG.stream()

    def make_tracker(seed: int, task: int, of: int) -> Any:
        assert (seed, of) == (0, 3)
        if task == tasks:
            raise Interrupted
        return delome.progress.Tracker()

    with RunFolder.open(folder, CONFIG, stream) as place:
        if tasks == 3:
            run(CONFIG, stream, place, make_tracker)
        else:
            with pytest.raises(Interrupted):
                run(CONFIG, stream, place, make_tracker)


@pytest.fixture
def seed(tmp_path: Path) -> Iterator[Callable[[int], SeedFolder]]:
    """Opens the seed's folder of a run that has finished so many tasks."""
    opened = []

    def open_it(tasks: int) -> SeedFolder:
        run_until(tmp_path / "run", tasks)
        opened.append(RunFolder.open(tmp_path / "run", CONFIG, CONFIG.stream()))
        return SeedFolder(opened[0], 0, 60, Stop())

    yield open_it
    for folder in opened:
        folder.close()


def change_result(place: SeedFolder, changes: dict[str, Any]) -> None:
    """Writes another result, as if this run had written it."""
    document = read_document(place.path / RESULT, RESULT_KIND)
    write_document(place.path / RESULT, RESULT_KIND, document | changes)


def change_last_task(place: SeedFolder, changes: dict[str, Any]) -> None:
    """Writes another result of the last task that is finished, as if this run had written it."""
    *kept, last = read_documents(place.path / TASKS, TASKS_KIND)
    (place.path / TASKS).unlink()
    for line in (*kept, last | changes):
        append_document(place.path / TASKS, TASKS_KIND, line)


@pytest.mark.parametrize("tasks", [0, 1, 2])
def test_a_seed_resumes_after_its_last_finished_task(tasks: int, seed: Callable[[int], SeedFolder]) -> None:
    place, learner = seed(tasks), CONFIG.learner(0)
    result = place.resume(learner, 3)
    assert [len(task.accuracies) for task in result.tasks] == list(range(1, tasks + 1))
    assert (len(learner.columns.tasks), place.finished) == (tasks, False)
    stream = CONFIG.stream()
    for task, measured in zip(stream, result.tasks, strict=False):
        assert len(measured.accuracies) == task.index + 1
    if tasks:
        assert result.tasks[-1].accuracies == learner.evaluate(stream.seen(stream[tasks - 1]))


def test_a_finished_seed_is_not_loaded(seed: Callable[[int], SeedFolder], caplog: pytest.LogCaptureFixture) -> None:
    place, learner = seed(3), CONFIG.learner(0)
    caplog.clear()
    assert len(place.resume(learner, 3).tasks) == 3
    assert (place.finished, learner.columns.tasks, caplog.messages) == (True, [], [])
    (place.path / "matrix.csv").write_text("changed")
    place.resume(learner, 3)
    assert len(caplog.messages) == 1 and "matrix.csv" in caplog.messages[0]


def test_what_was_measured_without_its_model_is_done_again(seed: Callable[[int], SeedFolder], tmp_path: Path) -> None:
    run_until(tmp_path / "run", 1)
    shutil.copytree(tmp_path / "run/seed-0/model", tmp_path / "model")
    place, learner = seed(2), CONFIG.learner(0)
    shutil.rmtree(place.model)
    shutil.move(tmp_path / "model", place.model)
    assert len(place.resume(learner, 3).tasks) == len(learner.columns.tasks) == 1


def test_a_model_that_knows_more_than_was_measured_is_refused(seed: Callable[[int], SeedFolder]) -> None:
    place = seed(2)
    first, _ = (place.path / TASKS).read_text().splitlines(keepends=True)
    (place.path / TASKS).write_text(first)
    with pytest.raises(RunFolderError, match=r"its model knows 2 tasks, but .+ 1: start over with --fresh"):
        place.resume(CONFIG.learner(0), 3)


@pytest.mark.parametrize("changes", [{"run": "another"}, {"seed": 1}], ids=["of another run", "of another seed"])
@pytest.mark.parametrize(("tasks", "change", "file"), [(1, change_last_task, TASKS), (3, change_result, RESULT)])
def test_a_result_that_is_not_of_this_run_is_refused(
    changes: dict[str, Any], tasks: int, change: Any, file: str, seed: Callable[[int], SeedFolder]
) -> None:
    place = seed(tasks)
    change(place, changes)
    with pytest.raises(RunFolderError, match=rf"{file}' is not a result of this run: start over with --fresh"):
        place.resume(CONFIG.learner(0), 3)


@pytest.mark.parametrize("changes", [{"tasks": 5}, {"tasks": [{}]}, {"tasks": []}, {"seed": []}, {"run": None}])
def test_a_result_of_another_form_is_refused(changes: dict[str, Any], seed: Callable[[int], SeedFolder]) -> None:
    place = seed(3)
    change_result(place, changes)
    with pytest.raises(RunFolderError, match="start over with --fresh"):
        place.resume(CONFIG.learner(0), 3)


@pytest.mark.parametrize("changes", [{"task": 0}, {"accuracies": [1.0]}, {"seconds": 1}, {"seed": []}, {"more": 1}])
def test_a_result_of_a_task_of_another_form_is_refused(
    changes: dict[str, Any], seed: Callable[[int], SeedFolder]
) -> None:
    place = seed(2)
    change_last_task(place, changes)
    with pytest.raises(RunFolderError, match="start over with --fresh"):
        place.resume(CONFIG.learner(0), 3)


def test_an_unfinished_result_of_an_earlier_version_is_refused(seed: Callable[[int], SeedFolder]) -> None:
    place = seed(3)
    change_result(place, {"finished": False})
    with pytest.raises(RunFolderError, match=r"result\.json' was left unfinished by an earlier version of delome"):
        place.resume(CONFIG.learner(0), 3)


def test_a_line_cut_short_is_written_again(seed: Callable[[int], SeedFolder]) -> None:
    place = seed(2)
    whole = (place.path / TASKS).read_bytes()
    (place.path / TASKS).write_bytes(whole + whole[:50])
    learner = CONFIG.learner(0)
    result = place.resume(learner, 3)
    assert len(result.tasks) == 2
    result.tasks.append(result.tasks[-1])
    place.finish_task(learner, result, last=False)
    assert (place.path / TASKS).read_bytes().startswith(whole + b"{")
    assert len(read_documents(place.path / TASKS, TASKS_KIND)) == 3


def test_what_is_written_after_a_task_does_not_grow_with_the_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig.resolve("synthetic:nodes=96,classes=16", "replay", epochs=1, budget=1, assignments=["hidden=2"])
    read: list[Path] = []
    written: list[str] = []

    def looked_at(file: Path, content: bytes) -> bool:
        read.append(file)
        return holds(file, content)

    def write(target: Path, content: bytes) -> None:
        written.append(target.name)
        write_bytes(target, content)

    monkeypatch.setattr("delome.persistence.state_files.holds", looked_at)
    monkeypatch.setattr("delome.persistence.state_files.write_bytes", write)
    stream = config.stream()
    with RunFolder.open(tmp_path / "run", config, stream) as place:
        run(config, stream, place)
    # a memory and the network for each task
    assert len(written) == len(read) == 16
    assert len({name for name in written if name.startswith("memory-")}) == 8


def test_a_model_with_other_parameters_is_refused(seed: Callable[[int], SeedFolder]) -> None:
    place = seed(1)
    learner = delome.FineTune(epochs=2, lr=0.5)
    learner.observe(CONFIG.stream()[0])
    learner.write(place.model)
    with pytest.raises(RunFolderError, match="model' was not saved by this run: start over with --fresh"):
        place.resume(CONFIG.learner(0), 3)


@pytest.mark.parametrize("name", ["", "model", "progress"])
def test_a_link_in_place_of_a_folder_is_refused(name: str, seed: Callable[[int], SeedFolder], tmp_path: Path) -> None:
    place = seed(1)
    linked = place.path / name if name else place.path
    (tmp_path / "elsewhere").mkdir()
    if linked.exists():
        shutil.rmtree(tmp_path / "elsewhere")
        shutil.move(linked, tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    with pytest.raises(RunFolderError, match="is a link"):
        place.resume(CONFIG.learner(0), 3)
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


def test_the_matrix_is_written_as_a_table_with_gaps(seed: Callable[[int], SeedFolder]) -> None:
    place = seed(3)
    rows = [task["accuracies"] for task in json.loads((place.path / RESULT).read_text())["tasks"]]
    first, second, third = ([f"{value:.4f}" for value in row] for row in rows)
    assert (place.path / "matrix.csv").read_text() == (
        f"after_task,task_0,task_1,task_2\n0,{first[0]},,\n1,{','.join(second)},\n2,{','.join(third)}\n"
    )

"""`delome.run`: a whole run in one call."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import delome
from delome import TaskStream, load_graph
from delome.errors import DelomeError, ParameterError, PersistenceError, RunFolderError, StreamError
from delome.experiment import RunConfig, Stop, Stopped
from delome.experiment import run as run_config
from delome.progress import Tracker, Watcher

# few edges and much noise: on an easy graph every accuracy is 100 and nothing could be told apart
HARD = "synthetic:nodes=120,classes=6,noise=8,degree=1"
Files = Callable[[Path], dict[str, bytes]]


def matrices(found: Any) -> list[list[list[float]]]:
    return [seed.matrix.rows for seed in found.result.seeds]


class Impatient(Watcher):
    """Asks to stop when so many steps of so many tasks are done."""

    def __init__(self, stop: Stop, task: int, step: int) -> None:
        super().__init__()
        self.stop, self.task, self.step = stop, task, step

    def tracker(self, seed: int, task: int, tasks: int) -> Tracker:
        super().tracker(seed, task, tasks)
        tracker = Tracker()
        if task == self.task:

            def show(phase: str, done: int, total: int) -> None:
                if (phase, done) == ("train", self.step):
                    self.stop.signal_number = 15

            tracker.show = show  # type: ignore[method-assign]
        return tracker


def test_the_result_is_that_of_the_configuration(folder: Path) -> None:
    found = delome.run(HARD, "finetune", epochs=2, seeds=2, classes_per_task=3)
    config = RunConfig.resolve(HARD, "finetune", epochs=2, seeds=2, classes_per_task=3)
    assert found.result.config == config
    assert matrices(found) == [seed.matrix.rows for seed in run_config(config, config.stream()).seeds]
    assert [len(rows) for rows in matrices(found)] == [2, 2]
    assert found.folder == Path("runs") / config.slug


def test_a_run_leaves_its_folder_figures_and_models_and_prints_nothing(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = delome.run(HARD, "finetune", epochs=2, out=folder / "r")
    assert found.folder == folder / "r"
    assert [figure.name for figure in found.figures] == ["accuracy_matrix.png", "curve.png"]
    assert all(figure.is_file() for figure in found.figures)
    assert json.loads((folder / "r/seed-0/result.json").read_text())["matrix"] == matrices(found)[0]
    config = found.result.config
    assert delome.load(folder / "r/seed-0/model").evaluate(config.stream()) == matrices(found)[0][-1]
    assert capfd.readouterr() == ("", "")


def test_the_document_is_the_one_that_the_command_prints(cli: Callable[..., Any]) -> None:
    printed = cli("run", "--dataset", HARD, "--method", "finetune", "--epochs", "2", "--out", "r", "--json").document
    document = json.loads(json.dumps(delome.run(HARD, "finetune", epochs=2, out="r").as_dict()))
    # the time that the last checkpoint took is known only after it was written
    assert document.pop("seconds").keys() == printed.pop("seconds").keys()
    assert document == printed


def test_parts_and_their_parameters_are_assigned(folder: Path) -> None:
    assignments = ["memory=kmeans", "loss=balanced", "hidden=8"]
    found = delome.run(HARD, "replay", epochs=2, budget=3, backbone="gcn", assignments=assignments, out="r")
    learner: Any = delome.load("r/seed-0/model")
    assert (type(learner.memory).__name__, type(learner.loss).__name__) == ("Centroids", "Balanced")
    assert (type(learner.backbone).__name__, learner.backbone.hidden, learner.memory.budget) == ("GCN", 8, 3)
    assert found.result.as_dict()["memory"]["rows"] == 3 * 6


@pytest.mark.parametrize(("task", "step"), [(0, 1), (1, 2), (2, 4)])
def test_a_run_that_was_stopped_resumes_and_ends_with_the_identical_result(
    task: int, step: int, folder: Path, files_of: Files
) -> None:
    options: dict[str, Any] = {"epochs": 4, "budget": 2}
    whole = delome.run(HARD, "ergnn", out="whole", **options)
    stop = Stop()
    impatient = Impatient(stop, task, step)
    with pytest.raises(Stopped):
        delome.run(HARD, "ergnn", out="parts", watcher=impatient, stop=stop, **options)
    assert impatient.tasks == task + 1
    patient = Watcher()
    resumed = delome.run(HARD, "ergnn", out="parts", watcher=patient, **options)
    assert patient.tasks == 3 - task
    assert matrices(resumed) == matrices(whole)
    assert files_of(folder / "parts/seed-0/model") == files_of(folder / "whole/seed-0/model")
    events = [json.loads(line)["event"] for line in (folder / "parts/events.jsonl").read_text().splitlines()]
    assert (events.count("stopped"), events[-1]) == (1, "finished")


def test_a_finished_run_is_not_learned_again_unless_it_is_to_be(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = delome.run(HARD, "finetune", epochs=2, out="r")
    watcher = Watcher()
    again = delome.run(HARD, "finetune", epochs=2, out="r", watcher=watcher)
    assert (watcher.tasks, matrices(again)) == (0, matrices(first))
    assert any("this run was finished before" in message for message in caplog.messages)
    fresh = delome.run(HARD, "finetune", epochs=2, out="r", watcher=watcher, fresh=True)
    assert (watcher.tasks, matrices(fresh)) == (3, matrices(first))
    assert (folder / "r.backup-1/config.json").is_file()


def test_another_run_in_the_same_folder_is_refused_and_changes_nothing(folder: Path, files_of: Files) -> None:
    delome.run(HARD, "finetune", epochs=2, out="r")
    before = files_of(folder)
    with pytest.raises(RunFolderError, match="holds another run"):
        delome.run(HARD, "finetune", epochs=3, out="r")
    assert files_of(folder) == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tau": 2}, r"a run has no option 'tau': parameters of the method go into assignments=\['tau=…'\]"),
        ({"epoch": 2, "zeal": 1}, r"a run has no option 'epoch': .+"),
        ({"assignments": ["tua=2"]}, r"unknown parameter of method delome 'tua': did you mean 'tau'\? .+"),
        ({"method": "delom"}, r"unknown method 'delom': did you mean 'delome'\? .+"),
        ({"method": "absent_module:Mine"}, r"cannot import method 'absent_module:Mine': .+ no module .+"),
        ({"method": "json:Mine"}, r"cannot import method 'json:Mine': module 'json' has no 'Mine'"),
        ({"method": "json:loads"}, r"'json:loads' is not a method: it must be a class derived from Learner"),
        ({"method": "delome:Learner"}, r"'delome:Learner' is not a method: .+"),
        ({"assignments": ["memory=delome.backbones:SGC"]}, r"'delome.backbones:SGC' is not a memory: .+"),
        ({"backbone": "delome.memories:Centroids"}, r"'delome.memories:Centroids' is not a backbone: .+"),
        ({"dataset": "file:absent.npz"}, r"there is no file 'absent.npz': .+"),
        ({"checkpoint_every": -1}, r"checkpoint-every must be at least 0 seconds, not -1"),
        ({"checkpoint_every": float("nan")}, r"checkpoint-every must be at least 0 seconds, not nan"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence_and_leaves_nothing(
    options: dict[str, Any], sentence: str, folder: Path
) -> None:
    with pytest.raises(DelomeError, match=f"^{sentence}$"):
        delome.run(**options)
    assert list(folder.iterdir()) == []


def test_a_run_that_fails_in_its_first_task_leaves_no_folder(folder: Path) -> None:
    with pytest.raises(DelomeError, match="not finite"):
        delome.run(HARD, "finetune", epochs=4, assignments=["lr=1e30"])
    assert list(folder.iterdir()) == []


def test_options_that_the_method_does_not_have_are_ignored_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    delome.run(HARD, "finetune", epochs=1, budget=7)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["method finetune has no budget: ignored"]


def test_a_stream_of_ones_own_takes_the_place_of_the_datasets(folder: Path) -> None:
    graph, third = load_graph(HARD), np.arange(120) % 3
    stream = TaskStream(graph, 3, class_order=[5, 4, 3, 2, 1, 0], split=[third == part for part in range(3)])
    options: dict[str, Any] = {"classes_per_task": 3, "class_order": [5, 4, 3, 2, 1, 0], "epochs": 2}
    found = delome.run(HARD, "finetune", stream=stream, split="given", **options)
    learner = delome.FineTune(epochs=2)
    for task, row in zip(stream, matrices(found)[0], strict=True):
        learner.observe(task)
        assert row == learner.evaluate(stream.seen(task))
    with pytest.raises(StreamError, match="but the configuration says"):
        delome.run(HARD, "finetune", stream=stream, split="given", epochs=2)


def test_a_stream_without_a_name_is_not_called_after_a_dataset(folder: Path) -> None:
    found = delome.run(method="delome", stream=TaskStream(load_graph(HARD)), epochs=1)
    assert found.result.as_dict()["dataset"] == "given" and found.folder.name.startswith("given-delome-cil-")
    assert found.result.as_dict()["budget"] == delome.DeLoMe().memory.budget
    with pytest.raises(ParameterError, match="dataset 'given' is that of a stream of your own: pass the stream"):
        delome.run("given", epochs=1)


class Backwards:
    """A stream that is no `TaskStream`, but has its methods."""

    def __init__(self) -> None:
        self.inner = TaskStream(load_graph(HARD), class_order=[5, 4, 3, 2, 1, 0])
        self.dropped = self.inner.dropped
        self.seen, self.describe = self.inner.seen, self.inner.describe

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Any:
        return iter(self.inner)


def test_a_stream_of_another_kind_can_be_run_and_resumed(folder: Path) -> None:
    stop = Stop()
    with pytest.raises(Stopped):
        delome.run(HARD, "finetune", stream=Backwards(), epochs=3, watcher=Impatient(stop, 1, 1), stop=stop)
    found = delome.run(HARD, "finetune", stream=Backwards(), epochs=3)
    assert found.result.stream == Backwards().describe()
    whole = delome.run(HARD, "finetune", epochs=3, class_order=[5, 4, 3, 2, 1, 0])
    assert matrices(found) == matrices(whole)


def test_a_method_of_ones_own_is_run_resumed_and_loaded_if_it_is_named(
    folder: Path, mine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stop()
    with pytest.raises(Stopped):
        delome.run(HARD, mine, epochs=3, out="r", watcher=Impatient(stop, 1, 1), stop=stop)
    found = delome.run(HARD, mine, epochs=3, out="r")
    assert found.result.config.parameters["backbone"] == {"name": "my_methods:Small", "hidden": 4}
    model = folder / "r/seed-0/model"
    with pytest.raises(PersistenceError, match=r"method 'my_methods:Mine' is not one of delome's: name its class"):
        delome.load(model)
    from my_methods import Mine  # type: ignore[import-not-found]

    loaded = delome.load(model, methods=[Mine])
    assert type(loaded) is Mine
    assert loaded.evaluate(found.result.config.stream()) == matrices(found)[0][-1]


def test_an_option_is_refused_before_the_dataset_is_loaded(folder: Path) -> None:
    with pytest.raises(ParameterError, match="epochs must be at least 1"):
        delome.run("file:absent.npz", epochs=0)


def test_a_run_leaves_a_report_and_is_finished_without_one_too(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = delome.run(HARD, "finetune", epochs=2, out=folder / "r")
    assert first.report == folder / "r/report.html" and "finetune on " in first.report.read_text()
    assert first.as_dict()["report"] == str(first.report)
    first.report.unlink()
    first.report.mkdir()
    again = delome.run(HARD, "finetune", epochs=2, out=folder / "r")
    assert again.report is None and again.as_dict()["report"] is None
    assert matrices(again) == matrices(first)
    assert "there is no report: cannot write" in caplog.messages[-1]
    monkeypatch.setattr("delome.reporting.writing.html", lambda _: [][0])  # a mistake of ours
    assert delome.run(HARD, "finetune", epochs=2, out=folder / "other").report is None
    assert caplog.messages[-1] == "there is no report: IndexError: list index out of range"

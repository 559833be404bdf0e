from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from delome import TaskStream, load_graph
from delome.errors import PersistenceError, RunFolderError
from delome.experiment import RunConfig, RunFolder
from delome.graph.graph import MASKS

SMALL = "synthetic:nodes=60,classes=4"


@pytest.fixture
def config() -> RunConfig:
    return RunConfig.resolve(SMALL, "finetune", epochs=2)


def open_folder(path: Path, config: RunConfig, stream: TaskStream | None = None, *, fresh: bool = False) -> RunFolder:
    return RunFolder.open(path, config, stream or config.stream(), fresh=fresh)


def everything_in(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


def test_opening_writes_configuration_stream_hash_and_versions(tmp_path: Path, config: RunConfig) -> None:
    with open_folder(tmp_path / "deep" / "run", config) as folder:
        written = json.loads((tmp_path / "deep" / "run" / "config.json").read_text())
        assert written["hash"] == folder.identity
    assert written["run"] == config.seedless
    assert written["stream"] == config.stream().describe()
    assert {"delome", "torch"} <= written["versions"].keys()


def test_a_folder_of_the_same_run_is_taken_up_again(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with open_folder(tmp_path, config) as folder:
        assert not folder.continues
        folder.write_text("seed-0/matrix.csv", "kept")
    with open_folder(tmp_path, config) as folder:
        assert folder.continues and caplog.messages == []
    assert (tmp_path / "seed-0" / "matrix.csv").read_text() == "kept"


def test_a_folder_of_another_run_is_refused_and_left_as_it_is(tmp_path: Path, config: RunConfig) -> None:
    open_folder(tmp_path, config).close()
    before = (tmp_path / "config.json").read_text()
    other = RunConfig.resolve(SMALL, "finetune", epochs=3, seeds=2)
    with pytest.raises(RunFolderError) as error:
        open_folder(tmp_path, other)
    assert str(error.value) == (
        f"'{tmp_path}' holds another run (different: epochs 2 there, 3 here): "
        "choose another folder with --out, or start over with --fresh"
    )
    assert (tmp_path / "config.json").read_text() == before
    open_folder(tmp_path, config).close()


def test_another_stream_is_refused(tmp_path: Path, config: RunConfig) -> None:
    graph = load_graph(SMALL)
    assert graph.labels is not None
    masks = dict(zip(MASKS, (np.arange(60) % 3 == part for part in range(3)), strict=True))
    folder_of = {}
    for name, other in {
        "graph": graph.with_labels(graph.labels[::-1].copy()),
        "split": graph._like(masks=masks),
    }.items():
        folder_of[name] = tmp_path / name
        open_folder(folder_of[name], config, TaskStream(graph)).close()
        with pytest.raises(RunFolderError, match=r"the graph of the stream is not the one that the run in .* began"):
            open_folder(folder_of[name], config, TaskStream(other))
    given = RunConfig.resolve(SMALL, "finetune", epochs=2, split="given")
    open_folder(tmp_path / "given", given, TaskStream(graph, split=list(masks.values()))).close()
    with pytest.raises(RunFolderError, match="the split of the stream is not the one"):
        open_folder(tmp_path / "given", given, TaskStream(graph, split=list(masks.values())[::-1]))


def test_other_versions_are_noted(
    tmp_path: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    open_folder(tmp_path, config).close()
    monkeypatch.setattr("delome.experiment.folder.versions", lambda: {"torch": "9.9", "delome": "0.1.0"})
    open_folder(tmp_path, config).close()
    (note,) = caplog.messages
    assert note.startswith("this run began with torch 2.")


def test_another_number_of_threads_is_noted(
    tmp_path: Path, config: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    threads = torch.get_num_threads()
    open_folder(tmp_path, config).close()
    try:
        torch.set_num_threads(threads + 1)
        open_folder(tmp_path, config).close()
    finally:
        torch.set_num_threads(threads)
    assert caplog.messages == [f"this run began with threads {threads}: the last bits of its results may differ"]


def test_a_second_writer_is_refused_while_the_first_writes(tmp_path: Path, config: RunConfig) -> None:
    with open_folder(tmp_path, config):
        for fresh in (False, True):
            with pytest.raises(PersistenceError, match="another process is writing in"):
                open_folder(tmp_path, config, fresh=fresh)
    open_folder(tmp_path, config).close()
    assert everything_in(tmp_path) == ["config.json", "events.jsonl"]


def test_a_run_neither_goes_into_a_folder_of_other_runs_nor_moves_it(tmp_path: Path, config: RunConfig) -> None:
    out = tmp_path / "sweep"
    with open_folder(out / "one", config) as folder:
        folder.write_text("note", "kept")
    before = everything_in(tmp_path)
    for fresh in (False, True):
        with pytest.raises(RunFolderError) as refused:
            open_folder(out, config, fresh=fresh)
        assert str(refused.value) == (
            f"'{out}' holds other runs, one among them: "
            f"choose a folder for this run alone with --out, such as '{out / config.slug}'"
        )
    assert everything_in(tmp_path) == before
    with open_folder(out / config.slug, config):
        pass


def test_a_run_that_has_others_below_it_resumes_but_is_not_set_aside(tmp_path: Path, config: RunConfig) -> None:
    for place in (tmp_path / "run", tmp_path / "run/other"):
        open_folder(place, config).close()
    with open_folder(tmp_path / "run", config) as folder:
        assert folder.continues
    with pytest.raises(RunFolderError, match="holds other runs, other among them"):
        open_folder(tmp_path / "run", config, fresh=True)
    with pytest.raises(RunFolderError, match=r"choose another folder with --out$"):
        open_folder(tmp_path / "run", replace(config, split_seed=7))


def test_a_fresh_start_keeps_what_was_there_as_a_backup(tmp_path: Path, config: RunConfig) -> None:
    run = tmp_path / "run"
    for content in ("first", "second", "third"):
        with open_folder(run, config, fresh=True) as folder:
            assert not folder.continues
            folder.write_text("notes.txt", content)
    names = ["run", "run.backup-1", "run.backup-2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert [(tmp_path / name / "notes.txt").read_text() for name in names] == ["third", "first", "second"]
    assert everything_in(tmp_path / "run.backup-1") == ["config.json", "events.jsonl", "notes.txt"]


def test_events_are_appended_and_a_torn_line_is_cut_away(tmp_path: Path, config: RunConfig) -> None:
    with open_folder(tmp_path, config) as folder:
        folder.event("task", task=3)
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"torn": ' + "x" * 5000)
    open_folder(tmp_path, config).close()
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["started", "task", "continued"]
    assert events[1]["task"] == 3


def test_a_folder_without_results_is_discarded_and_one_with_results_kept(tmp_path: Path, config: RunConfig) -> None:
    with open_folder(tmp_path / "empty", config) as folder:
        folder.discard_if_empty()
    with open_folder(tmp_path / "full", config) as folder:
        folder.write_text("seed-0/matrix.csv", "kept")
        folder.discard_if_empty()
    assert everything_in(tmp_path) == [
        "full",
        "full/config.json",
        "full/events.jsonl",
        "full/seed-0",
        "full/seed-0/matrix.csv",
    ]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, config: RunConfig) -> None:
    (tmp_path / "run").write_text("precious")
    with pytest.raises(RunFolderError) as error:
        open_folder(tmp_path / "run", config)
    assert str(error.value) == f"'{tmp_path / 'run'}' is a file: choose another folder with --out"
    assert (tmp_path / "run").read_text() == "precious"


def test_a_file_on_the_way_to_the_folder_is_refused(tmp_path: Path, config: RunConfig) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(PersistenceError, match="cannot write"):
        open_folder(tmp_path / "file" / "run", config)
    assert (tmp_path / "file").read_text() == "precious"


def test_a_name_too_long_for_the_file_system_is_refused(tmp_path: Path, config: RunConfig) -> None:
    with pytest.raises(PersistenceError, match="cannot write"):
        open_folder(tmp_path / ("x" * 300), config)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", "3", "null", '{"run": 5}', '{"run": []}', '{"run": null}', "\xff"]
)
def test_a_configuration_that_is_none_is_refused_and_left_as_it_is(
    content: str, tmp_path: Path, config: RunConfig
) -> None:
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(RunFolderError, match=r"is not a configuration of a run of delome: .* start over with --fresh"):
        open_folder(tmp_path, config)
    assert (tmp_path / "config.json").read_text(encoding="latin-1") == content


def test_files_in_subfolders_are_written_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("seed-3/notes.txt", "ä\n")
    folder.write_document("seed-3/result.json", "result", {"aa": 1.5})
    assert (tmp_path / "seed-3" / "notes.txt").read_text(encoding="utf-8") == "ä\n"
    assert json.loads((tmp_path / "seed-3" / "result.json").read_text())["aa"] == 1.5
    assert everything_in(tmp_path) == ["seed-3", "seed-3/notes.txt", "seed-3/result.json"]


def test_a_written_file_replaces_the_old_one_and_can_be_read_by_others(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("notes.txt", "old")
    folder.write_text("notes.txt", "new")
    assert (tmp_path / "notes.txt").read_text() == "new"
    assert (tmp_path / "notes.txt").stat().st_mode & 0o777 == 0o644


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("notes.txt", "old")

    def half(temporary: Path) -> None:
        temporary.write_text("ne")
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        folder.write("notes.txt", half)
    assert (tmp_path / "notes.txt").read_text() == "old"
    assert everything_in(tmp_path) == ["notes.txt"]


def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path) -> None:
    def full(temporary: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(PersistenceError) as error:
        RunFolder(tmp_path).write("notes.txt", full)
    assert str(error.value) == f"cannot write '{tmp_path / 'notes.txt'}': No space left on device"
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("content", [float("nan"), [float("inf")]])
def test_json_that_others_cannot_read_is_not_written(content: Any, tmp_path: Path) -> None:
    with pytest.raises(PersistenceError, match="it would hold numbers that are not finite"):
        RunFolder(tmp_path).write_document("result.json", "result", {"aa": content})
    assert everything_in(tmp_path) == []


def test_the_file_kind_is_kept_while_writing(tmp_path: Path) -> None:
    suffixes = []

    def fill(temporary: Path) -> None:
        suffixes.append(temporary.suffix)
        temporary.write_bytes(b"picture")

    assert RunFolder(tmp_path).write("curve.png", fill) == tmp_path / "curve.png"
    assert suffixes == [".png"]

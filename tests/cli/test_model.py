from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import delome
import delome.cli.model
import delome.persistence.state_files
from delome.methods import METHODS
from delome.parameters import has_parameter

Cli = Callable[..., Any]
SMALL = ("--method", "finetune", "--set", "epochs=3", "--set", "hidden=8")


@pytest.fixture
def graph(write_npz: Callable[..., Path]) -> Callable[..., str]:
    """Writes a graph with these labels (six nodes each) and gives its name."""

    def write(*labels: int, **changes: Any) -> str:
        numbered = np.repeat(labels, 24 // len(labels)) if labels else None
        return f"file:{write_npz(f'{len(labels)}-{sum(labels)}.npz', labels=numbered, **changes)}"

    return write


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def learned(cli: Cli, *arguments: str) -> dict[str, Any]:
    outcome = cli("learn", "--model", "m", *arguments, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    document: dict[str, Any] = json.loads(outcome.out)
    return document


def test_a_model_is_made_learns_more_and_predicts_the_users_labels(
    cli: Cli, graph: Callable[..., str], folder: Path
) -> None:
    first = learned(cli, "--graph", graph(7, 100), *SMALL)
    assert (first["task"], first["classes"], first["new_classes"]) == (0, [7, 100], [7, 100])
    assert first["learned"] == {"7": 12, "100": 12}
    second = learned(cli, "--graph", graph(3, 7, -1))
    assert (second["task"], second["classes"], second["new_classes"]) == (1, [7, 100, 3], [3])
    assert second["learned"] == {"3": 8, "7": 8}
    outcome = cli("predict", "--model", "m", "--graph", graph(), "--out", "predictions.csv")
    assert (outcome.code, outcome.out, outcome.err) == (0, "24 nodes classified\n", "")
    with (folder / "predictions.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["node", "label", "name", "probability"]
    expected = delome.load(folder / "m").predict(delome.load_graph(graph()))
    assert [int(row[1]) for row in rows] == expected.tolist()
    assert set(expected.tolist()) <= {3, 7, 100}
    assert [row[0] for row in rows] == [str(node) for node in range(24)]


def test_predictions_are_printed_without_out_and_named(cli: Cli, graph: Callable[..., str]) -> None:
    names = np.array(["ape", "bee", "cat"])
    learned(cli, "--graph", graph(0, 2, class_names=names), *SMALL)
    outcome = cli("predict", "--model", "m", "--graph", graph(0, 2, seed=1))
    rows = list(csv.reader(outcome.out.splitlines()))
    assert {tuple(row[1:3]) for row in rows[1:]} <= {("0", "ape"), ("2", "cat")}
    assert "24 nodes classified; class-balanced accuracy" in outcome.err
    assert outcome.err.endswith(
        "%: 24 nodes with known labels; the graph as a whole was not learned, but some of its nodes may have been\n"
    )
    document = json.loads(cli("predict", "--model", "m", "--graph", graph(0, 2, seed=1), "--json").out)
    right = sum(int(row[1]) == label for row, label in zip(rows[1:], np.repeat([0, 2], 12), strict=True))
    assert document["accuracy"]["micro"] == pytest.approx(100 * right / 24)
    assert sum(document["predicted"].values()) == 24


def test_what_a_person_reads_names_classes_and_counts(cli: Cli, graph: Callable[..., str]) -> None:
    outcome = cli("learn", "--model", "m", "--graph", graph(0, 5), *SMALL)
    assert outcome.out == (
        "task 0: learned 24 nodes of 2 classes: 0 (12), 5 (12)\n2 classes were new; the model in m knows 2\n"
    )


def test_a_model_of_a_run_learns_and_predicts(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    assert cli("run", "--dataset", graph(0, 1), *("--method", "delome", "--epochs", "2"), "--out", "r").code == 0
    before = snapshot(folder)
    outcome = cli("learn", "--model", "r/seed-0/model", "--graph", graph(9))
    assert outcome.code == 2 and "belongs to a run, which could not be resumed: copy it" in outcome.err
    assert snapshot(folder) == before
    assert cli("predict", "--model", "r/seed-0/model", "--graph", graph(9)).code == 0
    shutil.copytree(folder / "r/seed-0/model", folder / "copy")
    assert cli("learn", "--model", "copy", "--graph", graph(9)).code == 0
    assert delome.load(folder / "copy").classes == [0, 1, 9]


def test_a_folder_that_is_no_model_is_not_made_one(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    (folder / "m" / "manifest.json").unlink()
    before = snapshot(folder)
    outcome = cli("learn", "--model", "m", "--graph", graph(0, 1), *SMALL)
    assert outcome.code == 2 and "'m' has no manifest.json but 'state-" in outcome.err
    assert snapshot(folder) == before


def test_a_model_that_came_to_nothing_does_not_take_the_place_of_a_good_one(
    cli: Cli, graph: Callable[..., str], folder: Path
) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    before = snapshot(folder)
    huge = np.full((24, 5), 3e38, dtype=np.float32)
    outcome = cli("learn", "--model", "m", "--graph", graph(2, 3, features=huge))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "scale" in outcome.err
    assert snapshot(folder) == before


def test_predictions_can_be_written_to_a_pipe(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    assert cli("predict", "--model", "m", "--graph", graph(0, 1), "--out", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


def test_a_task_incremental_model_needs_the_task(cli: Cli, graph: Callable[..., str]) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL, "--setting", "til")
    learned(cli, "--graph", graph(2, 3))
    outcome = cli("predict", "--model", "m", "--graph", graph())
    assert outcome.code == 2 and "give its index, 0 to 1" in outcome.err
    document = json.loads(cli("predict", "--model", "m", "--graph", graph(), "--task", "1", "--json").out)
    assert set(document["predicted"]) <= {"2", "3"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--graph", "WIDE"], "the learner was trained on 5 features, but the graph has 3"),
        (["--graph", "UNLABELLED"], "no node has a label to learn from"),
        (["--graph", "RENAMED"], "'0'"),
        (["--graph", "file:absent.npz"], "there is no file 'absent.npz'"),
        (["--graph", "GOOD", "--method", "ewc"], "is already a model: leave out --method, which only a new one takes"),
        (["--graph", "GOOD", "--set", "epochs=4"], "is already a model: leave out --set"),
        (["--graph", "GOOD", "--device", "nonsense"], "device 'nonsense' cannot be used here"),
        (["--graph"], "requires an argument"),
    ],
)
def test_a_refused_graph_leaves_the_model_as_it_was(
    arguments: list[str], sentence: str, cli: Cli, graph: Callable[..., str], folder: Path
) -> None:
    learned(cli, "--graph", graph(0, 1, class_names=np.array(["ape", "bee"])), *SMALL)
    before = snapshot(folder)
    files = {
        "WIDE": lambda: graph(0, 3, features=np.ones((24, 3))),
        "UNLABELLED": lambda: graph(),
        "RENAMED": lambda: graph(0, 1, class_names=np.array(["cow", "bee"])),
        "GOOD": lambda: graph(1, 2),
    }
    outcome = cli("learn", "--model", "m", *(files[each]() if each in files else each for each in arguments))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith("delome: ") and sentence.strip("'") in outcome.err
    assert snapshot(folder) == before


def test_a_model_that_cannot_be_made_leaves_no_folder(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    for arguments in (["--method", "no"], ["--set", "epochs=0"], ["--method", "joint"], ["--setting", "what"]):
        outcome = cli("learn", "--model", "m", "--graph", graph(0, 1), *arguments)
        assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_a_folder_without_a_model_is_refused(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    outcome = cli("predict", "--model", "absent", "--graph", graph(0, 1), "--out", "p.csv")
    assert outcome.code == 2
    assert outcome.err == (
        "delome: 'absent/manifest.json' does not exist, so 'absent' holds no saved learner of delome\n"
    )
    assert list(folder.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    (folder / "file").write_text("mine")
    outcome = cli("predict", "--model", "m", "--graph", graph(0, 1), "--out", "file/p.csv")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "delome: cannot write 'file/p.csv': there is a file where a folder should be\n"
    outcome = cli("learn", "--model", "file/m", "--graph", graph(0, 1), *SMALL)
    assert (outcome.code, outcome.err) == (
        2,
        "delome: cannot write 'file/m': there is a file where a folder should be\n",
    )


def test_a_graph_that_was_learned_is_not_learned_twice(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    learned(cli, "--graph", graph(2, 3))
    before = snapshot(folder)
    outcome = cli("learn", "--model", "m", "--graph", graph(0, 1))
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "this graph was learned before, as task 0: m is as it was (--again learns it once more)\n"
    assert learned(cli, "--graph", graph(2, 3)) == {
        "model": "m",
        "already_learned": True,
        "task": 1,
        "classes": [0, 1, 2, 3],
    }
    assert snapshot(folder) == before
    assert learned(cli, "--graph", graph(0, 1), "--again")["task"] == 2


def masked(**changes: Any) -> dict[str, Any]:
    train = np.arange(24) % 2 == 0
    return {"train_mask": train, "val_mask": ~train & (np.arange(24) < 12), "test_mask": ~train, **changes}


def test_only_nodes_inside_the_train_mask_are_learned_and_accuracy_is_of_the_others(
    cli: Cli, graph: Callable[..., str]
) -> None:
    name = graph(0, 1, **masked())
    assert learned(cli, "--graph", name, *SMALL)["learned"] == {"0": 6, "1": 6}
    document = json.loads(cli("predict", "--model", "m", "--graph", name, "--json").out)
    assert (document["accuracy_nodes"], document["accuracy_of"]) == (
        12,
        "12 nodes with known labels outside the train mask; those inside were learned",
    )
    predicted = delome.load("m").predict(delome.load_graph(name))
    right = (predicted == np.repeat([0, 1], 12))[1::2]
    assert document["accuracy"]["micro"] == pytest.approx(100 * right.mean())


@pytest.mark.parametrize(
    ("labels", "changes", "why"),
    [
        ((0, 1), {}, "every node with a label was learned"),
        ((1, 0), {}, "the graph was learned with other labels or masks, so that some of its nodes may be known"),
    ],
)
def test_accuracy_is_not_told_of_nodes_that_were_learned(
    cli: Cli, graph: Callable[..., str], labels: tuple[int, ...], changes: dict[str, Any], why: str
) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    outcome = cli("predict", "--model", "m", "--graph", graph(*labels, **changes))
    assert outcome.err == f"24 nodes classified; no accuracy: {why}\n"


def test_labels_may_be_text(cli: Cli, write_npz: Callable[..., Path]) -> None:
    def named(name: str, *labels: str) -> str:
        return f"file:{write_npz(name, seed=len(name), labels=np.repeat(labels, 24 // len(labels)))}"

    first = learned(cli, "--graph", named("a.npz", "bee", "ape"), *SMALL)
    assert (first["classes"], first["learned"]) == (["ape", "bee"], {"ape": 12, "bee": 12})
    second = learned(cli, "--graph", named("bb.npz", "bee", "cat", ""))
    assert (second["classes"], second["learned"]) == (["ape", "bee", "cat"], {"bee": 8, "cat": 8})
    outcome = cli("predict", "--model", "m", "--graph", named("ccc.npz", "ape", "bee"))
    assert {row.split(",")[1] for row in outcome.out.splitlines()[1:]} <= {"ape", "bee", "cat"}
    assert (
        "24 nodes with known labels; the graph as a whole was not learned, but some of its nodes may have been"
        in outcome.err
    )
    refused = cli("learn", "--model", "m", "--graph", f"file:{write_npz('numbers.npz')}")
    assert refused.code == 2 and "labels were whole numbers in some graphs and text in others" in refused.err


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"joint", "gem"}))
def test_predictions_hold_the_probability_of_the_predicted_label(
    method: str, cli: Cli, graph: Callable[..., str]
) -> None:
    til = ("--setting", "til") if method == "hpns" else ()
    quick = [
        ("--set", f"{name}=2") for name in ("epochs", "networks", "encoders") if has_parameter(METHODS[method], name)
    ]
    options = [*til, *(part for pair in quick for part in pair)]
    learned(cli, "--graph", graph(0, 4), "--method", method, *options)
    learned(cli, "--graph", graph(1, 2, 5))
    task = ("--task", "1") if method == "hpns" else ()
    command = ("predict", "--model", "m", "--graph", graph(0, 1), *task)
    table = csv.DictReader(cli(*command).out.splitlines())
    least = 1 / (3 if method == "hpns" else 5)  # the largest of so many shares of 1
    probabilities = [float(row["probability"]) for row in table]
    assert len(probabilities) == 24
    assert all(least - 1e-6 <= each <= 1 for each in probabilities)
    assert cli(*command, "--json").document["predictions"]["probability"] == probabilities


def test_the_json_document_of_predictions_holds_the_table(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    names = np.array(["ape", "bee", "cat"])
    learned(cli, "--graph", graph(0, 2, class_names=names), *SMALL)
    learned(cli, "--graph", graph(5))
    document = cli("predict", "--model", "m", "--graph", graph(0, 2), "--out", "p.csv", "--json").document
    columns = document["predictions"]
    learner = delome.load(folder / "m")
    assert columns["node"] == list(range(24))
    assert columns["label"] == learner.predict(delome.load_graph(graph(0, 2))).tolist()
    assert columns["name"] == [{0: "ape", 2: "cat", 5: None}[label] for label in columns["label"]]
    with (folder / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for name, values in columns.items():
        assert [row[name] for row in rows] == ["" if value is None else str(value) for value in values]


HOSTILE = ["\x1b[2Jape", '=HYPERLINK("http://x")', "a\r9,9,forged"]


def test_names_reach_a_file_quoted_and_a_terminal_printable(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    described = {"class_names": np.array(HOSTILE), "features": np.repeat(10 * np.eye(3), 8, axis=0)}
    outcome = cli("learn", "--model", "m", "--graph", graph(0, 1, 2, **described), *SMALL[:2], "--set", "epochs=40")
    assert r"\x1b[2Jape (8)" in outcome.out and r"a\r9,9,forged (8)" in outcome.out
    assert all(line.isprintable() for line in outcome.out.splitlines())
    printed = cli("predict", "--model", "m", "--graph", graph(0, 1, 2, **described))
    assert all(line.isprintable() for line in [*printed.out.split("\n"), *printed.err.split("\n")])
    assert cli("predict", "--model", "m", "--graph", graph(0, 1, 2, **described), "--out", "p.csv").code == 0
    with (folder / "p.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["node", *map(str, range(24))]
    fields = {"0": HOSTILE[0], "1": f"'{HOSTILE[1]}", "2": HOSTILE[2]}
    assert all(row[2] == fields[row[1]] for row in rows[1:])
    assert {row[1] for row in rows[1:]} == {"0", "1", "2"}


def test_text_labels_reach_a_file_quoted_and_a_terminal_printable(
    cli: Cli, write_npz: Callable[..., Path], folder: Path
) -> None:
    told_apart = np.repeat(10 * np.eye(3), 8, axis=0)
    name = f"file:{write_npz(labels=np.repeat(HOSTILE, 8), features=told_apart)}"
    outcome = cli("learn", "--model", "m", "--graph", name, *SMALL[:2], "--set", "epochs=40")
    assert r"\x1b[2Jape (8)" in outcome.out and all(line.isprintable() for line in outcome.out.split("\n"))
    assert cli("learn", "--model", "m", "--graph", name, "--json").document["classes"] == sorted(HOSTILE)
    printed = cli("predict", "--model", "m", "--graph", name)
    assert r"\x1b[2Jape" in printed.out and all(line.isprintable() for line in printed.out.split("\n"))
    document = cli("predict", "--model", "m", "--graph", name, "--out", "p.csv", "--json").document
    assert set(document["predictions"]["label"]) == set(HOSTILE)
    with (folder / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"].removeprefix("'") for row in rows] == document["predictions"]["label"]
    assert {row["label"] for row in rows} == {HOSTILE[0], f"'{HOSTILE[1]}", HOSTILE[2]}
    shown = cli("datasets", "show", name).out
    assert r"\x1b[2Jape" in shown and "\x1b" not in shown and "\r" not in shown


def test_names_in_a_listing_are_printable(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    name = graph(0, 1, 2, class_names=np.array(HOSTILE))
    outcome = cli("datasets", "show", name)
    assert r"\x1b[2Jape" in outcome.out and "\x1b" not in outcome.out and "\r" not in outcome.out
    odd = Path(name.removeprefix("file:")).rename(folder / "\x1b[2J.npz")
    outcome = cli("run", "--dataset", f"file:{odd}", "--method", "finetune", "--epochs", "1", "--out", "\x1b[3J")
    assert outcome.code == 0
    assert r"\x1b[2J.npz" in outcome.out and r"run folder: \x1b[3J (" in outcome.out and "\x1b" not in outcome.out
    outcome = cli(
        "run", "--dataset", f"file:{odd}", "--method", "finetune", "--epochs", "1", "--out", "\x1b[3J", "--fresh"
    )
    assert outcome.notes == [r"delome: note: the previous run is kept in '\x1b[3J.backup-1'"]


class Killed(BaseException):
    pass


@contextmanager
def killed_at_rename(number: int) -> Iterator[None]:
    """While this block runs, the renaming of this number ends it, after which nothing is cleaned up."""
    done, calls = 0, {name: getattr(os, name) for name in ("replace", "unlink", "rmdir")}

    def rename(*arguments: Any, **options: Any) -> None:
        nonlocal done
        done += 1
        if done > number:
            raise Killed
        calls["replace"](*arguments, **options)

    def remove(name: str) -> Callable[..., None]:
        return lambda *arguments, **options: None if done > number else calls[name](*arguments, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", rename)
        patch.setattr(os, "unlink", remove("unlink"))
        patch.setattr(os, "rmdir", remove("rmdir"))
        yield


def test_a_first_model_whose_writing_was_killed_is_begun_again(
    cli: Cli, graph: Callable[..., str], folder: Path
) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    whole = snapshot(folder)
    shutil.rmtree(folder / "m")
    for number in range(2):
        with killed_at_rename(number):
            cli("learn", "--model", "m", "--graph", graph(0, 1), *SMALL)
        left = sorted(file.name for file in (folder / "m").iterdir())
        assert "manifest.json" not in left and any(name.startswith(".writing-") for name in left)
        assert any(name.startswith("state-") for name in left) == (number == 1)
    learned(cli, "--graph", graph(0, 1), *SMALL)
    assert snapshot(folder) == whole


def test_a_model_whose_folder_is_moved_away_while_it_learns_stays_as_it_was(
    cli: Cli, graph: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    before = snapshot(folder / "m")
    real = delome.FineTune.observe

    def observe(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        (folder / "m").rename(folder / "moved")

    monkeypatch.setattr(delome.FineTune, "observe", observe)
    outcome = cli("learn", "--model", "m", "--graph", graph(2, 3))
    assert outcome.code == 2 and "'m' was moved away or removed while it was written to" in outcome.err
    assert [place.name for place in folder.iterdir()] == ["moved"]
    assert snapshot(folder / "moved").items() >= before.items()


PROGRAM = Path(sysconfig.get_path("scripts")) / "delome"


@pytest.mark.parametrize("stream", ["full", "closed"])
def test_learning_succeeds_with_the_model_even_if_nothing_can_be_printed(
    stream: str, graph: Callable[..., str], folder: Path
) -> None:
    command = [PROGRAM, "learn", "--model", "m", "--graph", graph(0, 1), *SMALL]
    shell = f"{shlex.join(map(str, command))} {'> /dev/full' if stream == 'full' else '>&-'}"
    ended = subprocess.run(shell, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    why = {"full": "No space left on device", "closed": "Bad file descriptor"}[stream]
    assert (ended.returncode, ended.stderr) == (
        0,
        f"delome: the model in 'm' was replaced, though the command then failed: {why}\n",
    )
    assert delome.load(folder / "m").classes == [0, 1]


@pytest.mark.parametrize("postponed", [True, False])
def test_a_signal_that_comes_when_the_model_was_replaced_is_no_failure(
    postponed: bool, cli: Cli, graph: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminate(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        signal.raise_signal(signal.SIGTERM)

    real = delome.FineTune.write if postponed else print
    owner = delome.FineTune if postponed else delome.cli.model
    monkeypatch.setattr(owner, real.__name__, terminate, raising=postponed)
    monkeypatch.setattr(delome.cli.model, "drop_output", lambda: None)
    outcome = cli("learn", "--model", "m", "--graph", graph(0, 1), *SMALL)
    assert outcome.code == 0
    assert outcome.out.startswith("task 0: learned 24 nodes")
    assert ("the model in 'm' was replaced, though" in outcome.err) != postponed
    assert delome.load(folder / "m").classes == [0, 1]


def test_a_failure_after_the_model_was_replaced_is_no_failure(
    cli: Cli, graph: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)

    before = (folder / "m" / "manifest.json").read_bytes()

    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    def fail_if_replaced(place: Path) -> None:
        if (place / "manifest.json").read_bytes() != before:
            fail()

    for name, failing, code in (("write_document", fail, 2), ("_remove_mark", fail_if_replaced, 0)):
        with monkeypatch.context() as patch:
            patch.setattr(delome.persistence.state_files, name, failing)
            patch.setattr(delome.cli.model, "drop_output", lambda: None)
            outcome = cli("learn", "--model", "m", "--graph", graph(2, 3))
        assert outcome.code == code
        assert outcome.err.endswith("cannot write 'm': Input/output error\n")
        assert ("the model in 'm' was replaced, though the command then failed: " in outcome.err) == (code == 0)
        assert delome.load(folder / "m").classes == ([0, 1] if code else [0, 1, 2, 3])


def predicted(cli: Cli, graph: Callable[..., str], out: str) -> Any:
    return cli("predict", "--model", "m", "--graph", graph(0, 1), "--out", out)


def test_predictions_keep_the_mode_and_follow_links(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    (folder / "kept").mkdir()
    (folder / "kept" / "p.csv").write_text("old")
    (folder / "kept" / "p.csv").chmod(0o600)
    (folder / "link.csv").symlink_to("kept/p.csv")
    (folder / "dangling.csv").symlink_to("kept/new.csv")
    for out in ("link.csv", "dangling.csv"):
        assert predicted(cli, graph, out).code == 0
        assert (folder / out).is_symlink()
        assert (folder / out).read_text().startswith("node,label,name,probability\n0,")
    assert (folder / "kept" / "p.csv").stat().st_mode & 0o777 == 0o600
    (folder / "loop.csv").symlink_to("loop.csv")
    outcome = predicted(cli, graph, "loop.csv")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "out",
    ["m/manifest.json", "m/p.csv", "m/deep/er/p.csv", "link.csv", "r/p.csv", "r/config.json", "r/seed-0/p.csv",
     "r/seed-0/model/p.csv", "other/p.csv", "../here/m/p.csv"],
)  # fmt: skip
def test_predictions_are_not_written_into_a_model_or_a_run(
    out: str, cli: Cli, graph: Callable[..., str], folder: Path
) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    assert cli("run", "--dataset", graph(0, 1), *SMALL, "--out", "r").code == 0
    shutil.copytree(folder / "m", folder / "other")
    (folder / "other" / "manifest.json").write_text("damaged")
    (folder / "link.csv").symlink_to("m/manifest.json")
    before = snapshot(folder)
    outcome = predicted(cli, graph, out)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert f"delome: '{out}' lies in " in outcome.err and "choose another place for --out" in outcome.err
    assert snapshot(folder) == before


def test_predictions_beside_a_manifest_of_others_are_written(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    (folder / "page").mkdir()
    (folder / "page" / "manifest.json").write_text('{"name": "page", "kind": "extension"}')
    (folder / "page" / "config.json").write_text("[]")
    assert predicted(cli, graph, "page/p.csv").code == 0
    assert predicted(cli, graph, "new/folder/p.csv").code == 0


def test_what_a_killed_prediction_left_is_removed_by_the_next(
    cli: Cli, graph: Callable[..., str], folder: Path
) -> None:
    learned(cli, "--graph", graph(0, 1), *SMALL)
    (folder / "out").mkdir()
    with killed_at_rename(0):
        predicted(cli, graph, "out/p.csv")
    assert [file.name[:9] for file in (folder / "out").iterdir()] == [".writing-"]
    assert predicted(cli, graph, "out/p.csv").code == 0
    assert [file.name for file in (folder / "out").iterdir()] == ["p.csv"]

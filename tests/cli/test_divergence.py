"""Numbers that overflow, on the command line: one sentence, exit code 2, and what was good before stays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import delome
from delome.learning.learner import KIND
from delome.persistence.documents import read_document, write_document
from delome.persistence.state_files import MANIFEST, load_state

Cli = Callable[..., Any]
METHODS = {
    "finetune": (),
    "finetune, gcn": ("--set", "backbone=gcn"),
    "finetune, gat": ("--set", "backbone=gat"),
    "mas": (),
    "gem": (),
    "delome": (),
    "cat": ("--set", "encoders=3"),
    "replay": ("--set", "memory=kmeans"),
    "ssm-uniform": (),
    "hpns": ("--setting", "til"),
    "analytic": ("--set", "features=32"),
    "analytic, per task": ("--setting", "til", "--set", "features=32", "--set", "per_task=true"),
}


def command(name: str) -> tuple[str, ...]:
    epochs = () if name.startswith("analytic") else ("--set", "epochs=4")
    return ("--method", name.split(",")[0], *METHODS[name], *epochs)


def snapshot(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "events.jsonl")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def assert_one_sentence(outcome: Any) -> None:
    assert (outcome.code, outcome.out, len(outcome.notes)) == (2, "", 1), outcome.err
    assert outcome.notes[0].startswith("delome: ") and "scale" in outcome.notes[0]


@pytest.fixture
def graph(write_npz: Callable[..., Path]) -> Callable[..., str]:
    """Writes a graph whose first 12 nodes, two classes, have features of size 1 and whose others have this size."""

    def write(size: float) -> str:
        sizes = np.where(np.arange(24) < 12, 1, size)[:, None]
        features = sizes * np.random.default_rng(0).normal(size=(24, 5)).clip(-3, 3)
        return f"file:{write_npz(f'{size}.npz', features=features.astype(np.float32))}"

    return write


@pytest.mark.parametrize("name", METHODS)
def test_a_run_ends_where_it_diverges_and_can_be_taken_up_there(
    name: str, cli: Cli, graph: Callable[..., str], folder: Path
) -> None:
    arguments = ("run", "--dataset", graph(1e38), *command(name), "--out", "r")
    outcome = cli(*arguments)
    assert_one_sentence(outcome)
    before = snapshot(folder)
    learner = delome.load(folder / "r/seed-0/model")
    assert learner.columns.tasks == [(0, 1)]
    assert not learner.state().not_finite()
    again = cli(*arguments)
    assert (again.code, again.notes) == (2, ["delome: note: resuming at task 1 (2 of 2)", *outcome.notes])
    assert snapshot(folder) == before


@pytest.mark.parametrize("name", [name for name in METHODS if not name.startswith("analytic")])
def test_a_run_that_diverges_at_once_leaves_nothing(
    name: str, cli: Cli, graph: Callable[..., str], folder: Path
) -> None:
    outcome = cli("run", "--dataset", graph(1), *command(name), "--set", "lr=1e30")
    assert_one_sentence(outcome)
    assert "the loss of task 0 is not finite in epoch 1: try a smaller lr, or scale the features" in outcome.err
    assert list(folder.iterdir()) == []


def test_a_network_that_is_finite_itself_is_not_scored_if_its_outputs_are_not(
    cli: Cli, graph: Callable[..., str], folder: Path
) -> None:
    # a single step of this size: no loss is computed after it
    outcome = cli("run", "--dataset", graph(1), "--method", "finetune", "--epochs", "1", "--set", "lr=1e30")
    assert_one_sentence(outcome)
    assert "nodes have scores that are not finite" in outcome.err
    assert list(folder.iterdir()) == []


def test_progress_that_is_not_finite_is_not_written(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    # Adam's squares overflow, the loss does not
    arguments = ("--method", "finetune", "--epochs", "4", "--out", "r", "--checkpoint-every", "0")
    outcome = cli("run", "--dataset", graph(1e30), *arguments)
    assert_one_sentence(outcome)
    assert "cannot write 'r/seed-0/progress': 'train/adam.first.exp_avg_sq' holds numbers that are not" in outcome.err
    assert not (folder / "r/seed-0/progress").exists()
    assert len(delome.load(folder / "r/seed-0/model").columns.tasks) == 1


@pytest.mark.parametrize("name", [name for name in METHODS if name != "gem"])
def test_a_model_that_diverges_stays_what_it_was(name: str, cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    assert cli("learn", "--model", "m", "--graph", graph(1), *command(name)).code == 0
    before = snapshot(folder)
    assert_one_sentence(cli("learn", "--model", "m", "--graph", graph(1e38)))
    assert snapshot(folder) == before


def test_a_model_of_nan_predicts_nothing(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    learned = cli("learn", "--model", "m", "--graph", graph(1), "--method", "finetune", "--set", "epochs=1")
    assert learned.code == 0
    _, state = load_state(folder / "m", KIND)
    tensors = {name: torch.full_like(each, torch.nan) for name, each in state.tensors.items()}
    content = safetensors.torch.save(tensors)
    # as if it had been written: with the right name and checksums
    manifest = read_document(folder / "m" / MANIFEST, KIND)
    checksum = hashlib.sha256(content).hexdigest()
    manifest["files"] = {f"state-{checksum[:16]}.safetensors": checksum}
    (folder / "m" / f"state-{checksum[:16]}.safetensors").write_bytes(content)
    write_document(folder / "m" / MANIFEST, KIND, manifest)
    outcome = cli("predict", "--model", "m", "--graph", graph(1))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "delome: 'm' cannot be loaded: the state does not fit the learner: "
        "'model.first' holds numbers that are not finite\n"
    )


def test_a_graph_that_overflows_is_not_classified(cli: Cli, graph: Callable[..., str], folder: Path) -> None:
    assert cli("learn", "--model", "m", "--graph", graph(1), *command("analytic")).code == 0
    outcome = cli("predict", "--model", "m", "--graph", graph(1e38), "--out", "p.csv")
    assert_one_sentence(outcome)
    assert "24 of 24 nodes have scores that are not finite" in outcome.err
    assert not (folder / "p.csv").exists()

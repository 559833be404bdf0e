from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from delome.cli import app
from delome.cli.options import several_values
from delome.errors import ParameterError
from delome.experiment import RunConfig
from delome.experiment.options import RunOptions
from delome.learning import METHODS
from delome.reporting.repeating import command_of, flat_config
from delome.streams import STREAMS
from delome.streams.protocol import TEST_GRAPHS

KINDS = (
    "classes", "classes:base=4,step=2", "classes:order=shuffled,seed=3,returning=1", "time", "time:period=2,start=2009",
    "domains:column=region", "blurry", "blurry:sigma=0.2,steps=5",
)  # fmt: skip


def repeated(command: str) -> RunConfig:
    """The configuration that the command line makes of a command."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    words = shlex.split(command, comments=True)
    assert words[:2] == ["delome", "run"]
    parsed = group.commands["run"].make_context("run", words[2:]).params
    parsed |= {name: value for name, (value,) in several_values(RunOptions, parsed).items()}
    whole = {"budget", "classes_per_task", "tasks", "epochs", "seeds", "seed", "split_seed"}
    typed = {name: int(value) if name in whole and value is not None else value for name, value in parsed.items()}
    return RunConfig.of(RunOptions.given(typed))


@pytest.mark.parametrize("method", METHODS)
def test_the_usual_run_of_a_method_needs_its_name_alone(method: str) -> None:
    setting = {"setting": "til"} if "cil" not in METHODS[method].settings else {}
    config = RunConfig.resolve("digits", method, **setting)
    said = " --setting til" if setting else ""
    assert command_of(flat_config(config), [0]) == f"delome run --dataset digits --method {method}{said}"


@pytest.mark.parametrize(
    "options",
    [
        {"method": "delome", "budget": 7, "assignments": ["tau=0.5", "memory=gradient-matching"]},
        {"method": "replay", "setting": "til", "assignments": ["memory=kmeans", "loss=balanced", "memory.budget=3"]},
        {"method": "ewc", "backbone": "gcn", "epochs": 9, "assignments": ["fanout=5,5", "strength=10"]},
        {"method": "ergnn", "classes_per_task": 3, "tasks": 2, "split": "random", "split_seed": 4},
        {"method": "finetune", "inter_task_edges": True, "dataset": "synthetic:nodes=60,classes=4", "device": "cpu"},
        {"method": "delome", "assignments": ["batch_size=none", "passes=true", "decay=coupled"]},
    ],
    ids=lambda options: options["method"],
)
def test_the_command_repeats_the_run(options: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"dataset": "digits", "seeds": 3, "seed": 2} | options
    config = RunConfig.resolve(**asked)
    command = command_of(flat_config(config), config.seeds)
    assert repeated(command) == config
    assert command.count("--set") <= len(options.get("assignments", []))


def test_every_kind_of_stream_has_its_command() -> None:
    assert {kind.partition(":")[0] for kind in KINDS} == {*STREAMS}


@pytest.mark.parametrize("inductive", [False, True])
@pytest.mark.parametrize("test_graph", [None, *TEST_GRAPHS])
@pytest.mark.parametrize("kind", KINDS)
def test_the_command_repeats_stream_and_protocol(kind: str, test_graph: str | None, inductive: bool) -> None:
    methods = 0
    for method in ("delome", "prototypes", "ewc", "tpp", "puma", "replay"):
        for setting in ("cil", "til"):
            asked: dict[str, Any] = {"stream": kind, "test_graph": test_graph, "inductive": inductive}
            try:
                config = RunConfig.resolve("digits", method, setting=setting, **asked)
            except ParameterError:  # not every method learns every stream in every setting
                continue
            command = command_of(flat_config(config), config.seeds)
            assert "--set " not in command
            assert repeated(command).digest == config.digest
            methods += 1
    assert methods > 2


def test_a_run_with_parts_from_elsewhere_imports_nothing_and_says_everything(folder: Path) -> None:
    (folder / "my_methods.py").write_text("raise SystemExit('imported')")
    config = flat_config(RunConfig.resolve("digits", "finetune")) | {"method": "my_methods:Mine"}
    command = command_of(config, [0])
    assert command.startswith("delome run --dataset digits --method my_methods:Mine --backbone sgc --epochs 200")
    assert "--set lr=0.005" in command
    assert "asked" not in command_of(config | {"asked": "together"}, [0])


def test_names_are_quoted_for_a_shell_and_an_order_of_classes_is_not_lost() -> None:
    config = flat_config(RunConfig.resolve("digits", "finetune"))
    command = command_of(config | {"dataset": "file:a b;rm.npz", "class_order": [1, 0]}, [0])
    assert "--dataset 'file:a b;rm.npz'" in command
    assert command.endswith("# from Python, with class_order=[1, 0]")

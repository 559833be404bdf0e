"""What a run can be asked for is listed once: in `RunOptions`."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Annotated, Any

import pytest
import typer

from delome.backbones import BACKBONES
from delome.cli import app
from delome.cli.options import several_values
from delome.datasets import DATASETS
from delome.experiment import RunConfig
from delome.experiment.options import Option, RunOptions, SweepOptions
from delome.learning import METHODS
from delome.streams import STREAMS

HINTS = typing.get_type_hints(RunOptions, include_extras=True)
OPTIONS: dict[str, Option] = {
    name: typing.get_args(hint)[1] for name, hint in HINTS.items() if typing.get_origin(hint) is Annotated
}
OTHER: dict[str, tuple[list[str], Any, Callable[[RunConfig], Any]]] = {
    "dataset": (["synthetic:nodes=60"], "synthetic:nodes=60", lambda config: config.dataset),
    "method": (["ergnn"], "ergnn", lambda config: config.method),
    "setting": (["til"], "til", lambda config: config.parameters["setting"]),
    "backbone": (["gcn"], "gcn", lambda config: config.backbone),
    "budget": (["7"], 7, lambda config: config.budget),
    "tasks": (["2"], 2, lambda config: config.tasks),
    "classes_per_task": (["5"], 5, lambda config: config.classes_per_task),
    "epochs": (["3"], 3, lambda config: config.parameters["epochs"]),
    "seeds": (["3"], [0, 1, 2], lambda config: config.seeds),
    "seed": (["4"], [4], lambda config: config.seeds),
    "split_seed": (["6"], 6, lambda config: config.split_seed),
    "split": (["random"], "random", lambda config: config.split),
    "stream": (["classes:step=1,base=4"], "classes:base=4,step=1", lambda config: config.stream_kind),
    "test_graph": (["joined"], "joined", lambda config: config.test_graph),
    "inductive": ([], True, lambda config: config.inductive),
    "inter_task_edges": ([], True, lambda config: config.inter_task_edges),
    "device": (["cpu"], "cpu", lambda config: config.parameters["device"]),
    "assignments": (["lr=0.5"], 0.5, lambda config: config.parameters["lr"]),
}
"""What is written after the flag of each option, and what it is then in the configuration, and where."""

REGISTRIES: dict[str, Iterable[str]] = {
    "backbones": BACKBONES,
    "datasets": DATASETS,
    "methods": METHODS,
    "streams": STREAMS,
}


def flag(name: str) -> str:
    return "--set" if name == "assignments" else f"--{name.replace('_', '-')}"


def parsed(*arguments: str) -> dict[str, Any]:
    """Values of the options of ``delome run``."""
    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    found: dict[str, Any] = command.make_context("run", list(arguments)).params
    return found | {name: values[0] for name, values in several_values(RunOptions, found).items()}


def test_all_options_are_tested_here_and_only_the_order_of_classes_is_for_python_alone() -> None:
    assert OPTIONS.keys() == OTHER.keys()
    assert {field.name for field in fields(RunOptions)} - OPTIONS.keys() == {"class_order"}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_one_of_the_command_and_reaches_the_configuration(name: str) -> None:
    written, value, read = OTHER[name]
    usual = RunConfig.of(RunOptions.given(parsed()))
    assert usual == RunConfig.resolve()
    assert read(usual) != value
    assert read(RunConfig.of(RunOptions.given(parsed(flag(name), *written)))) == value


@pytest.mark.parametrize("name", OPTIONS)
def test_help_says_what_an_option_means_and_how_its_value_is_called(name: str, cli: Callable[..., Any]) -> None:
    option = OPTIONS[name]
    text = " ".join([flag(name), *([option.metavar] if option.metavar else []), *option.help.split()])
    assert f" {text} " in " ".join(cli("run", "--help").out.split())


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.among != ()])
def test_a_shell_completes_what_an_option_may_be(
    name: str, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = f"delome run {flag(name)} "
    monkeypatch.setenv("_DELOME_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", "3")
    among = OPTIONS[name].among
    assert set(cli().out.split()) == set(REGISTRIES[among] if isinstance(among, str) else among)


def test_options_are_taken_out_of_a_larger_mapping() -> None:
    assert RunOptions.given({"epochs": 3, "out": "r", "verbose": True}) == RunOptions(epochs=3)


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_options_of_many_runs_are_the_same_in_every_command_that_has_them(command: str) -> None:
    found = {each.name: each for each in typer.main.get_command(app).commands[command].params}  # type: ignore[attr-defined]
    hints = typing.get_type_hints(SweepOptions, include_extras=True)
    for field in fields(SweepOptions):
        option = typing.get_args(hints[field.name])[1]
        assert found[field.name].opts == [flag(field.name)] and found[field.name].default == field.default
        assert (found[field.name].help, found[field.name].metavar or "") == (option.help, option.metavar)

"""What the command line lists without importing it is what there is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delome.cli.described import CATALOGUE, described, of_registries
from delome.methods import METHODS

OWN_METHOD = '''
from delome import FineTune

class Mine(FineTune):
    """Learns as ours does."""

    summary, family, citation = "mine alone", "bound", "this file"
'''


def test_the_catalogue_is_what_the_registries_say() -> None:
    assert json.loads(CATALOGUE.read_text(encoding="utf-8")) == of_registries(), "run python tools/catalogue.py"


def test_what_a_program_has_registered_can_be_named(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._entries, "mine", METHODS["finetune"])
    assert described() == of_registries() and "mine" in described()["methods"]
    command = ("run", "--dataset", "synthetic:nodes=60,classes=4", "--method", "mine", "--epochs", "1")
    assert cli(*command, "--dry-run", "--json").code == 0


@pytest.fixture
def with_own_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package is installed that registers a method."""
    place = tmp_path / "installed"
    (place / "mine-1.0.dist-info").mkdir(parents=True)
    (place / "mine-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (place / "mine-1.0.dist-info/entry_points.txt").write_text("[delome.methods]\nmine = its_methods:Mine\n")
    (place / "its_methods.py").write_text(OWN_METHOD)
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=":")


@pytest.mark.usefixtures("with_own_method")
def test_a_method_of_an_installed_package_is_listed_after_ours(folder: Path) -> None:
    command = [sys.executable, "-m", "delome", "methods", "--json"]
    listed = json.loads(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)
    *ours, last = listed
    assert (ours, last) == (list(of_registries()["methods"]), "mine")
    assert listed["mine"]["summary"] == "mine alone"


def test_a_method_in_a_file_has_its_parameters_listed(cli: Callable[..., Any], folder: Path) -> None:
    (folder / "a_method_of_mine.py").write_text(OWN_METHOD)
    parameters = cli("methods", "a_method_of_mine:Mine", "--json").document
    assert parameters == described()["parameters"]["finetune"]


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("ewc", "strength 1000, 10000, 100000 or 1000000"),
        ("gem", "stored 100 or 1000 with margin 0 or 0.5"),
        ("ergnn", "sampler cm with radius 0.5 or none; sampler mf or random"),
        ("delome", "nothing unless it is told what, as in --select NAME=VALUE,VALUE"),
    ],
)
def test_search_spaces_are_listed(method: str, words: str, cli: Callable[..., Any]) -> None:
    assert cli("methods", method).out.splitlines()[-1] == f"--select tries {words}."
    listed = cli("methods", "--json").document[method]["search"]
    assert [{name: tuple(values) for name, values in space.items()} for space in listed] == list(METHODS[method].search)
    parameters = cli("methods", method, "--json").document
    searched = {name.rpartition(".")[2]: each["search"] for name, each in parameters.items() if each["search"]}
    every = [item for space in METHODS[method].search for item in space.items()]
    assert searched == {name: [each for of, values in every if of == name for each in values] for name, _ in every}

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from delome.experiment import RunConfig
from delome.experiment.folder import ASKED
from delome.experiment.seed_folder import RESULT_KIND
from delome.persistence.documents import read_document

HERE = Path(__file__).parent
collect_ignore_glob = ["*.py"] if sys.platform == "win32" else []  # which cannot fork
Ask = Callable[..., dict[str, Any]]


def _lives() -> Any:
    specification = importlib.util.spec_from_file_location("lives", HERE / "lives.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["lives"] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def lives() -> Iterator[Any]:
    """The module lives.py."""
    module = _lives()
    with module.known_versions():
        yield module


@pytest.fixture(scope="module")
def life() -> Iterator[Ask]:
    """Lets a process live: ``life(config, folder, …)`` tells how it ended; see lives.py."""
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    mother = subprocess.Popen(
        [sys.executable, HERE / "lives.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **one_thread},
    )
    assert mother.stdin is not None and mother.stdout is not None
    assert json.loads(mother.stdout.readline()) == {"ready": True}

    def ask(config: RunConfig, folder: Path, **wishes: Any) -> dict[str, Any]:
        assert mother.stdin is not None and mother.stdout is not None
        print(json.dumps({"config": config.as_dict(), "folder": str(folder), **wishes}), file=mother.stdin, flush=True)
        answer: dict[str, Any] = json.loads(mother.stdout.readline())
        return answer

    yield ask
    mother.stdin.close()
    assert mother.wait() == 0
    mother.stdout.close()


@pytest.fixture
def show(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Prints a line where a person sees it."""

    def line(text: str) -> None:
        with capfd.disabled():
            print(f"\n{text}", end=" ")

    return line


@pytest.fixture(scope="session")
def left() -> Callable[[Path], dict[str, Any]]:
    """All that a run leaves but times, and whether a command was used: every file and folder, and what is in it."""

    def read(folder: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for place in sorted(folder.rglob("*")):
            name = str(place.relative_to(folder))
            if name == ASKED:
                continue
            if place.is_dir():
                found[name] = "folder"
            elif place.name == "result.json":
                found[name] = without_seconds(read_document(place, RESULT_KIND))
            elif place.name == "report.html":  # shows seconds
                found[name] = place.read_text().startswith("<!doctype html>")
            elif place.name == "events.jsonl":
                found[name] = all(json.loads(line)["event"] for line in place.read_text().splitlines())
            else:
                found[name] = place.read_bytes()
        return found

    return read


def without_seconds(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: without_seconds(value) for key, value in content.items() if key != "seconds"}
    return [without_seconds(each) for each in content] if isinstance(content, list) else content


@pytest.fixture(scope="session")
def snapshot() -> Callable[..., dict[str, bytes | str | None]]:
    """Every file below a folder byte for byte, except those of the given names."""

    def read(folder: Path, *but: str) -> dict[str, bytes | str | None]:
        found: dict[str, bytes | str | None] = {}
        for place in sorted(folder.rglob("*")):
            if place.name not in but:
                name = str(place.relative_to(folder))
                if place.is_symlink():
                    found[name] = str(place.readlink())
                else:
                    found[name] = place.read_bytes() if place.is_file() else None
        return found

    return read

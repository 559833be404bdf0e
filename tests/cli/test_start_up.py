"""Commands that learn nothing answer at once: they import none of the libraries that learning needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"joblib", "matplotlib", "numpy", "pandas", "ray", "scipy", "sklearn", "torch", "torch_geometric"}
PROGRAM = """
import json, sys
from delome.cli import main
try:
    main()
except SystemExit as leaving:
    code = leaving.code or 0
print("\\n" + json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""
COMMANDS = [
    "run",
    "sweep",
    "results",
    "report",
    "learn",
    "predict",
    "methods",
    "streams",
    "datasets",
    "datasets show",
    "check",
    "audit",
]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("", 0),
        ("--help", 0),
        ("--version", 0),
        ("methods", 0),
        ("methods --json", 0),
        ("methods delome", 0),
        ("streams", 0),
        ("datasets", 0),
        ("datasets --json", 0),
        *((f"{command} --help", 0) for command in COMMANDS),
        ("rnu", 2),
        ("run --bugdet 5", 2),
        ("run --method delom", 2),
        ("run --method delome,jint --dataset digits,cora_mll", 2),
        ("run --backbone gccn", 2),
        ("run --stream tyme", 2),
        ("datasets shwo", 2),
    ],
)
def test_nothing_heavy_is_imported(words: str, code: int, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words.split()], cwd=folder, capture_output=True, text=True)
    *_, last = done.stdout.splitlines()
    ended, imported = json.loads(last)
    assert (ended, HEAVY & {*imported}) == (code, set())

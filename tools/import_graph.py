"""Writes the import graph between the markers of CONTRIBUTING.md: which package imports which, top to bottom.

python tools/import_graph.py [--check]
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"


def lines() -> list[str]:
    """One line a package or module, in the order of the layers: those it imports directly."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [name.strip() for layer in contracts[0]["layers"] for name in layer.split("|")]
    graph = grimp.build_graph("delome", exclude_type_checking_imports=True)
    for name in layers:
        graph.squash_module(f"delome.{name}")
    found = []
    for name in layers:
        imported = graph.find_modules_directly_imported_by(f"delome.{name}")
        below = [other for other in layers if f"delome.{other}" in imported and other != name]
        found.append(f"{name:12} → {', '.join(below) or 'nothing of ours'}")
    return found


def main() -> None:
    page = PAGE.read_text()
    block = "\n".join(["```", *lines(), "```"])
    written = re.sub(r"(<!-- import graph -->\n).*?(\n<!-- end -->)", rf"\1{block}\2", page, flags=re.DOTALL)
    if "--check" in sys.argv:
        sys.exit("CONTRIBUTING.md has an old import graph: python tools/import_graph.py" if written != page else 0)
    PAGE.write_text(written)


if __name__ == "__main__":
    main()

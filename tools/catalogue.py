"""Writes what the command line lists without importing it: methods, their parameters, datasets and backbones.

python tools/catalogue.py [--check]
"""

from __future__ import annotations

import json
import sys
from typing import Any

from delome.cli.described import CATALOGUE, of_registries


def formatted(value: Any, margin: str = "") -> str:
    """JSON with a line for each method, parameter and dataset."""
    if not value or not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        return json.dumps(value, ensure_ascii=False)
    inner = f"{margin} "
    lines = [f"{inner}{json.dumps(name)}: {formatted(each, inner)}" for name, each in value.items()]
    return "\n".join(["{", ",\n".join(lines), f"{margin}}}"])


def main() -> None:
    written = f"{formatted(of_registries())}\n"
    if "--check" in sys.argv:
        stale = written != CATALOGUE.read_text(encoding="utf-8")
        sys.exit(f"{CATALOGUE.name} is not what the registries say: python tools/catalogue.py" if stale else 0)
    CATALOGUE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()

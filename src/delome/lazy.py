"""Packages that import what they export when it is first asked for: the command line answers before torch is there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def exported(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package (PEP 562): by module, the names that it exports.

    Submodules are found as well, imported or not.

    >>> get, list_names = exported("delome", {"delome.errors": "DelomeError ParameterError"})
    >>> get("DelomeError").__name__, "ParameterError" in list_names()
    ('DelomeError', True)
    """
    homes = {name: module for module, together in names.items() for name in together.split()}

    def get(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(homes[name]), name)
        elif not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, list_names

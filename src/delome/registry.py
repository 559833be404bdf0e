"""Registries: what can be named on the command line and in files, ours and yours alike."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from delome.errors import ParameterError, shown, unknown

Entry = TypeVar("Entry")
_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """Things of one kind by name, in the order they were registered.

    An installed package adds to it by an entry point of the group ``delome.<kind>s``; in a program, one line does:

    >>> COLOURS: Registry[type] = Registry("colour", "colours")
    >>> @COLOURS.register("red")
    ... class Red: ...
    >>> COLOURS["red"] is Red, COLOURS.name_of(Red)
    (True, 'red')
    """

    def __init__(
        self, kind: str, group: str, base: Callable[[], type] = lambda: object, home: str | None = None
    ) -> None:
        self.kind, self.group = kind, f"delome.{group}"
        self.base = base
        """Gives the class that all entries which can be imported derive from; a function, because it comes later."""
        self._home = home
        """The module that registers our own entries, if it comes later than the registry; imported before a look."""
        self._entries: dict[str, Entry] = {}
        self._installed = False

    def register(self, name: str) -> Callable[[Any], Any]:
        """Decorator that registers a class, or what `add` takes."""

        def add(entry: Any) -> Any:
            self.add(name, entry)
            return entry

        return add

    def add(self, name: str, entry: Entry) -> None:
        """Registers an entry; a name that is taken is refused."""
        self._load_ours()
        if self._entries.setdefault(name, entry) is not entry:
            raise ParameterError(f"there is a {self.kind} called '{name}' already: choose another name")

    def _load_ours(self) -> None:
        home, self._home = self._home, None
        if home is not None:
            importlib.import_module(home)

    def _load_installed(self) -> dict[str, Entry]:
        """All entries, those of installed packages included."""
        self._load_ours()
        if not self._installed:
            self._installed = True
            for point in entry_points(group=self.group):
                self._entries.setdefault(point.name, point.load())
        return self._entries

    def __getitem__(self, name: str) -> Entry:
        entries = self._entries if name in self._entries else self._load_installed()
        if name not in entries:
            raise KeyError(name)
        return entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load_installed())

    def __len__(self) -> int:
        return len(self._load_installed())

    def find(self, name: Any) -> Entry:
        """Entry by name, or a sentence with the nearest one."""
        if not isinstance(name, str) or name not in self:
            raise ParameterError(unknown(self.kind, name if isinstance(name, str) else shown(name), self))
        return self[name]

    def name_of(self, entry: Entry) -> str:
        """Registered name, or ``module:Class`` of one that is not."""
        for name, each in self._entries.items():
            if each is entry:
                return name
        return f"{entry.__module__}:{entry.__qualname__}"  # type: ignore[attr-defined]  # it is a class

    def importable(self, name: str) -> Entry:
        """Entry by name, or by ``module:Class`` from the current folder or the Python path; for names a person typed.

        Never for a name that was read from a file: importing runs code.
        """
        if not isinstance(name, str) or not _OWN.fullmatch(name) or name in self:
            return self.find(name)
        module, _, attribute = name.partition(":")
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.insert(0, here)
        try:
            found: Entry = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise ParameterError(
                f"cannot import {self.kind} '{name}': there is no module '{error.name}' here"
            ) from None
        except AttributeError:
            raise ParameterError(
                f"cannot import {self.kind} '{name}': module '{module}' has no '{attribute}'"
            ) from None
        base = self.base()
        if not isinstance(found, type) or not issubclass(found, base) or inspect.isabstract(found):
            raise ParameterError(f"'{name}' is not a {self.kind}: it must be a class derived from {base.__name__}")
        return found

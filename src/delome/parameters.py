"""Parameters as data: a class's dataclass fields, described once, read by the CLI, the config and the report.

A parameter is a constructor argument annotated with its meaning and limits::

    budget: Annotated[int, Param("memory rows per class", least=1)] = 60
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from typing import Any, Literal, Union

from delome.errors import ParameterError, shown, unknown


@dataclasses.dataclass(frozen=True)
class Param:
    """What a parameter means, and the smallest (``least``) or excluded lower bound (``above``) of its value."""

    help: str
    least: float | None = None
    above: float | None = None


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One constructor argument: name, plain type, choices if it has few, default and meaning."""

    name: str
    type: type
    optional: bool
    choices: tuple[str, ...]
    default: Any
    param: Param

    def parse(self, text: str) -> Any:
        """Value written on a command line, e.g. ``"20"``, ``"none"``, ``"true"``."""
        if self.optional and text.lower() in ("none", "null", ""):
            return None
        if self.type is bool:
            if text.lower() in ("true", "yes", "1", "on"):
                return True
            if text.lower() in ("false", "no", "0", "off"):
                return False
            raise ParameterError(f"{self.name} must be true or false, not '{text}'")
        if self.type is str:
            return text
        try:
            if self.type is int and text.strip().lstrip("+-").isdecimal():
                return int(text)
            number = float(text)
            if self.type is int and number != int(number):
                raise ValueError
            return self.type(number)
        except (ValueError, OverflowError):
            kind = "a whole number" if self.type is int else "a number"
            raise ParameterError(f"{self.name} must be {kind}, not '{text}'") from None

    def check(self, value: Any) -> None:
        """Refuses a value of the wrong type or out of range."""
        if value is None and self.optional:
            return
        accepted = (int, float) if self.type is float else (self.type,)
        fits = isinstance(value, accepted) and (self.type is bool or not isinstance(value, bool))
        if not fits:
            raise ParameterError(f"{self.name} must be of type {self.type.__name__}, not {shown(value)}")
        if self.choices and value not in self.choices:
            raise ParameterError(unknown(self.name, str(value), self.choices))
        if isinstance(value, float) and not math.isfinite(value):
            raise ParameterError(f"{self.name} must be finite, not {value}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ParameterError(f"{self.name} must be a number of at most 64 bits, not {shown(value)}")
        least, above = self.param.least, self.param.above
        if least is not None and float(value) < least:
            raise ParameterError(f"{self.name} must be at least {least}, not {value}")
        if above is not None and float(value) <= above:
            raise ParameterError(f"{self.name} must be greater than {above}, not {value}")


def parameters_of(owner: type) -> dict[str, Parameter]:
    """Parameters of a dataclass by name, in the order they are declared."""
    hints = typing.get_type_hints(owner, include_extras=True)
    found = {}
    for field in dataclasses.fields(owner):
        hint = hints[field.name]
        if not field.init or typing.get_origin(hint) is not typing.Annotated:
            continue
        plain, param = typing.get_args(hint)[:2]
        optional = typing.get_origin(plain) in (Union, types.UnionType)
        if optional:
            (plain,) = [part for part in typing.get_args(plain) if part is not type(None)]
        choices: tuple[str, ...] = ()
        if typing.get_origin(plain) is Literal:
            choices, plain = typing.get_args(plain), str
        found[field.name] = Parameter(field.name, plain, optional, choices, field.default, param)
    return found


def check_option(name: str, value: Any, least: int | None = None) -> None:
    """Refuses what is no whole number, or below ``least``; without ``least``, what is neither true nor false."""
    kind = bool if least is None else int
    Parameter(name, kind, False, (), None, Param("", least=least)).check(value)


def check_parameters(owner: Any) -> None:
    """Checks every parameter of an instance."""
    for name, parameter in parameters_of(type(owner)).items():
        parameter.check(getattr(owner, name))


def values_of(owner: Any) -> dict[str, Any]:
    """The parameters of an instance as plain values."""
    return {name: getattr(owner, name) for name in parameters_of(type(owner))}


def parse_assignments(owner: type, assignments: list[str], of: str) -> dict[str, Any]:
    """``["tau=0.5", ...]`` as values for ``owner``; ``of`` names the owner in error messages."""
    known = parameters_of(owner)
    values = {}
    if not isinstance(assignments, list | tuple):
        raise ParameterError(f"assignments must be a list of texts 'name=value', not {shown(assignments)}")
    for assignment in assignments:
        if not isinstance(assignment, str):
            raise ParameterError(f"{shown(assignment)} is not of the form 'name=value'")
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals:
            raise ParameterError(f"'{assignment}' is not of the form name=value")
        if name not in known:
            raise ParameterError(unknown(f"parameter of {of}", name, known))
        value = known[name].parse(text.strip())
        known[name].check(value)
        values[name] = value
    return values

"""Options of a command that are derived from annotated fields, so that they are listed once."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, TypeVar

import typer

from delome.cli.app import among
from delome.cli.described import completing, described
from delome.errors import ParameterError, unknown
from delome.experiment.options import Option
from delome.parameters import listed

Owner = TypeVar("Owner")

FLAGS = {"assignments": "--set"}
"""Options that are called otherwise than their field."""


def with_options_of(owner: type, before: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command an option for each annotated field of a dataclass, before its own, or before one of them.

    It gets them as keywords.
    """

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = typing.get_type_hints(owner, include_extras=True)
        described = [field for field in fields(owner) if typing.get_origin(hints[field.name]) is Annotated]
        derived = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=_option(field.name, *typing.get_args(hints[field.name])[:2]),
            )
            for field in described
        ]
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        place = 0 if before is None else [each.name for each in own].index(before)
        parameters = [*own[:place], *derived, *own[place:]]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return give


def taken(owner: type[Owner], options: dict[str, Any]) -> Owner:
    """The value of those options that were derived from a dataclass, which are taken out of all."""
    return owner(**{field.name: options.pop(field.name) for field in fields(owner)})  # type: ignore[arg-type]


def several_values(owner: type, options: dict[str, Any]) -> dict[str, list[Any]]:
    """The values of those options that take several; an option that is not given has none, and a name that no registry
    has is refused."""
    hints = typing.get_type_hints(owner, include_extras=True)
    found = {}
    for name, text in options.items():
        kind, option = (*typing.get_args(hints.get(name)), None, None)[:2]
        if isinstance(option, Option) and option.several and text is not None:
            found[name] = [_value(name, each, kind) for each in split_values(text)]
            if isinstance(option.among, str):
                _check_names(option.among, found[name])
    return found


def _check_names(registry: str, names: list[str]) -> None:
    """Refuses a misspelt name before anything is imported to look it up; what is more than a name (``module:Class``,
    ``name:options``), or none, is left to those who read it."""
    known = described()[registry]
    if odd := [name for name in names if re.fullmatch(r"[A-Za-z][\w-]*", name) and name not in known]:
        raise ParameterError(unknown(registry.removesuffix("s"), odd[0], known))


def split_values(text: str) -> list[str]:
    """Values between commas; what follows a dataset's name with a comma and a = belongs to it.

    >>> split_values("digits,synthetic:nodes=60,classes=4,cora_ml")
    ['digits', 'synthetic:nodes=60,classes=4', 'cora_ml']
    """
    found: list[str] = []
    for part in listed(text):
        if found and re.match(r"\w+=", part):
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def _value(name: str, text: str, kind: Any) -> Any:
    if kind is str or str in typing.get_args(kind):
        return text
    try:
        return int(text)
    except ValueError:
        raise ParameterError(f"{name} must be a whole number, or several separated by commas, not '{text}'") from None


def _option(name: str, kind: Any, option: Option) -> Any:
    flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
    names = (flag,) if name in FLAGS or kind is bool else ()
    if option.several:
        kind = str if kind is str else str | None
    completion = completing(option.among) if isinstance(option.among, str) else among(option.among)
    return Annotated[
        kind,
        typer.Option(
            *names,
            help=option.help,
            metavar=option.metavar or None,
            autocompletion=completion if option.among else None,
        ),
    ]

"""Options of a command that are derived from annotated fields, so that they are listed once."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

import typer

from delome.cli.app import among
from delome.experiment.options import Option

FLAGS = {"assignments": "--set"}
"""Options that are called otherwise than their field."""


def with_options_of(owner: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command an option for each annotated field of a dataclass, before its own; it gets them as keywords."""

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
        command.__signature__ = signature.replace(parameters=[*derived, *own])  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in [*derived, *own]}
        return command

    return give


def _option(name: str, kind: Any, option: Option) -> Any:
    flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
    names = (flag,) if name in FLAGS or kind is bool else ()
    completion = None if option.among == () else among(option.among)
    return Annotated[
        kind, typer.Option(*names, help=option.help, metavar=option.metavar or None, autocompletion=completion)
    ]

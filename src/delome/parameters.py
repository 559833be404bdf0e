"""Parameters as data: a class's annotated fields, declared once, read by constructor, command line, config and report.

A parameter is annotated with its meaning and limits::

    budget: Annotated[int, Param("memory rows per class", at_least=1)] = 60

A *part* is a parameter that is a value with parameters of its own, chosen from a registry::

    memory: Annotated[MemoryBuilder, Part("how a task is remembered", MEMORIES)] = KernelMatching()

``memory=Centroids(budget=5)`` gives one; ``memory="kmeans"`` names one; ``budget=5`` changes a parameter of the one
in use (``memory.budget=5`` on the command line if several parts have a parameter of this name).
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, reduce
from typing import Any, Literal, TypeAlias, Union

from delome.errors import ParameterError, UnknownParameterError, shown, unknown
from delome.registry import Registry

NAME = "name"
"""Key under which the registered name of a part stands among its plain values."""

Find: TypeAlias = Callable[[Registry[Any], str], Any]
"""Looks up a class by name in a registry."""


@dataclasses.dataclass(frozen=True)
class Param:
    """What a parameter means, the smallest and largest value it may have, or the bound it must be above."""

    help: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None


class Part(Param):
    """What a part is for, and the registry of those that can be named."""

    def __init__(self, help: str, registry: Registry[Any]) -> None:
        super().__init__(help)
        object.__setattr__(self, "registry", registry)

    registry: Registry[Any]


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One constructor argument: name, plain type, choices if it has few, default and meaning.

    A number with choices may be any number or one of these words.
    """

    name: str
    type: type
    optional: bool
    choices: tuple[str, ...]
    default: Any
    param: Param

    @property
    def registry(self) -> Registry[Any] | None:
        """Where the values of a part are registered; none for a plain parameter."""
        return self.param.registry if isinstance(self.param, Part) else None

    def parse(self, text: str) -> Any:
        """Value written on a command line, e.g. ``"20"``, ``"none"``, ``"true"``."""
        if self.registry is not None:
            return self.registry.importable(text)()
        if self.optional and text.lower() in ("none", "null", ""):
            return None
        if self.type is bool:
            if text.lower() in ("true", "yes", "1", "on"):
                return True
            if text.lower() in ("false", "no", "0", "off"):
                return False
            raise ParameterError(f"{self.name} must be true or false, not '{text}'")
        if self.type is str or text in self.choices:
            return text
        try:
            if self.type is int and text.strip().lstrip("+-").isdecimal():
                return int(text)
            number = float(text)
            if self.type is int and number != int(number):
                raise ValueError
            return self.type(number)
        except (ValueError, OverflowError):
            kind = " or ".join(["a whole number" if self.type is int else "a number", *self.choices])
            raise ParameterError(f"{self.name} must be {kind}, not '{text}'") from None

    def check(self, value: Any) -> None:
        """Refuses a value of the wrong type or out of range."""
        if self.registry is not None or (value is None and self.optional):
            return
        if self.type is not str and isinstance(value, str) and value in self.choices:
            return
        accepted = (int, float) if self.type is float else (self.type,)
        fits = isinstance(value, accepted) and (self.type is bool or not isinstance(value, bool))
        if not fits:
            kind = " or ".join([self.type.__name__, *self.choices]) if self.type is not str else "str"
            raise ParameterError(f"{self.name} must be of type {kind}, not {shown(value)}")
        if self.type is str and self.choices and value not in self.choices:
            raise ParameterError(unknown(self.name, str(value), self.choices))
        if isinstance(value, float) and not math.isfinite(value):
            raise ParameterError(f"{self.name} must be finite, not {value}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ParameterError(f"{self.name} must be a number of at most 64 bits, not {shown(value)}")
        at_least, above = self.param.at_least, self.param.above
        if at_least is not None and float(value) < at_least:
            raise ParameterError(f"{self.name} must be at least {at_least}, not {value}")
        if above is not None and float(value) <= above:
            raise ParameterError(f"{self.name} must be greater than {above}, not {value}")
        if (at_most := self.param.at_most) is not None and float(value) > at_most:
            raise ParameterError(f"{self.name} must be at most {at_most}, not {value}")


def parameters_of(owner: type) -> Mapping[str, Parameter]:
    """Parameters of a class by name, in the order they are declared; a subclass may give another default."""
    return _parameters_of(owner)


@cache
def _parameters_of(owner: Any) -> Mapping[str, Parameter]:
    hints = typing.get_type_hints(owner, include_extras=True)
    found = {}
    for field in dataclasses.fields(owner):
        hint = hints[field.name]
        if typing.get_origin(hint) is not typing.Annotated:
            continue
        plain, param = typing.get_args(hint)[:2]
        kinds = typing.get_args(plain) if typing.get_origin(plain) in (Union, types.UnionType) else (plain,)
        optional = type(None) in kinds
        choices: tuple[str, ...] = ()
        (plain,) = [kind for kind in kinds if kind is not type(None) and typing.get_origin(kind) is not Literal] or [
            str
        ]
        for kind in kinds:
            choices += typing.get_args(kind) if typing.get_origin(kind) is Literal else ()
        default = getattr(owner, field.name, dataclasses.MISSING)
        found[field.name] = Parameter(field.name, plain, optional, choices, default, param)
    return types.MappingProxyType(found)


def all_parameters(owner: Any, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
    """Parameters of a class or value, and below each part those of the part (of a class: of the default one).

    The default of a value's parameter is what the value has, which need not be the default of its class.
    """
    of_value = not isinstance(owner, type)
    for name, parameter in parameters_of(type(owner) if of_value else owner).items():
        own = dataclasses.replace(parameter, default=getattr(owner, name)) if of_value else parameter
        yield prefix + name, own
        if own.registry is not None:
            yield from all_parameters(own.default, f"{prefix}{name}.")


def _annotate_defaults(owner: type) -> None:
    """Annotates attributes of a class that are other defaults of inherited fields: a dataclass reads no others."""
    own = inspect.get_annotations(owner)
    for name in getattr(owner, "__dataclass_fields__", {}):
        if name in vars(owner) and name not in own:
            declaring = next(base for base in owner.__mro__ if name in inspect.get_annotations(base))
            own[name] = typing.get_type_hints(declaring, include_extras=True)[name]
    owner.__annotations__ = own


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
class Component:
    """Base of parts: a value whose parameters are its annotated attributes, checked when it is made.

    A subclass is a frozen dataclass; it needs no decorator. A plain ``hidden = 64`` in it is another default of an
    inherited parameter.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _annotate_defaults(cls)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        check_parameters(self)


class Configured:
    """Base of classes whose constructor takes their parameters, and those of their parts, by name.

    A subclass declares parameters as annotated class attributes; it needs no decorator. Two of them are never equal.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        documented = cls.__doc__
        dataclasses.dataclass(init=False, eq=False, repr=False)(cls)
        cls.__doc__ = documented  # instead of the signature that a dataclass without one is given

    def __init__(self, **parameters: Any) -> None:
        for name, value in filled(type(self), parameters).items():
            setattr(self, name, value)
        check_parameters(self)

    def __repr__(self) -> str:
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, parameter in parameters_of(type(self)).items()
            if getattr(self, name) != parameter.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def filled(owner: type, given: Mapping[str, Any], find: Find = Registry.find) -> dict[str, Any]:
    """Every parameter of a class by name, as given or by default; parts are made of what they are given as."""
    known = parameters_of(owner)
    values = {}
    for name, parameter in known.items():
        values[name] = given.get(name, parameter.default)
        if parameter.registry is not None:
            values[name] = _part(parameter, values[name], find)
    for name, value in given.items():
        if name not in known:
            part, inner = _place(owner, values, name, owner.__name__)
            values[part] = _changed(values[part], inner, value)
    return values


def _part(parameter: Parameter, value: Any, find: Find) -> Any:
    """The part that a value stands for: itself, its registered name, or a mapping of its parameters."""
    assert parameter.registry is not None
    if isinstance(value, str):
        return find(parameter.registry, value)()
    if isinstance(value, Mapping):
        rest = dict(value)
        kind = find(parameter.registry, rest.pop(NAME)) if NAME in rest else type(parameter.default)
        start = {} if NAME in value else _fields(parameter.default)
        return kind(**filled(kind, start | rest, find))
    is_value = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if not is_value or not isinstance(value, parameter.registry.base()):
        raise ParameterError(
            f"{parameter.name} must be a {parameter.registry.kind} or the name of one, not {shown(value)}"
        )
    return value


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in parameters_of(type(value))}


def _place(owner: type, values: Mapping[str, Any], name: str, of: str) -> tuple[str, str]:
    """The part, and the name inside it, that a name means which is not a parameter of the owner itself."""
    parts = [each for each, parameter in parameters_of(owner).items() if parameter.registry is not None]
    paths = [(part, path) for part in parts for path, _ in all_parameters(values[part])]
    places = [(part, path) for part, path in paths if name in (f"{part}.{path}", path.rpartition(".")[2])]
    if len(places) > 1:
        ways = " or ".join(".".join(place) for place in places)
        raise ParameterError(f"{name} may be {ways}: write which")
    if not places:
        names = {*parameters_of(owner), *(path.rpartition(".")[2] for _, path in paths)}
        raise UnknownParameterError(unknown(f"parameter of {of}", name, names), name)
    return places[0]


def has_parameter(value: Any, name: str) -> bool:
    """Whether a value, or exactly one of its parts, has a parameter of this name."""
    return full_path(value, name) is not None


def full_path(value: Any, name: str) -> str | None:
    """Where a value has a parameter, itself or in exactly one of its parts: ``budget`` may be ``memory.budget``."""
    paths = [path for path, _ in all_parameters(value)]
    places = [name] if name in paths else [path for path in paths if path.rpartition(".")[2] == name]
    return places[0] if len(places) == 1 else None


def parameter_value(value: Any, name: str) -> Any:
    """A parameter of a value, or of the one part that has it; ``None`` if there is none."""
    for path, _ in all_parameters(value):
        if path.rpartition(".")[2] == name:
            return reduce(getattr, path.split("."), value)
    return None


def _changed(part: Any, path: str, value: Any) -> Any:
    """A part with another value of one of its parameters."""
    name, _, inner = path.partition(".")
    known = parameters_of(type(part))
    if name not in known:
        raise ParameterError(unknown(f"parameter of {type(part).__name__}", name, known))
    if inner:
        value = _changed(getattr(part, name), inner, value)
    elif known[name].registry is not None:
        value = _part(known[name], value, Registry.find)
    return dataclasses.replace(part, **{name: value})


def check_option(name: str, value: Any, at_least: int | None = None) -> None:
    """Refuses what is no whole number, or below ``at_least``; without it, what is neither true nor false."""
    kind = bool if at_least is None else int
    Parameter(name, kind, False, (), None, Param("", at_least=at_least)).check(value)


def check_parameters(owner: Any) -> None:
    """Checks every parameter of a value."""
    for name, parameter in parameters_of(type(owner)).items():
        parameter.check(getattr(owner, name))


def values_of(owner: Any) -> dict[str, Any]:
    """The parameters of a value as plain ones: a part is a mapping of its name and parameters."""
    values = {}
    for name, parameter in parameters_of(type(owner)).items():
        values[name] = getattr(owner, name)
        if parameter.registry is not None:
            values[name] = {NAME: parameter.registry.name_of(type(values[name])), **values_of(values[name])}
    return values


def parse_assignments(owner: type, assignments: Iterable[str], of: str) -> dict[str, Any]:
    """``["tau=0.5", "memory=kmeans", …]`` as arguments of ``owner``; ``of`` names the owner in error messages."""
    if isinstance(assignments, str) or not isinstance(assignments, Iterable):
        raise ParameterError(f"assignments must be a list of texts 'name=value', not {shown(assignments)}")
    written = dict(assignment(each) for each in assignments)
    known = parameters_of(owner)
    given = {name: known[name].parse(text) for name, text in written.items() if name in known}
    for name, value in given.items():
        known[name].check(value)
    values = filled(owner, given)
    spelled: dict[tuple[str, str], str] = {}
    for name, text in written.items():
        if name not in known:
            part, path = place = _place(owner, values, name, of)
            if (before := spelled.setdefault(place, name)) != name:
                raise ParameterError(f"{before} and {name} are the same parameter: set it once")
            given[name] = dict(all_parameters(values[part]))[path].parse(text)
    filled(owner, given)
    return given


def known_assignments(owner: type, assignments: Iterable[str], of: str) -> list[str]:
    """Those of some assignments whose parameters ``owner`` has, or a part that they choose."""
    left = list(assignments)
    while True:
        try:
            parse_assignments(owner, left, of)
            return left
        except UnknownParameterError as error:
            left = [each for each in left if assignment(each)[0] != error.name]


def listed(text: str) -> list[str]:
    """Items between commas; an empty one among several is refused, since nobody means it.

    >>> listed("delome, ewc")
    ['delome', 'ewc']
    """
    items = [item.strip() for item in text.split(",")]
    if len(items) > 1 and "" in items:
        raise ParameterError(f"the list {shown(text)} has an empty item: leave out the comma")
    return items


def assignment(text: Any) -> tuple[str, str]:
    """Name and value of ``name=value``."""
    if not isinstance(text, str):
        raise ParameterError(f"{shown(text)} is not of the form 'name=value'")
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError(f"'{text}' is not of the form name=value")
    return name.strip(), value.strip()

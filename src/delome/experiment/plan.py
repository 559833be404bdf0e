"""Plan: many runs, as a product of lists of options with overrides and exclusions."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from delome.errors import ParameterError, shown, unknown
from delome.experiment.config import RunConfig
from delome.experiment.options import RunOptions
from delome.persistence.reading import read_regular

MOST_RUNS = 100_000
MOST_BYTES = 1 << 20
"""Bytes of a plan."""

SET = "set"
"""What a plan calls the parameters of methods, after the option of the command line."""


@dataclass(frozen=True)
class Plan:
    """A product of lists: every combination is a run.

    ``options`` are those of `RunOptions`, each a value or a list of values; those under ``set`` are parameters of the
    methods. An override sets options, to lists too, where others have the values of ``when``; an exclusion leaves out
    the runs that have all its values. Runs that turn out to be the same (budgets of a method without memory) are one.

    >>> plan = Plan({"method": ["finetune", "ewc"]}, [{"when": {"method": "ewc"}, "set": {"strength": [1, 10]}}])
    >>> [(config.method, config.parameters.get("strength")) for config in plan.configs()]
    [('finetune', None), ('ewc', 1.0), ('ewc', 10.0)]
    """

    options: Mapping[str, Any]
    overrides: Sequence[Mapping[str, Any]] = ()
    exclusions: Sequence[Mapping[str, Any]] = ()
    select: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Self:
        """The plan in a TOML file: options, ``[set]``, ``[[override]]``, ``[[exclude]]`` and ``[select]``."""
        try:
            content = tomllib.loads(read_regular(file, MOST_BYTES).decode())
        except OSError as error:
            raise ParameterError(f"cannot read the plan '{file}': {error.strerror or error}") from None
        except (ValueError, RecursionError) as error:
            raise ParameterError(f"the plan '{file}' is not TOML: {error}") from None
        empty: dict[str, Any] = {"override": [], "exclude": [], "select": {}}
        parts = {name: content.pop(name, default) for name, default in empty.items()}
        for name, part in parts.items():
            if type(part) is not type(empty[name]):
                raise ParameterError(f"'{name}' of the plan '{file}' must be written as {_HEADINGS[name]}")
        return cls(content, parts["override"], parts["exclude"], parts["select"])

    def __post_init__(self) -> None:
        for each in (self.options, *self.overrides, *self.exclusions):
            _check(each)
        if any(not each.get("when") for each in self.overrides):
            raise ParameterError("an [[override]] needs a when = { … } that says which runs it changes")
        if any("when" in each for each in (self.options, *self.exclusions)):
            raise ParameterError("'when' belongs to an [[override]]: an [[exclude]] has the options themselves")

    @property
    def given(self) -> dict[str, list[str]]:
        """For the digest of each run the names of options that are not as usual, and of parameters that are set."""
        usual, found = RunOptions(), dict[str, list[str]]()
        for options in self._combinations(set()):
            names = [name for name, value in options.items() if value != getattr(usual, name, None)]
            found.setdefault(_resolved(options).digest, []).extend(name.removeprefix(f"{SET}.") for name in names)
        return {digest: list(dict.fromkeys(names)) for digest, names in found.items()}

    def configs(self) -> list[RunConfig]:
        """Every run, those with the same configuration once, with the seeds of all of them."""
        found: dict[str, RunConfig] = {}
        used: set[int] = set()
        for options in self._combinations(used):
            config = _resolved(options)
            same = found.setdefault(config.digest, config)
            if same.seedless != config.seedless:
                raise ParameterError(
                    f"two runs of the plan have the same name, {config.slug}: move one to another plan"
                )
            if same.seeds != config.seeds:
                found[config.digest] = replace(same, seeds=sorted({*same.seeds, *config.seeds}))
        rules = [
            *((each["when"], "[[override]]") for each in self.overrides),
            *((e, "[[exclude]]") for e in self.exclusions),
        ]
        if idle := [rule for number, rule in enumerate(rules) if number not in used]:
            raise ParameterError(f"an {idle[0][1]} fits no run of the plan: {dict(idle[0][0])}")
        if not found:
            raise ParameterError("the plan has no runs: every combination is excluded")
        return list(found.values())

    def _combinations(self, used: set[int]) -> Iterator[dict[str, Any]]:
        """Options of every run; ``used`` gets the numbers of the overrides, and then exclusions, that fit one."""
        for options in _expanded(_flat(self.options)):
            for changed in self._overridden(options, used):
                fitting = [number for number, each in enumerate(self.exclusions) if _fits(changed, each)]
                used |= {len(self.overrides) + number for number in fitting}
                if not fitting:
                    yield changed

    def _overridden(self, options: dict[str, Any], used: set[int]) -> list[dict[str, Any]]:
        """Options after the overrides, whose lists become values at once: the next may ask for one of them."""
        runs = [options]
        for number, override in enumerate(self.overrides):
            change = _flat({name: value for name, value in override.items() if name != "when"})
            before, runs = runs, []
            for run in before:
                if _fits(run, override["when"]):
                    used.add(number)
                    runs += _expanded(run | change)
                    _check_number(len(runs))
                else:
                    runs.append(run)
        return runs


_HEADINGS = {"override": "[[override]]", "exclude": "[[exclude]]", "select": "[select]"}


def _check(options: Mapping[str, Any]) -> None:
    names = {each.name for each in fields(RunOptions)} - {"assignments"} | {SET, "when"}
    for name, value in options.items():
        if name not in names:
            raise ParameterError(f"{unknown('option', name, names)}; parameters of methods stand under [set]")
        if name in (SET, "when") and not isinstance(value, Mapping):
            raise ParameterError(f"'{name}' must be a table of names and values, not {shown(value)}")
        if name == "when":
            _check(value)


def _flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options and parameters in one mapping, the latter as ``set.NAME``."""
    own = {name: value for name, value in options.items() if name != SET}
    return own | {f"{SET}.{name}": value for name, value in options.get(SET, {}).items()}


def _values(name: str, value: Any) -> list[Any]:
    """The values of an option; an order of classes is a list itself."""
    if not isinstance(value, list):
        return [value]
    is_order = name == "class_order" and not all(isinstance(each, list) for each in value)
    return [value] if is_order else value


def _expanded(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the values of lists."""
    lists = {name: _values(name, value) for name, value in options.items()}
    if empty := [name for name, values in lists.items() if not values]:
        raise ParameterError(f"the plan has an empty list of {empty[0]}: give it a value, or leave it out")
    _check_number(math.prod(map(len, lists.values())))
    return [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]


def _check_number(runs: int) -> None:
    if runs > MOST_RUNS:
        raise ParameterError(f"the plan has {runs:,} runs, and at most {MOST_RUNS:,} are allowed")


def _fits(options: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    defaults = RunOptions()
    for name, wanted in _flat(condition).items():
        value = options.get(name, getattr(defaults, name, None))
        if value not in _values(name, wanted):
            return False
    return True


def _resolved(options: Mapping[str, Any]) -> RunConfig:
    parameters = {name.removeprefix(f"{SET}."): value for name, value in options.items() if name.startswith(f"{SET}.")}
    own = {name: value for name, value in options.items() if not name.startswith(f"{SET}.")}
    assignments = [f"{name}={_written(value)}" for name, value in parameters.items() if value is not None]
    try:
        return RunConfig.resolve(**own, assignments=assignments)
    except ParameterError as error:
        defaults = RunOptions()
        given = {name: value for name, value in options.items() if getattr(defaults, name, None) != value}
        named = ", ".join(f"{name.removeprefix(f'{SET}.')} {value}" for name, value in given.items())
        raise ParameterError(f"a run of the plan is impossible ({named}): {error}") from None


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

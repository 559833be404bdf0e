"""Plan: many runs, as a product of lists of options with overrides and exclusions."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Self

from delome.errors import ParameterError, UnknownParameterError, UnsupportedError, shown, unknown
from delome.experiment.config import RunConfig
from delome.experiment.options import RunOptions
from delome.learning import METHODS
from delome.parameters import assignment, known_assignments, listed, parse_assignments
from delome.persistence.reading import read_regular
from delome.printable import plain

MOST_RUNS = 100_000
MOST_BYTES = 1 << 20
"""Bytes of a plan."""

SET = "set"
"""What a plan calls the parameters of methods, after the option of the command line."""


@dataclass(frozen=True)
class Plan:
    """A product of lists: every combination is a run.

    ``options`` are those of `RunOptions`, each a value or a list of values; those under ``set`` are parameters of the
    methods, for those that have them. An override sets options, to lists too, where others have the values of
    ``when``; an exclusion leaves out the runs that have all its values, and what a method declares it cannot do is left
    out as well, as long as it can do something else. ``notes`` say what was left out, or set for some methods only.
    Runs that turn out to be the same (budgets of a method without memory) are one.

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
        if counts := [each["seeds"] for each in (self.options, *self.overrides) if isinstance(each.get("seeds"), list)]:
            raise ParameterError(
                "seeds is how many there are, not a list: "
                f"to run exactly these, write seed = {shown(counts[0])} and no seeds"
            )
        if any("when" in each for each in (self.options, *self.exclusions)):
            raise ParameterError("'when' belongs to an [[override]]: an [[exclude]] has the options themselves")

    @property
    def given(self) -> dict[str, list[str]]:
        """For the digest of each run the names of options that are not as usual, and of parameters that are set."""
        usual, found = RunOptions(), dict[str, list[str]]()
        for options, config in self._resolved.runs:
            names = [name for name, value in options.items() if value != getattr(usual, name, None)]
            found.setdefault(config.digest, []).extend(name.removeprefix(f"{SET}.") for name in names)
        return {digest: list(dict.fromkeys(names)) for digest, names in found.items()}

    @property
    def notes(self) -> list[str]:
        """What was left out because a method cannot do it, and what was set only for methods that have it."""
        left_out, unset = self._resolved.left_out, self._resolved.unset
        return [
            *(f"combinations of {', '.join(methods)} are left out: {why}" for why, methods in left_out.items()),
            *(
                f"{', '.join(methods)} {_have(methods)} no {name}: it is set for others"
                for name, methods in unset.items()
            ),
        ]

    def configs(self) -> list[RunConfig]:
        """Every run, those with the same configuration once, with the seeds of all of them."""
        found: dict[str, RunConfig] = {}
        for _, config in self._resolved.runs:
            same = found.setdefault(config.digest, config)
            if same.seedless != config.seedless:
                raise ParameterError(
                    f"two runs of the plan have the same name, {config.slug}: move one to another plan"
                )
            if same.seeds != config.seeds:
                found[config.digest] = replace(same, seeds=sorted({*same.seeds, *config.seeds}))
        if not found:
            raise ParameterError("the plan has no runs: every combination is excluded")
        return list(found.values())

    @cached_property
    def _resolved(self) -> _Resolved:
        """Every combination as a run, as far as its method can do it."""
        used: set[int] = set()
        found = _Resolved()
        for options in self._combinations(used):
            found.add(options)
        rules = [
            *((each["when"], "[[override]]") for each in self.overrides),
            *((e, "[[exclude]]") for e in self.exclusions),
        ]
        if idle := [rule for number, rule in enumerate(rules) if number not in used]:
            raise ParameterError(f"an {idle[0][1]} fits no run of the plan: {_as_toml(idle[0][0])}")
        found.check()
        return found

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


@dataclass
class _Resolved:
    """Runs with their options, and what these asked for that methods cannot do or do not have.

    ``left_out`` has methods by the sentence that says why, ``unset`` has them by the name of a parameter.
    """

    runs: list[tuple[dict[str, Any], RunConfig]] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    unset: dict[str, list[str]] = field(default_factory=dict)
    _impossible_methods: dict[str, ParameterError] = field(default_factory=dict)
    _unknown_parameters: dict[str, ParameterError] = field(default_factory=dict)
    """What is raised if no run has the method, or the parameter."""

    def add(self, options: Mapping[str, Any]) -> None:
        """Resolves the options of a run, without parameters that its method does not have."""
        method, left = options.get("method", RunOptions.method), dict(options)
        while True:
            try:
                self.runs.append((left, _config(left)))
                return
            except UnknownParameterError as error:
                if left.pop(f"{SET}.{error.name}", None) is None:  # it is not a name of the plan
                    raise _impossible(options, error) from None
                _note(self.unset, error.name, method)
                self._unknown_parameters.setdefault(error.name, _impossible(options, error))
            except UnsupportedError as error:
                _note(self.left_out, str(error), method)
                self._impossible_methods.setdefault(method, _impossible(options, error))
                return
            except ParameterError as error:
                raise _impossible(options, error) from None

    def check(self) -> None:
        """Refuses a method that can do none of what it was asked for, and a parameter that no method has."""
        methods = {config.method for _, config in self.runs}
        parameters = {name.removeprefix(f"{SET}.") for options, _ in self.runs for name in options}
        refusals = [error for name, error in self._impossible_methods.items() if name not in methods]
        refusals += [error for name, error in self._unknown_parameters.items() if name not in parameters]
        if refusals:
            raise refusals[0]


def _have(methods: Sequence[str]) -> str:
    return "has" if len(methods) == 1 else "have"


def _note(notes: dict[str, list[str]], about: str, method: str) -> None:
    if method not in notes.setdefault(about, []):
        notes[about].append(method)


_HEADINGS = {"override": "[[override]]", "exclude": "[[exclude]]", "select": "[select]"}


def _check(options: Mapping[str, Any]) -> None:
    names = {each.name for each in fields(RunOptions)} - {"assignments"} | {SET}
    for name, value in options.items():
        if name not in names and name != "when":  # no option: refused below where it does not belong
            raise ParameterError(f"{unknown('option', name, names)}; parameters of methods go under [set]")
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


def _as_toml(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in _flat(options).items())


def _fits(options: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    defaults = RunOptions()
    for name, wanted in _flat(condition).items():
        value = options.get(name, getattr(defaults, name, None))
        if value not in _values(name, wanted):
            return False
    return True


def _config(options: Mapping[str, Any]) -> RunConfig:
    parameters = {name.removeprefix(f"{SET}."): value for name, value in options.items() if name.startswith(f"{SET}.")}
    own = {name: value for name, value in options.items() if not name.startswith(f"{SET}.")}
    assignments = [f"{name}={_written(value)}" for name, value in parameters.items() if value is not None]
    return RunConfig.resolve(**own, assignments=assignments)


def _impossible(options: Mapping[str, Any], error: ParameterError) -> ParameterError:
    defaults = RunOptions()
    given = {name: value for name, value in options.items() if getattr(defaults, name, None) != value}
    named = ", ".join(f"{name.removeprefix(f'{SET}.')} {plain(value)}" for name, value in given.items())
    return ParameterError(f"a run of the plan is impossible ({named}): {error}")


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def values_between_commas(methods: Sequence[str], assignments: Sequence[str]) -> dict[str, list[str]]:
    """Values of parameters as a command line has them: several have commas between them.

    What one of the methods takes as it is written is a single value.

    >>> values_between_commas(["finetune"], ["epochs=5,10", "fanout=25,10"])
    {'epochs': ['5', '10'], 'fanout': ['25,10']}
    """
    texts = dict(map(assignment, assignments))
    alone = [f"{name}={text}" for name, text in texts.items() if "," not in text]
    found = {}
    for name, text in texts.items():
        whole = "," not in text or any(_takes(method, f"{name}={text}", alone) for method in methods)
        found[name] = [text] if whole else listed(text)
    return found


def _takes(method: str, written: str, others: Sequence[str]) -> bool:
    """Whether a method has a parameter, perhaps in a part that others choose, which may have the value."""
    kind, of = METHODS.importable(method), f"method {method}"
    try:
        parse_assignments(kind, [*known_assignments(kind, others, of), written], of)
    except ParameterError:
        return False
    return True

"""Selection: hyper-parameters chosen on validation nodes, never on test nodes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, Self, TypeAlias

from delome.errors import ParameterError, PersistenceError, shown, unknown
from delome.experiment.config import RunConfig
from delome.experiment.folder import SELECTION_KIND, SELECTIONS
from delome.experiment.seed_folder import finished_result
from delome.learning import METHODS, Learner
from delome.parameters import all_parameters, filled, full_path, has_parameter, listed, parameter_value, values_of
from delome.persistence.documents import read_document, write_document
from delome.persistence.files import make_folder, reporting_write_errors
from delome.printable import counted, plain
from delome.registry import Registry

log = logging.getLogger(__name__)

PROTOCOLS = {
    "honest": "candidates are compared on the first tasks alone, as a continual learner may",
    "benchmark": "each candidate runs the whole stream, which looks ahead",
}
FOLDER, KIND = SELECTIONS, SELECTION_KIND

Space: TypeAlias = Mapping[str, Sequence[Any]]
"""Values of parameters, every combination of which is a candidate."""


@dataclass(frozen=True)
class Selection:
    """How candidates are compared, and which: by default each method's own ``search`` space.

    A candidate's score is its mean AA over seeds on **validation** nodes: after the first ``tasks`` (``honest``), or
    after the whole stream (``benchmark``). The first of equals wins, and its whole run counts.
    """

    protocol: str = "honest"
    tasks: int = 3
    space: Space | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.protocol, str):
            raise ParameterError(
                f"the protocol of a selection must be {' or '.join(PROTOCOLS)}, not {shown(self.protocol)}"
            )
        if self.protocol not in PROTOCOLS:
            raise ParameterError(unknown("protocol of selection", self.protocol, PROTOCOLS))
        if type(self.tasks) is not int or self.tasks < 1:
            raise ParameterError(
                f"the tasks of a selection must be a whole number of at least 1, not {shown(self.tasks)}"
            )
        if self.space is not None and not self.space:
            raise ParameterError("the space of a selection is empty: give it parameters, or leave it out")
        if empty := [name for name, values in (self.space or {}).items() if not values]:
            raise ParameterError(f"a selection has no values of {empty[0]}: give it some, or leave it out")

    @classmethod
    def parse(cls, texts: Iterable[str], tasks: int | None = None) -> Self | None:
        """``honest``, ``benchmark``, or ``NAME=VALUE,VALUE…``, which replaces the methods' own spaces."""
        protocol, space = "", dict[str, list[str]]()
        texts = [text for text in texts if text != "none"]
        for text in texts:
            name, given, values = text.partition("=")
            if given:
                space[name.strip()] = listed(values)
            elif protocol not in ("", text):
                raise ParameterError(f"one protocol of selection at a time: {protocol} or {text}")
            else:
                protocol = text
        protocol = protocol or "honest"
        return cls(protocol, cls.tasks if tasks is None else tasks, space or None) if texts else None

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Self | None:
        """The selection of a plan."""
        if odd := sorted(table.keys() - {"protocol", "tasks", "space"}):
            raise ParameterError(unknown("entry of [select]", odd[0], ["protocol", "tasks", "space"]))
        space = table.get("space")
        if space is not None and not (isinstance(space, Mapping) and all(isinstance(v, list) for v in space.values())):
            raise ParameterError("the space of [select] must be a table of lists, e.g. space = { strength = [1, 100] }")
        return cls(**table) if table else None

    def in_words(self, chosen: Mapping[str, Any], saw_all: bool = False) -> str:
        """How parameters were chosen, and which."""
        return selected(self.protocol, self.tasks if self.protocol == "honest" else None, chosen, saw_all)

    def compared(self, configs: Sequence[RunConfig], given: Mapping[str, Iterable[str]]) -> dict[str, list[Candidate]]:
        """By digest what is compared for each run, see `candidates`; a parameter that no method has is refused."""
        learners = [config.learner(config.seeds[0]) for config in configs] if self.space else []
        for name in self.space or ():
            if not any(has_parameter(learner, name) for learner in learners):
                raise ParameterError(unknown("parameter to select", name, set().union(*map(_names, learners))))
        return {config.digest: self.candidates(config, given.get(config.digest, ())) for config in configs}

    def candidates(self, config: RunConfig, given: Iterable[str] = ()) -> list[Candidate]:
        """What is compared for a run: nothing if the method has no such parameters; ``given`` ones are not chosen.

        Of a space of one's own a method is selected on those parameters that it has.
        """
        learner = config.learner(config.seeds[0])
        given = list(given)
        for name, other in product(self.space or (), given):
            if has_parameter(learner, name) and full_path(learner, name) == full_path(learner, other):
                raise ParameterError(f"{name} is to be selected, but {other} is given too: leave out one of them")
        own = METHODS.importable(config.method).search
        spaces = _without(own, learner, given) if self.space is None else _having(learner, self.space)
        found: dict[str, Candidate] = {}
        for written in (written for space in spaces for written in _product(space)):
            if not all(has_parameter(learner, name) for name in written):
                continue
            chosen = {name: _parsed(learner, name, value) for name, value in written.items()}
            whole = _with(config, chosen)
            short = dataclasses.replace(whole, tasks=min(self.tasks, config.tasks or self.tasks))
            found.setdefault(whole.digest, Candidate(chosen, short if self.protocol == "honest" else whole, whole))
        return list(found.values())


@dataclass
class Candidate:
    """Parameters that are tried, the run that shows what they are worth, and the run of the whole stream."""

    chosen: dict[str, Any]
    tried: RunConfig
    whole: RunConfig
    scores: list[float] = field(default_factory=list)

    @property
    def score(self) -> float:
        """Mean over seeds of AA on validation nodes."""
        return mean(self.scores) if self.scores else float("-inf")


def in_words(chosen: Mapping[str, Any]) -> str:
    """Parameters and their values.

    >>> in_words({"strength": 1e6, "radius": None})
    'strength 1000000, radius none'
    """
    return ", ".join(f"{name} {plain(value)}" for name, value in chosen.items())


def selected(protocol: str, tasks: int | None, chosen: Mapping[str, Any], saw_all: bool = False) -> str:
    """How parameters were chosen, and which; ``saw_all``: the first tasks were the whole stream.

    >>> selected("honest", 3, {"strength": 10.0})
    'honest (first 3 tasks): strength 10'
    >>> selected("honest", 1, {"strength": 10.0}, saw_all=True)
    'honest (first task, which is all): strength 10'
    """
    if tasks is not None:
        first, all_of_them = ("task", "is all") if tasks == 1 else (f"{tasks} tasks", "are all")
        protocol += f" (first {first}{f', which {all_of_them}' if saw_all else ''})"
    return f"{protocol}: {in_words(chosen)}"


def winner(candidates: Sequence[Candidate], out: Path, finished: Container[tuple[str, int]]) -> Candidate | None:
    """The candidate with the highest score, of which every seed was run; none if no candidate was.

    ``finished`` are folder names and seeds: other results in ``out`` may be those of another graph of the same name.
    """
    for candidate in candidates:
        config = candidate.tried
        own = [(config.slug, seed) for seed in config.seeds]
        found = [finished_result(out / name, seed) if (name, seed) in finished else None for name, seed in own]
        candidate.scores = [] if None in found else [float(each["validation_aa"]) for each in found if each is not None]
    best = max(candidates, key=lambda candidate: candidate.score)
    return best if best.scores else None


def write_selection(
    selection: Selection,
    config: RunConfig,
    candidates: Sequence[Candidate],
    chosen: Candidate,
    out: Path,
    saw_all: bool = False,
) -> None:
    """Leaves the candidates, their scores and the winner beside the runs."""
    content = {
        "protocol": selection.protocol,
        "tasks": selection.tasks if selection.protocol == "honest" else None,
        "saw_all": saw_all,
        "run": config.seedless,
        "seeds": config.seeds,
        "candidates": [
            {
                "chosen": each.chosen,
                "tried": each.tried.slug,
                "whole": each.whole.slug,
                "validation_aa": each.scores,
            }
            for each in candidates
        ],
        "winner": list(candidates).index(chosen),
    }
    key = json.dumps([content["protocol"], content["tasks"], config.seedless, [each.chosen for each in candidates]])
    name = f"{config.slug}-{selection.protocol}-{hashlib.sha256(key.encode()).hexdigest()[:8]}.json"
    file = out / FOLDER / name
    _note_other_winner(file, config, chosen)
    with reporting_write_errors(file):
        make_folder(out / FOLDER)
        write_document(file, KIND, content)


def _note_other_winner(file: Path, config: RunConfig, chosen: Candidate) -> None:
    """Says that a selection has chosen otherwise than when it was last made, with other seeds."""
    with suppress(
        PersistenceError, KeyError, TypeError, IndexError, AttributeError
    ):  # there was none, or it is damaged
        before = read_document(file, KIND)
        earlier, seeds = before["candidates"][before["winner"]], counted(len(before["seeds"]), "seed")
        if earlier["whole"] != chosen.whole.slug:
            log.warning(
                "%s on %s, %s: the selection now chooses %s (%s) instead of %s (%s), whose run no longer counts",
                config.method,
                config.dataset,
                config.parameters["setting"],
                in_words(chosen.chosen),
                counted(len(config.seeds), "seed"),
                in_words(earlier["chosen"]),
                seeds,
            )


def _without(spaces: Sequence[Space], learner: Learner, given: Iterable[str]) -> list[Space]:
    """What is left to choose of spaces if parameters are given; of spaces that differ in one, those with its value."""
    paths = {path for name in given if (path := full_path(learner, name)) is not None}
    left = list(spaces)
    for name in sorted({name for space in spaces for name in space if full_path(learner, name) in paths}):
        value = parameter_value(learner, name.rpartition(".")[2])
        known = any(value in space.get(name, ()) for space in left)
        fitting = [space for space in left if name not in space or not known or value in space[name]]
        left = [{each: space[each] for each in space if each != name} for space in fitting]
    return [space for space in left if space]


def _having(learner: Learner, space: Space) -> list[Space]:
    """The part of a space whose parameters a learner has; nothing if it has none of them."""
    found = {name: values for name, values in space.items() if has_parameter(learner, name)}
    return [found] if found else []


def _names(learner: Learner) -> set[str]:
    """How the parameters of a learner can be called: with their part where two parts have one of the same name."""
    names = {path: path.rpartition(".")[2] for path, _ in all_parameters(learner)}
    return {name if has_parameter(learner, name) else path for path, name in names.items()}


def _product(space: Space) -> Iterable[dict[str, Any]]:
    return (dict(zip(space, values, strict=True)) for values in product(*space.values()))


def _parsed(learner: Learner, name: str, value: Any) -> Any:
    """A value as the parameter has it, be it written on a command line or in a plan; of a part its name."""
    path = full_path(learner, name)
    assert path is not None
    parameter, text = dict(all_parameters(learner))[path], "none" if value is None else str(value)
    found = parameter.parse(text)
    parameter.check(found)
    return found if parameter.registry is None else text


def _with(config: RunConfig, chosen: Mapping[str, Any]) -> RunConfig:
    """The same run with other parameters."""
    kind = METHODS.importable(config.method)
    given = {**config.parameters, "seed": config.seeds[0], **chosen}
    parameters = values_of(kind(**filled(kind, given, Registry.importable)))
    del parameters["seed"]
    return dataclasses.replace(config, parameters=parameters)

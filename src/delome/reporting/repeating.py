"""The command that repeats a run, from what its folder says about it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from delome.errors import DelomeError
from delome.experiment.config import CLASSES_PER_TASK, RunConfig
from delome.experiment.folder import flat
from delome.experiment.options import RunOptions
from delome.streams import parse_kind

SHORT = ("backbone", "budget", "epochs")
"""Parameters of methods that are options as well."""

OPTIONS = tuple(field.name for field in fields(RunOptions) if field.name not in SHORT)

OTHERWISE = ("stream_kind", "inter_task_edges", "asked", "learned_from")
"""Settings of a configuration that an option of another name decides, or the method."""

PYTHON_ONLY = "class_order"
"""What no command has an option for."""


def command_of(config: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """The ``delome run`` of a configuration whose parameters stand under dotted names; only what is not as usual is
    said, unless the run has parts from elsewhere, whose usual values are not known here.

    >>> from delome.experiment.config import RunConfig
    >>> command_of(flat_config(RunConfig.resolve("digits", "delome", budget=5, assignments=["tau=0.5"])), [0, 1])
    'delome run --dataset digits --method delome --seeds 2 --budget 5 --set loss.tau=0.5'
    """
    options = _options(config)
    usual = {name: getattr(RunOptions(), name) for name in OPTIONS} | _usual_protocol(options["stream"])
    words = ["delome", "run", "--dataset", str(config["dataset"]), "--method", str(config["method"])]
    for name, value in options.items():
        if name not in ("dataset", "method", PYTHON_ONLY) and value != usual[name]:
            words += _option(name, value)
    first, number = (min(seeds), len(seeds)) if seeds else (0, 1)
    if first:
        words += ["--seed", str(first)]
    if number > 1:
        words += ["--seeds", str(number)]
    parameters = {name: value for name, value in config.items() if name not in (*OPTIONS, *OTHERWISE)}
    changed = _changed(options, parameters)
    short: dict[str, str] = {}
    for name, value in list(changed.items()):
        last = name.rpartition(".")[2]
        if last in SHORT and last not in short and value is not None:
            short[last] = _text(changed.pop(name))
    words += [word for name in SHORT if name in short for word in (f"--{name}", short[name])]
    words += [word for name, value in changed.items() for word in ("--set", f"{name}={_text(value)}")]
    order = config.get(PYTHON_ONLY)
    return shlex.join(words) + ("" if order is None else f"  # from Python, with {PYTHON_ONLY}={order}")


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run, from its settings."""
    found = {name: config[name] for name in OPTIONS if name in config and name not in OTHERWISE}
    if found.get("classes_per_task") == CLASSES_PER_TASK:
        found["classes_per_task"] = None  # as it is where nobody asks for another number, or nobody may
    cut = "grown" if config.get("inter_task_edges") else "cut"
    return found | {"stream": config.get("stream_kind", "classes"), "test_graph": config.get("test_graph", cut)}


def _usual_protocol(stream: str) -> dict[str, Any]:
    """The test graph of a stream if none is asked for; that of a kind which is not installed here is not known."""
    with suppress(DelomeError):
        return {"test_graph": parse_kind(stream).usual_test_graph}
    return {}


def flat_config(config: RunConfig) -> dict[str, Any]:
    """A configuration as records have it: parameters of methods beside the options, under dotted names."""
    return flat({name: value for name, value in config.seedless.items() if name != "parameters"} | config.parameters)


def _changed(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that are not as usual: first the parts, then what is different in them."""
    if any(":" in text for text in (options["method"], *given.values()) if isinstance(text, str)):
        return dict(given)  # naming a part from elsewhere would import it
    chosen: dict[str, Any] = {}
    try:
        for parts_only in (True, False):
            assigned = [f"{name}={_text(value)}" for name, value in chosen.items()]
            now = flat_config(RunConfig.resolve(**options, assignments=assigned))
            different = {name: value for name, value in given.items() if name not in now or now[name] != value}
            chosen |= {name: each for name, each in different.items() if not parts_only or _names_part(each, name, now)}
    except DelomeError:  # of a dataset that is gone, or of another version
        return dict(given)
    return chosen


def _names_part(value: Any, name: str, now: Mapping[str, Any]) -> bool:
    return isinstance(value, str) and name in now and "." not in name


def _option(name: str, value: Any) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    return [flag] if value is True else [flag, _text(value)]


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)

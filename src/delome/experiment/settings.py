"""Settings of runs under short names: what tells runs apart, and how they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from delome.printable import plain

KEYS = ("dataset", "setting", "method", "backbone", "budget")
"""What a row is always described by; other settings are added if rows differ in them."""

DECLARED = ("asked", "learned_from")
"""Settings that a method decides: marks tell of them."""

BESIDE = ("device", "class_order", "split", "split_seed", "inter_task_edges", "classes_per_task", "tasks", *DECLARED)
"""Settings that are not listed among those a row averages over: how runs were measured has footnotes of its own."""

HOW = {"test_graph": "test graph", "test_nodes": "test nodes", "stream": "stream"}
"""Settings that say how a run was measured, and how footnotes call them: such runs are told apart, and pointed out."""

NAMELESS = ("dataset", "setting", "method", "backbone")
"""Settings whose values say by themselves what they are."""

SELECTION = "selection"
"""What says by which protocol parameters were selected, and which."""

PROTOCOL = ("dataset", "setting", *HOW, "class_order", "split", "split_seed", "classes_per_task", "tasks")
"""Settings by which a reader of a table sees that two rows were not measured alike, if they are columns."""


def settings_of(config: Mapping[str, Any], selection: str = "") -> dict[str, Any]:
    """Settings under the shortest names that tell them apart: ``memory.budget`` is called ``budget``."""
    short: dict[str, Any] = {}
    for path, value in config.items():
        name = path.rpartition(".")[2]
        short[path if name in short else name] = value
    if selection:
        short[SELECTION] = selection
    edges, inductive = short.get("inter_task_edges"), short.pop("inductive", False)
    how = {"test_graph": "grown" if edges else "cut", "test_nodes": "inductive" if inductive else "transductive"}
    return how | {"stream": short.pop("stream_kind", "classes")} | short


def named(settings: Mapping[str, Any]) -> str:
    """Settings for people, with their names where values alone would not do.

    >>> named({"dataset": "digits", "setting": "cil", "budget": 5, "strength": 1e6})
    'digits, cil, budget 5, strength 1000000'
    """
    return ", ".join(plain(value) if name in NAMELESS else f"{name} {plain(value)}" for name, value in settings.items())


def differing(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Settings that have several values among runs of one method (of another method they are what it is), or that say
    how runs were measured."""
    found: dict[str, None] = {}
    for method in dict.fromkeys(each["method"] for each in settings):
        own = [each for each in settings if each["method"] == method]
        for name in {name: None for each in own for name in each}:
            # what was selected everywhere stands beside the protocol of the selection
            selected = all(f" {name} " in each.get(SELECTION, "") for each in own)
            if len({repr(each.get(name)) for each in own}) > 1 and not selected:
                found[name] = None
    # how a run was measured is told of every row, whether or not runs of its own method differ in it
    found |= {name: None for name in HOW if len({repr(each.get(name)) for each in settings}) > 1}
    if any(SELECTION in each for each in settings):
        found[SELECTION] = None
    return list(found)


def telling(settings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each run those settings in which runs of its method differ.

    >>> ewc = {"method": "ewc", "lr": 0.1}
    >>> telling([ewc | {"strength": 1}, ewc | {"strength": 2}, {"method": "joint", "lr": 0.2}])
    [{'strength': 1}, {'strength': 2}, {}]
    """
    methods = {each["method"] for each in settings}
    names = {method: differing([each for each in settings if each["method"] == method]) for method in methods}
    return [{name: each[name] for name in names[each["method"]] if name in each} for each in settings]


def rank(value: Any) -> tuple[bool, float, str]:
    """Orders values: numbers as numbers, then words in their order."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return not number, float(value) if number else 0.0, str(value)

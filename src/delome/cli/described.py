"""What can be chosen, as one plain document: asked of the registries, or read from a file as long as these are not
imported and all they would hold is ours.

Importing every method takes seconds. ``tools/catalogue.py`` writes the file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from delome.datasets import Dataset
    from delome.learning import Learner
    from delome.parameters import Parameter
    from delome.streams import StreamKind

CATALOGUE = Path(__file__).with_name("catalogue.json")


def described() -> dict[str, Any]:
    """Methods, their parameters, datasets and backbones by name; packages that add to them are asked too."""
    if "delome.methods" in sys.modules or any(group.startswith("delome.") for group in entry_points().groups):
        return of_registries()
    found: dict[str, Any] = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    return found


def of_registries() -> dict[str, Any]:
    """The same from the classes themselves."""
    from delome.backbones import BACKBONES
    from delome.datasets import DATASETS
    from delome.learning import METHODS
    from delome.streams import STREAMS

    return {
        "methods": {name: about_method(each) for name, each in METHODS.items()},
        "parameters": {name: parameters_of_method(each) for name, each in METHODS.items()},
        "datasets": {name: _dataset(each) for name, each in DATASETS.items()},
        "backbones": {name: {} for name in BACKBONES},
        "streams": {name: _stream(each) for name, each in STREAMS.items()},
    }


def completing(kind: str) -> Callable[[], list[str]]:
    """Completes an option in a shell to the names of a kind."""
    return lambda: list(described()[kind])


def about_method(method: type[Learner]) -> dict[str, Any]:
    """What a method is and does, and the spaces that a selection searches."""
    from delome.streams import STREAMS

    return {
        "summary": method.summary,
        "family": method.family,
        "settings": list(method.settings),
        "keeps": asdict(method.keeps),
        "needs_past": method.needs_past,
        "streams": [
            name for name in method.streams if name in STREAMS and {*STREAMS[name].settings} & {*method.settings}
        ],
        "judges": method.judges,
        "learns_from": method.learns_from,
        "citation": method.citation,
        "search": [{name: list(values) for name, values in space.items()} for space in method.search],
    }


def parameters_of_method(method: type[Learner]) -> dict[str, dict[str, Any]]:
    """Parameters of a method and its parts by their paths, each with the values that a selection tries."""
    from delome.parameters import all_parameters, full_path

    searched: dict[str | None, list[Any]] = {}
    for name, values in (each for space in method.search for each in space.items()):
        searched.setdefault(full_path(method, name), []).extend(values)
    return {path: _parameter(each) | {"search": searched.get(path)} for path, each in all_parameters(method)}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    registry, default = parameter.registry, parameter.default
    return {
        "type": parameter.type.__name__ if registry is None else "part",
        "default": default if registry is None else registry.name_of(type(default)),
        "choices": list(parameter.choices if registry is None else registry) or None,
        "optional": parameter.optional,
        "at_least": parameter.param.at_least,
        "above": parameter.param.above,
        "at_most": parameter.param.at_most,
        "help": parameter.param.help,
    }


def _stream(kind: type[StreamKind]) -> dict[str, Any]:
    from delome.parameters import parameters_of

    return {
        "summary": kind.summary,
        "settings": list(kind.settings),
        "test_graph": kind.usual_test_graph,
        "parameters": {name: _parameter(each) for name, each in parameters_of(kind).items()},
    }


def _dataset(dataset: Dataset) -> dict[str, Any]:
    published = dataset.published
    return {
        "summary": dataset.summary,
        "budget": dataset.budget,
        "options": {name: value for name, value in dataset.options.items() if isinstance(value, int | float)},
        "published": None
        if published is None
        else {
            "name": published.name,
            "archive": published.archive,
            "layouts": [list(layout) for layout in published.layouts],
        },
    }

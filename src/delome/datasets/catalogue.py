"""The catalogue: every dataset by name, with what it is and the budget it is usually run with.

A dataset is named by one string, ``name`` or ``name:argument`` or ``name:key=value,key=value``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from delome.datasets import digits, files, synthetic
from delome.errors import DatasetError, unknown
from delome.graph import Graph
from delome.parameters import Param, Parameter


@dataclass(frozen=True)
class Dataset:
    """One source of graphs."""

    load: Callable[..., Graph]
    summary: str
    budget: int

    @property
    def options(self) -> dict[str, Any]:
        """Options with their defaults; an option without a default is the argument after the colon."""
        return {name: parameter.default for name, parameter in inspect.signature(self.load).parameters.items()}


DATASETS: dict[str, Dataset] = {
    "digits": Dataset(
        digits.load, "1,797 handwritten digits as a nearest-neighbour graph: 64 features, 10 classes", 20
    ),
    "synthetic": Dataset(synthetic.load, "attributed stochastic block model of any size, homophily and imbalance", 60),
    "file": Dataset(files.load, "your own graph: file:PATH to an .npz (CSR layout) or a .pt with a PyG Data", 60),
}


def load_graph(name: str, **options: Any) -> Graph:
    """Graph by catalogue name, e.g. ``"digits"``, ``"file:my.npz"``, ``"synthetic:nodes=10000,classes=8"``.

    >>> load_graph("synthetic", nodes=1000, classes=4)
    Graph(nodes=1000, edges=9870, features=32, classes=4)
    """
    dataset, written = parse_name(name)
    return dataset.load(**(written | _checked_options(name, dataset, options)))


def parse_name(name: str) -> tuple[Dataset, dict[str, Any]]:
    """Catalogue entry and options written in a dataset name; refuses what the entry does not know."""
    source, _, rest = name.partition(":")
    if source not in DATASETS:
        raise DatasetError(unknown("dataset", source, DATASETS))
    dataset = DATASETS[source]
    options: dict[str, Any] = {}
    pieces = rest.split(",") if rest else []
    positional = [option for option, default in dataset.options.items() if default is inspect.Parameter.empty]
    if positional:
        # a path may itself hold commas and equals signs: only trailing known options are taken off
        while len(pieces) > 1 and pieces[-1].partition("=")[0] in dataset.options:
            option, _, text = pieces.pop().partition("=")
            options[option] = text
        if not rest:
            raise DatasetError(f"dataset '{source}' needs an argument: write {source}:{positional[0].upper()}")
        options[positional[0]] = ",".join(pieces)
    else:
        for piece in pieces:
            option, equals, text = piece.partition("=")
            if not equals:
                raise DatasetError(f"'{piece}' in dataset '{name}' is not of the form option=value")
            options[option.strip()] = text.strip()
    return dataset, _checked_options(name, dataset, options)


def _checked_options(name: str, dataset: Dataset, options: dict[str, Any]) -> dict[str, Any]:
    """Options with the types of their defaults."""
    known = dataset.options
    checked: dict[str, Any] = {}
    for option, value in options.items():
        if option not in known:
            raise DatasetError(unknown(f"option of dataset {name.partition(':')[0]}", option, known))
        parameter = Parameter(
            option,
            str if known[option] is inspect.Parameter.empty else type(known[option]),
            False,
            (),
            known[option],
            Param(""),
        )
        checked[option] = parameter.parse(value) if isinstance(value, str) else value
        if checked[option] is value:
            parameter.check(value)
    return checked

"""The catalogue: every dataset by name, with what it is and the budget it is usually run with.

A dataset is named by one string, ``name`` or ``name:argument`` or ``name:key=value,key=value``; one that comes in
variants also by ``name:variant`` or ``name:variant,key=value``.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from delome.datasets.fetching.reading import Progress, silent
from delome.datasets.sources import digits, files, synthetic, twins
from delome.datasets.sources.published import PUBLISHED, Published
from delome.errors import DatasetError, shown, unknown
from delome.graph import Graph
from delome.parameters import Param, Parameter
from delome.registry import Registry

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Dataset:
    """One source of graphs; ``published`` says where its files come from if it has to be downloaded."""

    load: Callable[..., Graph]
    summary: str
    budget: int
    variants: Mapping[str, Dataset] = field(default_factory=dict)
    published: Published | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options with their defaults; an option without a default is the argument after the colon."""
        if self.published is not None:
            return {}
        return {name: parameter.default for name, parameter in inspect.signature(self.load).parameters.items()}


TWINS: dict[str, Dataset] = {
    name: Dataset(
        partial(twins.twin, name),
        f"generated twin of {name}: {shape.nodes:,} nodes, {shape.features:,} features, {shape.classes} classes",
        60 if name == "corafull" else 400,
    )
    for name, shape in twins.TWINS.items()
}


def _downloaded(name: str, what: str, budget: int = 60) -> Dataset:
    published = PUBLISHED[name]
    sizes = published.statistics
    summary = f"{what}: {sizes.nodes:,} nodes, {sizes.features:,} features, {sizes.classes} classes"
    return Dataset(published.load, summary, budget, published=published)


_OURS: dict[str, Dataset] = {
    "digits": Dataset(
        digits.load, "1,797 handwritten digits as a nearest-neighbour graph: 64 features, 10 classes", 20
    ),
    "synthetic": Dataset(
        synthetic.load,
        f"block model of any size, homophily and imbalance, or a twin: synthetic:{'|'.join(TWINS)}",
        60,
        TWINS,
    ),
    "file": Dataset(files.load, "your own graph: file:PATH to an .npz (CSR layout) or a .pt with a PyG Data", 60),
    "corafull": _downloaded("corafull", "CoraFull citations with word features"),
    "arxiv": _downloaded("arxiv", "ogbn-arxiv citations, directed", 400),
    "reddit": _downloaded("reddit", "Reddit posts joined by common commenters", 400),
    "products": _downloaded("products", "ogbn-products bought together", 400),
    "cora_ml": _downloaded("cora_ml", "Cora-ML citations with word features"),
    "citeseer": _downloaded("citeseer", "CiteSeer citations (CitationFull's version) with word features"),
    "dblp": _downloaded("dblp", "DBLP citations with word features"),
    "pubmed": _downloaded("pubmed", "PubMed citations (CitationFull's version) with word features"),
    "amazon_computers": _downloaded("amazon_computers", "Amazon computers bought together, words of reviews"),
    "amazon_photo": _downloaded("amazon_photo", "Amazon photo goods bought together, words of reviews"),
    "coauthor_cs": _downloaded("coauthor_cs", "authors in computer science, words of their papers"),
    "coauthor_physics": _downloaded("coauthor_physics", "authors in physics, words of their papers"),
}

DATASETS: Registry[Dataset] = Registry("dataset", "datasets")
for _name, _dataset in _OURS.items():
    DATASETS.add(_name, _dataset)


def load_graph(name: str, *, data_root: str | Path | None = None, progress: Progress = silent, **options: Any) -> Graph:
    """Graph by catalogue name, e.g. ``"digits"``, ``"file:my.npz"``, ``"synthetic:nodes=10000,classes=8"``.

    A published dataset such as ``"corafull"`` is downloaded once into ``data_root`` (else the folder in the
    environment variable ``DELOME_DATA``, else the platform's cache folder); ``progress`` is called as it proceeds.

    >>> load_graph("synthetic", nodes=1000, classes=4)
    Graph(nodes=1000, edges=9870, features=32, classes=4)
    """
    dataset, written = parse_name(name)
    chosen = written | _checked_options(name, dataset, options)
    if dataset.published is not None:
        chosen |= {"data_root": data_root, "progress": progress}
    try:
        graph = dataset.load(**chosen)
    except MemoryError:
        raise DatasetError(f"dataset '{name}' does not fit in memory: choose a smaller one") from None
    log.debug("loaded %s: %s", name, graph)
    return graph


def parse_name(name: str) -> tuple[Dataset, dict[str, Any]]:
    """Catalogue entry and options written in a dataset name; refuses what the entry does not know."""
    if not isinstance(name, str):
        raise DatasetError(f"a dataset is named by text such as 'digits', not by {shown(name)}")
    source, _, rest = name.partition(":")
    if source not in DATASETS:
        raise DatasetError(unknown("dataset", source, DATASETS))
    dataset = DATASETS[source]
    options: dict[str, Any] = {}
    pieces = rest.split(",") if rest else []
    if dataset.variants and pieces and "=" not in pieces[0]:
        variant = pieces.pop(0).strip()
        if variant not in dataset.variants:
            raise DatasetError(unknown(f"variant of dataset {source}", variant, dataset.variants))
        dataset = dataset.variants[variant]
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
            source = name.partition(":")[0]
            if not known:
                raise DatasetError(f"dataset '{source}' has no options, but '{option}' was given")
            raise DatasetError(unknown(f"option of dataset {source}", option, known))
        parameter = Parameter(
            option,
            str if known[option] is inspect.Parameter.empty else type(known[option]),
            False,
            (),
            known[option],
            Param(""),
        )
        checked[option] = parameter.parse(value) if isinstance(value, str) else value
        parameter.check(checked[option])
    return checked

"""``delome methods`` and ``delome datasets``: what there is."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, among, app
from delome.cli.messages import shown_progress
from delome.datasets import DATASETS, load_graph
from delome.datasets.catalogue import Dataset, parse_name
from delome.learning import METHODS
from delome.learning.footprint import FootprintFormula
from delome.parameters import Parameter, all_parameters
from delome.streams.task_stream import TaskStream

KEEPS_LEGEND = (
    "Methods keep this beside the network itself; b budget per class, C classes seen, F features (dense), T tasks, "
    "p network parameters, N nodes and E edges of all task graphs, D random features, P prototypes of dimension d, "
    "A extractors."
)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", hidden=True, autocompletion=among(METHODS))] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, or with NAME the parameters of one."""
    if name is not None:
        _method_parameters(name, as_json)
        return
    if as_json:
        rows = {
            name: {
                "summary": each.summary,
                "family": each.family,
                "settings": each.settings,
                "keeps": asdict(each.keeps),
                "needs_past": each.needs_past,
                "citation": each.citation,
            }
            for name, each in METHODS.items()
        }
        print(json.dumps(rows))
        return
    table = Table(Column("method", no_wrap=True), Column("what it does", overflow="fold"))
    for name, each in METHODS.items():
        past = "; reads past graphs" if each.needs_past else ""
        details = f"{each.family}; {each.citation}", f"keeps {_kept(each.keeps)}", ", ".join(each.settings) + past
        table.add_row(name, _with_details(each.summary, *details))
    console = Console()
    console.print(table)
    console.print(KEEPS_LEGEND, highlight=False)


def _kept(keeps: FootprintFormula) -> str:
    amounts = {"rows": keeps.rows, "floats": keeps.floats, "bytes": keeps.bytes}
    return "; ".join(f"{amount} {unit}" for unit, amount in amounts.items() if amount != "0") or "nothing"


def _with_details(summary: str, *details: str) -> Text:
    """One column for everything stays readable where several would be too narrow for a word."""
    return Text("\n").join([Text(summary), *(Text(detail, style="dim") for detail in details)])


def _method_parameters(name: str, as_json: bool) -> None:
    parameters = dict(all_parameters(METHODS.importable(name)))
    if as_json:
        document = {
            path: {
                "type": "part" if each.registry is not None else each.type.__name__,
                "default": _default(each),
                "choices": (list(each.registry) if each.registry is not None else each.choices) or None,
                "optional": each.optional,
                "at_least": each.param.at_least,
                "above": each.param.above,
                "help": each.param.help,
            }
            for path, each in parameters.items()
        }
        print(json.dumps(document))
        return
    columns = Column("parameter", no_wrap=True), Column("default", no_wrap=True), Column("meaning", overflow="fold")
    table = Table(*columns, title=Text(f"{name}: set with --set NAME=VALUE"))
    for path, each in parameters.items():
        default = _default(each)
        choices = list(each.registry) if each.registry is not None else each.choices
        details = [f"one of {', '.join(choices)}"] if choices else []
        table.add_row(path, "none" if default is None else str(default), _with_details(each.param.help, *details))
    Console().print(table)


def _default(parameter: Parameter) -> Any:
    """A default value; of a part its name."""
    registry = parameter.registry
    return parameter.default if registry is None else registry.name_of(type(parameter.default))


datasets_app = typer.Typer(help="List the datasets, or show one.", invoke_without_command=True)
app.add_typer(datasets_app, name="datasets")


@datasets_app.callback()
def datasets(context: typer.Context, data_root: DataRoot = None, as_json: AsJson = False) -> None:
    """List the datasets; 'delome datasets show NAME' looks into one."""
    if context.invoked_subcommand is not None:
        return
    if as_json:
        print(json.dumps({name: _dataset(each, data_root) for name, each in DATASETS.items()}))
        return
    table = Table(Column("dataset", no_wrap=True), Column("what it is", overflow="fold"))
    for name, each in DATASETS.items():
        about = _dataset(each, data_root)
        options = ", ".join(f"{option}={default}" for option, default in about["options"].items())
        details = [f"here: {about['here']}; usual budget: {each.budget}"]
        details += [f"options: {options}"] if options else []
        table.add_row(name, _with_details(each.summary, *details))
    Console().print(table)


def _dataset(dataset: Dataset, data_root: Path | None) -> dict[str, Any]:
    options = {name: default for name, default in dataset.options.items() if isinstance(default, int | float)}
    cached = "nothing" if dataset.published is None else dataset.published.cached(data_root)
    here = "always" if dataset.published is None else "to download" if cached == "nothing" else cached
    return {"summary": dataset.summary, "budget": dataset.budget, "options": options, "here": here}


@datasets_app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True, autocompletion=among(DATASETS))],
    classes_per_task: Annotated[int, typer.Option(metavar="N", help="New classes in each task.")] = 2,
    data_root: DataRoot = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Show sizes, homophily, tasks and classes of a dataset.

    NAME is what 'delome run --dataset' takes. A published dataset that is not here yet is downloaded.
    """
    from delome.graph.statistics import GraphStatistics
    from delome.report.datasets import describe_dataset

    with shown_progress(quiet, verbose) as progress, progress.watching():
        graph = load_graph(name, data_root=data_root, progress=progress.loading)
        progress.single("measuring the graph")
        stream = TaskStream(graph, classes_per_task)
        found = GraphStatistics.of(graph)
    dataset, _ = parse_name(name)
    if as_json:
        document = asdict(found) | {
            "dataset": name,
            "homophily": None if math.isnan(found.homophily) else found.homophily,
            "tasks": [[stream.classes[column] for column in task.classes] for task in stream],
            "dropped": {str(label): why for label, why in stream.dropped.items()},
            "here": _dataset(dataset, data_root)["here"],
        }
        print(json.dumps(document))
        return
    Console().print(describe_dataset(name, found, stream, dataset.published, data_root))

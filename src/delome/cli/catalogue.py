"""``delome methods``, ``delome streams`` and ``delome datasets``: what there is."""

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

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, app
from delome.cli.described import about_method, completing, described, parameters_of_method
from delome.cli.messages import shown_progress
from delome.datasets.fetching.cache import cache_root, what_is_here
from delome.printable import alternatives, plain

KEEPS_LEGEND = (
    "Methods keep this beside the network itself; b budget per class, C classes seen, F features (dense), T tasks, "
    "p network parameters, N nodes and E edges of all task graphs, D random features, P prototypes of dimension d, "
    "A extractors, h hidden units, k prompts."
)


@app.command()
def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", hidden=True, autocompletion=completing("methods"))
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, or with NAME the parameters of one."""
    if name is not None:
        _method_parameters(name, as_json)
        return
    found = described()["methods"]
    if as_json:
        print(json.dumps(found))
        return
    table = Table(Column("method", no_wrap=True), Column("what it does", overflow="fold"))
    for name, each in found.items():
        past = "; reads past graphs" if each["needs_past"] else ""
        past += "; must be asked about the nodes of one task together" if each["judges"] == "batches" else ""
        past += "; learns from features of test nodes too" if each["learns_from"] == "all nodes" else ""
        origin, settings = f"{each['family']}; {each['citation']}", ", ".join(each["settings"])
        table.add_row(
            name,
            _with_details(
                each["summary"],
                origin,
                f"keeps {_kept(each['keeps'])}",
                f"{settings}{past}",
                f"streams: {', '.join(each['streams'])}",
            ),
        )
    console = Console()
    console.print(table)
    console.print(KEEPS_LEGEND, highlight=False)


def _kept(keeps: dict[str, str]) -> str:
    return "; ".join(f"{amount} {unit}" for unit, amount in keeps.items() if amount != "0") or "nothing"


def _with_details(summary: str, *details: str) -> Text:
    """One column for everything stays readable where several would be too narrow for a word."""
    return Text("\n").join([Text(summary), *(Text(detail, style="dim") for detail in details)])


def _method_parameters(name: str, as_json: bool) -> None:
    found = described()
    if name in found["methods"]:
        about, parameters = found["methods"][name], found["parameters"][name]
    else:
        from delome.learning import METHODS

        method = METHODS.importable(name)
        about, parameters = about_method(method), parameters_of_method(method)
    if as_json:
        print(json.dumps(parameters))
        return
    columns = (
        Column("parameter", no_wrap=True),
        Column("default", overflow="fold", max_width=21),
        Column("meaning", overflow="fold"),
    )
    table = Table(*columns, title=Text(f"{name}: set with --set NAME=VALUE"))
    for path, each in parameters.items():
        choices = each["choices"]
        is_number = each["type"] in ("int", "float")  # whose help names the words that may stand instead
        details = [f"one of {', '.join(choices)}"] if choices and not is_number else []
        table.add_row(path, plain(each["default"]), _with_details(each["help"], *details))
    console = Console()
    console.print(table)
    console.print(f"--select tries {_searched(about['search'])}.", highlight=False)


def _searched(spaces: list[dict[str, list[Any]]]) -> str:
    """Search spaces in words.

    >>> _searched([{"sampler": ["cm"], "radius": [0.5, None]}, {"sampler": ["mf", "random"]}])
    'sampler cm with radius 0.5 or none; sampler mf or random'
    """
    found = [
        " with ".join(f"{name} {alternatives(list(map(plain, values)))}" for name, values in space.items())
        for space in spaces
    ]
    return "; ".join(found) or "nothing unless it is told what, as in --select NAME=VALUE,VALUE"


@app.command()
def streams(as_json: AsJson = False) -> None:
    """List how a graph may arrive: the streams and their parameters.

    They are for --stream, as in --stream classes:base=4,step=2; lists inside one have a + between them.
    """
    found = described()["streams"]
    if as_json:
        print(json.dumps(found))
        return
    table = Table(Column("stream", no_wrap=True), Column("what it is", overflow="fold"))
    for name, each in found.items():
        parameters = [
            f"{parameter} ({plain(about['default'])}): {about['help']}"
            for parameter, about in each["parameters"].items()
        ]
        usual = f"{', '.join(each['settings'])}; test graph {each['test_graph']} unless asked otherwise"
        table.add_row(name, _with_details(each["summary"], usual, *parameters))
    Console().print(table)


datasets_app = typer.Typer(help="List the datasets, or show one.", invoke_without_command=True)
app.add_typer(datasets_app, name="datasets")


@datasets_app.callback()
def datasets(context: typer.Context, data_root: DataRoot = None, as_json: AsJson = False) -> None:
    """List the datasets; 'delome datasets show NAME' looks into one."""
    if context.invoked_subcommand is not None:
        return
    found = {name: _dataset(each, data_root) for name, each in described()["datasets"].items()}
    if as_json:
        print(json.dumps(found))
        return
    table = Table(Column("dataset", no_wrap=True), Column("what it is", overflow="fold"))
    for name, each in found.items():
        options = ", ".join(f"{option}={default}" for option, default in each["options"].items())
        details = [f"here: {each['here']}; usual budget: {each['budget']}"]
        details += [f"options: {options}"] if options else []
        table.add_row(name, _with_details(each["summary"], *details))
    Console().print(table)


def _dataset(about: dict[str, Any], data_root: Path | None) -> dict[str, Any]:
    """What is known of a dataset, with what is here of its files in place of where those come from."""
    shown, published = dict(about), about["published"]
    del shown["published"]
    if published is None:
        return shown | {"here": _here(None)}
    folder = cache_root(data_root) / published["name"]
    return shown | {"here": _here(what_is_here(folder, published["archive"], published["layouts"]))}


def _here(cached: str | None) -> str:
    return "always" if cached is None else "to download" if cached == "nothing" else cached


@datasets_app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True, autocompletion=completing("datasets"))],
    classes_per_task: Annotated[int, typer.Option(metavar="N", help="New classes in each task.")] = 2,
    data_root: DataRoot = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Show sizes, homophily, tasks and classes of a dataset.

    NAME is what 'delome run --dataset' takes. A published dataset that is not here yet is downloaded.
    """
    from delome.datasets.catalogue import load_graph, parse_name
    from delome.graph.statistics import GraphStatistics
    from delome.reporting.datasets import describe_dataset
    from delome.streams.task_stream import TaskStream

    with shown_progress(quiet, verbose) as progress, progress.watching():
        graph = load_graph(name, data_root=data_root, progress=progress.loading)
        progress.single("measuring the graph")
        stream = TaskStream(graph, classes_per_task)
        found = GraphStatistics.of(graph)
    published = parse_name(name)[0].published
    if as_json:
        document = asdict(found) | {
            "dataset": name,
            "homophily": None if math.isnan(found.homophily) else found.homophily,
            "tasks": [[stream.classes[column] for column in task.classes] for task in stream],
            "dropped": {str(label): why for label, why in stream.dropped.items()},
            "here": _here(None if published is None else published.cached(data_root)),
        }
        print(json.dumps(document))
        return
    Console().print(describe_dataset(name, found, stream, published, data_root))

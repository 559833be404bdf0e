"""The command line: parses, calls, prints."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

import delome
from delome.columns import Setting
from delome.datasets import DATASETS, load_graph
from delome.datasets.catalogue import Dataset, parse_name
from delome.errors import DelomeError
from delome.methods import METHODS
from delome.parameters import parameters_of
from delome.state import Keeps
from delome.stream import TaskStream

app = typer.Typer(
    help="Graph continual learning: one GNN keeps classifying a graph that grows task after task.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


KEEPS_LEGEND = (
    "beside the network itself; b budget per class, C classes seen, F features (dense), T tasks, "
    "p network parameters, N nodes and E edges of all task graphs, D random features, P prototypes of dimension d, "
    "A extractors."
)


DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder of downloaded datasets. (default: $DELOME_DATA, else the platform's cache folder)"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]


def main() -> None:
    """Entry point: an error a person can mend is one sentence and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except typer.TyperException as error:  # a mistyped option or command
        print(f"delome: {' '.join(error.format_message().split())}", file=sys.stderr)
        sys.exit(2)
    except typer.Abort:
        print("delome: interrupted", file=sys.stderr)
        sys.exit(130)
    except DelomeError as error:
        print(f"delome: {error}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        print("delome: not enough memory for this run: choose a smaller graph, budget or network", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("delome: interrupted", file=sys.stderr)
        sys.exit(130)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(delome.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before a command."""


@app.command()
def run(
    dataset: Annotated[
        str,
        typer.Option(
            help="digits, corafull, arxiv, …, synthetic[:option=value,…] or file:PATH; see 'delome datasets'."
        ),
    ] = "digits",
    method: Annotated[str, typer.Option(help="How to learn without forgetting; see 'delome methods'.")] = "delome",
    setting: Annotated[
        str, typer.Option(help="cil: choose among all classes seen; til: the task of a node is known.")
    ] = "cil",
    backbone: Annotated[str | None, typer.Option(help="Network: sgc, gcn or gat. (default: sgc)")] = None,
    budget: Annotated[
        int | None, typer.Option(help="Memory rows per class. (default: the dataset's usual one)")
    ] = None,
    classes_per_task: Annotated[int, typer.Option(help="New classes in each task.")] = 2,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over each task. (default: the method's, mostly 200)")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Repeat with this many seeds and report mean ± std.")] = 1,
    seed: Annotated[int, typer.Option(help="First seed.")] = 0,
    split_seed: Annotated[int, typer.Option(help="Seed of the train/val/test split, the same for all seeds.")] = 0,
    inter_task_edges: Annotated[bool, typer.Option(help="Keep edges between tasks: the graph accumulates.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any parameter of the method; repeatable. See 'delome methods NAME'."
        ),
    ] = None,
    data_root: DataRoot = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder. (default: runs/<dataset>-<method>-<setting>-<hash>)")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a stream of tasks and show accuracy, forgetting and a picture.

    Without arguments: DeLoMe on the embedded digits graph, 5 tasks of 2 classes, class-incremental.
    """
    from delome.experiment import RunConfig, RunFolder
    from delome.experiment import run as run_config
    from delome.report.figures import write_figures
    from delome.report.progress import RunProgress

    config = RunConfig.resolve(
        dataset,
        method,
        setting=cast(Setting, setting),
        backbone=backbone,
        budget=budget,
        epochs=epochs,
        device=device,
        assignments=assignments,
        classes_per_task=classes_per_task,
        split_seed=split_seed,
        inter_task_edges=inter_task_edges,
        seeds=seeds,
        seed=seed,
    )
    given = {"backbone": backbone, "budget": budget, "epochs": epochs}
    if ignored := [name for name, value in given.items() if value is not None and name not in config.parameters]:
        print(f"delome: note: method {method} has no {' and no '.join(ignored)}: ignored", file=sys.stderr)
    with RunProgress(seeds) as progress:
        stream = config.stream(data_root, progress.loading)
        folder = RunFolder.open(out or Path("runs") / config.slug, config)
        try:
            result = run_config(config, stream, folder, progress.tracker)
        except BaseException:
            folder.discard_if_empty()
            raise
        figures = write_figures(folder, result)
    if as_json:
        print(json.dumps(result.as_dict(), allow_nan=False))
        return
    _print_result(result, folder.path, figures)


def _print_result(result: Any, folder: Path, figures: list[Path]) -> None:
    from delome.report.tables import accuracy_table, phase_table, summary_lines

    console = Console()
    console.print(accuracy_table(result.seeds[-1], console.width))
    console.print(phase_table(result))
    for line in summary_lines(result):
        console.print(line, highlight=False)
    console.print(
        f"run folder: {escape(str(folder))} ({', '.join(figure.name for figure in figures)})",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Show the parameters of this method.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, or the parameters of one."""
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
    table = Table(Column("method", no_wrap=True), "what it does", "kept between tasks", "settings", "past graphs")
    for name, each in METHODS.items():
        about = f"{each.summary}\n[dim]{each.family}; {each.citation}[/dim]"
        table.add_row(name, about, _kept(each.keeps), ", ".join(each.settings), "yes" if each.needs_past else "no")
    console = Console()
    console.print(table)
    console.print(KEEPS_LEGEND, highlight=False)


def _kept(keeps: Keeps) -> str:
    amounts = {"rows": keeps.rows, "floats": keeps.floats, "bytes": keeps.bytes}
    return "\n".join(f"{amount} {unit}" for unit, amount in amounts.items() if amount != "0") or "nothing"


def _method_parameters(name: str, as_json: bool) -> None:
    from delome.methods import method as find

    parameters = parameters_of(find(name)).values()
    if as_json:
        document = {
            each.name: {
                "type": each.type.__name__,
                "default": each.default,
                "choices": each.choices or None,
                "optional": each.optional,
                "least": each.param.least,
                "above": each.param.above,
                "help": each.param.help,
            }
            for each in parameters
        }
        print(json.dumps(document))
        return
    table = Table("parameter", "default", "choices", "meaning", title=f"{name}: set with --set NAME=VALUE")
    for each in parameters:
        table.add_row(
            each.name,
            str(each.default).lower() if each.default is None else str(each.default),
            ", ".join(each.choices),
            each.param.help,
        )
    Console().print(table)


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
    table = Table(Column("dataset", no_wrap=True), "usual budget", "options", "here", "what it is")
    for name, each in DATASETS.items():
        about = _dataset(each, data_root)
        options = ", ".join(f"{option}={default}" for option, default in about["options"].items())
        table.add_row(name, str(each.budget), options, about["here"], each.summary)
    Console().print(table)


def _dataset(dataset: Dataset, data_root: Path | None) -> dict[str, Any]:
    options = {name: default for name, default in dataset.options.items() if isinstance(default, int | float)}
    cached = "nothing" if dataset.published is None else dataset.published.cached(data_root)
    here = "always" if dataset.published is None else "to download" if cached == "nothing" else cached
    return {"summary": dataset.summary, "budget": dataset.budget, "options": options, "here": here}


@datasets_app.command()
def show(
    name: Annotated[str, typer.Argument(help="A dataset as 'delome run --dataset' takes it.")],
    classes_per_task: Annotated[int, typer.Option(help="New classes in each task.")] = 2,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Sizes, homophily, tasks and classes of a dataset. A published one that is not here yet is downloaded."""
    from delome.datasets.statistics import GraphStatistics
    from delome.report.datasets import describe_dataset
    from delome.report.progress import RunProgress

    with RunProgress(1) as progress:
        graph = load_graph(name, data_root=data_root, progress=progress.loading)
        stream = TaskStream(graph, classes_per_task)
        found = GraphStatistics.of(graph)
    dataset, _ = parse_name(name)
    if as_json:
        document = asdict(found) | {
            "dataset": name,
            "homophily": found.homophily if found.edges else None,
            "tasks": [[stream.classes[column] for column in task.classes] for task in stream],
            "dropped": {str(label): why for label, why in stream.dropped.items()},
            "here": _dataset(dataset, data_root)["here"],
        }
        print(json.dumps(document))
        return
    Console().print(describe_dataset(name, found, stream, dataset.published, data_root))

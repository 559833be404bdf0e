"""``delome run``: a stream of tasks, learned and measured."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console

from delome.backbones import BACKBONES
from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, among, app
from delome.cli.messages import shown_progress
from delome.columns import Setting
from delome.datasets import DATASETS
from delome.errors import ParameterError
from delome.experiment.journal import Stopped
from delome.methods import METHODS

log = logging.getLogger(__name__)


@app.command()
def run(
    dataset: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=among(DATASETS),
            help="Which graph: digits, corafull, arxiv, …, synthetic or file:PATH; see 'delome datasets'.",
        ),
    ] = "digits",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=among(METHODS),
            help="How to learn without forgetting; see 'delome methods'.",
        ),
    ] = "delome",
    setting: Annotated[
        str,
        typer.Option(
            metavar="cil|til",
            autocompletion=among(get_args(Setting)),
            help="cil: a node may be of any class seen so far; til: its task is known.",
        ),
    ] = "cil",
    backbone: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=among(BACKBONES), help="Network: sgc, gcn or gat.  [default: sgc]"),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(metavar="ROWS", help="Memory rows per class.  [default: the dataset's usual budget]"),
    ] = None,
    classes_per_task: Annotated[int, typer.Option(metavar="N", help="New classes in each task.")] = 2,
    epochs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Passes over each task.  [default: the method's, mostly 200]"),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Repeat with N seeds and report mean ± std.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="First seed.")] = 0,
    split_seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the train/val/test split, the same for all seeds.")
    ] = 0,
    split: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            autocompletion=among(("auto", "masks", "random")),
            help="masks: those of the graph; random: 60/20/20 of each class; auto: masks if it has any.",
        ),
    ] = "auto",
    inter_task_edges: Annotated[
        bool, typer.Option("--inter-task-edges", help="Keep edges between tasks: the graph accumulates.")
    ] = False,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda, …")] = "auto",
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any parameter of the method; repeatable. See 'delome methods NAME'."
        ),
    ] = None,
    data_root: DataRoot = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Run folder.  [default: runs/DATASET-METHOD-SETTING-HASH]"),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over; what the run folder holds is kept as a backup beside it.")
    ] = False,
    checkpoint_every: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="Time between checkpoints inside a task; there is one after each task anyway."
        ),
    ] = 60,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Learn a stream of tasks and measure what is remembered.

    Without arguments: DeLoMe on the embedded digits graph, 5 tasks of 2 classes, class-incremental.

    A run that was interrupted, even killed, goes on where it was when the same command is given again, and ends with
    the identical result.
    """
    from delome.experiment import RunConfig, RunFolder, Stop
    from delome.experiment import run as run_config

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
        split=split,
        split_seed=split_seed,
        inter_task_edges=inter_task_edges,
        seeds=seeds,
        seed=seed,
    )
    if not checkpoint_every >= 0:
        raise ParameterError(f"checkpoint-every must be at least 0 seconds, not {checkpoint_every}")
    stop = Stop()
    given = {"backbone": backbone, "budget": budget, "epochs": epochs}
    ignored = [name for name, value in given.items() if value is not None and name not in config.parameters]
    with shown_progress(quiet, verbose, config.seeds) as progress:
        stream = config.stream(data_root, progress.loading)
        place = out or Path("runs") / config.slug
        with RunFolder.open(place, config, stream, fresh=fresh) as folder:
            try:
                with stop.on_signals():
                    result = run_config(
                        config, stream, folder, progress.tracker, checkpoint_every=checkpoint_every, stop=stop
                    )
            except BaseException as error:
                if isinstance(error, Stopped):
                    folder.event("stopped", signal=error.signal_number)
                folder.discard_if_empty()
                raise
            if progress.tasks == 0:
                log.warning("this run was finished before: these are its results, and --fresh runs it again")
            if folder.unwritable:
                log.warning("'%s' cannot be written (%s): figures are as they were", folder.path, folder.unwritable)
            if ignored:
                log.warning("method %s has no %s: ignored", method, " and no ".join(ignored))
            progress.single("drawing figures")
            from delome.report.figures import write_figures  # takes a second: not before progress is shown

            figures = [] if folder.unwritable else write_figures(folder, result)
    if as_json:
        print(json.dumps(result.as_dict() | {"folder": str(folder.path)}, allow_nan=False))
        return
    _print_result(result, folder.path, figures)


def _print_result(result: Any, folder: Path, figures: list[Path]) -> None:
    from delome.report.tables import accuracy_table, phase_table, summary_lines
    from delome.report.terminal import literal

    console = Console()
    console.print(accuracy_table(result, console.width))
    console.print(phase_table(result))
    for line in summary_lines(result):
        console.print(line, highlight=False)
    drawn = f" ({', '.join(figure.name for figure in figures)})" if figures else ""
    console.print(f"run folder: {literal(folder)}{drawn}", highlight=False, soft_wrap=True)

"""``delome run``: a stream of tasks, learned and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from delome.cli.app import AsJson, DataRoot, app, tell
from delome.columns import Setting
from delome.errors import ParameterError
from delome.experiment.folder import RunFolder
from delome.experiment.journal import Stopped


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
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over; what the run folder holds is kept as a backup beside it.")
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between checkpoints inside a task; there is one after each task anyway.")
    ] = 60,
    as_json: AsJson = False,
) -> None:
    """Learn a stream of tasks and show accuracy, forgetting and a picture.

    Without arguments: DeLoMe on the embedded digits graph, 5 tasks of 2 classes, class-incremental.

    A run that was interrupted, even killed, goes on where it was when the same command is given again, and ends with
    the identical result.
    """
    from delome.experiment import RunConfig, Stop
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
    if not checkpoint_every >= 0:
        raise ParameterError(f"checkpoint-every must be at least 0 seconds, not {checkpoint_every}")
    stop = Stop()
    with RunProgress(config.seeds) as progress:
        stream = config.stream(data_root, progress.loading)
        place = out or Path("runs") / config.slug
        with RunFolder.open(place, config, stream.fingerprint(), fresh=fresh) as folder:
            _tell_notes(folder)
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
                folder.notes.append("this run was finished before: these are its results, and --fresh runs it again")
            if folder.unwritable:
                folder.notes.append(
                    f"'{folder.path}' cannot be written ({folder.unwritable}): figures are as they were"
                )
            _tell_notes(folder)
            figures = [] if folder.unwritable else write_figures(folder, result)
    given = {"backbone": backbone, "budget": budget, "epochs": epochs}
    if ignored := [name for name, value in given.items() if value is not None and name not in config.parameters]:
        tell(f"note: method {method} has no {' and no '.join(ignored)}: ignored")
    if as_json:
        print(json.dumps(result.as_dict(), allow_nan=False))
        return
    _print_result(result, folder.path, figures)


def _tell_notes(folder: RunFolder) -> None:
    """Says what is to be noted about a run folder, once."""
    for note in folder.notes:
        tell(f"note: {note}")
    folder.notes.clear()


def _print_result(result: Any, folder: Path, figures: list[Path]) -> None:
    from delome.report.tables import accuracy_table, phase_table, summary_lines
    from delome.report.terminal import literal

    console = Console()
    console.print(accuracy_table(result.seeds[-1], console.width))
    console.print(phase_table(result))
    for line in summary_lines(result):
        console.print(line, highlight=False)
    drawn = f" ({', '.join(figure.name for figure in figures)})" if figures else ""
    console.print(f"run folder: {literal(folder)}{drawn}", highlight=False, soft_wrap=True)

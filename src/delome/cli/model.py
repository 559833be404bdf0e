"""``delome learn`` and ``delome predict``: a saved learner at work on new data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, among, app, drop_output, say, tell
from delome.cli.described import completing
from delome.cli.messages import shown_progress
from delome.printable import printable

if TYPE_CHECKING:
    from delome.commands import Learned

Model = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Folder of a saved learner, e.g. seed-0/model of a run folder.")
]
OfGraph = Annotated[
    str,
    typer.Option(
        "--graph",
        metavar="NAME",
        autocompletion=completing("datasets"),
        help="file:PATH to an .npz or .pt, or another name of a graph.",
    ),
]
Device = Annotated[
    str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda, …  [default: the one it was saved with]")
]


@app.command()
def learn(
    model: Model,
    graph: OfGraph,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completing("methods"),
            help="For a new model: its method.  [default: delome] For a model of a method of your own: module:Class.",
        ),
    ] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            metavar="cil|til",
            autocompletion=among(("cil", "til")),
            help="For a new model: a node may be of any class (cil), or its task is known (til).  [default: cil]",
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="For a new model: any parameter of the method; repeatable."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Learn a graph once more that was learned before.")] = False,
    device: Device = None,
    data_root: DataRoot = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Let a saved learner learn one more task.

    It learns the labelled nodes of a graph, or those of them inside its train mask. Labels that are known and labels
    that are new may be mixed; label -1 means unknown. A folder that does not exist becomes a new model. The old model
    stays until the new one is complete: an interrupted command changes nothing. A graph that was learned before is not
    learned twice.
    """
    from delome import commands
    from delome.experiment import Stop

    stop, learned = Stop(), None
    try:
        with stop.raised():
            with shown_progress(quiet, verbose) as watcher:
                learned = commands.learn(
                    model,
                    graph,
                    method=method,
                    setting=setting,
                    assignments=assignments or [],
                    again=again,
                    device=device,
                    data_root=data_root,
                    watcher=watcher,
                    stop=stop,
                )
            if learned.failure is not None:
                raise learned.failure
            if as_json:
                print(json.dumps(learned.as_dict()), flush=True)
            else:
                print("\n".join(printable(line) for line in _lines(learned)), flush=True)
    except BaseException as error:
        if learned is None:
            raise
        # the model decides: a scheduler that sees a failure would learn the day again
        reason = error.strerror or error if isinstance(error, OSError) else error
        drop_output()
        outcome = "knew this graph" if learned.already else "was replaced"
        tell(f"the model in '{model}' {outcome}, though the command then failed: {reason}")


def _lines(learned: Learned) -> list[str]:
    model, task = learned.model, learned.task
    if learned.already:
        return [f"this graph was learned before, as task {task}: {model} is as it was (--again learns it once more)"]
    names, counts = learned.learner.class_names, learned.counts
    classes = ", ".join(f"{names.get(label, label)} ({count})" for label, count in counts.items())
    return [
        f"task {task}: learned {sum(counts.values())} nodes of {len(counts)} classes: {classes}",
        f"{len(learned.new_classes)} classes were new; the model in {model} knows {len(learned.learner.classes)}",
    ]


@app.command()
def predict(
    model: Model,
    graph: OfGraph,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV file to write.  [default: print it]")] = None,
    task: Annotated[
        int | None,
        typer.Option(metavar="N", help="For a task-incremental model: the task that the nodes belong to, from 0 on."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="module:Class", help="For a model of a method of your own: that method.")
    ] = None,
    device: Device = None,
    data_root: DataRoot = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Classify the nodes of a graph with a saved learner.

    The predictions are CSV: node, label, its name and its probability. If the graph has labels, the accuracy on those
    that the model knows and has not learned is reported too.
    """
    from delome import commands
    from delome.learning import METHODS

    with shown_progress(quiet, verbose) as watcher:
        allowed = [] if method is None else [METHODS.importable(method)]
        found = commands.predict(
            model,
            graph,
            out=out,
            task=task,
            device=device,
            data_root=data_root,
            watcher=watcher,
            methods=allowed,
        )
    if as_json:
        print(json.dumps(found.as_dict() | {"out": None if out is None else str(out)}, allow_nan=False))
        return
    number = "no accuracy" if found.accuracy is None else f"class-balanced accuracy {found.accuracy.balanced:.2f} %"
    sentence = f"{len(found.labels)} nodes classified" + (f"; {number}: {found.judged}" if found.judged else "")
    if out is not None:
        print(sentence)
    else:
        print(found.csv(printable), end="", flush=True)
        say(sentence)

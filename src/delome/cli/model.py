"""``delome learn`` and ``delome predict``: a saved learner at work on new data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from delome.cli.app import AsJson, DataRoot, app
from delome.datasets import load_graph
from delome.durable import LOCK, is_there, make_folder, sole_writer, told, unmake_folders, write_text
from delome.errors import ParameterError, StateError, StorageError
from delome.experiment.folder import CONFIG
from delome.graph import Graph
from delome.live import labelled_nodes
from delome.methods import Learner, method
from delome.metrics import Score
from delome.parameters import parse_assignments
from delome.printable import csv_field, printable
from delome.saved import load, write
from delome.store import MANIFEST

Model = Annotated[Path, typer.Option(help="Folder of a saved learner, e.g. seed-0/model of a run folder.")]
OfGraph = Annotated[str, typer.Option("--graph", help="file:PATH to an .npz or .pt, or another name of a graph.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, … (default: the one it was saved with)")]


@app.command()
def learn(
    model: Model,
    graph: OfGraph,
    method_name: Annotated[
        str | None, typer.Option("--method", help="For a new model: its method. (default: delome)")
    ] = None,
    setting: Annotated[str | None, typer.Option(help="For a new model: cil or til. (default: the method's)")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="For a new model: any parameter of the method; repeatable."),
    ] = None,
    device: Device = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Learn one more task: the labelled nodes of a graph go into a saved learner.

    Labels that are known and labels that are new may be mixed; label -1 means unknown. A folder that does not exist
    becomes a new model. The old model stays until the new one is complete: an interrupted command changes nothing.
    """
    from delome.report.progress import RunProgress

    seed = model.absolute().parent
    if seed.name.startswith("seed-") and is_there(seed.parent / CONFIG):
        raise ParameterError(f"'{model}' belongs to a run, which could not go on: copy it and learn in the copy")
    given = {"--method": method_name, "--setting": setting, "--set": assignments or None}
    new = _new_learner(method_name or "delome", setting, assignments, device)
    with RunProgress() as progress:
        data = load_graph(graph, data_root=data_root, progress=progress.loading)
        _, nodes = labelled_nodes(data)
        made: list[Path] = []
        try:
            with told(model):
                made = make_folder(model)
                with sole_writer(model):
                    learner = _model_in(model, given, device) or new
                    known = set(learner.classes)
                    tracker = progress.single("learning one more task")
                    learner.observe(data, tracker)
                    _refuse_infinite(learner)
                    write(learner, model)
        except BaseException:
            unmake_folders(made)
            raise
    assert data.labels is not None
    labels, counts = np.unique(data.labels[nodes], return_counts=True)
    learned = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    unknown = [label for label in learner.classes if label not in known]
    document = {
        "model": str(model),
        "task": len(learner.columns.tasks) - 1,
        "learned": learned,
        "new_classes": unknown,
        "classes": learner.classes,
        "seconds": tracker.seconds,
    }
    if as_json:
        print(json.dumps(document))
        return
    names = ", ".join(f"{learner.class_names.get(label, label)} ({count})" for label, count in learned.items())
    task = f"task {len(learner.columns.tasks) - 1}: learned {len(nodes)} nodes of {len(labels)} classes: {names}"
    print(printable(task))
    print(printable(f"{len(unknown)} classes were new; the model in {model} knows {len(learner.classes)}"))


def _new_learner(name: str, setting: str | None, assignments: list[str] | None, device: str | None) -> Learner:
    kind = method(name)
    given = {"setting": setting, "device": device}
    chosen = {option: value for option, value in given.items() if value is not None}
    return kind(**chosen | parse_assignments(kind, assignments or [], f"method {name}"))


def _model_in(folder: Path, given: dict[str, Any], device: str | None) -> Learner | None:
    """The learner that is saved in a folder; none if the folder is empty."""
    if is_there(folder / MANIFEST):
        if refused := [option for option, value in given.items() if value is not None]:
            raise ParameterError(f"'{folder}' is already a model: leave out {refused[0]}, which only a new one takes")
        return load(folder, device=device)
    if others := sorted(file.name for file in folder.iterdir() if file.name != LOCK):
        raise StorageError(f"'{folder}' has no {MANIFEST} but '{others[0]}': choose an empty folder for a new model")
    return None


def _refuse_infinite(learner: Learner) -> None:
    """A model that has come to nothing must not take the place of a good one."""
    if not all(tensor.isfinite().all() for tensor in learner.state().tensors.values()):
        raise StateError("learning led to numbers that are not finite: scale the features; the model is as it was")


@app.command()
def predict(
    model: Model,
    graph: OfGraph,
    out: Annotated[Path | None, typer.Option(help="CSV file to write. (default: print it)")] = None,
    task: Annotated[
        int | None, typer.Option(help="For a task-incremental model: the task that the nodes belong to.")
    ] = None,
    device: Device = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Classify every node of a graph with a saved learner: node, label and name as CSV.

    If the graph has labels, the accuracy on those that the model knows is told too.
    """
    from delome.report.progress import RunProgress

    with RunProgress() as progress:
        learner = load(model, device=device)
        data = load_graph(graph, data_root=data_root, progress=progress.loading)
        predicted = learner.predict(data, task=task)
    accuracy = _accuracy(learner, data, predicted)
    if out is not None:
        table = _csv(predicted, learner.class_names)
        with told(out):
            if is_there(out) and not out.is_dir() and not out.is_file():  # a device or a pipe
                out.write_text(table)
            else:
                write_text(out, table)
    if as_json:
        labels, counts = np.unique(predicted, return_counts=True)
        document = {
            "model": str(model),
            "nodes": len(predicted),
            "predicted": dict(zip(map(str, labels.tolist()), counts.tolist(), strict=True)),
            "accuracy": None if accuracy is None else {"balanced": accuracy.balanced, "micro": accuracy.micro},
            "out": None if out is None else str(out),
        }
        print(json.dumps(document))
        return
    if out is None:
        print(_csv(predicted, {label: printable(name) for label, name in learner.class_names.items()}), end="")
    told_accuracy = "" if accuracy is None else f", class-balanced accuracy on known labels {accuracy.balanced:.2f} %"
    print(f"{len(predicted)} nodes classified{told_accuracy}", file=sys.stderr if out is None else sys.stdout)


def _accuracy(learner: Learner, graph: Graph, predicted: np.ndarray) -> Score | None:
    """Accuracy on the nodes whose label the model knows."""
    if graph.labels is None or not (judged := np.isin(graph.labels, learner.classes)).any():
        return None
    return Score.of(predicted[judged], graph.labels[judged])


def _csv(predicted: np.ndarray, names: dict[int, str]) -> str:
    fields = {label: csv_field(name) for label, name in names.items()}
    rows = (f"{node},{label},{fields.get(label, '')}\n" for node, label in enumerate(predicted.tolist()))
    return "node,label,name\n" + "".join(rows)

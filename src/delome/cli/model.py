"""``delome learn`` and ``delome predict``: a saved learner at work on new data."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from delome.cli.app import AsJson, DataRoot, app, drop_output, tell
from delome.datasets import load_graph
from delome.durable import LOCK, is_there, kind_of, make_folder, sole_writer, told, unmake_folders, write_text
from delome.errors import ParameterError, StateError, StorageError
from delome.experiment.folder import CONFIG
from delome.experiment.journal import Stop
from delome.foreign import MOST_DOCUMENT, read_regular
from delome.graph import Graph
from delome.live import labelled_nodes
from delome.methods import Learner, method
from delome.metrics import Score
from delome.parameters import parse_assignments
from delome.printable import csv_field, printable
from delome.saved import load, write
from delome.store import MANIFEST, holds_state, remove_unfinished

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
    replaced, stop = False, Stop()
    made: list[Path] = []
    try:
        with stop.raised():
            with RunProgress() as progress:
                data = load_graph(graph, data_root=data_root, progress=progress.loading)
                _, nodes = labelled_nodes(data)
                with told(model):
                    made = make_folder(model)
                    with sole_writer(model) as check:
                        learner = _model_in(model, given, device) or new
                        known = set(learner.classes)
                        tracker = progress.single("learning one more task")
                        learner.observe(data, tracker)
                        _refuse_infinite(learner)
                        check()
                        with stop.postponed():
                            before = _manifest(model)
                            try:
                                write(learner, model)
                            finally:
                                replaced = _manifest(model) != before
            assert data.labels is not None
            _print_learned(model, learner, data.labels[nodes], known, tracker.seconds, as_json)
    except BaseException as error:
        if not replaced:
            unmake_folders(made)
            raise
        # the model decides: told of a failure, a scheduler would have the same day learned twice
        reason = error.strerror or error if isinstance(error, OSError) else error
        drop_output()
        tell(f"the model in '{model}' was replaced, though the command then failed: {reason}")


def _manifest(model: Path) -> bytes:
    """What says which model is there; nothing if there is none."""
    try:
        return read_regular(model / MANIFEST, MOST_DOCUMENT)
    except OSError:
        return b""


def _print_learned(
    model: Path, learner: Learner, learned_labels: np.ndarray, known: set[int], seconds: dict[str, float], as_json: bool
) -> None:
    labels, counts = np.unique(learned_labels, return_counts=True)
    learned = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    unknown = [label for label in learner.classes if label not in known]
    task = len(learner.columns.tasks) - 1
    if as_json:
        document = {
            "model": str(model),
            "task": task,
            "learned": learned,
            "new_classes": unknown,
            "classes": learner.classes,
            "seconds": seconds,
        }
        print(json.dumps(document), flush=True)
        return
    names = ", ".join(f"{learner.class_names.get(label, label)} ({count})" for label, count in learned.items())
    print(printable(f"task {task}: learned {counts.sum()} nodes of {len(labels)} classes: {names}"))
    print(printable(f"{len(unknown)} classes were new; the model in {model} knows {len(learner.classes)}"), flush=True)


def _new_learner(name: str, setting: str | None, assignments: list[str] | None, device: str | None) -> Learner:
    kind = method(name)
    given = {"setting": setting, "device": device}
    chosen = {option: value for option, value in given.items() if value is not None}
    return kind(**chosen | parse_assignments(kind, assignments or [], f"method {name}"))


def _model_in(folder: Path, given: dict[str, Any], device: str | None) -> Learner | None:
    """The learner that is saved in a folder; none if it is empty, apart from what a killed command left."""
    remove_unfinished(folder)
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

    if out is not None:
        _refuse_place(out, model)
    with RunProgress() as progress:
        learner = load(model, device=device)
        data = load_graph(graph, data_root=data_root, progress=progress.loading)
        predicted = learner.predict(data, task=task)
    accuracy = _accuracy(learner, data, predicted)
    if out is not None:
        with told(out):
            _write(out, _csv(predicted, learner.class_names))
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


def _refuse_place(out: Path, model: Path) -> None:
    """Refuses to write predictions over a part of a model or a run."""
    with told(out):
        for folder in _target(out).parents:
            if folder == _target(model) or holds_state(folder) or kind_of(folder / CONFIG) is not None:
                raise ParameterError(f"'{out}' lies in '{folder}', a model or a run: choose another place for --out")


def _target(path: Path) -> Path:
    """Where a path leads, links followed."""
    try:
        return path.resolve()
    except RuntimeError:  # as Python 3.12 and older have it
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def _write(out: Path, text: str) -> None:
    """Writes a file, in place of the one that a link leads to."""
    if out.exists() and not out.is_dir() and not out.is_file():  # a device or a pipe
        out.write_bytes(text.encode(errors="backslashreplace"))
        return
    target = _target(out)
    make_folder(target.parent)
    write_text(target, text)


def _accuracy(learner: Learner, graph: Graph, predicted: np.ndarray) -> Score | None:
    """Accuracy on the nodes whose label the model knows."""
    if graph.labels is None or not (judged := np.isin(graph.labels, learner.classes)).any():
        return None
    return Score.of(predicted[judged], graph.labels[judged])


def _csv(predicted: np.ndarray, names: dict[int, str]) -> str:
    fields = {label: csv_field(name) for label, name in names.items()}
    rows = (f"{node},{label},{fields.get(label, '')}\n" for node, label in enumerate(predicted.tolist()))
    return "node,label,name\n" + "".join(rows)

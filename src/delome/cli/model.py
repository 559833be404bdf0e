"""``delome learn`` and ``delome predict``: a saved learner at work on new data."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import typer

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, among, app
from delome.cli.messages import shown_progress
from delome.datasets import DATASETS, load_graph
from delome.errors import ParameterError, StorageError
from delome.experiment.folder import CONFIG
from delome.graph import Graph
from delome.methods import METHODS, Learner, method
from delome.metrics import Score
from delome.parameters import parse_assignments
from delome.persistence.durable import LOCK, is_there, make_folder, sole_writer, told, unmake_folders, write_text
from delome.persistence.saved import load, write
from delome.persistence.store import MANIFEST
from delome.streams.columns import Setting
from delome.streams.live import labelled_nodes

Model = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Folder of a saved learner, e.g. seed-0/model of a run folder.")
]
OfGraph = Annotated[
    str,
    typer.Option(
        "--graph",
        metavar="NAME",
        autocompletion=among(DATASETS),
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
    method_name: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="NAME",
            autocompletion=among(METHODS),
            help="For a new model: its method.  [default: delome]",
        ),
    ] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            metavar="cil|til",
            autocompletion=among(get_args(Setting)),
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
    seed = model.absolute().parent
    if seed.name.startswith("seed-") and is_there(seed.parent / CONFIG):
        raise ParameterError(f"'{model}' belongs to a run, which could not go on: copy it and learn in the copy")
    given = {"--method": method_name, "--setting": setting, "--set": assignments or None}
    new = _new_learner(method_name or "delome", setting, assignments, device)
    with shown_progress(quiet, verbose) as progress:
        data = load_graph(graph, data_root=data_root, progress=progress.loading)
        _, nodes = labelled_nodes(data)
        made: list[Path] = []
        try:
            with told(model):
                made = make_folder(model)
                with sole_writer(model):
                    learner = _model_in(model, given, device) or new
                    fingerprint = data.fingerprint()
                    before = [each.task for each in learner.learned if each.fingerprint == fingerprint]
                    if before and not again:
                        _tell_learned(model, before[-1], learner, as_json)
                        return
                    known = set(learner.classes)
                    tracker = progress.single("learning one more task")
                    learner.observe(data, tracker)
                    write(learner, model)
        except BaseException:
            unmake_folders(made)
            raise
    assert data.user_labels is not None
    labels, counts = np.unique(data.user_labels[nodes], return_counts=True)
    learned = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    unknown = [label for label in learner.classes if label not in known]
    document = {
        "model": str(model),
        "already_learned": False,
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
    print(f"task {len(learner.columns.tasks) - 1}: learned {len(nodes)} nodes of {len(labels)} classes: {names}")
    print(f"{len(unknown)} classes were new; the model in {model} knows {len(learner.classes)}")


def _tell_learned(model: Path, task: int, learner: Learner, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"model": str(model), "already_learned": True, "task": task, "classes": learner.classes}))
    else:
        print(f"this graph was learned before, as task {task}: {model} is as it was (--again learns it once more)")


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


@app.command()
def predict(
    model: Model,
    graph: OfGraph,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV file to write.  [default: print it]")] = None,
    task: Annotated[
        int | None,
        typer.Option(metavar="N", help="For a task-incremental model: the task that the nodes belong to, from 0 on."),
    ] = None,
    device: Device = None,
    data_root: DataRoot = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Classify the nodes of a graph with a saved learner.

    The predictions are CSV: node, label, its name and its probability. If the graph has labels, the accuracy on those
    that the model knows is told too.
    """
    with shown_progress(quiet, verbose) as progress:
        learner = load(model, device=device)
        data = load_graph(graph, data_root=data_root, progress=progress.loading)
        progress.single("classifying the nodes")
        predicted = learner.predict(data, task=task)
        predictions = _predictions(learner, predicted, learner.predict_proba(data, task=task))
        judged, of_what = _judged(learner, data)
        labels = data.user_labels
        accuracy = Score.of(predicted[judged], labels[judged]) if labels is not None and judged.any() else None
        table = _csv(predictions)
    if out is not None:
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
            "accuracy_nodes": int(judged.sum()),
            "accuracy_of": of_what,
            "out": None if out is None else str(out),
            "predictions": predictions,
        }
        print(json.dumps(document, allow_nan=False))
        return
    if out is None:
        print(table, end="")
    number = "no accuracy" if accuracy is None else f"class-balanced accuracy {accuracy.balanced:.2f} %"
    told_accuracy = f"; {number}: {of_what}" if of_what else ""
    print(f"{len(predicted)} nodes classified{told_accuracy}", file=sys.stderr if out is None else sys.stdout)


def _judged(learner: Learner, graph: Graph) -> tuple[np.ndarray, str]:
    """Nodes of known classes that were not learned, and which ones those are in words (none: there are no labels)."""
    none = np.zeros(graph.num_nodes, dtype=bool)
    if graph.user_labels is None:
        return none, ""
    labelled = np.isin(graph.user_labels, learner.classes)
    if not labelled.any():
        return none, ""
    content, fingerprint = graph.content_fingerprint(), graph.fingerprint()
    same = [each for each in learner.learned if each.content == content]
    if not same:
        return labelled, f"{labelled.sum()} nodes with known labels, none of them learned"
    if any(each.fingerprint != fingerprint for each in same):
        return none, "the graph was learned with other labels or masks, so that some of its nodes may be known"
    judged = labelled & ~graph.masks.get("train", labelled)
    if not judged.any():
        return none, "every node with a label was learned"
    return judged, f"{judged.sum()} nodes with known labels outside the train mask; those inside were learned"


def _predictions(learner: Learner, predicted: np.ndarray, probabilities: np.ndarray) -> dict[str, list[Any]]:
    """Columns of a table with a row for each node; none where a name, or a number for a probability, is missing."""
    chosen = probabilities[np.arange(len(predicted)), learner.known.columns_of(predicted)].astype(np.float64)
    names = learner.class_names
    return {
        "node": list(range(len(predicted))),
        "label": predicted.tolist(),
        "name": [names.get(label) for label in predicted.tolist()],
        "probability": [None if math.isnan(each) else each for each in chosen.round(6).tolist()],
    }


def _csv(columns: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()

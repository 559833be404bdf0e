"""``delome learn`` and ``delome predict``: a saved learner at work on new data."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import typer

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, among, app, drop_output, say, tell
from delome.cli.messages import shown_progress
from delome.columns import Label, Setting
from delome.datasets import DATASETS, load_graph
from delome.durable import LOCK, is_there, kind_of, make_folder, sole_writer, told, unmake_folders, write_text
from delome.errors import ParameterError, StorageError
from delome.experiment.folder import CONFIG
from delome.experiment.journal import Stop
from delome.foreign import MOST_DOCUMENT, read_regular
from delome.graph import Graph
from delome.live import labelled_nodes
from delome.methods import METHODS, Learner, method
from delome.metrics import Score
from delome.parameters import parse_assignments
from delome.printable import csv_field, printable
from delome.saved import load, write
from delome.store import MANIFEST, holds_state, remove_unfinished

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
    outcome, stop = "", Stop()
    made: list[Path] = []
    try:
        with stop.raised():
            with shown_progress(quiet, verbose) as progress:
                data = load_graph(graph, data_root=data_root, progress=progress.loading)
                _, nodes = labelled_nodes(data)
                with told(model):
                    made = make_folder(model)
                    with sole_writer(model) as check:
                        learner = _model_in(model, given, device) or new
                        known = set(learner.classes)
                        tracker = progress.single("learning one more task")
                        before = None if again else _task_of(learner, data)
                        if before is not None:
                            outcome = "knew this graph"
                        else:
                            learner.observe(data, tracker)
                            check()
                            with stop.postponed():
                                manifest = _manifest(model)
                                try:
                                    write(learner, model)
                                finally:
                                    outcome = "was replaced" if _manifest(model) != manifest else ""
            if before is not None:
                _print_known(model, before, learner, as_json)
            else:
                assert data.user_labels is not None
                _print_learned(model, learner, data.user_labels[nodes], known, tracker.seconds, as_json)
    except BaseException as error:
        if not outcome:
            unmake_folders(made)
            raise
        # the model decides: a scheduler that is told of a failure would try again, or call somebody
        reason = error.strerror or error if isinstance(error, OSError) else error
        drop_output()
        tell(f"the model in '{model}' {outcome}, though the command then failed: {reason}")


def _task_of(learner: Learner, graph: Graph) -> int | None:
    """The last task as which this very graph was learned."""
    fingerprint = graph.fingerprint()
    return max((each.task for each in learner.learned if each.fingerprint == fingerprint), default=None)


def _manifest(model: Path) -> bytes:
    """What says which model is there; nothing if there is none."""
    try:
        return read_regular(model / MANIFEST, MOST_DOCUMENT)
    except OSError:
        return b""


def _print_known(model: Path, task: int, learner: Learner, as_json: bool) -> None:
    if as_json:
        document = {"model": str(model), "already_learned": True, "task": task, "classes": learner.classes}
        print(json.dumps(document), flush=True)
        return
    sentence = f"this graph was learned before, as task {task}: {model} is as it was (--again learns it once more)"
    print(printable(sentence), flush=True)


def _print_learned(
    model: Path,
    learner: Learner,
    learned_labels: np.ndarray,
    known: set[Label],
    seconds: dict[str, float],
    as_json: bool,
) -> None:
    labels, counts = np.unique(learned_labels, return_counts=True)
    learned = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    unknown = [label for label in learner.classes if label not in known]
    task = len(learner.columns.tasks) - 1
    if as_json:
        document = {
            "model": str(model),
            "already_learned": False,
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
    if out is not None:
        _refuse_place(out, model)
    with shown_progress(quiet, verbose) as progress:
        learner = load(model, device=device)
        data = load_graph(graph, data_root=data_root, progress=progress.loading)
        progress.single("classifying the nodes")
        predicted = learner.predict(data, task=task)
        predictions = _predictions(learner, predicted, learner.predict_proba(data, task=task))
        judged, of_what = _judged(learner, data)
        labels = data.user_labels
        accuracy = Score.of(predicted[judged], labels[judged]) if labels is not None and judged.any() else None
    if out is not None:
        with told(out):
            _write(out, _csv(predictions))
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
    number = "no accuracy" if accuracy is None else f"class-balanced accuracy {accuracy.balanced:.2f} %"
    sentence = f"{len(predicted)} nodes classified" + (f"; {number}: {of_what}" if of_what else "")
    if out is not None:
        print(sentence)
    else:
        print(_csv(predictions, printable), end="", flush=True)
        say(sentence)


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


def _csv(columns: dict[str, list[Any]], shown: Callable[[str], str] = str) -> str:
    """A table with a header; ``shown`` says how text is to be shown."""
    table = zip(*(_fields(values, shown) for values in columns.values()), strict=True)
    return "".join(",".join(row) + "\n" for row in [tuple(columns), *table])


def _fields(values: list[Any], shown: Callable[[str], str]) -> list[str]:
    fields = {each: csv_field(shown(each)) for each in set(values) if isinstance(each, str)}
    return ["" if each is None else fields[each] if isinstance(each, str) else str(each) for each in values]

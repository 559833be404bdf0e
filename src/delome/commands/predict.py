"""Predictions of a saved model, in one call."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from delome.datasets import load_graph
from delome.errors import ParameterError
from delome.experiment.folder import CONFIG
from delome.graph import Graph
from delome.learning import Learner
from delome.learning.saved import load
from delome.metrics import Score
from delome.persistence.documents import kind_of
from delome.persistence.files import make_folder, reporting_write_errors, write_text
from delome.persistence.state_files import holds_state
from delome.printable import csv_field
from delome.progress import Watcher
from delome.streams.live import as_graph

NOT_AS_A_WHOLE = "the graph as a whole was not learned, but some of its nodes may have been"


@dataclass(frozen=True)
class Predicted:
    """Labels of all nodes with names and probabilities, as columns of a table; and accuracy where it is known.

    ``judged`` says which nodes the accuracy is of, in words: those with a known label that were not learned.
    """

    model: Path
    labels: np.ndarray
    columns: dict[str, list[Any]]
    accuracy: Score | None
    judged_nodes: int
    judged: str

    def csv(self, shown: Callable[[str], str] = str) -> str:
        """The table as CSV; ``shown`` says how text is to be shown."""
        rows = zip(*(_fields(values, shown) for values in self.columns.values()), strict=True)
        return "".join(",".join(row) + "\n" for row in [tuple(self.columns), *rows])

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of the command."""
        labels, counts = np.unique(self.labels, return_counts=True)
        accuracy = self.accuracy
        return {
            "model": str(self.model),
            "nodes": len(self.labels),
            "predicted": dict(zip(map(str, labels.tolist()), counts.tolist(), strict=True)),
            "accuracy": None if accuracy is None else {"balanced": accuracy.balanced, "micro": accuracy.micro},
            "accuracy_nodes": self.judged_nodes,
            "accuracy_of": self.judged,
            "predictions": self.columns,
        }


def predict(
    model: str | Path,
    graph: str | Graph | Any,
    *,
    out: str | Path | None = None,
    task: int | None = None,
    device: str | None = None,
    data_root: str | Path | None = None,
    watcher: Watcher | None = None,
    methods: Sequence[type] = (),
) -> Predicted:
    """Classifies the nodes of a graph (its name, a `Graph` or PyG ``Data``) with the model in a folder.

    With ``out`` the predictions are written there as CSV, replacing an existing file. A task-incremental model
    needs the ``task`` that the nodes belong to. ``methods`` are classes of your own that the model may use.
    """
    place = Path(model)
    if out is not None:
        _refuse_place(Path(out), place, graph)
    watcher = watcher or Watcher()
    with watcher.watching():
        learner = load(place, device=device, methods=methods)
        if isinstance(graph, str):
            data = load_graph(graph, data_root=data_root, progress=watcher.loading)
        else:
            data = as_graph(graph)
        watcher.single("classifying the nodes")
        labels, probabilities = learner.predict_with_probability(data, task=task)
        columns = _columns(learner, labels, probabilities)
        judged, in_words = _judged(learner, data)
        truth = data.user_labels
        accuracy = Score.of(labels[judged], truth[judged]) if truth is not None and judged.any() else None
    predicted = Predicted(place, labels, columns, accuracy, int(judged.sum()), in_words)
    if out is not None:
        with reporting_write_errors(Path(out)):
            _write(Path(out), predicted.csv())
    return predicted


def _refuse_place(out: Path, model: Path, graph: Any) -> None:
    """Refuses to write predictions over a part of a model or a run, or over the graph itself."""
    with reporting_write_errors(out):
        source = graph.removeprefix("file:").partition(",")[0] if isinstance(graph, str) else ""
        if source and source != graph and Path(source).exists() and _target(out) == _target(Path(source)):
            raise ParameterError(f"'{out}' is the graph itself: choose another place for --out")
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
    """Nodes of known classes that may be judged, and which ones those are in words (none: there are no labels)."""
    none = np.zeros(graph.num_nodes, dtype=bool)
    if graph.user_labels is None:
        return none, ""
    labelled = np.isin(graph.user_labels, learner.classes)
    if not labelled.any():
        return none, ""
    content, fingerprint = graph.content_fingerprint(), graph.fingerprint()
    same = [each for each in learner.learned if each.content == content]
    if not same:
        return labelled, f"{labelled.sum()} nodes with known labels; {NOT_AS_A_WHOLE}"
    if any(each.fingerprint != fingerprint for each in same):
        return none, "the graph was learned with other labels or masks, so that some of its nodes may be known"
    judged = labelled & ~graph.masks.get("train", labelled)
    if not judged.any():
        return none, "every node with a label was learned"
    return judged, f"{judged.sum()} nodes with known labels outside the train mask; those inside were learned"


def _columns(learner: Learner, predicted: np.ndarray, probabilities: np.ndarray) -> dict[str, list[Any]]:
    """Columns of a table with a row for each node; none where a name, or a number for a probability, is missing."""
    names = learner.class_names
    return {
        "node": list(range(len(predicted))),
        "label": predicted.tolist(),
        "name": [names.get(label) for label in predicted.tolist()],
        "probability": [None if math.isnan(each) else each for each in probabilities.round(6).tolist()],
    }


def _fields(values: list[Any], shown: Callable[[str], str]) -> list[str]:
    fields = {each: csv_field(shown(each)) for each in set(values) if isinstance(each, str)}
    return ["" if each is None else fields[each] if isinstance(each, str) else str(each) for each in values]

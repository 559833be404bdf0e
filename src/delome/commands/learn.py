"""One more task for a saved model, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from delome.datasets import load_graph
from delome.errors import ParameterError, PersistenceError
from delome.experiment.folder import CONFIG
from delome.experiment.signals import Stop
from delome.graph import Graph
from delome.learning import METHODS, Learner
from delome.learning.saved import load
from delome.parameters import parse_assignments
from delome.persistence.files import make_folder, remove_empty_folders, reporting_write_errors
from delome.persistence.lock import LOCK, sole_writer
from delome.persistence.reading import MOST_DOCUMENT, path_exists, read_regular
from delome.persistence.state_files import MANIFEST, remove_unfinished
from delome.progress import Watcher
from delome.streams.columns import Label
from delome.streams.live import as_graph, labelled_nodes


@dataclass(frozen=True)
class Learned:
    """What a model has learned: nodes of each label, and those labels that were new; or that it knew the graph.

    ``failure`` is an error that came after the model had been replaced: the graph is learned all the same.
    """

    model: Path
    learner: Learner
    task: int
    already: bool
    counts: dict[Label, int]
    new_classes: list[Label]
    seconds: dict[str, float]
    failure: BaseException | None = None

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of the command."""
        known = {"model": str(self.model), "already_learned": self.already, "task": self.task}
        learned = {"learned": self.counts, "new_classes": self.new_classes, "seconds": self.seconds}
        return known | ({} if self.already else learned) | {"classes": self.learner.classes}


def learn(
    model: str | Path,
    graph: str | Graph | Any,
    *,
    method: str | None = None,
    setting: str | None = None,
    assignments: Sequence[str] = (),
    again: bool = False,
    device: str | None = None,
    data_root: str | Path | None = None,
    watcher: Watcher | None = None,
    stop: Stop | None = None,
    methods: Sequence[type] = (),
) -> Learned:
    """Lets the model in a folder learn the labelled nodes of a graph (its name, a `Graph` or PyG ``Data``).

    A folder that does not exist becomes a new model of ``method``, ``setting`` and ``assignments``. The old model stays
    until the new one is complete. A graph that was learned before is not learned ``again``. ``methods`` are classes of
    your own that the model may use.
    """
    place = Path(model)
    _refuse_runs(place)
    new = _new_learner(method or "delome", setting, assignments, device)
    # naming a third-party method allows its code, for an existing model too
    allowed = [*methods, type(new)]
    name = None if method is not None and ":" in method else method
    given = {"--method": name, "--setting": setting, "--set": list(assignments) or None}
    watcher, stop = watcher or Watcher(), stop or Stop()
    made: list[Path] = []
    replaced = False
    failure: BaseException | None = None
    try:
        with watcher.watching(), reporting_write_errors(place):
            data = as_graph(graph) if not isinstance(graph, str) else _load(graph, data_root, watcher)
            _, nodes = labelled_nodes(data)
            assert data.user_labels is not None
            labels, counts = np.unique(data.user_labels[nodes], return_counts=True)
            made = make_folder(place)
            with sole_writer(place) as check:
                learner = _model_in(place, given, device, allowed) or new
                known = set(learner.classes)
                tracker = watcher.single("learning one more task")
                before = None if again else learner.task_of(data)
                if before is None:
                    learner.observe(data, tracker)
                    check()
                    with stop.postponed():
                        manifest = _manifest(place)
                        try:
                            learner.write(place)
                        finally:
                            replaced = _manifest(place) != manifest
    except BaseException as error:
        if not replaced:
            remove_empty_folders(made)
            raise
        failure = error
    return Learned(
        model=place,
        learner=learner,
        task=len(learner.columns.tasks) - 1 if before is None else before,
        already=before is not None,
        counts=dict(zip(labels.tolist(), counts.tolist(), strict=True)),
        new_classes=[label for label in learner.classes if label not in known],
        seconds=tracker.seconds,
        failure=failure,
    )


def _load(name: str, data_root: str | Path | None, watcher: Watcher) -> Graph:
    return load_graph(name, data_root=data_root, progress=watcher.loading)


def _refuse_runs(model: Path) -> None:
    seed = model.absolute().parent
    if seed.name.startswith("seed-") and path_exists(seed.parent / CONFIG):
        raise ParameterError(f"'{model}' belongs to a run, which could not be resumed: copy it and learn in the copy")


def _new_learner(name: str, setting: str | None, assignments: Sequence[str], device: str | None) -> Learner:
    kind = METHODS.importable(name)
    given = {"setting": setting, "device": device}
    chosen = {option: value for option, value in given.items() if value is not None}
    return kind(**chosen | parse_assignments(kind, assignments, f"method {name}"))


def _model_in(folder: Path, given: dict[str, Any], device: str | None, methods: Sequence[type]) -> Learner | None:
    """The learner that is saved in a folder; none if it is empty, apart from what a killed command left."""
    remove_unfinished(folder)
    if path_exists(folder / MANIFEST):
        if refused := [option for option, value in given.items() if value is not None]:
            raise ParameterError(f"'{folder}' is already a model: leave out {refused[0]}, which only a new one takes")
        return load(folder, device=device, methods=methods)
    if others := sorted(file.name for file in folder.iterdir() if file.name != LOCK):
        raise PersistenceError(
            f"'{folder}' has no {MANIFEST} but '{others[0]}': choose an empty folder for a new model"
        )
    return None


def _manifest(model: Path) -> bytes:
    """Manifest of the existing model; empty if there is none."""
    try:
        return read_regular(model / MANIFEST, MOST_DOCUMENT)
    except OSError:
        return b""

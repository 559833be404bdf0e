"""An audit in one call: of a run folder, or of a saved model and the graph that it has learned."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delome.commands.shadow_runs import shadow_configs, shadow_runs
from delome.datasets import load_graph
from delome.errors import ParameterError, PersistenceError, RunFolderError
from delome.experiment import RunConfig, Stop
from delome.experiment.audits import write_audit
from delome.experiment.engine import check_engine
from delome.experiment.folder import CONFIG, CONFIG_KIND
from delome.experiment.options import GIVEN
from delome.experiment.seed_folder import finished_result
from delome.graph import Graph
from delome.learning import Learner
from delome.learning.saved import load
from delome.parameters import check_option, parameters_of
from delome.persistence.documents import kind_of, read_document
from delome.persistence.state_files import holds_state
from delome.privacy import Audit
from delome.privacy import audit as audit_learner
from delome.privacy.canaries import canary_scores, with_canaries
from delome.privacy.shadows import Shadow
from delome.progress import Watcher
from delome.randomness import generator
from delome.streams.tasks import Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Audited:
    """What was audited, and what was found."""

    place: Path
    dataset: str
    audit: Audit
    seed: int | None = None
    file: Path | None = None
    """Of a run folder: the seed whose model was audited, and where the findings are kept."""

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of the command."""
        file = None if self.file is None else str(self.file)
        about = {"audited": str(self.place), "seed": self.seed, "dataset": self.dataset, "file": file}
        return about | self.audit.as_dict()


def audit(
    place: str | Path,
    *,
    graph: str | Graph | None = None,
    shadows: int = 0,
    canaries: int = 0,
    jobs: int | None = None,
    data_root: str | Path | None = None,
    watcher: Watcher | None = None,
    methods: Sequence[type] = (),
    stop: Stop | None = None,
) -> Audited:
    """Audits the first finished seed of a run folder that has a model, or a saved model with the ``graph`` it has
    learned.

    What was found in a model of a run is kept beside it, for reports.

    ``shadows`` further runs on other splits allow the likelihood-ratio attack, and one more run with so many planted
    ``canaries`` an attack on these; both take as long as those runs, and need a run folder. Shadow runs are a sweep,
    ``jobs`` at a time (as many as fit, by default), that is kept in the run folder: what was interrupted, or is asked
    for again, is resumed. ``stop`` can end it early.
    """
    folder, watcher = Path(place), watcher or Watcher()
    check_option("shadows", shadows, at_least=0)
    check_option("canaries", canaries, at_least=0)
    check_engine("local", jobs)
    is_run = kind_of(folder / CONFIG) == CONFIG_KIND
    if not is_run and not holds_state(folder):
        raise ParameterError(f"'{folder}' is neither a run folder nor a saved model: {_instead(folder)}")
    if is_run and graph is not None:
        raise ParameterError("a run folder says which graph it has learned: leave --graph out")
    if not is_run and (shadows or canaries):
        raise ParameterError("shadows and canaries repeat a run: give a run folder, not a model")
    with watcher.watching():
        if is_run:
            return _of_run(folder, shadows, canaries, jobs, data_root, watcher, methods, stop)
        if graph is None:
            raise ParameterError(f"'{folder}' is a saved model: give the graph that it has learned with --graph")
        learner = load(folder, methods=methods)
        data = load_graph(graph, data_root=data_root, progress=watcher.loading) if isinstance(graph, str) else graph
        watcher.single("attacking the model")
        return Audited(folder, graph if isinstance(graph, str) else "given", audit_learner(learner, data))


def _of_run(
    folder: Path,
    shadows: int,
    canaries: int,
    jobs: int | None,
    data_root: str | Path | None,
    watcher: Watcher,
    methods: Sequence[type],
    stop: Stop | None,
) -> Audited:
    try:
        document = read_document(folder / CONFIG, CONFIG_KIND)
        config, described = RunConfig.from_seedless(document["run"]), document["stream"]
    except (KeyError, TypeError) as error:
        raise RunFolderError(f"'{folder / CONFIG}' is damaged: {error}") from None
    seed, model = _finished_model(folder)
    learner = load(model, methods=methods)
    if config.dataset == GIVEN:
        raise ParameterError(
            f"the run in '{folder}' has learned a stream of your own, which it does not hold: "
            f"call delome.privacy.audit(delome.load('{model}'), stream)"
        )
    root = None if data_root is None else Path(data_root)
    stream = config.stream(root, watcher.loading)
    if stream.describe() != described:
        raise RunFolderError(f"the graph '{config.dataset}' is not the one that the run in '{folder}' has learned")
    others: list[Shadow] = []
    if shadows and stream.split_kind != "random":
        raise ParameterError("shadow runs need other splits, but the graph brings its own: leave --shadows out")
    if shadows:
        configs = shadow_configs(config, learner, shadows)
        others = shadow_runs(
            folder,
            configs,
            stream.graph,
            jobs=jobs,
            data_root=root,
            watcher=watcher,
            methods=methods,
            stop=stop,
        )
    planted = None
    if canaries:
        watcher.single("a run with canaries")
        rng = generator(learner.seed, "canaries")
        tasks = with_canaries(list(stream), canaries, rng)
        planted = canary_scores(_learned(learner, [task for task, _, _ in tasks]), tasks, rng)
    watcher.single("attacking the model")
    found = audit_learner(learner, stream, shadows=others, canaries=planted)
    return Audited(folder, config.dataset, found, seed, _kept(folder, seed, found))


def _kept(folder: Path, seed: int, found: Audit) -> Path | None:
    """The file in the run folder that keeps what was found; none, and a note, where nothing can be written."""
    try:
        return write_audit(folder, seed, found.as_dict())
    except PersistenceError as error:
        log.warning("the audit is not kept: %s", error)
        return None


def _instead(folder: Path) -> str:
    """What somebody may have meant who gives a folder that cannot be audited."""
    if kind_of(folder.parent / CONFIG) == CONFIG_KIND:
        return f"give the run folder, '{folder.parent}'"
    inside = sorted(file.parent for file in folder.glob(f"*/{CONFIG}") if kind_of(file) == CONFIG_KIND)
    return f"give one of the runs that it holds, such as '{inside[0]}'" if inside else "give one of these"


def _finished_model(folder: Path) -> tuple[int, Path]:
    """The first seed of a run that is finished and has its model, and that model."""
    seeds = sorted(int(place.name[5:]) for place in folder.glob("seed-*/") if place.name[5:].isdecimal())
    finished = [seed for seed in seeds if finished_result(folder, seed) is not None]
    for seed in finished:
        if holds_state(model := folder / f"seed-{seed}" / "model"):
            return seed, model
    if not finished:
        raise RunFolderError(f"the run in '{folder}' is not finished: resume it with the command that began it")
    raise PersistenceError(
        f"'{folder}' holds no model: of a sweep only --models keeps them; run it again with --models, or by itself"
    )


def _learned(learner: Learner, tasks: Iterable[Task]) -> Learner:
    """A learner of the same kind that has learned other tasks."""
    fresh = type(learner)(**{name: getattr(learner, name) for name in parameters_of(type(learner))})
    for task in tasks:
        fresh.observe(task)
    return fresh

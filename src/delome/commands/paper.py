"""An experiment of the paper in one call: its runs, and what was measured beside what was reported."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
import torch

from delome.commands.sweep import Estimate, estimate_configs, sweep_configs
from delome.datasets.catalogue import parse_name
from delome.datasets.fetching.reading import Progress, silent
from delome.errors import ParameterError, PersistenceError
from delome.experiment.config import RunConfig, versions
from delome.experiment.selection import Selection
from delome.experiment.sweep import name_of
from delome.experiment.worker import Job
from delome.paper.experiment import NAMES, Experiment, load_experiment
from delome.paper.measured import FOLDER, KIND, comma_separated, described, document, merged
from delome.paper.training import training_notes
from delome.parameters import has_parameter
from delome.persistence.documents import read_document, write_document
from delome.persistence.files import make_folder, reporting_write_errors, write_text
from delome.printable import counted
from delome.reporting.paper import experiment_latex, experiment_markdown

log = logging.getLogger(__name__)

MOST_BUSY = 0.5
"""Cores that may do other things while seconds are measured."""
MOST = 1 << 28
"""Bytes of a document that is read."""


@dataclass(frozen=True)
class PaperReport:
    """What experiments came to: a document for each, where it was written, and runs that failed."""

    out: Path
    documents: list[dict[str, Any]]
    failed: dict[str, str] = field(default_factory=dict)
    report: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of the command."""
        report = None if self.report is None else str(self.report)
        return {"out": str(self.out), "experiments": self.documents, "failed": self.failed, "report": report}


def asked_for(
    names: str | Iterable[str],
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | None = None,
    quick: bool = False,
    assignments: Sequence[str] = (),
) -> list[Experiment]:
    """Experiments by name (``all`` of them), as somebody wants them."""
    wanted = [names] if isinstance(names, str) else list(names)
    every = [each for name in wanted for each in (NAMES if name == "all" else [name])]
    found = [load_experiment(name) for name in dict.fromkeys(every)]
    if methods is not None and len(found) > 1:  # not every experiment has every method
        if odd := [name for name in methods if not any(_rows_of(each, [name]) for each in found)]:
            raise ParameterError(f"no experiment has a method '{odd[0]}': see 'delome paper list'")
        found = [each for each in found if _rows_of(each, methods)]
    asked = [
        each.asked(
            datasets, _rows_of(each, methods) if methods and len(found) > 1 else methods, seeds, quick, assignments
        )
        for each in found
    ]
    for dataset in datasets or ():
        parse_name(dataset)
    kinds = {cell.row.label: cell.config for each in asked for cell in each.cells()}  # what is impossible is refused
    mapped = [each.map_config(dataset) for each in asked if each.kind == "map" for dataset in each.datasets]
    for text in assignments:
        name = text.partition("=")[0].strip()
        if not any(has_parameter(config.learner(0), name) for config in [*kinds.values(), *mapped]):
            raise ParameterError(f"no method of these experiments has a parameter '{name}': see 'delome methods NAME'")
    return asked


def _rows_of(experiment: Experiment, methods: Sequence[str]) -> list[str]:
    """Those of some methods that are in an experiment."""
    return [name for name in methods if experiment.rows_called(name)]


def _with_lengths(
    experiments: Sequence[Experiment], root: Path | None, progress: Progress, only_here: bool = False
) -> list[Experiment]:
    """Experiments of which nothing is cut that is not there; ``only_here`` asks no graph that would be downloaded."""
    every = dict.fromkeys(dataset for each in experiments for dataset in each.first_tasks)
    cut = [dataset for dataset in every if not only_here or _is_here(dataset, root)]
    lengths = {dataset: len(RunConfig.resolve(dataset, "finetune").stream(root, progress)) for dataset in cut}
    return [each.with_lengths(lengths) for each in experiments]


def paper(
    names: str | Iterable[str],
    out: str | Path = "paper",
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | None = None,
    select: Selection | None = None,
    quick: bool = False,
    assignments: Sequence[str] = (),
    jobs: int | None = None,
    command: str = "",
    data_root: str | Path | None = None,
    progress: Progress = silent,
    **how: Any,
) -> PaperReport:
    """Runs experiments of the paper (``all`` of them) into run folders below ``out``, and compares.

    What is finished is never run again, and what experiments share is run once. Other ``datasets`` may take the place
    of the published ones. ``how`` is that of `run_sweep`. The documents are left in ``out/paper``, and a
    ``report.html`` of everything in ``out``.
    """
    place, root = Path(out), None if data_root is None else Path(data_root)
    documents, failed = [], dict[str, str]()
    asked = asked_for(names, datasets=datasets, methods=methods, seeds=seeds, quick=quick, assignments=assignments)
    for experiment in _with_lengths(asked, root, progress):
        log.info("experiment %s", experiment.name)
        if experiment.kind == "map":
            found = _map(experiment, place, root, progress, command)
        else:
            with _timed() if experiment.one_at_a_time else nullcontext():
                report = sweep_configs(
                    [cell.config for cell in experiment.cells()],
                    _runs_in(place, experiment),
                    select=select,
                    given=_given([experiment]),
                    jobs=1 if experiment.one_at_a_time else jobs,
                    data_root=root,
                    progress=progress,
                    **how,
                )
            failed |= report.failed
            found = document(
                experiment,
                report.chosen,
                _runs_in(place, experiment),
                selections=report.selections,
                positions=_positions(experiment, root, progress),
                command=command,
            )
        documents.append(_write(found, place / FOLDER))
    from delome.reporting.writing import leave_report  # takes a second: not before the runs

    return PaperReport(place, documents, failed, leave_report(place))


@contextmanager
def _timed() -> Iterator[None]:
    """While this block runs, seconds count: torch has one thread, and a machine that does other things too is pointed
    out. Load averages would count our own runs of the minute before."""
    if (busy := psutil.cpu_percent(interval=0.5) / 100 * (psutil.cpu_count() or 1)) > MOST_BUSY:
        log.warning(
            "this machine is busy with other things (%.1f cores): seconds that are measured now are too long", busy
        )
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class PaperEstimate:
    """What `paper` would run; ``not_estimated`` are runs, by dataset, whose graph would have to be downloaded first."""

    known: Estimate
    not_estimated: dict[str, list[str]]

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of a dry run."""
        return self.known.as_dict() | {"not_estimated": self.not_estimated}

    def in_words(self) -> str:
        """A line for each run, and the sum."""
        lines = [f"{run}: not estimated" for runs in self.not_estimated.values() for run in runs]
        absent = (
            [
                f"{counted(len(lines), 'run')} on {', '.join(self.not_estimated)} not estimated and not in this sum: "
                "the first run downloads what is not here yet"
            ]
            if lines
            else []
        )
        return "\n".join([*lines, self.known.in_words(), *absent])


def paper_estimate(
    names: str | Iterable[str],
    out: str | Path,
    select: Selection | None = None,
    data_root: str | Path | None = None,
    progress: Progress = silent,
    **asked: Any,
) -> PaperEstimate:
    """What `paper` would run; maps have no runs and are not counted. Nothing is downloaded."""
    together: dict[Path, list[Experiment]] = {}
    root = None if data_root is None else Path(data_root)
    for each in _with_lengths(asked_for(names, **asked), root, progress, only_here=True):
        together.setdefault(_runs_in(Path(out), each), []).append(each)
    known, not_estimated = Estimate({}, 0, 0), dict[str, list[str]]()
    for place, experiments in together.items():
        configs = {cell.config.digest: cell.config for each in experiments for cell in each.cells()}
        given = _given(experiments)
        here = [config for config in configs.values() if _is_here(config.dataset, root)]
        if here:
            known += estimate_configs(here, place, select, given, data_root, progress)
        for config in configs.values():
            if config not in here:
                tried = select.candidates(config, given[config.digest]) if select is not None else []
                runs = not_estimated.setdefault(config.dataset, [])
                runs += [
                    _run_name(each, place) for own in [*(one.tried for one in tried), config] for each in _seeds(own)
                ]
    return PaperEstimate(known, not_estimated)


def _is_here(dataset: str, root: Path | None) -> bool:
    """Whether a graph can be loaded without a download."""
    published = parse_name(dataset)[0].published
    return published is None or published.cached(root) != "nothing"


def _seeds(config: RunConfig) -> list[RunConfig]:
    return [replace(config, seeds=[seed]) for seed in config.seeds]


def _run_name(config: RunConfig, place: Path) -> str:
    return name_of(Job(place / config.slug, config.seeds[0], config))


def _given(experiments: Sequence[Experiment]) -> dict[str, list[str]]:
    """For the digest of each run the parameters that are set, and therefore not selected."""
    found: dict[str, list[str]] = {}
    for experiment in experiments:
        set_by_all = [text.partition("=")[0].strip() for text in experiment.assignments]
        for cell in experiment.cells():
            found.setdefault(cell.config.digest, []).extend([*set_by_all, *cell.row.set])
    return found


def _positions(experiment: Experiment, root: Path | None, progress: Progress) -> dict[str, float]:
    """For each dataset of a curve over imbalance the mean number of training nodes of a class."""
    if experiment.name != "imbalance":
        return {}
    found = {}
    for dataset in experiment.datasets:
        config = next(cell.config for cell in experiment.cells() if cell.config.dataset == dataset)
        stream = config.stream(root, progress)
        found[dataset] = mean(len(task.train) / len(task.classes) for task in stream)
    return found


def _map(experiment: Experiment, out: Path, root: Path | None, progress: Progress, command: str) -> dict[str, Any]:
    """The document of a map; what was computed before for the same graph and settings is read."""
    before: dict[str, Any] = {"rows": [], "points": []}
    with suppress(PersistenceError):  # none that can be read
        before |= read_document(out / FOLDER / f"{experiment.name}.json", KIND, MOST)
    rows, points = [], []
    for dataset in experiment.datasets:
        config = experiment.map_config(dataset)
        stream = config.stream(root, progress)
        asked = {
            "graph": stream.fingerprint(),
            "settings": list(experiment.assignments),
            "rows": [row.label for row in experiment.rows],
            "delome": versions()["delome"],
        }
        own = [row for row in before["rows"] if row["dataset"] == dataset and row.get("asked") == asked]
        settings = sorted(experiment.assignments)
        placed = [
            point
            for point in before["points"]
            if (point.get("dataset"), point.get("settings", [])) == (dataset, settings)
        ]
        budget = parse_name(dataset)[0].budget
        if not own or not placed:
            from delome.paper.embeddings import embedding_map  # imports scikit-learn

            own, placed = embedding_map(
                experiment, dataset, stream, config.learner(0), budget, lambda text: log.info("%s", text)
            )
        trained = training_notes(config.learner(0))
        rows += [row | {"asked": asked, "notes": trained, "budget": budget} for row in own]
        points += [point | {"settings": settings} for point in placed]
    return described(experiment, rows, command) | {"points": points}


def _runs_in(out: Path, experiment: Experiment) -> Path:
    """Where the runs of an experiment are: those whose seconds count are not shared with others."""
    return out / experiment.name if experiment.one_at_a_time else out


def _write(found: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Writes a document, with what was measured before of other datasets or methods, or in another way."""
    file = folder / f"{found['name']}.json"
    with suppress(PersistenceError):  # none
        before = read_document(file, KIND, MOST)
        try:
            found = merged(found, before)
        except (KeyError, TypeError):
            log.warning(
                "'%s' is of another version and is replaced: give its other commands again; nothing is run twice", file
            )
    with reporting_write_errors(file):
        make_folder(folder)
        write_document(file, KIND, found)
        write_text(folder / f"{found['name']}.csv", comma_separated(found))
        write_text(folder / f"{found['name']}.md", experiment_markdown(found))
        write_text(folder / f"{found['name']}.tex", experiment_latex(found))
    return found

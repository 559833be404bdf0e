"""A plan of many runs in one call, with parameters chosen on validation nodes if wanted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from delome.datasets.fetching.reading import Progress, silent
from delome.errors import PersistenceError
from delome.experiment.config import RunConfig
from delome.experiment.cost import expected_seconds
from delome.experiment.folder import flat_run, mark_as_asked
from delome.experiment.plan import Plan
from delome.experiment.runner import CHECKPOINT_EVERY
from delome.experiment.selection import Candidate, Selection, in_words, winner, write_selection
from delome.experiment.settings import named, settings_of, telling
from delome.experiment.signals import Stop
from delome.experiment.sweep import Sweep, name_of, run_sweep, survey
from delome.learning import METHODS
from delome.printable import counted

log = logging.getLogger(__name__)

IN_NAMES, ALL_TASKS = ("dataset", "setting"), ("tasks", None)
"""What the name of a run says by itself, and what need not be said."""

Given: TypeAlias = Mapping[str, Sequence[str]]
"""For the digest of a configuration the names of what was given, and is therefore not selected."""


@dataclass(frozen=True)
class SweepReport:
    """What runs came to; ``failed`` are sentences by run.

    ``chosen`` has for the digest of each configuration that was asked for the one that was run in its place;
    ``selections`` says for the folders of those whose parameters were selected how that was done.
    """

    out: Path
    chosen: dict[str, RunConfig]
    finished: int
    found: int
    failed: dict[str, str] = field(default_factory=dict)
    selections: dict[str, str] = field(default_factory=dict)
    report: Path | None = None

    @property
    def configs(self) -> list[RunConfig]:
        """What was run."""
        return list(self.chosen.values())

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of the command."""
        return {
            "out": str(self.out),
            "runs": sorted({config.slug for config in self.configs}),
            "finished": self.finished,
            "finished_before": self.found,
            "failed": self.failed,
            "report": None if self.report is None else str(self.report),
        }


def sweep(
    plan: Plan | str | Path,
    out: str | Path = "runs",
    *,
    select: Selection | None = None,
    jobs: int | None = None,
    cluster: str = "local",
    shared_disk: bool = True,
    keep_models: bool = False,
    checkpoint_every: float = CHECKPOINT_EVERY,
    data_root: str | Path | None = None,
    progress: Progress = silent,
    watch: Callable[[Sweep], None] = lambda _: None,
    stop: Stop | None = None,
) -> SweepReport:
    """Runs a plan (or the TOML file of one) into run folders below ``out``; see `run_sweep`.

    What is finished is never computed again, so that more seeds, or one more method, add only what is missing. With a
    selection each method's parameters are first chosen on validation nodes; only the runs of winners are reported.
    What ``out`` holds then is shown by its ``report.html``.
    """
    plan = plan if isinstance(plan, Plan) else Plan.read(Path(plan))
    _tell_notes(plan)
    done = sweep_configs(
        plan.configs(),
        out,
        select=select or Selection.of(plan.select),
        given=plan.given,
        jobs=jobs,
        cluster=cluster,
        shared_disk=shared_disk,
        keep_models=keep_models,
        checkpoint_every=checkpoint_every,
        data_root=None if data_root is None else Path(data_root),
        progress=progress,
        watch=watch,
        stop=stop,
    )
    from delome.reporting.writing import leave_report  # takes a second: not before the runs

    return replace(done, report=leave_report(done.out))


def sweep_configs(
    configs: Sequence[RunConfig],
    out: str | Path,
    *,
    select: Selection | None = None,
    given: Given | None = None,
    **how: Any,
) -> SweepReport:
    """The same for configurations; ``given`` parameters are not selected, and ``how`` is that of `run_sweep`."""
    given = given or {}
    place = Path(out)

    def run(wanted: Sequence[RunConfig]) -> Sweep:
        return run_sweep(wanted, place, **how)

    sweeps = []
    tried: dict[str, list[Candidate]] = {}
    winners: dict[str, Candidate] = {}
    finished: frozenset[tuple[str, int]] = frozenset()
    chosen: dict[str, RunConfig] = {}
    selections: dict[str, str] = {}
    if select is not None:
        tried = _compared(select, configs, given)
        compared = [candidate.tried for candidates in tried.values() for candidate in candidates]
        if compared:
            log.info("selection (%s): %d candidates", select.protocol, len(compared))
            sweeps.append(run(compared))
            finished = sweeps[0].finished
    for config in configs:
        candidates = tried.get(config.digest)
        if not candidates or select is None:
            chosen[config.digest] = config
        elif (best := _best(select, config, candidates, place, finished)) is not None:
            winners[config.digest] = best
            chosen[config.digest] = best.whole
            selections[best.whole.slug] = select.in_words(best.chosen)
    sweeps.append(run(list(chosen.values())))
    if select is not None and select.protocol == "honest":
        lengths = {job.config.digest: tasks for each in sweeps for job, tasks in each.tasks.items()}
        for config in configs:
            best = winners.get(config.digest)
            if best is not None and lengths.get(best.tried.digest) == lengths.get(best.whole.digest):
                log.warning(
                    "an honest selection on the first %d tasks has seen a whole stream: choose fewer", select.tasks
                )
                write_selection(select, config, tried[config.digest], best, place, saw_all=True)
                selections[best.whole.slug] = select.in_words(best.chosen, saw_all=True)
    for config in configs:
        if not tried.get(config.digest):
            with suppress(PersistenceError):  # finished runs on a disk that cannot be written are shown all the same
                mark_as_asked(place / config.slug)
    failed = {name_of(job): why for each in sweeps for job, why in each.failed.items()}
    return SweepReport(place, chosen, len(sweeps[-1].done), sweeps[-1].found, failed, selections)


@dataclass(frozen=True)
class Estimate:
    """What a plan would run: its jobs by name with their seconds on one core, and how many are finished.

    ``settings`` are those in which runs of a method differ, by the names of jobs.
    """

    seconds: dict[str, float]
    finished: int
    candidates: int
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __add__(self, other: Estimate) -> Estimate:
        names = {name: name if name not in self.seconds else f"{name} (again)" for name in other.seconds}
        return Estimate(
            self.seconds | {names[name]: each for name, each in other.seconds.items()},
            self.finished + other.finished,
            self.candidates + other.candidates,
            self.settings | {names[name]: each for name, each in other.settings.items()},
        )

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of a dry run."""
        return {
            "runs": self.seconds,
            "settings": self.settings,
            "finished": self.finished,
            "candidates": self.candidates,
            "seconds_on_one_core": sum(self.seconds.values()),
        }

    def in_words(self) -> str:
        """A line for each run, and the sum."""
        own = {name: f" ({named(settings)})" for name, settings in self.settings.items() if settings}
        lines = [f"{name}{own.get(name, '')}: {_duration(seconds)}" for name, seconds in self.seconds.items()]
        tried = f", {self.candidates} of them candidates of the selection" if self.candidates else ""
        total = f"{counted(len(self.seconds), 'run')} to do{tried}; {self.finished} are finished"
        together = f"{_duration(sum(self.seconds.values()))} on one core"
        start_up = ", beside some seconds to start each worker" if self.seconds else ""
        return "\n".join([*lines, f"{total}; {together}{start_up}"])


def estimate(
    plan: Plan,
    out: str | Path,
    select: Selection | None = None,
    data_root: str | Path | None = None,
    progress: Progress = silent,
) -> Estimate:
    """What `sweep` would do, from the sizes of graphs and networks; winners of a selection count once more."""
    _tell_notes(plan)
    return estimate_configs(plan.configs(), out, select or Selection.of(plan.select), plan.given, data_root, progress)


def estimate_configs(
    configs: Sequence[RunConfig],
    out: str | Path,
    select: Selection | None = None,
    given: Given | None = None,
    data_root: str | Path | None = None,
    progress: Progress = silent,
) -> Estimate:
    """The same for configurations."""
    given = given or {}
    by_digest = _compared(select, configs, given) if select else {}
    compared = [by_digest.get(each.digest, []) for each in configs]
    tried = [each.tried for candidates in compared for each in candidates]
    wholes = [each.whole for candidates in compared for each in candidates]
    possible = {config.digest: config for config in [*tried, *wholes, *configs]}
    root = None if data_root is None else Path(data_root)
    state, _, streams = survey(possible.values(), Path(out), root, progress)
    final = [_expected(*pair, Path(out), state.finished) for pair in zip(configs, compared, strict=True)]
    every = {config.digest: config for config in [*tried, *final]}
    left = [job for job in state.left if job.config.digest in every]
    cost = {name_of(job): expected_seconds(job.config, streams[job.config.stream_key]) for job in left}
    candidates = {config.digest for config in tried}
    own = _telling(list(every.values()))
    for config, expected, choices in zip(configs, final, compared, strict=True):
        if choices and expected is config and config.digest not in candidates:  # what stands for the winner
            chosen = {name.rpartition(".")[2] for each in choices for name in each.chosen}
            known = {name: value for name, value in own[config.digest].items() if name not in chosen}
            own[config.digest] = known | {"winner": f"of {counted(len(choices), 'candidate')}"}
    return Estimate(
        cost,
        sum(job.config.digest in every for job in state.done),
        sum(job.config.digest in candidates for job in left),
        {name_of(job): own[job.config.digest] for job in left},
    )


def _telling(configs: Sequence[RunConfig]) -> dict[str, dict[str, Any]]:
    """By digest the settings in which runs of a method differ, beside those that their names say."""
    found = telling([settings_of(flat_run(config.seedless)) for config in configs])
    unsaid = [
        {name: value for name, value in own.items() if name not in IN_NAMES and (name, value) != ALL_TASKS}
        for own in found
    ]
    return {config.digest: own for config, own in zip(configs, unsaid, strict=True)}


def _tell_notes(plan: Plan) -> None:
    for note in plan.notes:
        log.warning("%s", note)


def _duration(seconds: float) -> str:
    return f"about {timedelta(seconds=round(seconds))}" if seconds >= 1 else "less than a second"


def _expected(
    config: RunConfig, candidates: Sequence[Candidate], out: Path, finished: Container[tuple[str, int]]
) -> RunConfig:
    """What is run in place of a configuration: the winner once all candidates are finished, else one like it."""
    best = winner(candidates, out, finished) if candidates else None
    return config if best is None or not all(each.scores for each in candidates) else best.whole


def _compared(select: Selection, configs: Sequence[RunConfig], given: Given) -> dict[str, list[Candidate]]:
    """Candidates by the digest of what they stand for; says for which methods a selection has nothing to choose, loudly
    if that is all of them."""
    tried = select.compared(configs, given)
    unselected = list(dict.fromkeys(config.method for config in configs if not tried[config.digest]))
    if reasons := list(_reasons(select, unselected)):
        level = logging.INFO if any(tried.values()) else logging.WARNING
        log.log(level, "nothing is selected: %s", "; ".join(reasons))
    return tried


def _reasons(select: Selection, unselected: Sequence[str]) -> Iterator[str]:
    """Why nothing is selected for methods."""
    if select.space is not None:
        if unselected:
            yield f"{', '.join(unselected)} {'has' if len(unselected) == 1 else 'have'} no {' or '.join(select.space)}"
        return
    spaceless = [method for method in unselected if not METHODS.importable(method).search]
    given = [method for method in unselected if method not in spaceless]
    if spaceless:
        yield f"no search space is declared for {', '.join(spaceless)} (--select NAME=VALUE,VALUE gives one)"
    if given:
        yield f"what {', '.join(given)} would search is given"


def _best(
    select: Selection,
    config: RunConfig,
    candidates: Sequence[Candidate],
    out: Path,
    finished: Container[tuple[str, int]],
) -> Candidate | None:
    """The candidate that was chosen for a run; none if every one failed."""
    best = winner(candidates, out, finished)
    if best is None:
        log.warning("%s on %s: every candidate failed, so that nothing was chosen", config.method, config.dataset)
        return None
    scored = [each for each in candidates if each.scores]
    if len(scored) > 1 and all(each.score == best.score for each in scored):
        log.warning(
            "%s on %s, %s: all %d candidates have the same score on validation nodes, %.1f: the first is taken, %s",
            config.method,
            config.dataset,
            config.parameters["setting"],
            len(scored),
            best.score,
            in_words(best.chosen),
        )
    write_selection(select, config, candidates, best, out)
    log.info("%s on %s, %s: %s", config.method, config.dataset, config.parameters["setting"], in_words(best.chosen))
    return best

"""A whole run in one call: configuration, stream, run folder, figures, report."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from delome.errors import ParameterError
from delome.experiment import RunConfig, RunFolder, RunResult, Stop, Stopped
from delome.experiment import run as run_config
from delome.experiment.folder import mark_as_asked
from delome.experiment.options import GIVEN, RunOptions
from delome.experiment.runner import CHECKPOINT_EVERY
from delome.parameters import has_parameter
from delome.progress import Watcher
from delome.streams.cut import CutStream
from delome.streams.tasks import Stream

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """What a run gave, and where it was written."""

    result: RunResult
    folder: Path
    figures: list[Path]
    report: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of a run."""
        report = None if self.report is None else str(self.report)
        return self.result.as_dict() | {"folder": str(self.folder), "report": report}


def run(
    dataset: str | None = None,
    method: str = "delome",
    *,
    stream: Stream | str | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    checkpoint_every: float = CHECKPOINT_EVERY,
    data_root: str | Path | None = None,
    watcher: Watcher | None = None,
    stop: Stop | None = None,
    **options: Any,
) -> Run:
    """Learns a stream of tasks and measures what is remembered, in a run folder (``runs/…`` or ``out``).

    ``options`` are those of `RunOptions`, as on the command line. A run that was interrupted, even killed, continues
    when it is called again, and ends with the identical result; ``fresh`` starts over and keeps a backup. A ``stream``
    of your own takes the place of the dataset's, which is ``digits`` by default; unless ``dataset`` says what it is of,
    the run calls it ``given``; text such as ``"time:period=2"`` says how that of the dataset is cut. ``watcher``
    follows its progress; ``stop`` can end it early.

    >>> import tempfile
    >>> found = run("synthetic:nodes=60,classes=4", "finetune", epochs=2, out=f"{tempfile.mkdtemp()}/run")
    >>> len(found.result.seeds[0].matrix.rows)
    2
    """
    if isinstance(stream, str):
        options, stream = options | {"stream": stream}, None
    if isinstance(stream, CutStream) and stream.made_by is not None:
        own = {"stream": stream.kind, "test_graph": stream.test_graph, "inductive": stream.inductive}
        options = own | options
    if dataset is None:
        dataset = RunOptions.dataset if stream is None else GIVEN
    wanted = RunOptions(dataset=dataset, method=method, **_known(options))
    config = RunConfig.of(wanted)
    if not checkpoint_every >= 0:
        raise ParameterError(f"checkpoint-every must be at least 0 seconds, not {checkpoint_every}")
    watcher = Watcher() if watcher is None else watcher
    with watcher.watching(config.seeds):
        root = None if data_root is None else Path(data_root)
        tasks = config.stream(root, watcher.loading) if stream is None else stream
        place = Path("runs") / config.slug if out is None else Path(out)
        with RunFolder.open(place, config, tasks, fresh=fresh) as folder:
            try:
                result = run_config(
                    config, tasks, folder, watcher.tracker, checkpoint_every=checkpoint_every, stop=stop
                )
            except BaseException as error:
                if isinstance(error, Stopped):
                    folder.event("stopped", signal=error.signal_number)
                folder.discard_if_empty()
                raise
            if watcher.tasks == 0:
                log.warning("this run was finished before: these are its results, and --fresh runs it again")
            if folder.unwritable:
                log.warning(
                    "'%s' cannot be written (%s): figures and report are as they were", folder.path, folder.unwritable
                )
            if not folder.unwritable:
                mark_as_asked(folder.path)
            _note_ignored(wanted, config)
            watcher.single("drawing figures")
            from delome.reporting.figures import write_figures  # takes a second: not before progress is shown
            from delome.reporting.writing import leave_report

            figures = [] if folder.unwritable else write_figures(folder, result)
            report = None if folder.unwritable else leave_report(folder.path)
    return Run(result, folder.path, figures, report)


def _known(options: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(RunOptions)}
    if odd := sorted(options.keys() - names):
        raise ParameterError(
            f"a run has no option '{odd[0]}': parameters of the method go into assignments=['{odd[0]}=…']"
        )
    return options


def _note_ignored(options: RunOptions, config: RunConfig) -> None:
    learner = config.learner(config.seeds[0])
    given = {"backbone": options.backbone, "budget": options.budget, "epochs": options.epochs}
    ignored = [name for name, value in given.items() if value is not None and not has_parameter(learner, name)]
    if ignored:
        log.warning("method %s has no %s: ignored", options.method, " and no ".join(ignored))

"""RunFolder: everything a run writes, and everything it needs to resume after an interruption.

    config.json          resolved configuration and its hash, versions, description of the stream
    events.jsonl         what happened and when, one JSON document per line
    seed-S/tasks.jsonl   until the seed is finished: what was measured after each task so far, a line for each
    seed-S/result.json   accuracies, seconds and storage after every task; matrix.csv: the matrix alone
    seed-S/audit.json    what `delome audit` found in the model, if it was asked
    seed-S/model/        the learner after the last finished task, as `delome.load` reads it
    seed-S/progress/     inside a task: how far it has come

Every file is complete or absent, and checked when it is read back.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeAlias

from delome.errors import PersistenceError, RunFolderError
from delome.experiment.config import RunConfig, versions
from delome.persistence.documents import append_document, kind_of, read_document, write_document
from delome.persistence.files import (
    add_folder,
    append_line,
    make_folder,
    remove_empty_folders,
    remove_temporary_files,
    replacing,
    reporting_write_errors,
    sync_folder,
    write_text,
)
from delome.persistence.lock import LOCK, sole_writer
from delome.persistence.reading import path_exists
from delome.persistence.state_files import MANIFEST
from delome.streams.tasks import Stream

log = logging.getLogger(__name__)

CONFIG, EVENTS = "config.json", "events.jsonl"
ASKED = "asked"
"""An empty file in the folder of a run that somebody has asked for, and not only a selection has tried."""
CONFIG_KIND = "configuration of a run"
SELECTIONS, SELECTION_KIND = "selections", "selection"
"""Where a folder of several runs has what selections left, and what kind of document that is."""
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


StartOver: TypeAlias = Callable[[Path], str]
"""What somebody can do to start over who does not want what a place holds."""


def with_fresh(_: Path) -> str:
    """The advice for a command that runs a single run."""
    return "start over with --fresh"


def by_deleting(place: Path) -> str:
    """The advice for one of many runs, for all of which there is no such option."""
    return f"delete '{place}' to start over"


class RunFolder:
    """The folder of one run, written by one process."""

    def __init__(
        self,
        path: Path,
        config: RunConfig | None = None,
        stream: dict[str, Any] | None = None,
        start_over: StartOver = with_fresh,
    ) -> None:
        self.path, self.config, self.stream, self.start_over = path, config, stream, start_over
        self.continues = False
        self.unwritable = ""
        self._made: list[Path] = []
        self._locks = ExitStack()
        self._checks: list[Callable[[], None]] = []

    @classmethod
    def open(
        cls,
        path: Path,
        config: RunConfig,
        stream: Stream,
        *,
        fresh: bool = False,
        waiting: Callable[[], None] | None = None,
        start_over: StartOver = with_fresh,
    ) -> Self:
        """Creates the folder, or reopens one of the same configuration and stream; its seeds are locked until it is
        closed. Other processes may run other seeds in the same folder.

        ``fresh`` keeps an existing folder as a backup; one that holds other runs, too, is never moved, and does not
        become the folder of this one. ``waiting`` is called before waiting for another process that runs one of the
        seeds; without it that is an error. ``start_over`` is what errors advise. A folder that cannot be written is not
        locked; ``unwritable`` says why: a finished run in it can still be shown.
        """
        config.check_stream(stream)
        folder = cls(path, config, stream.describe(), start_over)
        with reporting_write_errors(path):
            if path.exists() and not path.is_dir():
                raise RunFolderError(f"'{path}' is a file: choose another folder with --out")
            if kind_of(path / MANIFEST) is not None:
                raise RunFolderError(f"'{path}' is a saved learner: choose another folder with --out")
            if (other := _other_run(path)) and (fresh or not path_exists(path / CONFIG)):
                raise RunFolderError(
                    f"'{path}' holds other runs, {other} among them: "
                    f"choose a folder for this run alone with --out, such as '{path / config.slug}'"
                )
            if fresh:
                folder._set_aside()
            folder._made = make_folder(path)
        try:
            with reporting_write_errors(path):
                folder._lock(waiting)
            folder._resume()
        except BaseException:
            if folder._made:
                folder.discard_if_empty()
            folder.close()
            raise
        return folder

    def _lock(self, waiting: Callable[[], None] | None) -> None:
        try:
            for seed in [] if self.config is None else self.config.seeds:
                place = self.path / f"seed-{seed}"
                if place.is_symlink():
                    raise RunFolderError(f"'{place}' is a link: replace it by the folder it leads to")
                add_folder(place)
                self._checks.append(self._locks.enter_context(sole_writer(place, waiting)))
        except OSError as error:
            if error.errno not in READ_ONLY or not path_exists(self.path / CONFIG):
                raise
            self.unwritable = error.strerror or str(error)

    def check(self) -> None:
        """Refuses to write where the locked folder no longer is, or where nothing can be written."""
        if self.unwritable:
            raise RunFolderError(f"cannot write '{self.path}': {self.unwritable}")
        for check in self._checks:
            check()

    def _turn(self) -> AbstractContextManager[object]:
        """While the block runs, no other process writes the files that all seeds share."""
        self.check()
        return sole_writer(self.path, waiting=lambda: None)

    @property
    def identity(self) -> str:
        """Short hash of configuration and stream: files in this folder belong to this run and no other."""
        return "" if self.config is None else identity_of(self.config, self.stream)

    @property
    def _configuration(self) -> dict[str, Any]:
        return {} if self.config is None else self.config.seedless

    def _resume(self) -> None:
        if self.unwritable:
            self._compare()
            return
        with reporting_write_errors(self.path), self._turn():
            remove_temporary_files(self.path)
            started = path_exists(self.path / CONFIG)
            if not started:
                self._start()
        if started:
            self._compare()
        self.event("continued" if started else "started", versions=versions())

    def _start(self) -> None:
        if self._has_results() or path_exists(self.path / EVENTS):
            raise RunFolderError(
                f"'{self.path}' holds results or events, but no {CONFIG} that says of which run: "
                f"choose another folder with --out, or {self.start_over(self.path)}"
            )
        content = {"run": self._configuration, "hash": self.identity, "versions": versions(), "stream": self.stream}
        write_document(self.path / CONFIG, CONFIG_KIND, content)

    def _compare(self) -> None:
        """Refuses a folder of another run, and notes what may change the last bits of this one."""
        try:
            found = read_document(self.path / CONFIG, CONFIG_KIND)
            run, stream, before = dict(found["run"]), dict(found["stream"]), dict(found["versions"])
            run["parameters"] = dict(run["parameters"])
        except PersistenceError as error:
            raise RunFolderError(f"{error}: choose another folder, or {self.start_over(self.path)}") from None
        except (KeyError, TypeError, ValueError):
            raise RunFolderError(f"'{self.path / CONFIG}' is damaged: {self.start_over(self.path)}") from None
        if different := _differences(run, self._configuration):
            start_over = "" if _other_run(self.path) else f", or {self.start_over(self.path)}"
            raise RunFolderError(
                f"'{self.path}' holds another run (different: {', '.join(different)}): "
                f"choose another folder with --out{start_over}"
            )
        if different := [name for name, value in (self.stream or {}).items() if value != stream.get(name)]:
            raise RunFolderError(
                f"the {different[0]} of the stream is not the one that the run in '{self.path}' began with: "
                f"choose another folder with --out, or {self.start_over(self.path)}"
            )
        self.continues = True
        if changed := [f"{name} {before[name]}" for name, now in versions().items() if before.get(name, now) != now]:
            log.warning("this run began with %s: the last bits of its results may differ", ", ".join(changed))

    def _set_aside(self) -> None:
        if not any(path_exists(self.path / name) for name in (CONFIG, EVENTS)) and not self._has_results():
            return
        number, named = 1, self.path if self.path.name else self.path.resolve()
        while (backup := named.with_name(f"{named.name}.backup-{number}")).exists():
            number += 1
        with ExitStack() as locks:
            for place in (self.path, *self.path.glob("seed-*/")):
                locks.enter_context(sole_writer(place))
            named.rename(backup)
            for lock in (backup / LOCK, *backup.glob(f"seed-*/{LOCK}")):
                lock.unlink()
            sync_folder(backup.parent)
        log.warning("the previous run is kept in '%s'", backup)

    def close(self) -> None:
        """Unlocks the seeds; a seed of which nothing was written leaves no folder."""
        self._locks.close()
        for seed in [] if self.unwritable or self.config is None else self.config.seeds:
            with suppress(OSError):
                (self.path / f"seed-{seed}").rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def discard_if_empty(self) -> None:
        """Removes the folder if it holds no results, because the run failed at once."""
        if self.continues or self._has_results():
            return
        with suppress(OSError, PersistenceError):  # the failure itself is being reported
            self.check()
            with self._turn():
                for file in (self.path / EVENTS, self.path / CONFIG):
                    file.unlink(missing_ok=True)
        self.close()
        remove_empty_folders(self._made)

    def _has_results(self) -> bool:
        return any(file.name != LOCK for file in self.path.glob("seed-*/*"))

    def event(self, name: str, **details: Any) -> None:
        """Adds a line to the log, if the folder can be written."""
        if self.unwritable:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with reporting_write_errors(self.path / EVENTS), self._turn():
            append_line(self.path / EVENTS, {"time": now, "event": name, "process": os.getpid(), **details})

    def write_document(self, name: str, kind: str, content: dict[str, Any]) -> None:
        with reporting_write_errors(self.path / name):
            write_document(self._place(name), kind, content)

    def append_document(self, name: str, kind: str, content: dict[str, Any]) -> None:
        """Adds a document to a file that has one on each line."""
        with reporting_write_errors(self.path / name):
            append_document(self._place(name), kind, content)

    def write_text(self, name: str, text: str) -> None:
        with reporting_write_errors(self.path / name):
            write_text(self._place(name), text)

    def write(self, name: str, fill: Callable[[Path], object]) -> Path:
        """Writes a file by filling a temporary one."""
        with reporting_write_errors(self.path / name), self._turn(), replacing(self._place(name)) as temporary:
            fill(temporary)
        return self.path / name

    def add_folder(self, name: str) -> None:
        """Makes a folder in the run folder if it is missing."""
        self.check()
        with reporting_write_errors(self.path / name):
            add_folder(self.path / name)

    def _place(self, name: str) -> Path:
        """Path of a file to write; a missing folder below this one is made, but never this one."""
        self.check()
        if (place := self.path / name).parent != self.path:
            add_folder(place.parent)
        return place


def _other_run(path: Path) -> str | None:
    """The name of a run, or of what a selection has left, in a folder of several; none if there is neither."""
    files = (file for pattern in (f"*/{CONFIG}", f"{SELECTIONS}/*.json") for file in path.glob(pattern))
    return next((file.parent.name for file in files if kind_of(file) in (CONFIG_KIND, SELECTION_KIND)), None)


def identity_of(config: RunConfig, stream: dict[str, Any] | None) -> str:
    """Short hash of a configuration and the description of its stream."""
    both = json.dumps([config.seedless, stream], sort_keys=True)
    return hashlib.sha256(both.encode()).hexdigest()[:16]


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Names of the settings in which two configurations differ, with both values.

    >>> _differences({"seeds": [0], "parameters": {"tau": 1}}, {"seeds": [0], "parameters": {"tau": 2}})
    ['tau 1 there, 2 here']
    """
    both = [{**each, **flat(each["parameters"]), "parameters": None} for each in (found, wanted)]
    return [
        f"{key} {_brief(both[0].get(key))} there, {_brief(both[1].get(key))} here"
        for key in sorted({*both[0], *both[1]})
        if both[0].get(key) != both[1].get(key)
    ]


def flat_run(run: dict[str, Any]) -> dict[str, Any]:
    """A configuration as a run folder has it, its parameters beside the rest under their dotted names."""
    return flat({name: value for name, value in run.items() if name != "parameters"} | run["parameters"])


def flat(parameters: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Parameters of parts under their dotted names; the name of a part under that of the parameter."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix[:-1] if prefix and name == "name" else prefix + name] = value
    return found


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def mark_as_asked(folder: Path) -> None:
    """Notes that a run was asked for."""
    file = folder / ASKED
    if folder.is_dir() and not file.exists():
        with reporting_write_errors(file):
            file.touch()

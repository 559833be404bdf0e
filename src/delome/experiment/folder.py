"""RunFolder: all that a run leaves, and all that it needs to go on after it was interrupted.

    config.json          resolved configuration and its hash, versions, description of the stream
    events.jsonl         what happened and when, one JSON document a line
    seed-S/result.json   accuracies, seconds and storage after every task so far; matrix.csv: the matrix alone
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
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from delome.durable import (
    LOCK,
    add_folder,
    append_line,
    is_there,
    make_folder,
    read_document,
    remove_leftovers,
    replacing,
    sole_writer,
    sync_folder,
    told,
    unmake_folders,
    write_document,
    write_text,
)
from delome.errors import RunFolderError, StorageError
from delome.experiment.config import RunConfig, versions
from delome.stream import TaskStream

log = logging.getLogger(__name__)

CONFIG, EVENTS = "config.json", "events.jsonl"
CONFIG_KIND = "configuration of a run"
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class RunFolder:
    """Where one run is written by one process."""

    def __init__(self, path: Path, config: RunConfig | None = None, stream: dict[str, Any] | None = None) -> None:
        self.path, self.config, self.stream = path, config, stream
        self.continues = False
        self._made: list[Path] = []
        self._claim = ExitStack()
        self.check: Callable[[], None] = lambda: None
        self.unwritable = ""

    @classmethod
    def open(cls, path: Path, config: RunConfig, stream: TaskStream, *, fresh: bool = False) -> Self:
        """Creates the folder, or takes up again the one of the same configuration and stream; nobody else can until it
        is closed.

        ``fresh`` moves a folder that is there out of the way, as a backup. Of a folder that cannot be written, and is
        therefore not claimed, ``unwritable`` says why: a run that was finished there can still be shown.
        """
        config.check_stream(stream)
        folder = cls(path, config, stream.describe())
        with told(path):
            if path.exists() and not path.is_dir():
                raise RunFolderError(f"'{path}' is a file: choose another folder with --out")
            if fresh:
                folder._set_aside()
            folder._made = make_folder(path)
            try:
                folder.check = folder._claim.enter_context(sole_writer(path))
            except OSError as error:
                if error.errno not in READ_ONLY or not is_there(path / CONFIG):
                    raise
                folder.unwritable, folder.check = error.strerror or str(error), folder._refuse
        try:
            folder._take_up()
        except BaseException:
            if folder._made:
                folder.discard_if_empty()
            folder.close()
            raise
        return folder

    @property
    def identity(self) -> str:
        """Short hash of configuration and stream: what is written here belongs to this run and no other."""
        both = json.dumps([self._configuration, self.stream], sort_keys=True)
        return hashlib.sha256(both.encode()).hexdigest()[:16]

    @property
    def _configuration(self) -> dict[str, Any]:
        return {} if self.config is None else self.config.as_dict()

    def _refuse(self) -> None:
        raise RunFolderError(f"cannot write '{self.path}': {self.unwritable}")

    def _take_up(self) -> None:
        remove_leftovers(self.path)
        if not is_there(self.path / CONFIG):
            if self._has_results() or is_there(self.path / EVENTS):
                raise RunFolderError(
                    f"'{self.path}' holds results or events, but not the {CONFIG} that says of what: "
                    "choose another folder with --out, or start over with --fresh"
                )
            self.write_document(
                CONFIG,
                CONFIG_KIND,
                {
                    "run": self._configuration,
                    "hash": self.identity,
                    "versions": versions(),
                    "stream": self.stream,
                },
            )
            self.event("started", versions=versions())
            return
        try:
            found = read_document(self.path / CONFIG, CONFIG_KIND)
            run, stream, before = dict(found["run"]), dict(found["stream"]), dict(found["versions"])
            run["parameters"] = dict(run["parameters"])
        except StorageError as error:
            raise RunFolderError(f"{error}: choose another folder, or start over with --fresh") from None
        except (KeyError, TypeError, ValueError):
            raise RunFolderError(f"'{self.path / CONFIG}' is damaged: start over with --fresh") from None
        if different := _differences(run, self._configuration):
            raise RunFolderError(
                f"'{self.path}' holds another run (different: {', '.join(different)}): "
                "choose another folder with --out, or start over with --fresh"
            )
        if different := [name for name, value in (self.stream or {}).items() if value != stream.get(name)]:
            raise RunFolderError(
                f"the {different[0]} of the stream is not the one that the run in '{self.path}' began with: "
                "choose another folder with --out, or start over with --fresh"
            )
        self.continues = True
        if changed := [f"{name} {before[name]}" for name, now in versions().items() if before.get(name, now) != now]:
            log.warning("this run began with %s: the last bits of its results may differ", ", ".join(changed))
        self.event("continued", versions=versions())

    def _set_aside(self) -> None:
        if not any(is_there(self.path / name) for name in (CONFIG, EVENTS)) and not self._has_results():
            return
        number, named = 1, self.path if self.path.name else self.path.resolve()
        while (backup := named.with_name(f"{named.name}.backup-{number}")).exists():
            number += 1
        with sole_writer(self.path):
            named.rename(backup)
            (backup / LOCK).unlink()
            sync_folder(backup.parent)
        log.warning("the run that was there is kept in '%s'", backup)

    def close(self) -> None:
        """Lets others write here."""
        self._claim.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def discard_if_empty(self) -> None:
        """Removes a folder without any result: the run failed before it had reached anything."""
        if self.continues or self._has_results():
            return
        with suppress(OSError, StorageError):  # why it failed is told already
            self.check()
            for file in (self.path / EVENTS, self.path / CONFIG):
                file.unlink(missing_ok=True)
            for seed in self.path.glob("seed-*"):
                seed.rmdir()
        self.close()
        unmake_folders(self._made)

    def _has_results(self) -> bool:
        return any(self.path.glob("seed-*/*"))

    def event(self, name: str, **details: Any) -> None:
        """Adds a line to the log, if there can be one."""
        if self.unwritable:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.check()
        with told(self.path / EVENTS):
            append_line(self.path / EVENTS, {"time": now, "event": name, "process": os.getpid(), **details})

    def write_document(self, name: str, kind: str, content: dict[str, Any]) -> None:
        with told(self.path / name):
            write_document(self._place(name), kind, content)

    def write_text(self, name: str, text: str) -> None:
        with told(self.path / name):
            write_text(self._place(name), text)

    def write(self, name: str, fill: Callable[[Path], object]) -> Path:
        """Writes a file by filling a temporary one."""
        with told(self.path / name), replacing(self._place(name)) as temporary:
            fill(temporary)
        return self.path / name

    def add_folder(self, name: str) -> None:
        """Makes a folder in the run folder if it is missing."""
        self.check()
        with told(self.path / name):
            add_folder(self.path / name)

    def _place(self, name: str) -> Path:
        """Where a file is to be written: a folder below this one is made if it is missing, but never this one."""
        self.check()
        if (place := self.path / name).parent != self.path:
            add_folder(place.parent)
        return place


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Names of the settings in which two configurations differ, with both values.

    >>> _differences({"seeds": [0], "parameters": {"tau": 1}}, {"seeds": [0], "parameters": {"tau": 2}})
    ['tau 1 there, 2 here']
    """
    flat = [{**each, **each["parameters"], "parameters": None} for each in (found, wanted)]
    return [
        f"{key} {_brief(flat[0].get(key))} there, {_brief(flat[1].get(key))} here"
        for key in sorted({*flat[0], *flat[1]})
        if flat[0].get(key) != flat[1].get(key)
    ]


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

"""Processes that can be killed at any call by which they change the disk, and disks that fail at any of them.

Run as a program it is the mother of such processes: it imports everything once and forks for each life that is asked
for on stdin, one JSON document a line; the answer is one on stdout.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

import torch

from delome import Learner
from delome.experiment import RunConfig, RunFolder, run
from delome.streams.cut import CutStream

BY_PATH = ("mkdir", "rmdir", "unlink", "chmod", "replace", "rename")
BY_HANDLE = ("fsync", "ftruncate")
GROWING = ("mkdir", "open", "write", "flush", "truncate", "fsync", "close")
"""Calls that a full disk can refuse."""


@dataclass
class Disk:
    """Counts the calls that change what is below a folder; at call number ``at`` something happens.

    ``event`` is "kill before", "kill half way" (of a write), "kill after", "pause before", or a kind of error:
    "fail" (this call with EIO), "stay broken" (this and all later ones with EIO) or "stay full" (this and all later
    ones that need space with ENOSPC).
    """

    folder: Path
    at: int = -1
    event: str = ""
    paused: Callable[[], None] = lambda: None
    calls: list[tuple[str, str]] = field(default_factory=list)
    handles: dict[int, Path] = field(default_factory=dict)

    @contextmanager
    def watched(self) -> Iterator[Self]:
        """While this block runs, calls of this process are counted."""
        with mock.patch.multiple(os, **self._calls()), mock.patch.object(Path, "open", self._path_open(Path.open)):
            yield self

    def _calls(self) -> dict[str, Any]:
        os_open, os_close = os.open, os.close

        def by_path(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(path: Any, *arguments: Any, **options: Any) -> Any:
                if not self._is_inside(path):
                    return real(path, *arguments, **options)
                return self.call(name, Path(path), lambda: real(path, *arguments, **options))

            return call

        def by_handle(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(handle: int, *arguments: Any) -> Any:
                if handle not in self.handles:
                    return real(handle, *arguments)
                return self.call(name, self.handles[handle], lambda: real(handle, *arguments))

            return call

        def open_(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            # folders are opened to be put on the disk
            changes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or Path(path).is_dir()
            if not self._is_inside(path) or not changes:
                return os_open(path, flags, *arguments, **options)
            handle: int = self.call("open", Path(path), lambda: os_open(path, flags, *arguments, **options))
            self.handles[handle] = Path(path)
            return handle

        def close(handle: int) -> None:
            if handle not in self.handles:
                os_close(handle)
                return
            path = self.handles.pop(handle)
            # a failing close leaves nothing open
            self.call("close", path, lambda: os_close(handle), lambda: os_close(handle))

        found = {name: by_path(name, getattr(os, name)) for name in BY_PATH}
        # a killed process leaves its files to the system, on the disk or not: waiting for the disk changes nothing
        found |= {"fsync": by_handle("fsync", lambda handle: None), "ftruncate": by_handle("ftruncate", os.ftruncate)}
        return found | {"open": open_, "close": close}

    def _path_open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def open_(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if not self._is_inside(path) or not set(mode) & set("wax+"):
                return real(path, mode, *arguments, **options)
            return WatchedFile(self, path, self.call("open", path, lambda: real(path, mode, *arguments, **options)))

        return open_

    def _is_inside(self, path: Any) -> bool:
        return not isinstance(path, int) and Path(path).is_relative_to(self.folder)

    def call(
        self, name: str, path: Path, do: Callable[[], Any], instead: Callable[[], Any] = lambda: None, half: Any = None
    ) -> Any:
        """One call: ``do`` is what it does, ``instead`` what it does if it fails, ``half`` a half of it."""
        number = len(self.calls)
        self.calls.append((name, str(path.relative_to(self.folder))))
        if self._fails(number, name):
            instead()
            code = errno.ENOSPC if self.event == "stay full" else errno.EIO
            raise OSError(code, os.strerror(code), str(path))
        if number != self.at:
            return do()
        if self.event == "kill before":
            _die()
        if self.event == "pause before":
            self.paused()
        if self.event == "kill half way" and half is not None:
            half()
            _die()
        try:
            return do()
        finally:
            if self.event == "kill after":
                _die()

    def _fails(self, number: int, name: str) -> bool:
        if self.event == "fail":
            return number == self.at
        reached = 0 <= self.at <= number
        return reached and (self.event == "stay broken" or (self.event == "stay full" and name in GROWING))


class WatchedFile:
    """An open file that counts what is done to it."""

    def __init__(self, disk: Disk, path: Path, file: Any) -> None:
        self._disk, self._path, self._file = disk, path, file
        disk.handles[file.fileno()] = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, content: Any) -> int:
        def half() -> None:
            self._file.write(content[: len(content) // 2])
            self._file.flush()

        written: int = self._disk.call("write", self._path, lambda: self._file.write(content), half=half)
        return written

    def flush(self) -> None:
        self._disk.call("flush", self._path, self._file.flush)

    def truncate(self, size: int | None = None) -> int:
        length: int = self._disk.call("truncate", self._path, lambda: self._file.truncate(size))
        return length

    def close(self) -> None:
        if self._file.closed:
            return
        self._disk.handles.pop(self._file.fileno(), None)
        self._disk.call("close", self._path, self._file.close, self._file.close)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def live(config: RunConfig, stream: CutStream, folder: Path, every: float = 0.0, fresh: bool = False) -> None:
    """A whole run as the command line does it, with a note in place of the pictures."""
    with RunFolder.open(folder, config, stream, fresh=fresh) as place:
        result = run(config, stream, place, checkpoint_every=every)
        place.write("note.txt", lambda temporary: temporary.write_text(str(result.aa[0])))


def learned(config: RunConfig, stream: CutStream, tasks: int) -> Learner:
    """The learner of a configuration after so many tasks."""
    learner = config.learner(config.seeds[0])
    for task in list(stream)[:tasks]:
        learner.observe(task)
    return learner


def known_versions() -> Any:
    """Patch: versions are looked up once, which takes longer than all else that a small run does."""
    return mock.patch.object(metadata, "version", cache(metadata.version))


class Mother:
    """Forks lives."""

    def __init__(self) -> None:
        self.streams: dict[str, CutStream] = {}
        self.held: int | None = None
        # what the first run loads and makes need not be done in every life
        known_versions().start()
        warm = RunConfig.resolve("synthetic:nodes=24,classes=4", "finetune", epochs=2, assignments=["hidden=2"])
        with tempfile.TemporaryDirectory() as place:
            live(warm, warm.stream(), Path(place) / "run")
        gc.freeze()  # memory that no child touches need not be copied
        gc.disable()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Lets a life live and tells how it ended. One that pauses is held there; whatever is asked next kills it."""
        if self.held is not None:
            self.end_held()
            return {"ended": -signal.SIGKILL}
        config = RunConfig(**asked["config"])
        stream = self.streams.setdefault(config.stream_key, config.stream())
        told, tell = os.pipe()
        child = os.fork()
        if not child:
            os.close(told)
            self._live(asked, config, stream, tell)
        os.close(tell)
        if asked.get("event") == "pause before":
            os.read(told, 1)
            os.close(told)
            self.held = child
            return {"holding": True}
        if (delay := asked.get("kill_after")) is not None:
            _kill_after(delay, child)
        with os.fdopen(told, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        return {"ended": os.waitstatus_to_exitcode(status), **json.loads(said or b"{}")}

    def end_held(self) -> None:
        """Kills the life that is held, if there is one."""
        if self.held is not None:
            os.kill(self.held, signal.SIGKILL)
            os.waitpid(self.held, 0)
            self.held = None

    def _live(self, asked: dict[str, Any], config: RunConfig, stream: CutStream, tell: int) -> None:
        """The life of the child; it never returns."""
        code = 1
        try:
            folder = Path(asked["folder"])

            def paused() -> None:
                os.write(tell, b".")
                signal.pause()

            disk = Disk(Path(asked.get("watch", folder)), asked.get("at", -1), asked.get("event", ""), paused)
            learner = learned(config, stream, asked["tasks"]) if "tasks" in asked else None
            start = time.perf_counter()
            with disk.watched():
                if learner is None:
                    live(config, stream, folder, asked.get("every", 0.0), asked.get("fresh", False))
                else:
                    learner.save(folder)
            said = {"calls": disk.calls, "seconds": time.perf_counter() - start}
            if asked.get("tell"):
                os.write(tell, json.dumps(said).encode())
            code = 0
        except BaseException as error:
            with suppress(OSError):
                os.write(tell, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        finally:
            os._exit(code)


def _kill_after(seconds: float, child: int) -> None:
    """Kills a child after so many seconds, unless it ends by itself; it is not reaped, so the number stays its own."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)


def main() -> None:
    torch.set_num_threads(1)
    mother = Mother()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(mother.answer(json.loads(line))), flush=True)
    mother.end_held()


if __name__ == "__main__":
    main()

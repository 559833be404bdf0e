"""Stop: whether the user has asked a command to stop, and when it may."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

log = logging.getLogger(__name__)


class Stopped(BaseException):
    """A run was asked to stop, and has written all that it needs to resume.

    Like `KeyboardInterrupt` it is not an `Exception`: code that takes any of those for a damaged file must not.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.signal_number = signal_number


class Stop:
    """Whether the user has asked to stop: Ctrl-C, SIGTERM, or SIGHUP from a closed terminal."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._postponed = False

    @property
    def asked(self) -> bool:
        return self.signal_number is not None

    def check(self) -> None:
        """Ends the run if it was asked to stop; call when everything is on disk."""
        if self.signal_number is not None:
            raise Stopped(self.signal_number)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """While this block runs, the first signal asks to stop; the second acts at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            self.signal_number = number
            _handle(before)
            log.warning("stopping after this step; once more stops at once")

        before = _stop_handlers()
        with _handled_by(ask):
            yield

    @contextmanager
    def raised(self) -> Iterator[None]:
        """While this block runs, a signal raises `Stopped`; in a ``postponed`` block it is only noted."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.signal_number = number
            if not self._postponed:
                raise Stopped(number)

        with _handled_by(stop):
            yield

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """The block is not interrupted."""
        self._postponed = True
        try:
            yield
        finally:
            self._postponed = False


class StopFile(Stop):
    """Asks to stop once a file exists, or the process that started this one is gone."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self._parent = file, os.getppid()

    @property
    def asked(self) -> bool:
        if self.signal_number is None and (self.file.exists() or os.getppid() != self._parent):
            self.signal_number = int(signal.SIGTERM)
        return self.signal_number is not None

    def check(self) -> None:
        if self.asked:
            super().check()


Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | None


def _stop_handlers() -> dict[int, Handler]:
    """Current handlers of the signals that ask to stop; ignored ones, as under nohup, are left alone."""
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])]
    found = {int(number): signal.getsignal(number) for number in numbers}
    return {number: handler for number, handler in found.items() if handler != signal.SIG_IGN}


def _handle(handlers: dict[int, Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


@contextmanager
def _handled_by(handler: Handler) -> Iterator[None]:
    before = _stop_handlers()
    try:
        _handle(dict.fromkeys(before, handler))
        yield
    finally:
        _handle(before)

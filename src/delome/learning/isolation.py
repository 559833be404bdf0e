"""Learning and predicting apart from what a caller has set in torch, and from what other threads do with a learner."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from delome.errors import StateError


class _DefaultType:
    """Type of new tensors, which is the whole process's: the first to need another sets it, the last restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._callers = torch.float32

    @contextmanager
    def single(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                self._callers = torch.get_default_dtype()
                torch.set_default_dtype(torch.float32)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    torch.set_default_dtype(self._callers)


_default_type = _DefaultType()


@contextmanager
def isolated() -> Iterator[None]:
    """While this block runs, torch works in single precision, with gradients, and on the learner's device.

    The caller's default type and device, autocast, ``no_grad`` and ``inference_mode`` are as they were afterwards.
    """
    with ExitStack() as settings:
        settings.enter_context(_default_type.single())
        settings.enter_context(torch.inference_mode(False))
        settings.enter_context(torch.enable_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                settings.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":  # only then, because it slows every call down
            settings.enter_context(torch.device("cpu"))
        yield


class Guard:
    """Lets one thread change something, or any number read it.

    A copy of what is guarded has a guard of its own.
    """

    def __init__(self) -> None:
        self._readers_left = threading.Condition()
        self._readers = 0
        self._changing = False

    def __reduce__(self) -> tuple[type[Guard], tuple[()]]:
        return Guard, ()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Refused while it is being changed."""
        with self._readers_left:
            self._refuse_if_changing()
            self._readers += 1
        try:
            yield
        finally:
            with self._readers_left:
                self._readers -= 1
                self._readers_left.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Waits for readers; refused while another thread changes it."""
        with self._readers_left:
            self._refuse_if_changing()
            self._changing = True
            try:
                self._readers_left.wait_for(lambda: self._readers == 0)
            except BaseException:
                self._changing = False
                raise
        try:
            yield
        finally:
            with self._readers_left:
                self._changing = False

    def _refuse_if_changing(self) -> None:
        if self._changing:
            raise StateError(
                "the learner is observing a task: wait until that is done, or use a copy of it made before"
            )

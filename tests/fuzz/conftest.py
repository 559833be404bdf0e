"""Bad input, systematically: whatever is given is accepted, or refused in one sentence that helps."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
import torch

from delome.errors import DelomeError

T = TypeVar("T")
Attempt = Callable[[Callable[[], T]], T | None]


def assert_helpful(sentence: str) -> None:
    """One line that a terminal shows as it is, and more of it than the name of an exception."""
    assert sentence.isprintable(), repr(sentence)
    assert len(sentence) <= 6000
    assert len(re.findall(r"[a-z]{2,}", sentence)) >= 4, sentence
    assert not re.match(r"\w*(Error|Exception|Warning)\b", sentence), sentence


@pytest.fixture(scope="session")
def attempt() -> Attempt:
    """Calls: the result if the input was accepted, ``None`` if it was refused as it should be.

    Any other exception passes, and so fails the test.
    """

    def call(action: Callable[[], T]) -> T | None:
        # as exceptions, warnings could be taken for the fault of the input and disappear in a refusal
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                return action()
            except DelomeError as error:
                assert_helpful(str(error))
                return None
            finally:
                assert not caught, [str(warning.message) for warning in caught]

    return call


@pytest.fixture(scope="module")
def repeated_warnings() -> Iterator[None]:
    """Warnings of torch come every time, not only the first: otherwise the order of examples would count."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)

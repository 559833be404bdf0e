from __future__ import annotations

from pathlib import Path

import pytest
from rich.text import Text

from delome.reporting.terminal import literal


@pytest.mark.parametrize("text", ["plain", "[bold]no markup[/bold]", "[/x]", "run[first]", "a\\[b]"])
def test_text_is_shown_as_it_is(text: str) -> None:
    assert Text.from_markup(literal(text)).plain == text


def test_what_commands_a_terminal_is_shown_instead_of_obeyed() -> None:
    assert "\x1b" not in literal("\x1b[2J") and "2J" in literal("\x1b[2J")


def test_a_path_is_text_too() -> None:
    assert Text.from_markup(literal(Path("a/[b]"))).plain == "a/[b]"

"""What comes from elsewhere, as rich shows it in a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape

from delome.printable import printable


def literal(text: str | Path) -> str:
    """Text that is shown as it is: nothing in it is a command to the terminal, or markup."""
    return escape(printable(str(text)))

"""The command line: parses, calls, prints. One file for each group of commands."""

from __future__ import annotations

import io
import re
import shlex
import sys

import typer

from delome.cli import catalogue, model, run
from delome.cli.app import app, drop_output, replace_closed_streams, tell
from delome.errors import DelomeError, one_line
from delome.experiment.journal import Stopped

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C has ended."""

TOO_LARGE = re.compile(r"memory|overflow|too (big|large)|dimension exceeded")
"""What torch and numpy say of sizes for which there is no memory, or not even a number."""

__all__ = ["app", "catalogue", "main", "model", "run"]


def main() -> None:
    """Entry point: an error a person can mend is one sentence and exit code 2."""
    replace_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may hold bytes that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:  # which is all that typer makes of Ctrl-C
            tell("interrupted")
        sys.stdout.flush()
        sys.exit(code)
    except typer.TyperException as error:  # a mistyped option or command
        if not (sentence := " ".join(error.format_message().split())):  # no command: the help was shown
            sys.exit(0)
        tell(one_line(sentence))
        sys.exit(2)
    except DelomeError as error:
        tell(str(error))
        sys.exit(2)
    except (MemoryError, OverflowError, RuntimeError, ValueError) as error:
        if not isinstance(error, MemoryError) and not TOO_LARGE.search(str(error)):
            raise
        tell("not enough memory for this run: choose a smaller graph, budget or network")
        sys.exit(2)
    except Stopped as stopped:
        command = shlex.join(["delome", *(argument for argument in sys.argv[1:] if argument != "--fresh")])
        tell(f"stopped; to go on from here: {command}")
        sys.exit(128 + stopped.signal_number)
    except OSError as error:
        tell(f"cannot write the output: {error.strerror or error}")
        drop_output()
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        tell("interrupted")
        sys.exit(INTERRUPTED)

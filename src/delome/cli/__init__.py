"""The command line: parses, calls, prints. One file for each group of commands."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from typing import NoReturn

import typer

from delome.cli import run, sweep, results, report, paper, model, audit, catalogue, check  # isort: skip  (the order in which help lists the commands)
from delome.cli.app import app, drop_output, drop_unwritable, replace_closed_streams, say, tell
from delome.errors import DelomeError, one_line
from delome.experiment.signals import Stopped

REFUSED, INTERRUPTED = 2, 130
"""Exit codes of a command that could not do what was asked for, and of one that Ctrl-C has ended."""

TOO_LARGE = re.compile(r"memory|overflow|too (big|large)|dimension exceeded")
"""What torch and numpy say of sizes for which there is no memory, or not even a number."""

__all__ = ["app", "audit", "catalogue", "check", "main", "model", "paper", "report", "results", "run", "sweep"]


def main() -> None:
    """Entry point: an error a person can mend is one sentence and exit code 2."""
    replace_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may hold bytes that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:  # which is all that typer makes of Ctrl-C
            _end("interrupted", code)
        sys.stdout.flush()
        sys.exit(code)
    except typer.TyperException as error:  # a mistyped option or command
        _end(one_line(" ".join(error.format_message().split())))
    except DelomeError as error:
        _end(str(error))
    except (MemoryError, OverflowError, RuntimeError, ValueError) as error:
        if not isinstance(error, MemoryError) and not TOO_LARGE.search(str(error)):
            raise
        _end("not enough memory for this run: choose a smaller graph, budget or network")
    except Stopped as stopped:
        command = shlex.join(["delome", *(argument for argument in sys.argv[1:] if argument != "--fresh")])
        _end(f"stopped; to resume: {command}", 128 + stopped.signal_number)
    except OSError as error:
        drop_output()
        _end(f"cannot write the output: {error.strerror or error}")
    except (typer.Abort, KeyboardInterrupt):
        _end("interrupted", INTERRUPTED)
    finally:
        drop_unwritable()


def _end(sentence: str, code: int = REFUSED) -> NoReturn:
    """Says on stderr why a command ends, to a program that asked for JSON as a document."""
    # not from a parsed option: parsing itself may be what failed
    if "--json" in sys.argv:
        say(json.dumps({"error": sentence, "exit_code": code}))
    else:
        tell(sentence)
    sys.exit(code)

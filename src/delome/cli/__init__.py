"""The command line: parses, calls, prints. One file for each group of commands."""

from __future__ import annotations

import shlex
import sys

import typer

from delome.cli import catalogue, model, run
from delome.cli.app import app
from delome.errors import DelomeError
from delome.experiment.journal import Stopped

__all__ = ["app", "catalogue", "main", "model", "run"]


def main() -> None:
    """Entry point: an error a person can mend is one sentence and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except typer.TyperException as error:  # a mistyped option or command
        print(f"delome: {' '.join(error.format_message().split())}", file=sys.stderr)
        sys.exit(2)
    except typer.Abort:
        print("delome: interrupted", file=sys.stderr)
        sys.exit(130)
    except DelomeError as error:
        print(f"delome: {error}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        print("delome: not enough memory for this run: choose a smaller graph, budget or network", file=sys.stderr)
        sys.exit(2)
    except Stopped as stopped:
        command = shlex.join(["delome", *(argument for argument in sys.argv[1:] if argument != "--fresh")])
        print(f"delome: stopped; to go on from here: {command}", file=sys.stderr)
        sys.exit(128 + stopped.signal_number)
    except KeyboardInterrupt:
        print("delome: interrupted", file=sys.stderr)
        sys.exit(130)

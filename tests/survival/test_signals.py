from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import sysconfig
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import delome

PROGRAM = Path(sysconfig.get_path("scripts")) / "delome"
RUN = (
    "run", "--dataset", "synthetic:nodes=120,classes=6,noise=4", "--method", "ergnn", "--epochs", "60",
    "--set", "budget=4", "--set", "hidden=8",
)  # fmt: skip
Cli = Callable[..., Any]
Left = Callable[[Path], dict[str, Any]]

pytestmark = pytest.mark.slow

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""As in the tests themselves: else a run that is resumed here would note that it began with more."""


@contextmanager
def started(*arguments: str, folder: Path, by: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """The installed program at work, started ``by`` another."""
    process = subprocess.Popen(
        [*by, PROGRAM, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(event: str, run: Path, process: subprocess.Popen[str]) -> None:
    """Until a run has written such an event."""
    while process.poll() is None:
        log = run / "events.jsonl"
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        if any(json.loads(line)["event"] == event for line in lines):
            return
        time.sleep(0.01)
    raise AssertionError(f"ended without {event}: {process.communicate()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_run_that_is_asked_to_stop_goes_on_when_the_printed_command_is_given(
    number: signal.Signals, cli: Cli, folder: Path, left: Left
) -> None:
    whole = cli(*RUN, "--out", "whole", "--json").document
    command = (*RUN, "--out", "stopped", "--checkpoint-every", "0", "--json")
    with started(*command, "--fresh", folder=folder) as process:
        wait_for("checkpoint", folder / "stopped", process)
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 128 + number
    assert out == ""
    stopping, stopped = err.splitlines()[-2:]
    assert stopping == "delome: note: stopping after this step; once more stops at once"
    error = json.loads(stopped)
    assert error["exit_code"] == 128 + number
    before, _, printed = error["error"].partition("to resume: ")
    assert before == "stopped; "
    assert shlex.split(printed) == ["delome", *command]
    assert not (folder / "stopped" / ".lock").exists()
    assert (folder / "stopped" / "seed-0" / "progress").exists()
    again = cli(*shlex.split(printed)[1:])
    assert again.code == 0
    (resuming,) = again.notes
    assert re.fullmatch(r"delome: note: resuming at task \d \(\d of 3\)(, epoch \d+)?", resuming)
    assert left(folder / "stopped") == left(folder / "whole")
    assert again.document["matrices"] == whole["matrices"]


@pytest.fixture
def slow_second_task(tmp_path: Path) -> Path:
    """A graph whose first task is learned at once, and of whose second one a single pass takes long."""
    labels = np.repeat(np.arange(4), [5, 5, 20_000, 20_000])
    file = tmp_path / "graph.npz"
    empty = sp.csr_array((len(labels), len(labels)))
    arrays = {f"adj_{part}": getattr(empty, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(file, features=np.ones((len(labels), 2), np.float32), labels=labels, **arrays)
    return file


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)], ids=["SIGINT", "SIGTERM"]
)
def test_a_run_that_is_asked_twice_ends_in_the_middle_of_a_step(
    number: signal.Signals, code: int, slow_second_task: Path, folder: Path
) -> None:
    slow = ("--method", "finetune", "--set", "batch_size=1", "--set", "passes=true")
    command = ("run", "--dataset", f"file:{slow_second_task}", *slow)
    for attempt in range(10):
        run = folder / f"run-{attempt}"
        with started(*command, "--epochs", "1", "--out", run.name, folder=folder) as process:
            wait_for("task", run, process)
            process.send_signal(number)
            assert process.stderr is not None
            assert process.stderr.readline().startswith("delome: task 0 (1 of 2): ")
            assert process.stderr.readline() == "delome: note: stopping after this step; once more stops at once\n"
            process.send_signal(number)
            _, err = process.communicate()
        if "to resume" not in err:  # else the first signal came before the second task had begun
            break
    assert process.returncode == code
    assert err in ("", "delome: interrupted\n")
    assert delome.load(run / "seed-0" / "model").classes == [0, 1]
    assert not (run / "seed-0" / "progress").exists()


def test_a_run_whose_terminal_is_closed_goes_on_when_the_command_is_given_again(
    cli: Cli, folder: Path, left: Left
) -> None:
    assert cli(*RUN, "--out", "whole").code == 0
    command = (*RUN, "--out", "closed", "--checkpoint-every", "0")
    terminal, other_end = os.openpty()
    process = subprocess.Popen(
        [PROGRAM, *command],
        cwd=folder,
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        start_new_session=True,
        env=ONE_THREAD,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # its terminal, whose end is its own
    )
    os.close(other_end)
    log = folder / "closed" / "events.jsonl"
    while not (log.exists() and '"checkpoint"' in log.read_text()):
        os.read(terminal, 1 << 16)  # or it would wait for somebody who reads
    os.close(terminal)
    assert process.wait() == 128 + signal.SIGHUP
    assert json.loads(log.read_text().splitlines()[-1])["event"] == "stopped"
    assert not (folder / "closed" / ".lock").exists()
    assert cli(*command).code == 0
    assert left(folder / "closed") == left(folder / "whole")


def test_a_signal_that_is_ignored_stays_ignored(folder: Path) -> None:
    ignoring = ("sh", "-c", """trap "" HUP; exec "$0" "$@" """)  # what nohup does
    with started(*RUN, "--out", "run", "--checkpoint-every", "0", folder=folder, by=ignoring) as process:
        wait_for("checkpoint", folder / "run", process)
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate()
    assert process.returncode == 0
    assert all(re.match(r"delome: task \d \(\d of 3\): ", line) for line in err.splitlines())


LEARN = (
    "learn", "--model", "m", "--graph", "synthetic:nodes=60,classes=4", "--method", "finetune",
    "--set", "epochs=1000000000", "--set", "hidden=4",
)  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_learning_and_leaves_nothing(number: signal.Signals, folder: Path) -> None:
    with started(*LEARN, folder=folder) as process:
        while not (folder / "m" / ".lock").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate()
    assert (process.returncode, out) == (128 + number, "")
    assert err == f"delome: stopped; to resume: {shlex.join(['delome', *LEARN])}\n"
    assert list(folder.iterdir()) == []

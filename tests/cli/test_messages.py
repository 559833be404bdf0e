from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from delome.experiment import RunConfig, RunFolder, Stop, Stopped, run
from delome.progress import Tracker

Cli = Callable[..., Any]
DATASET = "synthetic:nodes=60,classes=6"
RUN = ("run", "--dataset", DATASET, "--method", "finetune", "--epochs", "9", "--out", "run")


class Stopping(Tracker):
    """Asks a run to stop in the middle of a task."""

    def __init__(self, stop: Stop, task: int) -> None:
        super().__init__()
        self.stop, self.task = stop, task

    def show(self, phase: str, done: int, total: int) -> None:
        if (self.task, phase, done) == (1, "train", 4):
            self.stop.signal_number = 15


@pytest.fixture
def interrupted(folder: Path) -> Callable[..., None]:
    """Leaves the run folder of a run that was stopped in its second task."""

    def leave(**options: Any) -> None:
        config, stop = RunConfig.resolve(DATASET, "finetune", epochs=9, **options), Stop()
        stream = config.stream()

        def watched(seed: int, task: int, tasks: int) -> Tracker:
            return Stopping(stop, task)

        with RunFolder.open(folder / "run", config, stream) as place, pytest.raises(Stopped):
            run(config, stream, place, watched, stop=stop)

    return leave


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Stderr is a terminal, and this is what it shows."""
    screen = io.StringIO()
    console = partial(Console, file=screen, force_terminal=True, force_interactive=True, width=100)
    monkeypatch.setattr("delome.cli.messages.Console", console)
    return screen


def test_without_a_terminal_every_task_is_a_line(cli: Cli) -> None:
    lines = cli(*RUN).err.splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"delome: task 0 \(1 of 3\): AA \d+\.\d, \d+\.\d s", lines[0])
    for number, line in enumerate(lines[1:], 2):
        assert re.fullmatch(
            rf"delome: task {number - 1} \({number} of 3\): AA \d+\.\d, AF [+-]\d+\.\d, \d+\.\d s", line
        )


def test_with_several_seeds_the_lines_name_them(cli: Cli) -> None:
    lines = cli(*RUN, "--seeds", "2", "--seed", "4").err.splitlines()
    assert [line.partition(":")[2].split(":")[0] for line in lines] == [
        f" seed {seed}, task {task} ({task + 1} of 3)" for seed in (4, 5) for task in range(3)
    ]


def test_a_run_that_is_resumed_says_where(cli: Cli, interrupted: Callable[..., None]) -> None:
    interrupted()
    first, *others = cli(*RUN).err.splitlines()
    assert first == "delome: note: resuming at task 1 (2 of 3), epoch 4"
    assert [line.split(":")[1] for line in others] == [" task 1 (2 of 3)", " task 2 (3 of 3)"]


def test_a_run_of_several_seeds_that_is_resumed_says_where(cli: Cli, interrupted: Callable[..., None]) -> None:
    interrupted(seeds=2)
    assert cli(*RUN, "--seeds", "2").notes == ["delome: note: resuming at seed 0, task 1 (2 of 3), epoch 4"]


@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_quiet_leaves_notes_only(option: str, cli: Cli, interrupted: Callable[..., None]) -> None:
    assert cli(*RUN, option, "--budget", "5", "--out", "other").err == (
        "delome: note: method finetune has no budget: ignored\n"
    )
    interrupted()
    assert cli(*RUN, option).err == "delome: note: resuming at task 1 (2 of 3), epoch 4\n"


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_verbose_tells_what_is_done_and_how_long_it_takes(option: str, cli: Cli) -> None:
    err = cli(*RUN, option, "--checkpoint-every", "0").err
    assert f"delome: loaded {DATASET}: Graph(nodes=60, " in err
    assert "delome: checkpoint: train step 5\n" in err
    for phase in ("prepare", "train", "evaluate"):
        assert len(re.findall(rf"^delome: {phase}: \d+\.\d\d s$", err, re.MULTILINE)) == 3
    assert err.count("delome: task ") == 3


def test_quiet_and_verbose_exclude_each_other(cli: Cli, folder: Path) -> None:
    outcome = cli(*RUN, "-q", "-v")
    assert (outcome.code, outcome.out, list(folder.iterdir())) == (2, "", [])
    assert outcome.err == "delome: --quiet and --verbose exclude each other: leave out one of them\n"


def test_other_commands_are_quiet_without_a_terminal_and_tell_more_if_asked(cli: Cli) -> None:
    learn = ("learn", "--model", "m", "--graph", DATASET, "--method", "finetune", "--set", "epochs=2")
    assert cli(*learn).err == ""
    assert "delome: train: " in cli("learn", "--model", "m", "--graph", DATASET, "--again", "-v").err
    predict = ("predict", "--model", "m", "--graph", DATASET, "--out", "predictions.csv")
    assert cli(*predict).err == ""
    assert f"delome: loaded {DATASET}: " in cli(*predict, "-v").err
    show = ("datasets", "show", DATASET)
    assert cli(*show).err == ""
    assert cli(*show, "-v").err.startswith(f"delome: loaded {DATASET}: ")


def test_in_a_terminal_bars_show_the_tasks_and_notes_stand_above_them(
    cli: Cli, terminal: io.StringIO, interrupted: Callable[..., None]
) -> None:
    interrupted()
    assert cli(*RUN).err == ""
    screen = terminal.getvalue()
    assert "loading the graph" in screen and "seed 0, task 1" in screen and "drawing figures" in screen
    assert "note: resuming at task 1 (2 of 3), epoch 4\n" in screen
    assert "task 1 (2 of 3):" not in screen


def test_quiet_shows_no_bars_in_a_terminal(cli: Cli, terminal: io.StringIO) -> None:
    assert cli(*RUN, "-q").code == 0
    assert terminal.getvalue() == ""


def test_verbose_prints_lines_above_the_bars(cli: Cli, terminal: io.StringIO) -> None:
    cli(*RUN, "-v")
    assert "delome: task 2 (3 of 3): AA" in terminal.getvalue()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("datasets", "show", DATASET), ["loading the graph", "measuring the graph"]),
        (
            ("learn", "--model", "m", "--graph", DATASET, "--method", "finetune", "--set", "epochs=3"),
            ["loading the graph", "learning one more task", "train"],
        ),
    ],
    ids=["datasets show", "learn"],
)
def test_commands_that_take_long_show_what_they_do(
    command: tuple[str, ...], shown: list[str], cli: Cli, terminal: io.StringIO
) -> None:
    assert cli(*command).code == 0
    places = [terminal.getvalue().find(text) for text in shown]
    assert -1 not in places and places == sorted(places)


def test_predicting_shows_what_it_does(cli: Cli, terminal: io.StringIO) -> None:
    cli("learn", "--model", "m", "--graph", DATASET, "--method", "finetune", "--set", "epochs=1")
    assert cli("predict", "--model", "m", "--graph", DATASET, "--out", "p.csv").code == 0
    assert "classifying the nodes" in terminal.getvalue()


def test_bars_on_stderr_do_not_catch_what_belongs_on_stdout(cli: Cli, terminal: io.StringIO) -> None:
    learn = ("learn", "--model", "m", "--graph", DATASET, "--json")
    assert not cli(*learn, "--method", "finetune", "--set", "epochs=1").document["already_learned"]
    assert cli(*learn).document["already_learned"]


def test_after_a_command_nobody_listens_any_more(cli: Cli) -> None:
    library = logging.getLogger("delome")
    before = (library.level, list(library.handlers))
    cli(*RUN, "-v")
    cli("datasets", "show", "file:absent.npz", "-v")
    assert (library.level, list(library.handlers)) == before


def test_the_library_logs_and_prints_nothing(
    interrupted: Callable[..., None],
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    interrupted()
    caplog.clear()
    caplog.set_level(logging.INFO, "delome")
    config = RunConfig.resolve(DATASET, "finetune", epochs=9)
    with RunFolder.open(folder / "run", config, config.stream()) as place:
        run(config, config.stream(), place)
    assert [message.split(":")[0] for message in caplog.messages] == [
        "resuming at task 1 (2 of 3), epoch 4", "task 1 (2 of 3)", "task 2 (3 of 3)"
    ]  # fmt: skip
    assert all(record.name.startswith("delome.") for record in caplog.records)
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("delome").handlers)
    assert capfd.readouterr() == ("", "")


PROGRAM = Path(sysconfig.get_path("scripts")) / "delome"


@pytest.mark.slow
def test_the_installed_program_shows_bars_in_a_real_terminal_and_cleans_up(folder: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, its = pty.openpty()
    with subprocess.Popen([PROGRAM, *RUN], cwd=folder, stdout=subprocess.PIPE, stderr=its) as process:
        os.close(its)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # how a terminal says that its last user is gone
            pass
        assert b"Accuracy in %" in process.communicate()[0]
    os.close(ours)
    assert process.returncode == 0
    assert b"loading the graph" in shown
    assert shown.endswith(b"\x1b[2K")  # the line of the bar is erased


@pytest.mark.slow
def test_a_run_does_not_end_because_nobody_can_read_how_far_it_is(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([PROGRAM, *RUN], cwd=folder, stdout=subprocess.PIPE, stderr=full, check=False)
    assert done.returncode == 0
    assert b"Accuracy in %" in done.stdout

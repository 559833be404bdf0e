from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delome.experiment import RunConfig, RunFolder, Stop, run
from delome.experiment.signals import Stopped
from delome.methods import METHODS
from delome.parameters import has_parameter
from delome.progress import Tracker
from delome.streams.cut import CutStream

Left = Callable[[Path], dict[str, Any]]

pytestmark = pytest.mark.slow

HARD = "synthetic:nodes=48,classes=4,features=12,noise=4"
SMALL = {
    "hidden": "8", "epochs": "4", "dimension": "4", "budget": "4", "features": "32", "encoders": "5", "networks": "5",
    "stored": "8", "pretrain": "3",
}  # fmt: skip
Variant = tuple[str, str, tuple[str, ...]]
EVERY_METHOD: list[Variant] = [(name, setting, ()) for name, method in METHODS.items() for setting in method.settings]
VARIANTS: list[Variant] = [
    ("finetune", "cil", ("backbone=gat",)),
    ("ewc", "til", ("backbone=gat",)),
    ("finetune", "cil", ("backbone=gcn", "fanout=3,2", "batch_size=10")),
    ("joint", "cil", ("fanout=3,2", "batch_size=10")),
    ("gem", "til", ("fanout=3,2",)),
    ("lwf", "cil", ("batch_size=10",)),
    ("delome", "cil", ("memory=gradient-matching",)),
    ("delome", "til", ("memory=gradient-matching", "match_loss=nll", "backbone=gcn")),
    ("analytic", "til", ("per_task=true",)),
    ("replay", "cil", ("memory=kmeans", "batch_size=10")),
]


def small_run(method: str, setting: str, assignments: tuple[str, ...]) -> RunConfig:
    assignments += tuple(f"{name}={value}" for name, value in METHODS[method].repeats_with.items())
    plain = RunConfig.resolve(HARD, method, setting=setting, assignments=assignments).learner(0)
    small = [f"{name}={value}" for name, value in SMALL.items() if has_parameter(plain, name)]
    return RunConfig.resolve(HARD, method, setting=setting, assignments=[*assignments, *small])


def in_words(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


class StopsAtStep(Tracker):
    """Asks a run to stop after so many steps of phases of a name."""

    def __init__(self, stop: Stop, phase: str, steps: int) -> None:
        super().__init__()
        self.stop, self.phase_name, self.left = stop, phase, steps

    def show(self, phase: str, done: int, total: int) -> None:
        if phase == self.phase_name and done:
            self.left -= 1
            if not self.left:
                self.stop.signal_number = signal.SIGTERM


def live(config: RunConfig, stream: CutStream, folder: Path, stop: Stop, **options: Any) -> bool:
    """One life of a run; whether it reached the end."""
    with RunFolder.open(folder, config, stream) as place:
        try:
            run(config, stream, place, stop=stop, **options)
        except Stopped as stopped:
            assert stopped.signal_number == signal.SIGTERM
            return False
    return True


@pytest.mark.parametrize(("method", "setting", "assignments"), EVERY_METHOD + VARIANTS, ids=in_words)
def test_a_run_stopped_after_every_step_ends_as_one_that_was_not(
    method: str, setting: str, assignments: tuple[str, ...], lives: Any, left: Left, tmp_path: Path
) -> None:
    config = small_run(method, setting, assignments)
    stream, asked = config.stream(), Stop()
    asked.signal_number = signal.SIGTERM
    assert live(config, stream, tmp_path / "whole", Stop())
    stops = 0
    while not live(config, config.stream(), tmp_path / "stopped", asked):
        stops += 1
    assert stops >= (1 if method in ("analytic", "slda", "prototypes", "private") else 2 * 4)
    assert left(tmp_path / "stopped") == left(tmp_path / "whole")


@pytest.mark.parametrize(
    ("method", "assignments"), [("delome", ("memory=gradient-matching",)), ("cat", ())], ids=in_words
)
@pytest.mark.parametrize(("steps", "reached"), [(3, 3), (5, 5), (8, 3)], ids=["first task", "its end", "second task"])
def test_a_run_stopped_while_it_learns_memories_need_not_train_again(
    method: str, assignments: tuple[str, ...], steps: int, reached: int, lives: Any, left: Left, tmp_path: Path
) -> None:
    config = small_run(method, "cil", assignments)
    stream = config.stream()
    trackers: list[StopsAtStep] = []
    first_shown: dict[str, int] = {}

    def stopping(seed: int, task: int, tasks: int) -> Tracker:
        trackers.append(StopsAtStep(stop, "memory", trackers[-1].left if trackers else steps))
        return trackers[-1]

    class Shown(Tracker):
        def show(self, phase: str, done: int, total: int) -> None:
            first_shown.setdefault(phase, done)

    live(config, stream, tmp_path / "whole", Stop())
    stop = Stop()
    assert not live(config, stream, tmp_path / "stopped", stop, make_tracker=stopping)
    assert live(config, config.stream(), tmp_path / "stopped", Stop(), make_tracker=lambda *_: Shown())
    assert left(tmp_path / "stopped") == left(tmp_path / "whole")
    assert first_shown["memory"] == reached
    assert first_shown["train"] == (4 if method == "delome" else 0)  # CaT trains on what it has condensed


@pytest.mark.parametrize("method", ["replay", "er", "slda"])
@pytest.mark.parametrize(
    "options",
    [
        {"stream": "classes:sizes=1+2+1,returning=1"},
        {"stream": "blurry:sigma=0.2,steps=3"},
        {"test_graph": "joined", "inductive": True},
    ],
    ids=str,
)
def test_a_run_of_any_stream_that_is_stopped_ends_as_one_that_was_not(
    method: str, options: dict[str, Any], lives: Any, left: Left, tmp_path: Path
) -> None:
    small = ["features=16"] if method == "slda" else ["hidden=4", "budget=2", "epochs=3"]
    config = RunConfig.resolve("synthetic:nodes=80,classes=4,noise=2", method, assignments=small, **options)
    asked = Stop()
    asked.signal_number = signal.SIGTERM
    assert live(config, config.stream(), tmp_path / "whole", Stop())
    while not live(config, config.stream(), tmp_path / "stopped", asked):
        pass
    assert left(tmp_path / "stopped") == left(tmp_path / "whole")

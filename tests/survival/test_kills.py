from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delome.experiment import RunConfig

Ask = Callable[..., dict[str, Any]]
Left = Callable[[Path], dict[str, Any]]

KILLED = -signal.SIGKILL
HARD = "synthetic:nodes=120,classes=6,noise=4"
RUNS: dict[str, dict[str, Any]] = {
    "finetune": {},
    "delome, exact": {"assignments": ["memory=kernel-matching"], "budget": 4},
    "delome, sampled": {"assignments": ["memory=gradient-matching", "networks=30"], "budget": 4},
    "cat": {"assignments": ["encoders=30"], "budget": 4},
    "gem": {},
    "gem, fanout": {"assignments": ["fanout=3,2"]},
    "hpns": {"setting": "til"},
    "ewc, gat": {"backbone": "gat"},
    "ergnn": {"budget": 4},
    "joint, fanout": {"assignments": ["fanout=3,2"]},
}
RUNS |= {
    "replay, blurry": {"budget": 4, "stream": "blurry:sigma=0.2,steps=3"},
    "er, returning classes": {"budget": 4, "stream": "classes:sizes=3+2+1,returning=1"},
    "delome, joined and inductive": {"budget": 4, "test_graph": "joined", "inductive": True},
    "tpp": {"assignments": ["pretrain=10"]},
}
KILLS_OF_EACH = 4
WHAT_A_RUN_LEAVES = {
    "config.json", "events.jsonl", "note.txt", "seed-0", "seed-0/matrix.csv", "seed-0/result.json", "seed-0/model",
    "seed-0/model/manifest.json", "seed-0/model/state.safetensors", "seed-0/model/memory-0.safetensors",
    "seed-0/model/memory-1.safetensors",
}  # fmt: skip


def small_run(name: str, epochs: int = 20) -> RunConfig:
    options = dict(RUNS[name])
    method = name.partition(",")[0]
    width = ["dimension=4"] if method == "hpns" else ["hidden=8"]
    return RunConfig.resolve(
        HARD, method, epochs=epochs, **options | {"assignments": [*options.get("assignments", []), *width]}
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_killed_at_random_moments_ends_as_one_that_was_not(
    name: str, life: Ask, left: Left, tmp_path: Path, show: Callable[[str], None]
) -> None:
    config = small_run(name)
    whole = life(config, tmp_path / "whole", tell=True)
    wanted = left(tmp_path / "whole")
    assert not [name for name in wanted if re.search(r"progress|\.writing|\.lock", name)]
    draw = random.Random(name)
    kills = runs = 0
    while kills < KILLS_OF_EACH:
        folder = tmp_path / f"run-{runs}"
        while life(config, folder, kill_after=draw.uniform(0, 0.6 * whole["seconds"]))["ended"] == KILLED:
            kills += 1
            if kills > 3 * KILLS_OF_EACH:  # the machine has become slower since the whole run
                break
        assert life(config, folder) == {"ended": 0}
        assert left(folder) == wanted
        runs += 1
    show(f"{name}: {runs} runs survived {kills} kills at random moments")


@pytest.mark.slow
def test_a_run_killed_at_any_call_that_changes_the_disk_ends_as_one_that_was_not(
    lives: Any, life: Ask, left: Left, tmp_path: Path, show: Callable[[str], None]
) -> None:
    config = RunConfig.resolve(
        "synthetic:nodes=40,classes=4,features=8,noise=4", "replay", epochs=2, budget=2, assignments=["hidden=4"]
    )
    stream = config.stream()
    calls = life(config, tmp_path / "whole", tell=True)["calls"]
    wanted = left(tmp_path / "whole")
    assert {re.sub("-[0-9a-f]{16}", "", name) for name in wanted} == WHAT_A_RUN_LEAVES
    tried, survived, lost = 0, 0, []
    for at, (call, name) in enumerate(calls):
        for event in ("kill before", "kill half way", "kill after"):
            # before a call the disk is as it was after the one before it
            if (event == "kill before" and at > 0) or (event == "kill half way" and call != "write"):
                continue
            folder = tmp_path / f"{at} {event}"
            assert life(config, folder, at=at, event=event)["ended"] == KILLED
            tried += 1
            with lives.Disk(folder).watched():
                lives.live(config, stream, folder)
            if not (different := differences(left(folder), wanted)):
                survived += 1
            lost += [f"{event} call {at}, {call} {name}: {each}" for each in different]
    show(f"{len(calls)} calls that change the disk: {survived} of {tried} kills survived")
    assert tried > len(calls) > 200
    assert not lost, "\n".join(lost)
    assert survived == tried


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]

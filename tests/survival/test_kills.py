from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delome import load_graph
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
    "puma": {"assignments": ["encoders=10", "encoder_width=64"], "budget": 4},
}
STREAMS: dict[str, dict[str, Any]] = {
    "classes of unequal tasks": {"stream": "classes:sizes=3+2+1,order=shuffled"},
    "classes that return": {"stream": "classes:base=3,step=1,returning=1"},
    "time": {"stream": "time:period=2"},
    "time, cut and inductive": {"stream": "time:bounds=2002+2003", "test_graph": "cut", "inductive": True},
    "domains": {"stream": "domains:column=node_year"},
    "blurry": {"stream": "blurry:sigma=0.2,steps=3"},
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


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A graph in a file whose nodes have years from 2000 to 2003, in no order."""
    graph = load_graph(HARD)
    adjacency = graph.adjacency.astype(np.float32)
    place = tmp_path_factory.mktemp("data") / "dated.npz"
    np.savez(
        place, adj_data=adjacency.data, adj_indices=adjacency.indices, adj_indptr=adjacency.indptr,
        adj_shape=adjacency.shape, features=graph.features, labels=np.asarray(graph.labels),
        node_year=2003 - np.arange(120) % 4,
    )  # fmt: skip
    return f"file:{place}"


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("method", ["replay", "slda"])
def test_a_run_of_any_stream_is_the_same_again_and_after_kills(
    name: str, method: str, dated: str, life: Ask, left: Left, tmp_path: Path
) -> None:
    small = ["features=16"] if method == "slda" else ["hidden=4", "budget=2", "epochs=3"]
    config = RunConfig.resolve(dated, method, assignments=small, **STREAMS[name])
    calls = life(config, tmp_path / "whole", tell=True)["calls"]
    wanted = left(tmp_path / "whole")
    assert life(config, tmp_path / "again") == {"ended": 0}
    assert left(tmp_path / "again") == wanted
    assert {"seed-0/matrix.csv", "seed-0/result.json", "seed-0/model/manifest.json"} <= wanted.keys()
    tasks = len(wanted["seed-0/result.json"]["tasks"])
    assert tasks >= 2
    # early, half way and late in its life
    for part in (0.2, 0.5, 0.8):
        folder = tmp_path / f"killed at {part}"
        assert life(config, folder, at=int(part * len(calls)), event="kill after")["ended"] == KILLED
        assert life(config, folder) == {"ended": 0}
        assert left(folder) == wanted


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

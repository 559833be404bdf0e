"""Shadow runs: a learner of the same kind on other splits, as a sweep in the folder of the run that is audited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from delome.errors import DelomeError
from delome.experiment import RunConfig, Stop
from delome.experiment.sweep import Sweep, run_sweep
from delome.graph import Graph
from delome.learning import METHODS, Learner
from delome.learning.saved import load
from delome.parameters import values_of
from delome.privacy.shadows import Shadow, shadow_of
from delome.progress import Watcher

FOLDER = ".shadows"
"""In the folder of the run; results and reports pass over hidden folders."""


def shadow_configs(config: RunConfig, learner: Learner, count: int) -> list[RunConfig]:
    """The n-th has the split and the learner of a seed that is larger by n.

    Method and parameters are those of the learner, not what the folder says they are: the processes of a sweep import
    what a configuration names, and the learner is of classes that may be imported.
    """
    parameters = {name: value for name, value in values_of(learner).items() if name != "seed"}
    same = replace(config, method=METHODS.name_of(type(learner)), parameters=parameters)
    return [
        replace(same, split_seed=config.split_seed + number, seeds=[learner.seed + number])
        for number in range(1, count + 1)
    ]


def shadow_runs(
    folder: Path,
    configs: Sequence[RunConfig],
    graph: Graph,
    *,
    jobs: int | None,
    data_root: Path | None,
    watcher: Watcher,
    methods: Sequence[type],
    stop: Stop | None,
) -> list[Shadow]:
    """What shadow runs answer, ``jobs`` of them at a time; those that are finished are not run again."""

    def watch(state: Sweep) -> None:
        watcher.single(f"shadow runs, {len(state.done)} of {len(configs)} done")

    place = folder / FOLDER
    state = run_sweep(configs, place, jobs=jobs, keep_models=True, data_root=data_root, watch=watch, stop=stop)
    for sentence in state.failed.values():
        raise DelomeError(f"a shadow run failed: {sentence}")
    watcher.single("asking shadow runs")
    return [
        shadow_of(load(place / each.slug / f"seed-{each.seeds[0]}" / "model", methods=methods), list(each.cut(graph)))
        for each in configs
    ]

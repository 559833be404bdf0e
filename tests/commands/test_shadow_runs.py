from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import delome
from delome.commands import shadow_runs as module
from delome.commands.shadow_runs import shadow_configs
from delome.errors import DelomeError, ParameterError
from delome.experiment.collection import collect
from delome.experiment.sweep import run_sweep
from delome.privacy.shadows import shadow_of

GRAPH = "synthetic:nodes=160,classes=4,features=12"


@pytest.fixture
def config(folder):
    return delome.run(GRAPH, "ergnn", budget=6, epochs=2, seed=5, split_seed=3, out="run").result.config


def shadows_of(config, count, jobs=1, **options):
    options = {"data_root": None, "watcher": delome.progress.Watcher(), "methods": (), "stop": None} | options
    configs = shadow_configs(config, config.learner(5), count)
    return module.shadow_runs(Path("run"), configs, delome.load_graph(GRAPH), jobs=jobs, **options)


def by_hand(config, number):
    """The n-th shadow run: split and seed are larger by n."""
    learner, stream = config.learner(5 + number), replace(config, split_seed=3 + number).stream()
    for task in stream:
        learner.observe(task)
    return shadow_of(learner, list(stream))


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_shadow_runs_of_a_sweep_are_those_of_the_learner_on_other_splits(config, jobs):
    found = shadows_of(config, 2, jobs)
    assert len(found) == 2
    for number, shadow in enumerate(found, start=1):
        expected = by_hand(config, number)
        for name in ("nodes", "confidence", "member"):
            np.testing.assert_array_equal(getattr(shadow, name), getattr(expected, name))


def test_shadow_runs_are_kept_and_only_what_is_missing_is_run(config, monkeypatch):
    first = shadows_of(config, 1)
    begun = []

    def noted(*arguments, **options):
        state = run_sweep(*arguments, **options)
        begun.append((len(state.jobs), state.found))
        return state

    monkeypatch.setattr(module, "run_sweep", noted)
    again = shadows_of(config, 2)
    assert begun == [(2, 1)]
    np.testing.assert_array_equal(first[0].confidence, again[0].confidence)


def test_results_and_reports_pass_over_shadow_runs(config):
    shadows_of(config, 1)
    assert [record.seed for record in collect(["."])] == [5]


def test_a_shadow_run_that_fails_is_an_error(config, monkeypatch):
    monkeypatch.setattr("delome.experiment.worker.run", lambda *_, **__: 1 / 0)
    with pytest.raises(DelomeError, match="a shadow run failed: ZeroDivisionError"):
        shadows_of(config, 1)


def test_what_a_folder_says_is_not_imported(config):
    other = replace(config, method="evil:Method", parameters={"setting": "cil"})
    (shadow,) = shadow_configs(other, config.learner(5), 1)
    assert shadow.method == "ergnn" and shadow.parameters == config.parameters
    assert (shadow.split_seed, shadow.seeds) == (4, [6])


def test_jobs_are_checked_before_anything_is_read():
    with pytest.raises(ParameterError, match="jobs must be at least 1, not 0"):
        delome.audit("nowhere", shadows=1, jobs=0)


def test_the_command_runs_shadows_so_many_at_a_time(config, cli, monkeypatch):
    asked = []

    def noted(*arguments, **options):
        asked.append(options["jobs"])
        return run_sweep(*arguments, **options | {"jobs": 1})

    monkeypatch.setattr(module, "run_sweep", noted)
    document = cli("audit", "run", "--shadows", "2", "--jobs", "3", "--json").document
    assert asked == [3]
    assert document["seed"] == 5 and "shadow_auc" in document["model"]

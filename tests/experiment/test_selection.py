from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from delome.commands.sweep import estimate, sweep
from delome.errors import ParameterError
from delome.experiment import RunConfig
from delome.experiment.plan import Plan
from delome.experiment.seed_folder import RESULT, RESULT_KIND
from delome.experiment.selection import FOLDER, KIND, Selection, winner, write_selection
from delome.experiment.sweep import run_sweep
from delome.methods import METHODS
from delome.parameters import parameter_value
from delome.persistence.documents import read_document, write_document

SMALL = "synthetic:nodes=120,classes=6"
SPACES = {"ewc": 4, "mas": 4, "twp": 4, "lwf": 4, "gem": 4, "ergnn": 4, "hpns": 4, "slda": 4}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_declares_a_space_of_possible_values(method: str) -> None:
    config = RunConfig.resolve(SMALL, method, setting=METHODS[method].settings[-1])
    candidates = Selection("benchmark").candidates(config)
    assert len(candidates) == SPACES.get(method, 0)
    assert len({candidate.whole.digest for candidate in candidates}) == len(candidates)
    declared = [
        dict(zip(space, each, strict=True)) for space in METHODS[method].search for each in product(*space.values())
    ]
    assert repr([candidate.chosen for candidate in candidates]) == repr(declared)
    for candidate in candidates:
        candidate.whole.learner(0)


@pytest.mark.parametrize("written", ["1,100", "1.0,1e2", "1,100,1e2"])
def test_texts_and_numbers_are_the_same_selection(written: str, tmp_path: Path) -> None:
    config = RunConfig.resolve(SMALL, "ewc")
    for selection in (Selection.parse([f"strength={written}"]), Selection(space={"strength": [1, 100]})):
        assert selection is not None
        candidates = selection.candidates(config)
        assert repr([each.chosen for each in candidates]) == "[{'strength': 1.0}, {'strength': 100.0}]"
        write_selection(selection, config, candidates, candidates[0], tmp_path)
    assert len(list((tmp_path / FOLDER).iterdir())) == 1


def test_parts_can_be_selected_too() -> None:
    config = RunConfig.resolve(SMALL, "replay")
    candidates = Selection(space={"backbone": ["gcn", "sgc"], "hidden": [8], "loss": ["plain"]}).candidates(config)
    assert [each.chosen for each in candidates] == [
        {"backbone": name, "hidden": 8, "loss": "plain"} for name in ("gcn", "sgc")
    ]
    for candidate, name in zip(candidates, ("gcn", "sgc"), strict=True):
        resolved = RunConfig.resolve(SMALL, "replay", backbone=name, assignments=["hidden=8", "loss=plain"])
        assert candidate.whole == resolved


def test_an_honest_selection_tries_the_first_tasks_alone() -> None:
    config = RunConfig.resolve(SMALL, "ewc", seeds=2)
    for candidate in Selection("honest", tasks=2).candidates(config):
        assert (candidate.tried.tasks, candidate.whole.tasks, candidate.tried.seeds) == (2, None, [0, 1])
        assert candidate.tried.parameters == candidate.whole.parameters
    assert [each.whole.parameters["strength"] for each in Selection().candidates(config)] == [1e3, 1e4, 1e5, 1e6]
    shorter = RunConfig.resolve(SMALL, "ewc", tasks=1)
    assert {each.tried.tasks for each in Selection("honest", tasks=2).candidates(shorter)} == {1}
    for candidate in Selection("benchmark").candidates(config):
        assert candidate.tried == candidate.whole


def test_a_space_of_ones_own_reaches_parameters_of_parts() -> None:
    config = RunConfig.resolve(SMALL, "delome")
    found = Selection.parse(["benchmark", "tau=0.5,2", "memory.init=noise"])
    assert found is not None and found.protocol == "benchmark"
    candidates = found.candidates(config)
    chosen = [(each.whole.parameters["loss"]["tau"], each.whole.parameters["memory"]["init"]) for each in candidates]
    assert chosen == [(0.5, "noise"), (2.0, "noise")]
    assert found.candidates(RunConfig.resolve(SMALL, "finetune")) == []
    assert Selection.parse([]) is None and Selection.parse(["none"]) is None


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Selection.parse(["honest", "benchmark"]), "one protocol of selection at a time: honest or benchmark"),
        (lambda: Selection("onest"), "unknown protocol of selection 'onest': did you mean 'honest'?"),
        (lambda: Selection(tasks=0), "the tasks of a selection must be a whole number of at least 1, not 0"),
        (lambda: Selection.of({"tasks": "3"}), "must be a whole number of at least 1, not '3'"),
        (lambda: Selection.of({"protocol": 5}), "the protocol of a selection must be honest or benchmark, not 5"),
        (lambda: Selection.of({"protocol": ["honest"]}), r"must be honest or benchmark, not \['honest'\]"),
        (lambda: Selection.of({"space": {}}), "the space of a selection is empty"),
        (lambda: Selection.of({"space": {"tau": []}}), "a selection has no values of tau"),
        (lambda: Selection.of({"protocl": 1}), r"unknown entry of \[select\] 'protocl': did you mean 'protocol'?"),
        (lambda: Selection.of({"space": {"tau": 1}}), "must be a table of lists"),
        (lambda: Selection(space={"tau": ["x"]}).candidates(RunConfig.resolve(SMALL)), "tau"),
    ],
)
def test_an_impossible_selection_is_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        make()


def write_result(out: Path, config: RunConfig, seed: int, **content: Any) -> None:
    (out / config.slug / f"seed-{seed}").mkdir(parents=True, exist_ok=True)
    write_document(out / config.slug / f"seed-{seed}" / RESULT, RESULT_KIND, {"finished": True, **content})


def test_the_best_mean_on_validation_nodes_wins_and_test_nodes_are_never_read(tmp_path: Path) -> None:
    config = RunConfig.resolve(SMALL, "ewc", seeds=2)
    candidates = Selection("benchmark").candidates(config)
    for candidate, scores in zip(candidates, [(50, 60), (58, 59), (90, 20), (59, 58)], strict=True):
        for seed, score in enumerate(scores):
            write_result(tmp_path, candidate.tried, seed, validation_aa=score)  # there are no others to read
    finished = {(each.tried.slug, seed) for each in candidates for seed in (0, 1)}
    best = winner(candidates, tmp_path, finished)
    assert best is candidates[1]  # the first of equals
    assert [each.score for each in candidates] == [55, 58.5, 55, 58.5]
    write_result(tmp_path, candidates[1].tried, 1, validation_aa=99, finished=False)
    assert winner(candidates, tmp_path, finished) is candidates[3]  # of an unfinished candidate nothing is known
    assert winner(candidates, tmp_path, finished - {(candidates[3].tried.slug, 0)}) is candidates[0]
    assert winner(candidates, tmp_path / "elsewhere", finished) is None


def test_another_winner_than_before_is_pointed_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    selection = Selection(space={"strength": [1, 10]})
    for seeds, best in ((1, 0), (1, 0), (2, 1)):
        config = RunConfig.resolve(SMALL, "ewc", seeds=seeds)
        candidates = selection.candidates(config)
        write_selection(selection, config, candidates, candidates[best], tmp_path)
    assert caplog.messages == [
        f"ewc on {SMALL}, cil: the selection now chooses strength 10 (2 seeds) instead of strength 1 (1 seed), "
        "whose run no longer counts"
    ]


def test_a_selection_ignores_what_happens_on_test_nodes(tmp_path: Path) -> None:
    plan = Plan({"dataset": SMALL, "method": "ewc", "epochs": 8})
    sweep(plan, tmp_path, select=Selection("honest", tasks=2), jobs=1)
    (file,) = (tmp_path / FOLDER).iterdir()
    before = read_document(file, KIND)
    for result in tmp_path.glob("*/seed-0/result.json"):
        found = read_document(result, RESULT_KIND)
        for task in found["tasks"]:
            task["accuracies"] = [100.0 - value for value in task["accuracies"]]
        write_document(result, RESULT_KIND, found | {"aa": 100.0 - found["aa"], "micro_aa": 0.0})
    sweep(plan, tmp_path, select=Selection("honest", tasks=2), jobs=1)
    assert read_document(file, KIND) == before


@pytest.mark.parametrize("command", [partial(sweep, jobs=1), estimate])
def test_every_parameter_to_select_must_be_one_of_some_method(command: Callable[..., Any], tmp_path: Path) -> None:
    plan = Plan({"dataset": SMALL, "method": ["ewc", "lwf"], "epochs": 1})
    for also in ([], ["temperature=2"]):
        with pytest.raises(ParameterError, match=r"unknown parameter to select 'strenth': did you mean 'strength'\?"):
            command(plan, tmp_path / "runs", select=Selection.parse([*also, "strenth=1,2"]))
    assert not (tmp_path / "runs").exists()


def test_a_selection_among_equals_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def noted(**space: list[float]) -> list[str]:
        caplog.clear()
        sweep(
            Plan({"dataset": SMALL, "method": "ewc", "epochs": 4}),
            tmp_path,
            select=Selection(tasks=1, space=space),
            jobs=1,
        )
        return [message for message in caplog.messages if "have the same score" in message]

    (sentence,) = noted(strength=[5.0, 1.0])  # nothing is to be preserved in a first task
    assert f"ewc on {SMALL}, cil: all 2 candidates have the same score on validation nodes, " in sentence
    assert sentence.endswith(": the first is taken, strength 5")
    assert noted(lr=[1e-9, 0.1]) == noted(strength=[3.0]) == []


def test_each_method_is_selected_on_the_parameters_that_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    plan = Plan({"dataset": SMALL, "method": ["ewc", "lwf", "finetune", "joint"]})
    selection = Selection(space={"strength": [1, 2], "temperature": [1, 2]})
    found = selection.compared(plan.configs(), plan.given)
    sizes = {config.method: [len(each.chosen) for each in found[config.digest]] for config in plan.configs()}
    assert sizes == {"ewc": [1, 1], "lwf": [2, 2, 2, 2], "finetune": [], "joint": []}
    assert estimate(plan, tmp_path, selection).candidates == 2 + 4
    assert "nothing is selected: finetune, joint have no strength or temperature" in caplog.messages


def test_a_selection_that_sees_everything_is_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan = Plan({"dataset": SMALL, "method": "ewc", "epochs": 1})
    sweep(plan, tmp_path, select=Selection("honest", tasks=3, space={"strength": [1]}), jobs=1)
    assert "an honest selection on the first 3 tasks has seen a whole stream: choose fewer" in caplog.messages


@pytest.mark.parametrize(
    ("options", "level", "sentence"),
    [
        (
            {"method": ["delome", "finetune"]},
            "WARNING",
            "no search space is declared for delome, finetune (--select NAME=VALUE,VALUE gives one)",
        ),
        ({"method": "ewc", "set": {"strength": 5}}, "WARNING", "what ewc would search is given"),
        (
            {"method": ["ewc", "finetune"]},
            "INFO",
            "no search space is declared for finetune (--select NAME=VALUE,VALUE gives one)",
        ),
    ],
)
def test_a_selection_that_has_nothing_to_choose_says_so(
    options: dict[str, Any], level: str, sentence: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    estimate(Plan({"dataset": SMALL, "epochs": 1, **options}), tmp_path, Selection("honest", tasks=1))
    found = [
        (each.levelname, each.getMessage()) for each in caplog.records if "nothing is selected" in each.getMessage()
    ]
    assert found == [(level, f"nothing is selected: {sentence}")]


def test_a_run_says_that_nothing_is_selected_for_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sweep(Plan({"dataset": SMALL, "method": "finetune", "epochs": 1}), tmp_path, select=Selection("honest"), jobs=1)
    assert sum("nothing is selected" in message for message in caplog.messages) == 1


def test_once_candidates_are_finished_the_winner_is_what_is_left_to_run(tmp_path: Path) -> None:
    plan = Plan({"dataset": SMALL, "method": "ewc", "epochs": 1})
    selection = Selection("honest", tasks=1, space={"strength": [1, 2]})
    candidates = selection.candidates(plan.configs()[0])
    state = run_sweep([each.tried for each in candidates], tmp_path, jobs=1)
    best = winner(candidates, tmp_path, state.finished)
    assert best is not None
    assert list(estimate(plan, tmp_path, selection).seconds) == [f"{best.whole.slug}, seed 0"]
    run_sweep([best.whole], tmp_path, jobs=1)
    assert estimate(plan, tmp_path, selection).seconds == {}


def test_scores_of_another_graph_choose_nothing(
    write_npz: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset, selection = f"file:{write_npz()}", Selection("honest", tasks=1, space={"strength": [1, 2]})
    plan = Plan({"dataset": dataset, "method": "ewc", "epochs": 1})
    out = tmp_path / "runs"
    assert len(sweep(plan, out, select=selection, jobs=1).configs) == 1
    assert estimate(plan, out, selection).seconds == {}
    write_npz(seed=1)  # in the place of the other
    expected = estimate(plan, out, selection)
    assert (expected.candidates, len(expected.seconds), expected.finished) == (2, 3, 0)
    report = sweep(plan, out, select=selection, jobs=1)
    assert (report.configs, len(report.failed)) == ([], 2)
    assert "every candidate failed, so that nothing was chosen" in caplog.text


def test_the_winner_runs_the_whole_stream_and_the_selection_is_left_beside_it(tmp_path: Path) -> None:
    plan = Plan({"dataset": SMALL, "method": ["ewc", "finetune"], "epochs": 4, "seeds": 2})
    report = sweep(plan, tmp_path, select=Selection("honest", tasks=2), jobs=1)
    assert (len(report.configs), report.finished, report.failed) == (2, 4, {})
    (file,) = (tmp_path / FOLDER).iterdir()
    found = read_document(file, KIND)
    means = [sum(each["validation_aa"]) / 2 for each in found["candidates"]]
    assert found["winner"] == means.index(max(means))
    best = found["candidates"][found["winner"]]
    assert best["whole"] == report.configs[0].slug
    assert report.configs[0].parameters["strength"] == best["chosen"]["strength"]
    lengths = {
        path.parent.parent.name: len(json.loads(path.read_text())["matrix"])
        for path in tmp_path.glob("*/seed-0/result.json")
    }
    assert lengths[best["whole"]] == 3 and lengths[best["tried"]] == 2


@pytest.mark.parametrize(
    ("method", "given", "chosen"),
    [
        ("ewc", {"strength": 5}, []),
        ("lwf", {"strength": 5}, [{"temperature": 2.0}, {"temperature": 20.0}]),
        ("ergnn", {"sampler": "mf"}, []),
        ("ergnn", {"sampler": "cm"}, [{"radius": 0.5}, {"radius": None}]),
        ("ergnn", {"radius": 3}, [{"sampler": "cm"}, {"sampler": "mf"}, {"sampler": "random"}]),
    ],
)
def test_what_is_given_is_not_selected(method: str, given: dict[str, Any], chosen: list[dict[str, Any]]) -> None:
    plan = Plan({"dataset": SMALL, "method": method, "set": given})
    (config,) = plan.configs()
    candidates = Selection().candidates(config, plan.given[config.digest])
    assert [each.chosen for each in candidates] == chosen
    for candidate in candidates:
        assert {name: parameter_value(candidate.whole.learner(0), name) for name in given} == given


def test_what_an_override_gives_one_method_is_selected_for_another(tmp_path: Path) -> None:
    plan = Plan(
        {"dataset": SMALL, "method": ["ewc", "mas"], "epochs": 1},
        overrides=[{"when": {"method": "ewc"}, "set": {"strength": 10_000}}],  # as it is by default, but given
    )
    report = sweep(plan, tmp_path, select=Selection("honest", tasks=1), jobs=1)
    assert [config.method for config in report.configs if config.slug in report.selections] == ["mas"]
    assert report.configs[0].parameters["strength"] == 10_000

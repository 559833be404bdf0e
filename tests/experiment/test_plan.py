from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delome.errors import ParameterError
from delome.experiment import RunConfig
from delome.experiment.plan import MOST_RUNS, Plan, values_between_commas

SMALL = "synthetic:nodes=60,classes=4"


def runs_of(plan: Plan) -> list[tuple[str, Any]]:
    return [(config.method, config.budget) for config in plan.configs()]


def test_every_combination_is_a_run_and_equal_ones_are_one() -> None:
    plan = Plan({"dataset": SMALL, "method": ["delome", "finetune"], "budget": [5, 20], "seeds": 3})
    assert runs_of(plan) == [("delome", 5), ("delome", 20), ("finetune", None)]
    assert all(config.seeds == [0, 1, 2] for config in plan.configs())


def test_equal_runs_have_the_seeds_of_all_and_different_ones_are_never_one(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"dataset": SMALL, "method": "finetune"}
    (config,) = Plan({**options, "seed": [0, 5], "seeds": 2}).configs()
    assert config.seeds == [0, 1, 5, 6]
    assert [each.seeds for each in Plan({**options, "seed": [3, 7]}).configs()] == [[3, 7]]
    monkeypatch.setattr(RunConfig, "digest", property(lambda _: "00000000"))
    with pytest.raises(ParameterError, match=r"two runs of the plan have the same name, .*finetune-cil-00000000"):
        Plan({**options, "epochs": [1, 2]}).configs()


def test_overrides_apply_where_they_say_and_may_be_lists() -> None:
    plan = Plan(
        {"dataset": SMALL, "method": ["ewc", "finetune"], "epochs": 7},
        overrides=[{"when": {"method": "ewc"}, "epochs": 9, "set": {"strength": [1, 10]}}],
    )
    found = [(each.method, each.parameters["epochs"], each.parameters.get("strength")) for each in plan.configs()]
    assert found == [("ewc", 9, 1.0), ("ewc", 9, 10.0), ("finetune", 7, None)]


def test_an_override_sees_each_value_of_a_list_of_an_earlier_one() -> None:
    plan = Plan(
        {"dataset": SMALL, "method": "ewc"},
        overrides=[
            {"when": {"method": "ewc"}, "set": {"strength": [1, 10]}},
            {"when": {"set": {"strength": 10}}, "epochs": [7, 8]},
        ],
    )
    found = [(each.parameters["strength"], each.parameters["epochs"]) for each in plan.configs()]
    assert found == [(1.0, 200), (10.0, 7), (10.0, 8)]


def test_exclusions_leave_out_what_has_all_their_values() -> None:
    options = {"dataset": SMALL, "method": ["delome", "ergnn"], "budget": [5, 20]}
    plan = Plan(options, exclusions=[{"method": "ergnn", "budget": 5}])
    assert runs_of(plan) == [("delome", 5), ("delome", 20), ("ergnn", 20)]
    assert runs_of(Plan(options, exclusions=[{"budget": [5, 20], "method": "ergnn"}])) == [
        ("delome", 5),
        ("delome", 20),
    ]
    # what is not given has its default: every run here is class-incremental
    with pytest.raises(ParameterError, match="the plan has no runs: every combination is excluded"):
        Plan(options, exclusions=[{"setting": "cil"}]).configs()


def test_what_a_method_cannot_do_is_left_out_as_long_as_it_can_do_something() -> None:
    plan = Plan({"dataset": SMALL, "method": ["finetune", "hpns"], "setting": ["cil", "til"]})
    assert [(config.method, config.parameters["setting"]) for config in plan.configs()] == [
        ("finetune", "cil"), ("finetune", "til"), ("hpns", "til")
    ]  # fmt: skip
    assert plan.notes == ["combinations of hpns are left out: HPNs does not work in setting 'cil': use til"]
    streams = Plan(
        {"dataset": SMALL, "method": ["ewc", "mas"], "setting": ["cil", "til"], "stream": ["blurry", "classes"]}
    )
    assert len(streams.configs()) == 6
    (note,) = streams.notes
    assert note.startswith("combinations of ewc, mas are left out: a blurry stream has no tasks that could be known")


def test_a_parameter_is_set_for_the_methods_that_have_it() -> None:
    plan = Plan({"dataset": SMALL, "method": ["ewc", "finetune", "slda"], "set": {"strength": [1, 10], "epochs": 3}})
    found = [(each.method, each.parameters.get("strength"), each.parameters.get("epochs")) for each in plan.configs()]
    assert found == [("ewc", 1, 3), ("ewc", 10, 3), ("finetune", None, 3), ("slda", None, None)]
    assert plan.notes == [
        "finetune, slda have no strength: it is set for others",
        "slda has no epochs: it is set for others",
    ]
    assert [plan.given[each.digest] for each in plan.configs()] == [
        ["dataset", "method", *names] for names in (["strength", "epochs"], ["strength", "epochs"], ["epochs"], [])
    ]
    # a part may bring the parameter along
    parts = Plan(
        {"dataset": SMALL, "method": ["finetune", "replay"], "set": {"loss": ["plain", "debiased"], "tau": 0.5}}
    )
    assert [each.parameters.get("loss", {}).get("tau") for each in parts.configs()] == [None, None, 0.5]


@pytest.mark.parametrize(
    ("methods", "written", "values"),
    [
        (["finetune"], "epochs=5,10", ["5", "10"]),
        (["finetune"], "fanout=25,10", ["25,10"]),
        (["prototypes", "finetune"], "fanout=25,10", ["25,10"]),
        (["ewc"], "strength=1e3, 1e4", ["1e3", "1e4"]),
        (["replay"], "loss=plain,debiased", ["plain", "debiased"]),
        (["finetune"], "decay=coupled,decoupled", ["coupled", "decoupled"]),
        (["finetune"], "passes=true,false", ["true", "false"]),
        (["finetune"], "nothing=1,2", ["1", "2"]),
        (["finetune"], "epochs=5", ["5"]),
    ],
)
def test_values_between_commas_are_several_unless_a_method_takes_them_as_one(
    methods: list[str], written: str, values: list[str]
) -> None:
    beside = ["strength=5", "tau=1", "hidden=8"]  # which not every method has
    assert values_between_commas(methods, [*beside, written])[written.partition("=")[0]] == values


def test_a_plan_is_read_from_toml(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(
        f'dataset = "{SMALL}"\nmethod = ["delome", "hpns"]\nsetting = ["cil", "til"]\nbudget = 3\n'
        '[set]\nepochs = [4, 5]\n[[exclude]]\nmethod = "hpns"\nsetting = "cil"\n'
        '[[override]]\nwhen = { method = "delome", setting = "til" }\nset = { tau = 0.5 }\n'
        '[select]\nprotocol = "benchmark"\n'
    )
    plan = Plan.read(file)
    found = [(each.method, each.parameters["setting"], each.parameters["epochs"]) for each in plan.configs()]
    assert found == [
        (method, setting, epochs)
        for method, setting in (("delome", "cil"), ("delome", "til"), ("hpns", "til"))
        for epochs in (4, 5)
    ]
    assert [each.parameters["loss"]["tau"] for each in plan.configs()[:4]] == [1.0, 1.0, 0.5, 0.5]
    assert plan.select == {"protocol": "benchmark"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"metod": "delome"}, "unknown option 'metod': did you mean 'method'?"),
        ({"assignments": ["tau=1"]}, "unknown option 'assignments'"),
        ({"set": 3}, "'set' must be a table of names and values, not 3"),
        ({"budget": []}, "the plan has an empty list of budget"),
        ({"split_seed": list(range(1, MOST_RUNS + 2))}, "the plan has 100,001 runs, and at most 100,000 are allowed"),
        ({"method": "hpns"}, r"a run of the plan is impossible \(method hpns\): HPNs does not work in setting 'cil'"),
        ({"set": {"tua": 1}}, r"a run of the plan is impossible \(tua 1\): .*tau"),
        ({"method": ["finetune", "hpns"]}, r"impossible \(method hpns\): HPNs does not work in setting 'cil'"),
        ({"setting": ["cil", "til"], "stream": "blurry", "method": "tpp"}, "tpp cannot learn a blurry stream"),
        ({"method": ["ewc", "finetune"], "set": {"strenght": 1}}, "unknown parameter of method ewc 'strenght'"),
        ({"method": ["ewc", "finetune"], "set": {"strength": "x"}}, "strength must be a number, not 'x'"),
        ({"budget": "many"}, r"a run of the plan is impossible \(budget many\)"),
        ({"seeds": [3, 7]}, r"seeds is how many there are, not a list: .* write seed = \[3, 7\] and no seeds"),
    ],
)
def test_an_impossible_plan_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        Plan(options).configs()


def test_an_order_of_classes_is_one_value_and_several_are_a_list() -> None:
    one = Plan({"dataset": SMALL, "class_order": [3, 2, 1, 0]}).configs()
    assert [config.class_order for config in one] == [[3, 2, 1, 0]]
    two = Plan({"dataset": SMALL, "class_order": [[3, 2, 1, 0], [0, 1, 2, 3]]}).configs()
    assert [config.class_order for config in two] == [[3, 2, 1, 0], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ({"exclusions": [{"whn": 1}]}, r"unknown option 'whn' \(known: (?!.*when)"),
        ({"overrides": [{"epochs": 3}]}, r"an \[\[override\]\] needs a when"),
        ({"exclusions": [{"when": {"method": "joint"}}]}, r"'when' belongs to an \[\[override\]\]"),
        ({"overrides": [{"when": {"method": "nope"}, "epochs": 3}]}, r"an \[\[override\]\] fits no run of the plan"),
        ({"exclusions": [{"method": "nope"}]}, r"an \[\[exclude\]\] fits no run of the plan: method = \"nope\""),
        ({"exclusions": [{"set": {"lr": 2}}]}, r"an \[\[exclude\]\] fits no run of the plan: set.lr = 2"),
    ],
)
def test_rules_that_do_nothing_are_refused(rules: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        Plan({"dataset": SMALL, "method": ["finetune", "joint"]}, **rules).configs()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("method = [", "is not TOML"),
        ("[override]\nepochs = 1", r"'override' of the plan '.*' must be written as \[\[override\]\]"),
        ("[[exclude]]\nnodes = 1", "unknown option 'nodes'"),
        ("[[override]]\nwhen = 1", "'when' must be a table"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ParameterError, match=sentence):
        Plan.read(tmp_path / "plan.toml")
    with pytest.raises(ParameterError, match=r"cannot read the plan '.*absent.toml'"):
        Plan.read(tmp_path / "absent.toml")

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
SMALL = "synthetic:nodes=60,classes=4"
LISTS = (
    "--dataset",
    f"digits,{SMALL}",
    "--method",
    "finetune,delome",
    "--budget",
    "2,3",
    "--epochs",
    "1",
    "--tasks",
    "1",
)


def test_lists_are_several_runs(cli: Cli, folder: Path) -> None:
    outcome = cli("run", *LISTS, "--dry-run", "--json")
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert len(found["runs"]) == 6 and found["finished"] == 0 and found["seconds_on_one_core"] > 0
    assert not (folder / "runs").exists()  # nothing was run
    plain = cli("run", *LISTS, "--dry-run")
    assert "6 runs to do; 0 are finished; " in plain.out


def test_a_dry_run_says_in_what_runs_of_a_method_differ(cli: Cli) -> None:
    lines = cli("run", *LISTS, "--set", "tau=0.5,1", "--dry-run").out.splitlines()
    assert sum("-delome-" in line for line in lines) == 8 and sum("-finetune-" in line for line in lines) == 2
    for dataset in ("digits", "synthetic"):
        own = [line.partition(" (")[2].partition(")")[0] for line in lines if line.startswith(f"{dataset}-")]
        assert own == ["", *(f"budget {budget}, tau {tau}" for budget in (2, 3) for tau in (0.5, 1))]
    assert lines[-1].endswith(" on one core, beside some seconds to start each worker")


def test_a_dry_run_says_what_candidates_are_and_that_a_winner_is_not_known(cli: Cli) -> None:
    command = ("run", "--dataset", SMALL, "--method", "ergnn", "--budget", "2,3", "--epochs", "1", "--dry-run")
    select = ("--select", "honest", "--select", "radius=0.5,none", "--select-tasks", "1")
    found = cli(*command, *select, "--json").document["settings"]
    assert list(found.values()) == [
        *({"budget": budget, "radius": radius, "tasks": 1} for budget in (2, 3) for radius in (0.5, None)),
        *({"budget": budget, "winner": "of 2 candidates"} for budget in (2, 3)),
    ]
    assert "(tasks 1, budget 2, radius none): " in cli(*command, *select).out


def test_lists_leave_out_what_methods_cannot_do_or_do_not_have(cli: Cli) -> None:
    product = ("--dataset", SMALL, "--method", "finetune,hpns,slda", "--setting", "cil,til", "--set", "lr=0.1,0.2")
    outcome = cli("run", *product, "--dry-run", "--json")
    # two of Fine-tune and one of slda in each setting; HPNs work in one of them
    assert outcome.code == 0 and len(outcome.document["runs"]) == 2 * 2 + 2 * 1 + 2
    assert outcome.err.splitlines() == [
        "delome: note: combinations of hpns are left out: HPNs does not work in setting 'cil': use til",
        "delome: note: slda has no lr: it is set for others",
    ]
    alone = cli("run", "--dataset", SMALL, "--method", "hpns", "--jobs", "1")
    assert alone.code == 2 and "HPNs does not work in setting 'cil'" in alone.err


def test_a_text_with_a_comma_is_one_value(cli: Cli) -> None:
    command = ("run", "--dataset", SMALL, "--method", "finetune", "--backbone", "gcn", "--set", "fanout=2,2")
    assert len(cli(*command, "--dry-run", "--json").document["runs"]) == 1
    assert len(cli(*command, "--set", "hidden=4,8", "--dry-run", "--json").document["runs"]) == 2


def test_a_sweep_prints_its_table_and_adds_only_what_is_missing(cli: Cli, folder: Path) -> None:
    (folder / "plan.toml").write_text(f'dataset = "{SMALL}"\nmethod = ["finetune", "joint"]\nepochs = 2\nseeds = 2\n')
    outcome = cli("sweep", "plan.toml", "--jobs", "1")
    assert outcome.code == 0 and "joint" in outcome.out and "run folders: runs" in outcome.out
    assert outcome.err.count("is done") == 4
    more = cli("run", "--dataset", SMALL, "--method", "finetune,joint", "--epochs", "2", "--seeds", "3", "--jobs", "1")
    assert more.err.count("is done") == 2 and "delome: 6 runs, 4 of them finished before" in more.err
    document = json.loads(cli("sweep", "plan.toml", "--json", "-q").out)
    assert (document["finished"], document["finished_before"], len(document["runs"])) == (4, 4, 2)
    shown = cli("results", "--compare", "joint", "finetune")
    assert shown.code == 0 and "joint − finetune" in shown.out and "3 seeds" in shown.out
    csv = cli("results", "runs", "--format", "csv", "--metric", "validation_aa,anytime").out
    assert csv.splitlines()[0].endswith("seeds,validation_aa,validation_aa_std,anytime,anytime_std")
    assert len(json.loads(cli("results", "--format", "json").out)["rows"]) == 2
    assert cli("results", "--json").out == cli("results", "--format", "json").out
    refused = json.loads(cli("results", "--json", "--format", "csv").err)["error"]
    assert refused == "--json and --format csv exclude each other: leave out one of them"
    for form, sign in (("markdown", "|---|"), ("latex", r"\toprule")):
        assert sign in cli("results", "--format", form).out


def test_runs_go_neither_into_a_model_nor_into_another_run(cli: Cli, folder: Path) -> None:
    quick = ("--dataset", SMALL, "--epochs", "1")
    assert cli("learn", "--model", "m", "--graph", SMALL, "--method", "finetune", "--set", "epochs=1").code == 0
    assert cli("run", *quick, "--method", "finetune", "--out", "r").code == 0
    before = sorted(folder.rglob("*"))
    for method, out, what in (
        ("finetune", "m", "a saved learner"),
        ("finetune,joint", "m", "a saved learner"),
        ("finetune,joint", "r", "the folder of a single run"),
    ):
        outcome = cli("run", *quick, "--method", method, "--out", out)
        assert (outcome.code, outcome.err) == (2, f"delome: '{out}' is {what}: choose another folder with --out\n")
    assert sorted(folder.rglob("*")) == before


def test_a_single_run_is_refused_in_the_folder_of_a_sweep_also_with_fresh(cli: Cli, folder: Path) -> None:
    quick = ("--dataset", SMALL, "--epochs", "1", "--out", "r")
    assert cli("run", *quick, "--method", "finetune,joint", "--jobs", "1").code == 0
    before = sorted(folder.rglob("*"))
    for options in ((), ("--fresh",)):
        outcome = cli("run", *quick, "--method", "ewc", *options)
        assert outcome.code == 2 and "'r' holds other runs, " in outcome.err
        assert "choose a folder for this run alone with --out, such as 'r/" in outcome.err
    assert sorted(folder.rglob("*")) == before


def test_a_failed_run_is_in_the_exit_code(cli: Cli) -> None:
    command = (
        "run",
        "--dataset",
        SMALL,
        "--method",
        "finetune,joint",
        "--set",
        "lr=1e30",
        "--epochs",
        "2",
        "--jobs",
        "1",
    )
    outcome = cli(*command, "-q")
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith("delome: 2 runs failed, ")
    assert "not finite" in outcome.err


def test_selected_parameters_are_in_the_table(cli: Cli) -> None:
    selected = ("--select", "honest", "--select", "strength=1,100", "--select-tasks", "1")
    outcome = cli("run", "--dataset", SMALL, "--method", "ewc", "--epochs", "1", *selected, "--jobs", "1")
    assert outcome.code == 0, outcome.err
    assert "honest (first task): strength" in " ".join(outcome.out.replace("│", " ").split())


def test_options_say_otherwise_than_a_plan_what_is_selected(cli: Cli, folder: Path) -> None:
    plan = f'dataset = "{SMALL}"\nmethod = "ewc"\n[select]\ntasks = 2\nspace = {{ strength = [1, 10] }}\n'
    (folder / "plan.toml").write_text(plan)

    def tried(*options: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(cli("sweep", "plan.toml", "--dry-run", "--json", *options).out)
        return found

    assert tried()["candidates"] == 2
    assert (tried("--select", "none")["candidates"], len(tried("--select", "none")["runs"])) == (0, 1)
    assert tried("--select-tasks", "1")["runs"].keys() != tried()["runs"].keys()
    assert tried("--select-tasks", "2") == tried()
    refused = cli("sweep", "plan.toml", "--select", "none", "--select-tasks", "1")
    assert refused.code == 2 and "nothing is selected" in refused.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "--budget", "2,x"), "budget must be a whole number, or several separated by commas, not 'x'"),
        (
            ("run", "--method", "delome,joint", "--fresh"),
            "--fresh is for a single run: choose another folder with --out",
        ),
        (("run", "--method", "delome,jint"), "unknown method 'jint': did you mean 'joint'?"),
        (("run", "--method", "delome,joint", "--set", "tau"), "'tau' is not of the form name=value"),
        (("run", "--method", "delome,,ewc"), "the list 'delome,,ewc' has an empty item: leave out the comma"),
        (("run", "--set", "lr=0.1,"), "the list '0.1,' has an empty item"),
        (("run", "--method", "ergnn", "--select", "radius=1,,2"), "the list '1,,2' has an empty item"),
        (("results", ".", "--metric", "aa,,af"), "the list 'aa,,af' has an empty item"),
        (("run", "--jobs", "0"), "jobs must be at least 1, not 0"),
        (("run", "--cluster", "slurm"), "cluster must be one of local, ray, not 'slurm'"),
        (("run", "--select-tasks", "2"), "--select-tasks is for a selection, but nothing is selected"),
        (("run", "--select", "best"), "unknown protocol of selection 'best'"),
        (
            ("run", "--select", "tau=1,2", "--set", "loss.tau=1"),
            "tau is to be selected, but loss.tau is given too: leave out one of them",
        ),
        (
            ("run", "--select", "budget=1,2", "--budget", "3", "--dry-run"),
            "budget is to be selected, but budget is given too: leave out one of them",
        ),
        (("sweep", "absent.toml"), "cannot read the plan 'absent.toml': No such file or directory"),
        (("results", "absent"), "'absent' is not a folder: give folders of runs or sweeps"),
        (("results", ".", "--format", "pdf"), "unknown format 'pdf'"),
        (("results", "."), "there are no finished runs below these folders: 'delome run' makes some"),
    ],
)
def test_a_wrong_command_is_refused_in_a_sentence(
    arguments: tuple[str, ...], sentence: str, cli: Cli, folder: Path
) -> None:
    outcome = cli(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"delome: {sentence}"), outcome.err
    assert list(folder.iterdir()) == []

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

import delome
from delome.datasets import DATASETS
from delome.memories import MEMORIES
from delome.methods import METHODS
from delome.parameters import all_parameters, parameters_of
from delome.streams import STREAMS

QUICK = ("--method", "finetune", "--epochs", "2")
# few edges and much noise: on an easy graph every accuracy is 100 and nothing could be told apart
HARD = "synthetic:nodes=120,classes=6,noise=8,degree=1"
SMALL = ("--dataset", HARD, *QUICK)
ISSUE_KEYS = {
    "dataset", "method", "setting", "backbone", "budget", "seeds", "aa", "aa_std", "af", "af_std", "matrices", "curve",
    "seconds", "memory", "protocol", "versions",
}  # fmt: skip


Cli = Callable[..., Any]


def assert_refused(outcome: Any, folder: Path, sentence: str) -> None:
    """Exit code 2, the sentence (a regular expression) as the one line on stderr, and nothing else anywhere."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert re.fullmatch(rf"delome: {sentence}\n", outcome.err), repr(outcome.err)
    assert list(folder.iterdir()) == []


def in_words(parameter: object) -> str | None:
    """Names a parametrised test by its command line alone."""
    return " ".join(parameter) if isinstance(parameter, tuple) else "refused"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--dataset", "digts"), r"unknown dataset 'digts': did you mean 'digits'\? \(known: .+\)"),
        (("--dataset", "synthetic:node=5"), r"unknown option of dataset synthetic 'node': did you mean 'nodes'\? .+"),
        (("--dataset", "synthetic:nodes=5"), r"synthetic dataset: nodes must be at least 3 for each class"),
        (("--dataset", "synthetic:seed=-1"), r".*seed.*"),
        (("--dataset", "digits:neighbours=0"), r".*neighbours.*"),
        (("--dataset", "file:absent.npz"), r"there is no file 'absent.npz': check the path after 'file:'"),
        (("--dataset", "file"), r"dataset 'file' needs an argument: write file:PATH"),
        (("--method", "delom"), r"unknown method 'delom': did you mean 'delome'\? \(known: .+\)"),
        (("--method", "zzz"), r"unknown method 'zzz' \(known: .+\)"),
        (("--set", "tua=1"), r"unknown parameter of method delome 'tua': did you mean 'tau'\? \(known: .+\)"),
        (("--set", "tau"), r"'tau' is not of the form name=value"),
        (("--set", "tau=high"), r"tau must be a number, not 'high'"),
        (
            ("--set", "memory.budget=5", "--set", "budget=6"),
            r"memory.budget and budget are the same parameter: set it once",
        ),
        (("--budget", "0"), r"budget must be at least 1 row per class, not 0"),
        (("--budget", "-3"), r"budget must be at least 1 row per class, not -3"),
        (("--set", "budget=0"), r"budget must be at least 1, not 0"),
        (
            ("--classes-per-task", "11"),
            r"cannot make a task of 11 classes: the graph has 10 classes with at least 3 nodes",
        ),
        (("--classes-per-task", "0"), r"classes_per_task must be at least 1, not 0"),
        (("--setting", "tli"), r"unknown setting 'tli': did you mean 'til'\? \(known: cil, til\)"),
        (("--backbone", "gccn"), r"unknown backbone 'gccn': did you mean 'gcn'\? \(known: gat, gcn, sgc\)"),
        (("--epochs", "0"), r"epochs must be at least 1, not 0"),
        (("--seeds", "0"), r"seeds must be at least 1, not 0"),
        (("--seed", "-1"), r"seed must be at least 0, not -1"),
        (("--split-seed", "-1"), r"split_seed must be at least 0, not -1"),
        (("--device", "abacus"), r"device 'abacus' cannot be used here: try auto or cpu"),
        (("--device", "privateuseone"), r"device 'privateuseone' cannot be used here: try auto or cpu"),
    ],
    ids=in_words,
)
def test_bad_input_is_one_sentence_and_nothing_half_written(
    arguments: tuple[str, ...], sentence: str, cli: Cli, folder: Path
) -> None:
    assert_refused(cli("run", *arguments), folder, sentence)
    outcome = cli("run", *arguments, "--json")
    assert (outcome.code, outcome.out, list(folder.iterdir())) == (2, "", [])
    error = json.loads(outcome.err)
    assert error.keys() == {"error", "exit_code"} and error["exit_code"] == 2
    assert re.fullmatch(sentence, error["error"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "--bugdet", "5"), r".*--bugdet.*--budget.*"),
        (("run", "--tasks", "many"), r".*--tasks.*"),
        (("rnu",), r".*rnu.*run.*"),
    ],
    ids=in_words,
)
def test_a_mistyped_command_line_is_one_sentence_too(
    arguments: tuple[str, ...], sentence: str, cli: Cli, folder: Path
) -> None:
    assert_refused(cli(*arguments), folder, sentence)
    assert re.fullmatch(sentence, json.loads(cli(*arguments, "--json").err)["error"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": None}, r"a task stream needs a graph with labels"),
        ({"adj_indptr": None}, r"'.+graph.npz' has no array 'adj_indptr': it must hold adj_\* and attr_\* or features"),
        (
            {"features": np.full((24, 2), np.nan)},
            r"'.+graph.npz' holds no usable graph: features contain 48 NaN or infinite values: .+",
        ),
        (
            {"labels": np.full(24, -1)},
            r"a task stream needs labelled nodes, but every label of the graph is -1, unknown",
        ),
        ({"labels": np.full(24, -2)}, r"'.+graph.npz' holds no usable graph: labels must .+"),
        ({"adj_indices": np.full(48, 99)}, r"'.+graph.npz' has a broken adj_\* matrix: indices must be < 24"),
        ({"labels": np.zeros(24, dtype=int)}, r"cannot make a task of 2 classes: the graph has 1 classes .+"),
    ],
    ids=[
        "no labels",
        "no edges",
        "NaN features",
        "unknown labels",
        "negative labels",
        "edge out of range",
        "one class",
    ],
)
def test_a_bad_file_is_one_sentence_and_nothing_half_written(
    changes: dict[str, np.ndarray | None], sentence: str, write_npz: Callable[..., Path], cli: Cli, folder: Path
) -> None:
    assert_refused(cli("run", "--dataset", f"file:{write_npz(**changes)}", *QUICK), folder, sentence)


@pytest.mark.parametrize("name", ["broken.npz", "broken.pt"])
def test_a_broken_file_is_one_sentence_and_nothing_half_written(name: str, cli: Cli, folder: Path) -> None:
    file = folder.parent / name
    file.write_bytes(b"this is no graph")
    assert_refused(cli("run", "--dataset", f"file:{file}", *QUICK), folder, rf"'.+{name}' is not a .+")


def test_an_output_folder_that_is_a_file_is_refused_and_left_as_it_is(cli: Cli, folder: Path) -> None:
    taken = folder.parent / "taken"
    taken.write_text("precious")
    assert_refused(cli("run", *SMALL, "--out", str(taken)), folder, r"'.+taken' is a file: choose another folder .+")
    assert taken.read_text() == "precious"


def test_an_output_folder_of_another_run_is_refused_and_left_as_it_is(cli: Cli, folder: Path) -> None:
    out = folder.parent / "out"
    assert cli("run", *SMALL, "--out", str(out), "--json").code == 0
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    outcome = cli("run", *SMALL, "--split-seed", "1", "--out", str(out))
    assert_refused(
        outcome,
        folder,
        r"'.+out' holds another run \(different: split_seed 0 there, 1 here\): choose .+ or start over with --fresh",
    )
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


def test_json_on_stdout_is_exactly_one_document_with_the_promised_keys(cli: Cli) -> None:
    outcome = cli("run", *QUICK, "--json")
    assert outcome.code == 0
    assert outcome.out.count("\n") == 1
    document = outcome.document
    assert Path(document["folder"], "config.json").is_file()
    assert document.keys() >= ISSUE_KEYS
    assert (document["dataset"], document["method"], document["setting"]) == ("digits", "finetune", "cil")
    assert document["seeds"] == [0]
    assert [len(row) for row in document["matrices"][0]] == [1, 2, 3, 4, 5]
    assert document["aa"] == pytest.approx(mean(mean(rows[-1]) for rows in document["matrices"]), abs=1e-9)
    assert document["curve"][-1] == pytest.approx(document["aa"], abs=1e-9)
    assert document["memory"] == {"rows": 0, "floats": 0, "bytes": 0}
    assert document["versions"]["delome"] == delome.__version__


def test_the_run_folder_holds_configuration_results_and_pictures(cli: Cli, folder: Path) -> None:
    document = cli("run", *SMALL, "--seeds", "2", "--seed", "3", "--json").document
    (run,) = (folder / "runs").iterdir()
    assert run.name.startswith("synthetic-nodes=120-classes=6-noise=8-degree=1-finetune-cil-")
    assert {str(file.relative_to(run)) for file in run.rglob("*") if file.is_file()} == {
        "config.json", "events.jsonl", "asked", "accuracy_matrix.png", "curve.png", "report.html",
        "seed-3/matrix.csv", "seed-3/result.json", "seed-4/matrix.csv", "seed-4/result.json",
        *(str(file.relative_to(run)) for file in run.glob("seed-*/model/*")),
    }  # fmt: skip
    assert {file.name for file in run.glob("seed-*/model/*.json")} == {"manifest.json"}
    assert "seeds" not in json.loads((run / "config.json").read_text())["run"]  # more can be added
    results = [json.loads((run / f"seed-{seed}" / "result.json").read_text()) for seed in (3, 4)]
    assert [result["matrix"] for result in results] == document["matrices"]


def test_running_the_same_again_gives_the_same_numbers_and_another_seed_is_added(cli: Cli, folder: Path) -> None:
    first, second = (cli("run", *SMALL, "--fresh", "--json").document for _ in range(2))
    assert first["matrices"] == second["matrices"]
    other = cli("run", *SMALL, "--seed", "1", "--json").document
    assert first["matrices"] != other["matrices"] and other["seeds"] == [1]
    (run,) = (run for run in (folder / "runs").iterdir() if "backup" not in run.name)
    assert {place.name for place in run.glob("seed-*")} == {"seed-0", "seed-1"}
    both = cli("run", *SMALL, "--seeds", "2", "--json")
    assert both.document["matrices"] == [*first["matrices"], *other["matrices"]]
    assert both.notes == [
        "delome: note: this run was finished before: these are its results, and --fresh runs it again"
    ]


def test_a_finished_run_is_shown_again_without_learning_and_says_so(cli: Cli, folder: Path) -> None:
    first, second = (cli("run", *SMALL, "--json") for _ in range(2))
    assert first.notes == []
    assert second.err == (
        "delome: note: this run was finished before: these are its results, and --fresh runs it again\n"
    )
    assert second.document["matrices"] == first.document["matrices"]
    (run,) = (folder / "runs").iterdir()
    events = [json.loads(line)["event"] for line in (run / "events.jsonl").read_text().splitlines()]
    assert events == ["started", "task", "task", "task", "finished", "continued", "finished"]


def test_a_fresh_run_keeps_the_old_one_as_a_backup(cli: Cli, folder: Path) -> None:
    cli("run", *SMALL, "--out", "here")
    before = {file.name: file.read_bytes() for file in (folder / "here").iterdir() if file.is_file()}
    outcome = cli("run", *SMALL, "--out", "here", "--fresh", "--json")
    assert outcome.notes == ["delome: note: the previous run is kept in 'here.backup-1'"]
    kept = folder / "here.backup-1"
    assert {file.name: file.read_bytes() for file in kept.iterdir() if file.is_file()} == before


@pytest.mark.parametrize("value", ["-1", "nan"])
def test_checkpoints_cannot_be_less_than_no_seconds_apart(value: str, cli: Cli, folder: Path) -> None:
    outcome = cli("run", *SMALL, "--checkpoint-every", value)
    assert_refused(outcome, folder, r"checkpoint-every must be at least 0 seconds, not .+")


def test_options_reach_the_run(cli: Cli) -> None:
    document = cli(
        "run", *SMALL, "--setting", "til", "--backbone", "gcn", "--classes-per-task", "3", "--split-seed", "5",
        "--inter-task-edges", "--device", "cpu", "--set", "hidden=16", "--set", "batch_size=none", "--json",
    ).document  # fmt: skip
    assert (document["setting"], document["backbone"]) == ("til", "gcn")
    assert {"classes_per_task": 3, "inter_task_edges": True}.items() <= document["protocol"].items()
    assert document["protocol"]["split"] == {"kind": "random, 60/20/20 per class", "seed": 5}
    parameters, wanted = document["parameters"], {"batch_size": None, "epochs": 2, "device": "cpu"}
    assert {name: parameters[name] for name in wanted} == wanted
    assert parameters["backbone"].items() >= {"name": "gcn", "hidden": 16}.items()
    assert len(document["matrices"][0]) == 2


def test_a_replay_method_keeps_budget_rows_for_every_class(cli: Cli) -> None:
    quick = ("--epochs", "2", "--set", "memory=gradient-matching", "--set", "networks=2", "--set", "hidden=8")
    document = cli("run", "--dataset", HARD, "--budget", "4", *quick, "--json").document
    assert (document["method"], document["budget"]) == ("delome", 4)
    assert document["memory"]["rows"] == 4 * 6


def test_a_graph_of_ones_own_is_learned_from_a_file(cli: Cli, write_npz: Callable[..., Path]) -> None:
    document = cli("run", "--dataset", f"file:{write_npz()}", *QUICK, "--json").document
    assert [len(row) for row in document["matrices"][0]] == [1, 2]


def test_without_json_a_person_sees_matrix_summary_and_folder(cli: Cli, folder: Path) -> None:
    outcome = cli("run", *SMALL, "--seeds", "2")
    assert outcome.code == 0
    (run,) = (folder / "runs").iterdir()
    last_rows = [json.loads((run / f"seed-{seed}/result.json").read_text())["matrix"][-1] for seed in (0, 1)]
    for values in zip(*last_rows, strict=True):
        assert f" {mean(values):.1f} " in outcome.out
    assert re.search(r"AA \d+\.\d\d ± \d+\.\d\d   AF [+-]\d+\.\d\d ± \d+\.\d\d", outcome.out)
    assert f"finetune on {HARD}, CIL, sgc backbone, budget none, seeds [0, 1]" in outcome.out
    assert "class-balanced accuracy on test nodes" in outcome.out
    assert "kept for old tasks: 0 rows" in outcome.out
    assert all(phase in outcome.out for phase in ("prepare", "train", "evaluate", "total"))
    assert f"run folder: {run.relative_to(folder)} (accuracy_matrix.png, curve.png)" in outcome.out


def test_out_chooses_the_run_folder_and_its_name_is_shown_as_it_is(cli: Cli, folder: Path) -> None:
    outcome = cli("run", *SMALL, "--out", "deep/run[first]")
    assert [place.name for place in folder.iterdir()] == ["deep"]
    assert (folder / "deep" / "run[first]" / "config.json").is_file()
    assert "run folder: deep/run[first] (" in outcome.out


WIDTHS = pytest.mark.parametrize("width", [60, 80, 200])


def described(printed: str, width: int) -> dict[str, str]:
    """What the last column of a printed table says about each name in the first, words wrapped or not."""
    found: dict[str, str] = {}
    for line in printed.splitlines():
        assert len(line) <= width
        if line.startswith("│"):
            name, *_, text = (cell.strip() for cell in line.strip("│").split("│"))
            current = name or list(found)[-1]
            found[current] = f"{found.get(current, '')} {text}".strip()
    return found


@WIDTHS
def test_methods_are_listed_with_all_that_tells_them_apart(
    width: int, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    outcome = cli("methods")
    assert outcome.code == 0 and outcome.err == ""
    about = described(outcome.out, width)
    assert about.keys() == METHODS.keys()
    for name, method in METHODS.items():
        assert all(text in about[name] for text in (method.summary, method.family, method.citation))
        assert ", ".join(method.settings) in about[name]
        assert ("reads past graphs" in about[name]) == method.needs_past


@WIDTHS
def test_datasets_are_listed_with_budget_and_options(width: int, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    outcome = cli("datasets")
    assert outcome.code == 0 and outcome.err == ""
    about = described(outcome.out, width)
    assert about.keys() == DATASETS.keys()
    for name, dataset in DATASETS.items():
        assert dataset.summary.replace(" ", "") in about[name].replace(" ", "")  # a name may be longer than a line
        assert f"usual budget: {dataset.budget}" in about[name]
    assert "options: neighbours=8" in about["digits"]


def test_a_dataset_is_shown_with_its_sizes_and_a_bar_for_each_class(cli: Cli) -> None:
    outcome = cli("datasets", "show", "digits")
    assert outcome.code == 0 and outcome.err == ""
    assert "digits: 1,797 nodes, 19,858 edges (undirected" in outcome.out
    assert "homophily): 96.1 %" in outcome.out
    assert len(re.findall(r"│ +[0-4] +│ +[0-9] +│ +1[78][0-9] +│ █+", outcome.out)) == 10
    document = cli("datasets", "show", "digits", "--json", "--classes-per-task", "3").document
    assert document["class_sizes"]["3"] == 183
    assert document["tasks"] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert document["dropped"] == {"9": "left over after the last full task"}
    assert document["here"] == "always"


def test_a_dataset_without_edges_can_be_shown(cli: Cli, write_npz: Callable[..., Path]) -> None:
    empty = {"adj_data": np.ones(0), "adj_indices": np.zeros(0, int), "adj_indptr": np.zeros(25, int)}
    file = write_npz(**empty)
    assert "no edges" in cli("datasets", "show", f"file:{file}").out
    assert cli("datasets", "show", f"file:{file}", "--json").document["homophily"] is None


def test_a_published_dataset_that_is_not_here_is_said_to_be(cli: Cli) -> None:
    assert cli("datasets", "--json").document["corafull"]["here"] == "to download"
    assert cli("datasets", "--json").document["digits"]["options"] == {"neighbours": 8}


def test_listings_as_json_name_everything(cli: Cli) -> None:
    assert cli("methods", "--json").document.keys() == METHODS.keys()
    assert cli("datasets", "--json").document.keys() == DATASETS.keys()
    parameters = cli("methods", "delome", "--json").document
    assert list(parameters) == [path for path, _ in all_parameters(METHODS["delome"])]
    limits = {"at_least": None, "above": None, "at_most": None}
    nothing = {"choices": None, "optional": False, "help": "", "search": None, **limits}
    assert parameters["memory"] | {"help": ""} == nothing | {
        "type": "part",
        "default": "kernel-matching",
        "choices": list(MEMORIES),
    }
    assert parameters["memory.budget"] | {"help": ""} == nothing | {"type": "int", "default": 60, "at_least": 1}
    assert parameters["setting"]["choices"] == ["cil", "til"]
    assert all(each["help"] for each in parameters.values())


def test_streams_are_listed_with_their_parameters(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    listed, document = described(cli("streams").out, 60), cli("streams", "--json").document
    assert listed.keys() == document.keys() == STREAMS.keys()
    for name, kind in STREAMS.items():
        assert kind.summary in listed[name] and kind.summary == document[name]["summary"]
        assert f"test graph {kind.usual_test_graph}" in listed[name]
        for parameter, each in parameters_of(kind).items():
            assert f"{parameter} (" in listed[name] and each.param.help in listed[name]
            assert document[name]["parameters"][parameter]["default"] == each.default


@pytest.mark.parametrize("method", METHODS)
def test_the_parameters_of_a_method_are_explained(method: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    outcome = cli("methods", method)
    assert outcome.code == 0
    about = described(outcome.out, 60)
    parameters = dict(all_parameters(METHODS[method]))
    assert about.keys() == parameters.keys()
    for name, parameter in parameters.items():
        text = about[name].replace(" ", "")  # a name may be longer than a line
        assert parameter.param.help.replace(" ", "") in text
        assert ",".join(parameter.registry or parameter.choices) in text


def test_an_unknown_method_has_no_parameters(cli: Cli, folder: Path) -> None:
    assert_refused(cli("methods", "jiont"), folder, r"unknown method 'jiont': did you mean 'joint'\? .+")


def test_the_version_is_the_packages(cli: Cli) -> None:
    outcome = cli("--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"{delome.__version__}\n", "")


NAMES = ["run", "sweep", "results", "report", "paper", "learn", "predict", "audit", "methods", "streams"]
NAMES += ["check", "datasets"]
COMMANDS = [
    (),
    ("run",),
    ("learn",),
    ("predict",),
    ("methods",),
    ("streams",),
    ("datasets",),
    ("datasets", "show"),
    ("check",),
    ("audit",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=in_words)
@pytest.mark.parametrize("width", [60, 80])
def test_help_explains_every_command_within_the_terminal_and_names_no_types(
    command: tuple[str, ...], width: int, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    outcome = cli(*command, "--help")
    assert outcome.code == 0 and outcome.err == ""
    assert outcome.out.startswith(f"Usage: {' '.join(['delome', *command])} [OPTIONS]")
    assert max(map(len, outcome.out.splitlines())) <= width
    assert not re.search(r"<\w+>", outcome.out)


def test_the_summary_of_a_command_is_not_cut_off(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands = cli("--help").out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in commands] == NAMES
    assert all(line.endswith(".") and not line.endswith("...") for line in commands)


def test_without_a_command_the_help_is_shown(cli: Cli) -> None:
    assert cli() == cli("--help")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (
            "delome ",
            {*NAMES},
        ),
        ("delome run --method ssm", {"ssm-uniform", "ssm-degree"}),
        ("delome run --dataset cora", {"corafull", "cora_ml"}),
        ("delome run --setting ", {"cil", "til"}),
        ("delome run --backbone g", {"gcn", "gat"}),
        ("delome run --split ", {"auto", "random", "masks"}),
        ("delome learn --method ew", {"ewc"}),
        ("delome predict --graph dig", {"digits"}),
        ("delome methods del", {"delome"}),
        ("delome check anal", {"analytic"}),
        ("delome datasets show pub", {"pubmed"}),
    ],
)
def test_a_shell_completes_commands_and_names(
    words: str, found: set[str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_DELOME_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert set(cli().out.split()) == found


def test_the_completion_of_a_shell_can_be_shown_and_installed(cli: Cli) -> None:
    assert {"--show-completion", "--install-completion"} <= set(cli("--help").out.split())


def installed(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sysconfig.get_path("scripts")) / "delome"
    return subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_the_package_can_be_run_as_a_module(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "delome", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{delome.__version__}\n", "")


def test_the_installed_program_prints_one_document_and_leaves_a_run_folder(folder: Path) -> None:
    finished = installed("run", *SMALL, "--json", folder=folder)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout).keys() >= ISSUE_KEYS
    assert len(list((folder / "runs").iterdir())) == 1
    assert "Traceback" not in finished.stderr and "Warning" not in finished.stderr


def test_the_installed_program_refuses_in_one_sentence(folder: Path) -> None:
    finished = installed("run", "--dataset", "file:absent.npz", folder=folder)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert re.fullmatch(r"delome: there is no file 'absent.npz': .+\n", finished.stderr)
    assert list(folder.iterdir()) == []


def test_an_option_the_method_does_not_have_is_ignored_with_a_note(cli: Cli, folder: Path) -> None:
    outcome = cli("run", "--method", "finetune", "--epochs", "1", "--budget", "7", "--out", "run", "--json")
    assert outcome.code == 0
    assert outcome.notes == ["delome: note: method finetune has no budget: ignored"]
    assert outcome.document["budget"] is None


def test_a_parameter_given_twice_is_refused(cli: Cli, folder: Path) -> None:
    outcome = cli("run", "--budget", "5", "--set", "budget=6", "--out", "run")
    assert (outcome.code, outcome.err) == (2, "delome: budget is given twice: as an option and with --set\n")


def test_a_run_that_does_not_fit_in_memory_is_refused_and_leaves_nothing(cli: Cli, folder: Path) -> None:
    outcome = cli("run", "--set", "hidden=1000000000000", "--out", "run")
    assert outcome.code == 2
    assert outcome.err == "delome: not enough memory for this run: choose a smaller graph, budget or network\n"
    assert not (folder / "run").exists()


def test_help_names_the_defaults_that_are_resolved_later(cli: Cli) -> None:
    outcome = cli("run", "--help")
    assert "[default: the method's, mostly 200]" in " ".join(outcome.out.split())


def test_a_finished_run_on_a_read_only_disk_is_shown_again(
    cli: Cli, folder: Path, read_only: Callable[[Path], AbstractContextManager[None]]
) -> None:
    assert cli("run", *SMALL, "--out", "run").code == 0
    before = {file: file.read_bytes() for file in (folder / "run").rglob("*") if file.is_file()}
    finished = "delome: note: this run was finished before: these are its results, and --fresh runs it again\n"
    unwritable = "delome: note: 'run' cannot be written (Read-only file system): figures and report are as they were\n"
    with read_only(folder):
        shown = cli("run", *SMALL, "--out", "run")
        assert (shown.code, shown.err) == (0, finished + unwritable)
        assert "run folder: run\n" in shown.out
        assert cli("run", *SMALL, "--out", "run", "--json").document["matrices"]
        other = cli("run", *SMALL, "--split-seed", "1", "--out", "run")
        assert other.code == 2 and "holds another run" in other.err
        more = cli("run", *SMALL, "--seed", "1", "--out", "run")
        assert (more.code, more.notes) == (2, ["delome: cannot write 'run': Read-only file system"])
        fresh = cli("run", *SMALL, "--out", "run", "--fresh")
        assert (fresh.code, fresh.err) == (2, "delome: cannot write 'run': Read-only file system\n")
    assert {file: file.read_bytes() for file in (folder / "run").rglob("*") if file.is_file()} == before


def test_an_unfinished_run_on_a_read_only_disk_is_refused(
    cli: Cli, folder: Path, read_only: Callable[[Path], AbstractContextManager[None]]
) -> None:
    assert cli("run", *SMALL, "--seeds", "2", "--out", "run").code == 0
    (folder / "run" / "seed-1" / "result.json").unlink()
    shutil.rmtree(folder / "run" / "seed-1" / "model")
    before = {file: file.read_bytes() for file in (folder / "run").rglob("*") if file.is_file()}
    with read_only(folder):
        outcome = cli("run", *SMALL, "--seeds", "2", "--out", "run")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "delome: cannot write 'run': Read-only file system\n"
    assert {file: file.read_bytes() for file in (folder / "run").rglob("*") if file.is_file()} == before


def becomes_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


CHANGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "model gone": ("model", lambda seed: shutil.rmtree(seed / "model")),
    "manifest gone": ("model", lambda seed: (seed / "model" / "manifest.json").unlink()),
    "tensors gone": ("model", lambda seed: next((seed / "model").glob("*.safetensors")).unlink()),
    "tensors edited": ("model", lambda seed: next((seed / "model").glob("*.safetensors")).write_bytes(b"x")),
    "another model": ("model", lambda seed: delome.FineTune().save(seed / "model")),
    "matrix gone": ("matrix.csv", lambda seed: (seed / "matrix.csv").unlink()),
    "matrix edited": ("matrix.csv", lambda seed: (seed / "matrix.csv").write_text("after_task,task_0\n0,100\n")),
    "matrix a folder": ("matrix.csv", lambda seed: becomes_a_folder(seed / "matrix.csv")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_finished_run_says_what_is_gone_or_was_changed(change: str, cli: Cli, folder: Path) -> None:
    first = cli("run", *SMALL, "--out", "run", "--json")
    name, do = CHANGES[change]
    do(folder / "run" / "seed-0")
    again = cli("run", *SMALL, "--out", "run", "--json")
    assert again.code == 0 and again.document["matrices"] == first.document["matrices"]
    assert again.err == (
        f"delome: note: 'run/seed-0/{name}' is gone, or was changed after the run\n"
        "delome: note: this run was finished before: these are its results, and --fresh runs it again\n"
    )

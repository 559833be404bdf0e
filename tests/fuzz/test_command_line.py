from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sysconfig
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from delome.experiment import RunFolder
from delome.experiment.results import RunResult
from delome.methods import METHODS
from delome.parameters import all_parameters
from delome.reporting.figures import write_figures

Cli = Callable[..., Any]

SMALL = ("--dataset", "synthetic:nodes=60,classes=4,features=4", "--method", "finetune", "--epochs", "1")
"""What comes first on every command line of a run: later options override it, and none of them makes it large."""

TEXTS = [
    *("", " ", "none", "nan", "inf", "-inf", "1e400", "-0", "0", "1", "2", "-1", "+1", "1.5", "1e1", "0x10", "٣", "²"),
    *("9" * 30, "9" * 5000, "true", "no", "=", "a=b", ",", "2,2", "0,0", "cil", "til", "sgc", "gcn", "gat", "cpu"),
    *("cuda", "meta", "auto", "a\nb", "\x1b[31m", "\udcff", "ä", "图", "'", "$x$", "$\\y$", "[red]", "[/]", "x" * 300),
    *("--json", "--", "-", "-x", "--help", "run", "delome", "digts", "synthetic", "file", "file:"),
]  # fmt: skip
texts = st.sampled_from(TEXTS) | st.text(st.characters(exclude_characters="\0"), max_size=5)

quick_methods = st.sampled_from(["finetune", "analytic", "replay", "ergnn", "joint", "ewc", "lwf"])
methods = st.one_of(quick_methods, texts, st.sampled_from(["hpns", "finetun", "METHOD", "fine tune"]))

small_datasets = st.builds(
    "synthetic:nodes={},classes={},{}={}".format,
    st.sampled_from([12, 60, 61]),
    st.sampled_from([2, 4, 5]),
    st.sampled_from(["degree", "homophily", "imbalance", "noise", "seed", "features"]),
    st.sampled_from(["0", "1", "3", "0.5", "-1", "1e30", "1e31", "1e400", "nan", "x", "", "-0.0"]),
)
# never one that would be downloaded
odd_datasets = st.one_of(
    texts,
    small_datasets,
    st.sampled_from(
        ["synthetic:arxvi", "synthetic:arxiv,scale=1e-9", "synthetic:nodes=-1", "synthetic:nodes=99999999999"]
    ),
    st.sampled_from(
        ["digits:neighbours=0", "digits:neighbour=3", "digits:3", "corafull:seed=1", "reddit:x", "ar xiv", ":"]
    ),
    st.sampled_from(
        ["file:good.npz", "file:good.npz,undirected=false", "file:good.npz,undirected=2", "file:$\\y$.npz"]
    ),
    st.sampled_from(
        ["file:[red]图.npz", "file:\udcff.npz", "file:bad.npz", "file:bad.pt", "file:.", "file:~nobody-here/x.npz"]
    ),
    st.sampled_from(
        ["file:a\nb.npz", "file:" + "x" * 300 + ".npz", "file:" + "x/" * 300 + ".npz", "file:one_class.npz"]
    ),
)
places = st.sampled_from([
    *("out", "out/deep/er", ".", "taken", "taken/below", "x" * 300, "o" * 240, "[red]", "$x$", "图", "\udcff", "a\nb"),
    *("loop", "out ", "-", "~", "~nobody-here", "/proc/delome", "/dev/null", "/dev/null/x", "x/" * 2500),
])  # fmt: skip
small_numbers = st.sampled_from(
    ["0", "1", "2", "3", "-1", "1e1", "1.0", "٣", "x", "", "9" * 30, "-" + "9" * 30, "nan", "none"]
)
assignments = st.one_of(
    st.builds(
        "{}={}".format,
        st.sampled_from([name for name, _ in all_parameters(METHODS["finetune"])]),
        st.sampled_from(TEXTS[:30]),
    ),
    st.sampled_from(["hidden=1000000000000", "hidden=100000000000000000", "hidden=4611686018427387904", "lr=1e30"]),
    st.sampled_from(["lr=1e-320", "weight_decay=1e300", "batch_size=1", "batch_size=none", "fanout=2,2"]),
    st.sampled_from(["backbone=gat", "budget=1", "seed=7"]),
    texts,
)  # fmt: skip

OPTIONS: dict[str, st.SearchStrategy[str]] = {
    "--dataset": odd_datasets,
    "--method": methods,
    "--setting": st.sampled_from(["cil", "til", "CIL", "", "both"]) | texts,
    "--backbone": st.sampled_from(["sgc", "gcn", "gat", "SGC", ""]) | texts,
    "--budget": small_numbers,
    "--classes-per-task": small_numbers,
    "--epochs": small_numbers,
    "--seeds": small_numbers,
    "--seed": small_numbers,
    "--split-seed": small_numbers,
    "--device": st.sampled_from(["cpu", "auto", "cuda", "meta", "cpu:9", "mps"]) | texts,
    "--set": assignments,
    "--out": places,
    "--data-root": places,
}


@st.composite
def runs(draw: st.DrawFn) -> list[str]:
    """``delome run`` with one to three odd options after those that make it small."""
    arguments = ["run", *SMALL]
    for option in draw(st.lists(st.sampled_from([*OPTIONS, "--dataset", "--set", "--out"]), min_size=1, max_size=3)):
        value = draw(OPTIONS[option])
        arguments += draw(st.sampled_from([[option, value], [option, value], [f"{option}={value}"]]))
    flags = [
        "--json",
        "--inter-task-edges",
        "--no-inter-task-edges",
        "--help",
        "--nonsense",
        "-j",
        "extra",
        "--set",
        "--",
    ]
    arguments += draw(st.lists(st.sampled_from(["--json"] * 4 + flags), max_size=1))
    return arguments


@st.composite
def listings(draw: st.DrawFn) -> list[str]:
    """The other commands, and what is no command."""
    command = draw(
        st.sampled_from([
            ["methods"],
            ["datasets"],
            ["datasets", "show"],
            ["datasets", "show"],
            [],
            ["--version"],
            ["nonsense"],
            ["datasets", "sho"],
            ["method"],
        ])
    )  # fmt: skip
    more = draw(
        st.lists(
            st.one_of(
                texts,
                odd_datasets if "show" in command else methods,
                st.sampled_from(["--json", "--help", "--version", "--classes-per-task", "--data-root", "show"]),
            ),
            max_size=3,
        )
    )
    # without a place for it, the last word after --data-root would be one
    return [*command, *more, *(["--data-root", draw(places)] if draw(st.booleans()) else [])]


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the command line with some graphs, and no network."""

    def unreachable(*_: object, **__: object) -> None:
        raise AssertionError("no command of these tests may use the network")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    drawn: set[str] = set()

    def write_figures_once(run: RunFolder, result: RunResult) -> list[Path]:
        """Figures take most of the time of so small a run, and what is odd in them is the name of the dataset."""
        if result.config.dataset in drawn:
            return []
        drawn.add(result.config.dataset)
        return write_figures(run, result)

    monkeypatch.setattr("delome.reporting.figures.write_figures", write_figures_once)
    ring = np.arange(24)
    graph: dict[str, Any] = {
        "adj_indices": (ring + 1) % 24,
        "adj_indptr": np.arange(25),
        "adj_shape": np.array([24, 24]),
        "features": np.eye(24, 3, dtype=np.float32),
    }
    names = np.array(["[red]", "a\nb", "图", "$x$"])
    for name in ("good", "[red]图", "\udcff", "$\\y$"):
        np.savez(folder / f"{name}.npz", **graph, labels=ring % 4, class_names=names)
    np.savez(folder / "one_class.npz", **graph, labels=ring * 0)
    for name in ("bad.npz", "bad.pt", "taken"):
        (folder / name).write_text("no graph")
    (folder / "loop").symlink_to("loop")
    return folder


def everything_in(folder: Path) -> dict[Path, int]:
    """All files, with the time they were last written, and folders."""
    return {path: 0 if path.is_dir() else path.lstat().st_mtime_ns for path in folder.rglob("*")}


def assert_done_or_refused(arguments: list[str], cli: Cli, here: Path) -> None:
    """Exit code 0, or 2 with one sentence and nothing left behind."""
    before = everything_in(here.parent)
    # as exceptions, warnings could be taken for a failure of the run
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)  # as in all tests
        outcome = cli(*arguments)
    assert not caught, [str(warning.message) for warning in caught]
    after = everything_in(here.parent)
    assert outcome.code in (0, 2), outcome
    assert "Traceback" not in outcome.err
    if outcome.code == 2:
        assert outcome.out == ""
        (line,) = outcome.notes
        assert line.startswith('{"error": ' if "--json" in arguments else "delome: "), repr(outcome.err)
        sentence = json.loads(line)["error"] if "--json" in arguments else line.removeprefix("delome: ")
        assert sentence.isprintable() and len(re.findall(r"[A-Za-z]{2,}", sentence)) >= 3, repr(sentence)
        assert after == before
        return
    assert all(line.startswith("delome: note: ") for line in outcome.notes), outcome.err
    if "--json" in arguments and not {"--help", "--version", "--"} & set(arguments):
        json.loads(outcome.out)
    for path in sorted(after.keys() - before.keys(), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


ONE_CLI = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@settings(ONE_CLI, max_examples=250)
@given(arguments=runs())
@example(arguments=["run", *SMALL, "--set", "hidden=1000000000000"])
@example(arguments=["run", *SMALL, "--set", "hidden=1000000000000", "--out", "out/deep/er"])
@example(arguments=["run", *SMALL, "--set", "hidden=4611686018427387904"])
@example(arguments=["run", *SMALL, "--budget", "3", "--dataset", "file:absent.npz"])
@example(arguments=["run", *SMALL, "--dataset", "file:$\\y$.npz"])
@example(arguments=["run", *SMALL, "--dataset", "file:[red]图.npz"])
@example(arguments=["run", *SMALL, "--dataset", "file:\udcff.npz"])
@example(arguments=["run", *SMALL, "--dataset", "file:good.npz", "--out", "\udcff"])
@example(arguments=["run", *SMALL, "--method", "a\nb"])
@example(arguments=["run", *SMALL, "--set", "\x1b[31m"])
@example(arguments=["run", *SMALL, "--seeds", "9" * 9])
@example(arguments=["run", *SMALL, "--device", "meta"])
@example(arguments=["run", *SMALL, "--set", "lr=1e30", "--json"])
def test_a_run_is_done_or_refused_in_one_sentence(arguments: list[str], cli: Cli, here: Path) -> None:
    assert_done_or_refused(arguments, cli, here)


@pytest.mark.slow
@settings(ONE_CLI, max_examples=250)
@given(arguments=listings())
@example(arguments=[])
@example(arguments=["\x1b[31m"])
@example(arguments=["datasets", "--data-root", "~nobody-here"])
@example(arguments=["datasets", "--data-root", "x" * 300])
@example(arguments=["datasets", "show", "file:\udcff.npz"])
@example(arguments=["datasets", "show", "file:[red]图.npz"])
def test_a_listing_is_shown_or_refused_in_one_sentence(arguments: list[str], cli: Cli, here: Path) -> None:
    assert_done_or_refused(arguments, cli, here)


TINY: dict[str, list[tuple[str, ...]]] = {
    "cat": [("encoders=2", "encoder_width=8"), ("encoders=exact",)],
    "delome": [("hidden=8",), ("memory=gradient-matching", "networks=2", "hidden=8")],
    "analytic": [("features=64",)],
    "hpns": [("setting=til", "establish_after=0")],
}
"""Parameters that make a method quick; one of several forms of it."""

STEPS = ("epochs", "networks", "encoders", "encoder_hops", "establish_after")
"""Parameters that say how often something is done: a large one is accepted, and takes its time."""


@st.composite
def extreme_runs(draw: st.DrawFn) -> list[str]:
    """Any method with one or two parameters at an extreme of what they may be."""
    method = draw(st.sampled_from(list(METHODS)))
    arguments = ["run", *SMALL, "--method", method, "--json"]
    if method != "analytic":
        arguments += ["--setting", draw(st.sampled_from(METHODS[method].settings))]
    chosen = list(draw(st.sampled_from(TINY.get(method, [()]))))
    given = {name: text for name, _, text in (each.partition("=") for each in chosen)}
    memory = {"memory": given["memory"]} if "memory" in given else {}
    learner = METHODS[method](setting=METHODS[method].settings[0], **memory)
    parameters = {
        name: each
        for name, each in all_parameters(learner)
        if name not in ("device", "epochs") and name.rpartition(".")[2] not in given
    }
    for name in draw(st.lists(st.sampled_from(list(parameters)), min_size=1, max_size=2, unique=True)):
        kind, last = parameters[name].type, name.rpartition(".")[2]
        if (registry := parameters[name].registry) is not None:
            values = list(registry)
        elif kind is str and parameters[name].choices:
            values = list(parameters[name].choices)
        elif kind is bool:
            values = ["true", "false"]
        elif last == "ridge":  # too small a one is noticed when the first task that needs a larger one is learned
            values = ["1e-3", "1", "1e38", "1e300", "0", "-1"]
        elif kind is float:
            values = ["1e-320", "1e-40", "1e-9", "0", "1", "1e9", "1e38", "1e300", "-1"]
        elif last in STEPS:
            values = ["0", "1", "2", *parameters[name].choices]
        elif kind is int:
            values = ["0", "1", "2", "7", "1000000000000", "4611686018427387904", "9223372036854775807"]
        else:
            values = ["", "1,1", "0,0", "999999999,1", "x"]
        chosen.append(f"{name}={draw(st.sampled_from([*values, 'none'] if parameters[name].optional else values))}")
    return arguments + [part for assignment in chosen for part in ("--set", assignment)]


@pytest.mark.slow
@settings(ONE_CLI, max_examples=150)
@given(arguments=extreme_runs())
@example(arguments=["run", *SMALL, "--method", "analytic", "--set", "features=1000000000000"])
@example(arguments=["run", *SMALL, "--method", "analytic", "--set", "features=64", "--set", "ridge=1e-320"])
@example(arguments=["run", *SMALL, "--method", "analytic", "--set", "features=2", "--set", "ridge=1e38"])
@example(arguments=["run", *SMALL, "--method", "gem", "--set", "lr=1e300"])
@example(arguments=["run", *SMALL, "--method", "gem", "--set", "margin=1e300"])
def test_an_extreme_parameter_of_a_method_is_run_or_refused_in_one_sentence(
    arguments: list[str], cli: Cli, here: Path
) -> None:
    assert_done_or_refused(arguments, cli, here)


@pytest.mark.slow
def test_a_ridge_below_what_rounding_changes_is_raised(cli: Cli, here: Path) -> None:
    ridge = ("--set", "features=64", "--set", "ridge=1e-320")
    document = cli("run", *SMALL, "--method", "analytic", *ridge, "--json").document
    assert document["parameters"]["ridge"] == 1e-320
    assert all(1e-9 < strength < 1 for strength in np.ravel(document["reports"]["ridge"]))


@pytest.mark.slow
def test_a_file_whose_name_is_no_text_is_shown(here: Path) -> None:
    program = Path(sysconfig.get_path("scripts")) / "delome"
    strict = dict(os.environ, PYTHONIOENCODING="utf-8:strict")
    shown = subprocess.run(
        [program, "datasets", "show", "file:\udcff.npz"], capture_output=True, check=False, env=strict
    )
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert rb"file:\udcff.npz" in shown.stdout

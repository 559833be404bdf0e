"""RunOptions and SweepOptions: what one run or many are asked for, listed once for library, plans and command line."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

from delome.parameters import Param

GIVEN = "given"
"""What a run calls the dataset of a stream that is passed, if it is given no better name."""

SPLITS = ("auto", "random", "masks", GIVEN)
"""``auto``: the masks of the graph if it has any, else random; ``given``: that of a stream that is passed."""

CLUSTERS = ("local", "ray")


@dataclass(frozen=True)
class Option(Param):
    """A parameter of a run: also how its value is called in help, and what a shell may complete it to."""

    metavar: str = ""
    among: tuple[str, ...] | str = ()
    """The names it may be completed to, or of which registry they are: ``"methods"``, ``"datasets"``, …"""
    several: bool = False
    """Whether the command line takes several values, separated by commas: each combination is then a run."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Everything that can be asked for; what is None is up to the dataset or the method."""

    dataset: Annotated[
        str,
        Option(
            "Which graph: digits, corafull, arxiv, …, synthetic or file:PATH; see 'delome datasets'.",
            metavar="NAME",
            among="datasets",
            several=True,
        ),
    ] = "digits"
    method: Annotated[
        str,
        Option(
            "How to learn without forgetting; see 'delome methods'. Your own: module:Class.",
            metavar="NAME",
            among="methods",
            several=True,
        ),
    ] = "delome"
    setting: Annotated[
        str,
        Option(
            "cil: a node may be of any class seen so far; til: its task is known.",
            metavar="cil|til",
            among=("cil", "til"),
            several=True,
        ),
    ] = "cil"
    backbone: Annotated[
        str | None,
        Option(
            "Network: sgc, gcn, gat or module:Class.  [default: sgc]",
            metavar="NAME",
            among="backbones",
            several=True,
        ),
    ] = None
    budget: Annotated[
        int | None,
        Option("Memory rows per class.  [default: the dataset's usual budget]", metavar="ROWS", several=True),
    ] = None
    stream: Annotated[
        str,
        Option(
            "How the graph arrives, e.g. classes:base=4,step=2; see 'delome streams'.",
            metavar="NAME",
            among="streams",
            several=True,
        ),
    ] = "classes"
    classes_per_task: Annotated[
        int | None, Option("New classes in each task of a stream of classes.  [default: 2]", metavar="N")
    ] = None
    tasks: Annotated[int | None, Option("Learn only the first N tasks.  [default: all]", metavar="N")] = None
    epochs: Annotated[
        int | None,
        Option(
            "Steps (with --set passes=true: passes) of each task.  [default: the method's, mostly 200]",
            metavar="N",
            several=True,
        ),
    ] = None
    seeds: Annotated[int, Option("Repeat with N seeds and report mean ± std.", metavar="N")] = 1
    seed: Annotated[int, Option("First seed.", metavar="N")] = 0
    split_seed: Annotated[int, Option("Seed of the train/val/test split, the same for all seeds.", metavar="N")] = 0
    split: Annotated[
        str,
        Option(
            "masks: those of the graph; random: 60/20/20 of each class; auto: masks if it has any.",
            metavar="KIND",
            among=SPLITS[:3],
        ),
    ] = "auto"
    test_graph: Annotated[
        str | None,
        Option(
            "cut: each task alone; joined: learned alone, tested in the graph of all tasks so far; "
            "grown: learned in it too.  [default: cut, or the stream's usual one]",
            metavar="cut|joined|grown",
            among=("cut", "joined", "grown"),
            several=True,
        ),
    ] = None
    inter_task_edges: Annotated[bool, Option("The same as --test-graph grown.")] = False
    inductive: Annotated[bool, Option("Test nodes and their edges are absent while learning.")] = False
    device: Annotated[str, Option("auto, cpu, cuda, …", metavar="NAME")] = "auto"
    assignments: Annotated[
        list[str] | None,
        Option("Any parameter of the method; repeatable. See 'delome methods NAME'.", metavar="NAME=VALUE"),
    ] = None
    class_order: list[int | str] | None = None
    """Labels in the order in which classes arrive; None: ascending."""

    @classmethod
    def given(cls, options: dict[str, Any]) -> RunOptions:
        """Options out of a larger mapping."""
        return cls(**{field.name: options[field.name] for field in fields(cls) if field.name in options})


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """How many runs are to be run; each command that runs several has these options."""

    jobs: Annotated[
        int | None, Option("Runs at a time.  [default: as many as fit into cores and memory]", metavar="N")
    ] = None
    cluster: Annotated[
        str,
        Option(
            "Where: processes here, or a Ray cluster (the one at RAY_ADDRESS, or a new one).",
            metavar="local|ray",
            among=CLUSTERS,
        ),
    ] = "local"
    select: Annotated[
        list[str] | None,
        Option(
            "Choose parameters on validation nodes: honest (on the first tasks) or benchmark (on the whole stream); "
            "NAME=V,V replaces the methods' own search spaces; repeatable; none: nothing, whatever the plan says.",
            metavar="PROTOCOL|NAME=V,V",
        ),
    ] = None
    select_tasks: Annotated[
        int | None, Option("Tasks on which an honest selection compares candidates.  [default: 3]", metavar="N")
    ] = None
    models: Annotated[bool, Option("Keep the learner of every run; else only its results.")] = False
    dry_run: Annotated[bool, Option("Print what would run, and about how long it takes.")] = False

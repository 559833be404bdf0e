"""Would the tests notice? Changes the meaning of the code that learns, one small change at a time, and runs its tests.

    python benchmarks/mutants.py [--count 200] [--seed 0] [--only methods/gem.py]

Each mutant is a copy of the package in a temporary folder with one change: an operator, a constant, a condition, a
term, a call or a parameter. The tests of its file and a part of the conformance suite run until one fails. Mutants are
drawn by seed, spread over all files, and those that survive are printed as a Markdown table: each is a missing test, or
a change that means nothing. What cannot matter is left out: messages, checks that only raise, declarations, progress,
and sizes that only cost time. `--only` takes a file, or a file and line such as methods/gem.py:49.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/delome"
FILES = (
    "methods/*.py", "memories/*.py", "backbones/*.py", "learning/*.py", "losses.py", "metrics.py", "streams/columns.py",
)  # fmt: skip
NOT_LEARNING = {"learning/isolation.py", "learning/saved.py"}
SECONDS = 600

TESTS: dict[str, tuple[str, ...]] = {
    "losses.py": ("replay", "test_losses", "methods/test_replay"),
    "metrics.py": ("finetune", "test_metrics"),
    "streams/columns.py": ("finetune", "streams/test_columns", "conformance/test_live_data"),
    "backbones/attention.py": ("twp", "backbones/test_attention", "backbones/test_gat"),
    "backbones/backbone.py": ("finetune", "backbones/test_backbone", "backbones/test_sampling"),
    "backbones/examples.py": ("finetune", "backbones/test_examples", "learning/test_training"),
    "backbones/gat.py": ("finetune", "backbones/test_gat", "backbones/test_backbone"),
    "backbones/gcn.py": ("finetune", "backbones/test_gcn", "backbones/test_backbone"),
    "backbones/sampling.py": ("finetune", "backbones/test_sampling"),
    "backbones/sgc.py": ("finetune", "backbones/test_sgc", "backbones/test_backbone"),
    "backbones/two_layers.py": ("finetune", "backbones/test_backbone", "backbones/test_sgc"),
    "learning/calibration.py": ("analytic", "learning/test_calibration"),
    "learning/footprint.py": ("joint", "learning/test_footprint", "methods/test_joint"),
    "learning/gradient.py": (
        "finetune", "learning/test_gradient", "methods/test_finetune", "conformance/test_live_data",
    ),
    "learning/learner.py": ("finetune", "methods/test_finetune", "conformance/test_live_data", "learning/test_saved"),
    "learning/penalty.py": ("ewc", "learning/test_penalty", "methods/test_ewc", "methods/test_twp"),
    "learning/replay.py": (
        "delome", "learning/test_replay", "methods/test_delome", "methods/test_ssm", "methods/test_cat",
    ),
    "learning/scoring.py": ("finetune", "learning/test_scoring", "conformance/test_answers"),
    "learning/training.py": ("finetune", "learning/test_training", "learning/test_gradient"),
    "memories/bank.py": ("ssm", "memories/test_bank", "methods/test_ssm"),
    "memories/builder.py": ("delome", "memories/test_builder", "conformance/test_recurring"),
    "memories/curvature.py": ("sem", "memories/test_curvature", "memories/test_subgraph"),
    "memories/descent.py": ("cat", "memories/test_descent", "memories/test_distribution_matching"),
    "memories/distribution_matching.py": ("cat", "memories/test_distribution_matching", "methods/test_cat"),
    "memories/experience.py": ("ergnn", "memories/test_experience", "methods/test_ergnn"),
    "memories/gradient_matching.py": ("delome", "memories/test_gradient_matching", "methods/test_delome"),
    "memories/initial.py": (
        "delome", "memories/test_initial", "memories/test_gradient_matching", "methods/test_delome",
    ),
    "memories/kernel.py": ("delome", "memories/test_kernel", "memories/test_kernel_matching"),
    "memories/lbfgs.py": ("delome", "memories/test_lbfgs", "memories/test_kernel_matching"),
    "memories/matching.py": ("delome", "memories/test_kernel_matching", "memories/test_distribution_matching"),
    "memories/mmd.py": ("delome", "memories/test_kernel", "memories/test_kernel_matching"),
    "memories/by_class.py": ("delome", "memories/test_kernel_matching", "memories/test_distribution_matching"),
    "memories/kernel_matching.py": (
        "delome", "memories/test_kernel_matching", "memories/test_kernel", "methods/test_delome",
    ),
    "memories/memory.py": ("ssm", "memories/test_merging", "memories/test_bank"),
    "memories/merging.py": ("replay", "memories/test_merging", "conformance/test_recurring"),
    "memories/prototypes.py": ("hpns", "memories/test_prototypes", "methods/test_hpns"),
    "memories/rows.py": ("replay", "memories/test_rows", "methods/test_replay"),
    "memories/subgraph.py": ("ssm", "memories/test_subgraph", "methods/test_ssm"),
    "methods/ewc.py": ("ewc", "methods/test_ewc", "learning/test_penalty"),
    "methods/mas.py": ("mas", "methods/test_mas", "learning/test_penalty"),
    "methods/replay.py": ("replay", "methods/test_replay"),
}  # fmt: skip
"""The method that a file is run by in the conformance suite, and its tests, where they are not those of its name."""

COSTS_ONLY = {
    "BLOCK_SIZE", "COSINES_AT_ONCE", "ROWS_AT_ONCE", "NODES_AT_ONCE", "CHUNK_ROWS", "MOST_WEIGHTS", "PATHS_COUNTED",
    "SPARE_DIRECTIONS", "RIDGE", "HISTORY", "BATCH_ABOVE", "MEASURED_ROWS", "REAL_BATCH", "NODES_COMPARED",
    "TINY", "CPU",
}  # fmt: skip
LEFT_OUT_KEYWORDS = {"strict", "dtype", "device", "fused", "dim", "axis", "kind", "keepdim", "keepdims", "minlength"}
LEFT_OUT_FIELDS = {"annotation", "returns", "decorator_list", "args", "bases", "type_comment", "ctx"}
SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
SWAPPED_NAMES = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin",
    "sum": "mean", "mean": "sum", "zeros_like": "ones_like", "zeros": "ones", "amax": "amin", "ceil": "floor",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A file of the package with one change."""

    file: str
    line: int
    before: str
    after: str
    source: str


def is_left_out(node: ast.AST) -> bool:
    """Whether nothing in this part of the code could make a difference to what is learned."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.withitem():
            return True
        case (
            ast.Expr(value=ast.Constant())
            | ast.AnnAssign(value=ast.Constant())
            | ast.AnnAssign(annotation=ast.Subscript())
        ):
            return True  # texts, declarations
        case ast.If(test=test, body=body):
            depends = ast.unparse(test)
            return isinstance(body[0], ast.Raise | ast.ImportFrom) or "isinstance" in depends or "device" in depends
        case ast.FunctionDef(name=name):
            return name == "__repr__"
        case ast.Assign(targets=[ast.Name(id=name) | ast.Tuple(elts=[ast.Name(id=name), *_])]):
            return name in COSTS_ONLY or name in ("__all__", "search")
        case ast.Expr(value=ast.Call(func=ast.Name(id="step"))):
            return True
        case ast.keyword(arg=name):
            return name in LEFT_OUT_KEYWORDS
        case ast.Call(func=ast.Name(id="cast" | "isinstance" | "FootprintFormula" | "TypeVar" | "blocks")):
            return True
    return False


def places(node: ast.AST) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    """Every node of code that matters, and how another is put in its place."""
    for name, value in ast.iter_fields(node):
        if name in LEFT_OUT_FIELDS and not (name == "args" and isinstance(node, ast.Call)):
            continue
        children = enumerate(value) if isinstance(value, list) else [(name, value)]
        for key, child in children:
            if isinstance(child, ast.AST) and not is_left_out(child):
                yield child, partial(value.__setitem__ if isinstance(value, list) else partial(setattr, node), key)
                yield from places(child)


def changes(node: ast.AST, defaults: dict[str, Any]) -> Iterator[ast.AST]:
    """Nodes that mean something else."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPPED:
            yield ast.BinOp(left, SWAPPED[type(op)](), right)
            yield left
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield ast.Compare(left, [SWAPPED[type(op)]()], [right])
            if isinstance(op, ast.Lt | ast.Gt | ast.LtE | ast.GtE):
                yield (
                    ast.UnaryOp(ast.Not(), node)
                    if isinstance(right, ast.Constant)
                    else ast.Compare(right, [op], [left])
                )
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(SWAPPED[type(op)](), values)
            yield from values
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield body
            yield orelse
        case ast.If(test=test, body=body, orelse=orelse):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)) if value > 1e-6:  # smaller ones keep divisions finite
            yield ast.Constant(2 * value)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in SWAPPED_NAMES:
            yield ast.Call(ast.Name(SWAPPED_NAMES[name]), args, keywords)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args, keywords=keywords):
            if name in SWAPPED_NAMES:
                yield ast.Call(ast.Attribute(value, SWAPPED_NAMES[name]), args, keywords)
            for dropped in keywords:
                if not is_left_out(dropped):
                    yield ast.Call(node.func, args, [each for each in keywords if each is not dropped])
        case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()) if name in defaults:
            yield ast.Constant(defaults[name])
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Assign(targets=[ast.Attribute()]):
            yield ast.Pass()
        case ast.For(target=target, iter=sequence, body=body) if "raise" not in ast.unparse(node):
            yield ast.For(target, sequence, [*body, ast.Break()], [])


def defaults_of(tree: ast.AST) -> dict[str, Any]:
    """Constant defaults of the fields that classes declare."""
    return {
        node.target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }


def mutants_of(files: list[Path], rng: random.Random) -> list[Mutant]:
    """One change of each place that has any, the places in random order, evenly spread over the files."""
    trees = {file: ast.parse(file.read_text()) for file in files}
    inherited = {name: value for tree in trees.values() for name, value in defaults_of(tree).items()}
    spread = []
    for file, tree in trees.items():
        defaults = inherited | defaults_of(tree)
        found = [(node, put, options) for node, put in places(tree) if (options := [*changes(node, defaults)])]
        rng.shuffle(found)
        for number, (node, put, options) in enumerate(found):
            change = rng.choice(options)
            before, after = (ast.unparse(ast.fix_missing_locations(each)) for each in (node, change))
            put(change)
            assert isinstance(node, ast.stmt | ast.expr)
            mutant = Mutant(str(file.relative_to(PACKAGE)), node.lineno, before, after, ast.unparse(tree))
            put(node)
            spread.append(((number + rng.random()) / len(found), mutant))
    return [mutant for _, mutant in sorted(spread, key=lambda each: each[0])]


def run_tests(package: str, arguments: list[str]) -> None:
    """Runs tests against a copy of the package, in a process of its own; exits with pytest's code."""
    import pytest

    sys.path.insert(0, package)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    os._exit(pytest.main(["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *arguments]))


def is_noticed(mutant: Mutant, package: Path) -> bool:
    """Whether a test fails, or does not end, with the mutant in the place of its file."""
    name = Path(mutant.file).stem
    method, *tests = TESTS.get(mutant.file, (name, f"methods/test_{name}"))
    conformance = [f"tests/conformance/test_{each}.py" for each in ("parameters_matter", "invariants", "methods")]
    quickest = "all_there_is or (other_values or fine_tune or numbers or as_declared or within_budget) and not gcn"
    chosen = f"{method} and not gat and ({'not gcn' if method == 'finetune' else quickest})"
    runs = [[f"tests/{each}.py" for each in tests], [*conformance, "-k", chosen]]
    original = (PACKAGE / mutant.file).read_text()
    (package / mutant.file).write_text(mutant.source)
    try:
        for arguments in runs:
            # forked: torch and pytest are loaded once
            child = multiprocessing.get_context("fork").Process(target=run_tests, args=(str(package.parent), arguments))
            child.start()
            child.join(SECONDS)
            child.kill()
            child.join()
            if child.exitcode:
                return True
        return False
    finally:
        (package / mutant.file).write_text(original)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()

    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.dont_write_bytecode = True  # files of the same second and size would be taken for each other
    import sklearn.cluster  # noqa: F401  # what takes long is loaded before the first fork
    import torch_geometric.data  # noqa: F401

    found = sorted(file for pattern in FILES for file in PACKAGE.glob(pattern) if file.name != "__init__.py")
    files = [file for file in found if file.relative_to(PACKAGE).as_posix() not in NOT_LEARNING]
    mutants = mutants_of(files, random.Random(chosen.seed))
    mutants = [each for each in mutants if f"{each.file}:{each.line}".startswith(chosen.only)][: chosen.count]
    survivors, known_to_pass = [], set()
    with tempfile.TemporaryDirectory() as folder:
        package = Path(shutil.copytree(PACKAGE, Path(folder) / "delome", ignore=shutil.ignore_patterns("__pycache__")))
        for number, mutant in enumerate(mutants, 1):
            start = time.perf_counter()
            if mutant.file not in known_to_pass:
                if is_noticed(replace(mutant, source=(PACKAGE / mutant.file).read_text()), package):
                    raise SystemExit(f"the tests of {mutant.file} fail without any change")
                known_to_pass.add(mutant.file)
            noticed = is_noticed(mutant, package)
            survivors += [] if noticed else [mutant]
            seconds = time.perf_counter() - start
            place = f"{mutant.file}:{mutant.line}"
            verdict = "noticed" if noticed else f"SURVIVED  {mutant.before!r} -> {mutant.after!r}"
            print(f"{number}/{len(mutants)} {seconds:.0f} s {place} {verdict}", file=sys.stderr, flush=True)
    print(f"{len(mutants)} mutants, {len(mutants) - len(survivors)} noticed, {len(survivors)} survived\n")
    print("| where | before | after |\n|---|---|---|")
    for mutant in survivors:
        print(f"| {mutant.file}:{mutant.line} | `{mutant.before}` | `{mutant.after}` |")


if __name__ == "__main__":
    main()

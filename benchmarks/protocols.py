"""Every method under every protocol: writes results/protocols.jsonl, a line for each run, and the tables.

    python benchmarks/protocols.py DATA            runs what is missing; DATA is a folder of npz graphs
    python benchmarks/protocols.py --tables        writes the tables of docs/protocols.md

A line has the whole configuration's hash: what was run with other parameters is run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from delome.experiment import RunConfig, run
from delome.learning import METHODS
from delome.metrics import Score
from delome.streams.cut import CutStream

RESULTS = Path(__file__).parent / "results" / "protocols.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "protocols.md"
START, END = "<!-- tables -->", "<!-- end -->"
GRAPHS = ("amazon_computers", "corafull_knn256", "cora70")
PROTOCOLS: dict[str, dict[str, Any]] = {
    "cut": {},
    "joined": {"test_graph": "joined"},
    "grown": {"test_graph": "grown"},
    "cut, inductive": {"inductive": True},
}
UNGUESSED = "puma, nothing guessed"
COMPARED = (
    "tpp", "tpp-nodes", "delome", "puma", UNGUESSED, "cat", "ssm-uniform", "ergnn", "er", "agem", "prototypes",
    "analytic", "slda", "joint",
)  # fmt: skip
ORDER = (
    "slda", "analytic", "prototypes", "ergnn", "er", "agem", "ssm-uniform", "delome", "cat", "puma", UNGUESSED, "tpp",
    "joint", "tpp-nodes",
)  # fmt: skip
"""The quick ones first."""
TPPS, AT_ONCE = ("tpp", "tpp-nodes"), "joined, all tasks at once"
BY_TIME = ("finetune", "analytic", "slda", "replay", "delome", "joint")
TIME = "time:period=2,start=2009"
SEEDS = 3
BUDGET, EPOCHS, COLUMNS = 20, 100, 512
JOINT_EPOCHS = 25
"""Of Joint an epoch is a pass over all nodes so far, on the graphs of 35 tasks several steps."""
PUMA_EPOCHS = 500
"""As in its paper: each of its networks is a new one."""
RANDOM, PRETRAIN = "features=2048", "pretrain=100"


def options(graph: str, method: str) -> dict[str, Any]:
    """What every run of a method has in common."""
    settings = {"analytic": RANDOM, "slda": RANDOM, "tpp": PRETRAIN, "tpp-nodes": PRETRAIN, UNGUESSED: "confidence=2"}
    own = [settings[method]] if method in settings else []
    method = "puma" if method == UNGUESSED else method
    epochs = JOINT_EPOCHS if method == "joint" and graph != "amazon_computers" else EPOCHS
    epochs = PUMA_EPOCHS if method == "puma" else epochs
    return {"method": method, "budget": BUDGET, "epochs": epochs, "assignments": [f"columns={COLUMNS}", *own]}


def jobs() -> Iterator[tuple[str, str, str, dict[str, Any], int]]:
    """(graph, method, protocol, options of the run, seed), one seed of everything before the next, and of a seed what
    is compared most first."""
    for seed in range(SEEDS):
        for method in BY_TIME:
            yield "arxiv_tape", method, TIME, options("arxiv_tape", method) | {"stream": TIME}, seed
        for protocols in (("cut", "joined"), ("grown", "cut, inductive")):
            for graph in GRAPHS:
                for protocol in protocols:
                    for method in ORDER if protocol in ("cut", "grown") else [m for m in ORDER if m != UNGUESSED]:
                        yield graph, method, protocol, options(graph, method) | PROTOCOLS[protocol], seed


def key(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["graph"], line["method"], line["protocol"], line["seed"], line["hash"]


def hash_of(graph: str, given: dict[str, Any], seed: int) -> str:
    """The hash of a run's configuration, wherever the data is."""
    return RunConfig.resolve(f"file:{graph}.npz", seed=seed, **given).digest


def measured(data: Path, show: bool = True) -> None:
    """Runs what no line of the results tells of."""
    done = {key(line) for line in lines()}
    streams: dict[str, CutStream] = {}
    for graph, method, protocol, given, seed in jobs():
        config = RunConfig.resolve(f"file:{data / graph}.npz", seed=seed, **given)
        about = {"graph": graph, "method": method, "protocol": protocol, "seed": seed}
        about["hash"] = hash_of(graph, given, seed)
        if key(about) in done:
            continue
        if config.stream_key not in streams:
            streams.clear()
            streams[config.stream_key] = config.stream()
        start = time.perf_counter()
        try:
            result = run(config, streams[config.stream_key])
        except MemoryError:
            print(f"{graph} {method} {protocol}: too large", flush=True)
            continue
        found = result.seeds[0]
        numbers = found.summary() | {"seconds": time.perf_counter() - start, "threads": torch.get_num_threads()}
        with RESULTS.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps(about | numbers | {"curve": found.matrix.curve}) + "\n")
        if show:
            print(
                f"{graph} {method} {protocol} seed {seed}: AA {numbers['aa']:.1f}, {numbers['seconds']:.0f} s",
                flush=True,
            )


def measured_at_once(data: Path) -> None:
    """TPP in both forms, asked about the test nodes of all tasks at once in the graph of all tasks."""
    done = {key(line) for line in lines()}
    for seed, graph, method in product(range(SEEDS), GRAPHS, TPPS):
        given = options(graph, method) | PROTOCOLS["joined"]
        about = {"graph": graph, "method": method, "protocol": AT_ONCE, "seed": seed}
        about["hash"] = hash_of(graph, given, seed)
        if key(about) in done:
            continue
        config = RunConfig.resolve(f"file:{data / graph}.npz", seed=seed, **given)
        stream, learner = config.stream(), config.learner(seed)
        for task in stream:
            learner.observe(task)
        seen = stream.seen(stream[-1])
        labels = seen[0].graph.user_labels
        assert labels is not None
        nodes = np.concatenate([task.test for task in seen])
        predicted = learner.predict(seen[0].graph, nodes)
        scores = Score.of_each(predicted, labels[nodes], [len(task.test) for task in seen])
        found = {"aa": mean(score.balanced for score in scores)}
        with RESULTS.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps(about | found) + "\n")
        print(f"{graph} {method} {AT_ONCE}: AA {found['aa']:.1f}", flush=True)


def lines() -> list[dict[str, Any]]:
    """Everything that was measured."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def current_lines() -> list[dict[str, Any]]:
    """What was measured with the parameters that are asked for now."""
    current = {(g, m, p, seed, hash_of(g, given, seed)) for g, m, p, given, seed in jobs()}
    joined = {(g, m, AT_ONCE, *rest) for g, m, p, *rest in current if p == "joined" and m in TPPS}
    return [line for line in lines() if key(line) in current | joined]


def named(method: str) -> str:
    """A method with its marks."""
    name, _, variant = method.partition(",")
    marks = " †" if METHODS[name].judges == "batches" else ""
    marks += " ‡" if METHODS[name].learns_from == "all nodes" and not variant else ""
    return f"`{name}`{marks}" + (f",{variant}" if variant else "")


def cell(found: list[dict[str, Any]], metric: str, sign: str = "") -> str:
    """Mean, and standard deviation of several seeds."""
    values = [line[metric] for line in found if line.get(metric) is not None]
    if not values:
        return "–"
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{mean(values):{sign}.1f}{spread}".replace("-", "−")


def tables() -> str:
    """The tables of the page, in Markdown."""
    known, text = current_lines(), list[str]()
    for graph in GRAPHS:
        own = [line for line in known if line["graph"] == graph]
        head = [f"{graph}", *PROTOCOLS, "seeds"]
        text += ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
        for method in COMPARED:
            of_method = [line for line in own if line["method"] == method]
            cells = [cell([line for line in of_method if line["protocol"] == each], "aa") for each in PROTOCOLS]
            counts = {sum(line["protocol"] == each for line in of_method) for each in PROTOCOLS} - {0} or {0}
            seeds = "–".join(str(count) for count in sorted({min(counts), max(counts)}))
            text.append("| " + " | ".join([named(method), *cells, seeds]) + " |")
        text.append("")
    head = ["asked about", *GRAPHS]
    text += ["| " + " | ".join(head) + " |", "|---|" + "---:|" * len(GRAPHS)]
    for method in TPPS:
        for protocol in ("cut", "joined", AT_ONCE):
            of = [line for line in current_lines() if (line["method"], line["protocol"]) == (method, protocol)]
            cells = [cell([line for line in of if line["graph"] == graph], "aa") for graph in GRAPHS]
            text.append("| " + " | ".join([f"`{method}`, {protocol}", *cells]) + " |")
    text.append("")
    own = [line for line in known if line["graph"] == "arxiv_tape"]
    text += ["| arxiv_tape by time | AA | AF | forward | anytime | seeds |", "|---|" + "---:|" * 5]
    for method in BY_TIME:
        found = [line for line in own if line["method"] == method]
        signs = {"aa": "", "af": "+", "forward": "", "anytime": ""}
        cells = [cell(found, metric, sign) for metric, sign in signs.items()]
        text.append("| " + " | ".join([f"`{method}`", *cells, str(len(found))]) + " |")
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--tables", action="store_true")
    asked = parser.parse_args()
    if asked.data is not None:
        measured_at_once(asked.data)
        measured(asked.data)
    if asked.tables:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{START}\n{tables()}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Growth with the size of a graph: DeLoMe (SGC, CIL, 400 rows per class) on generated twins of ogbn-products.

    python benchmarks/scale.py [--twin products] [--scales 0.01 0.03 0.1 0.3 1] [--tasks 3] [--epochs 20] [--json]
    python benchmarks/scale.py --full [--twin reddit]        # the complete stream at scale 1

Every scale runs in a process of its own, so that peak memory is its own. Prints nodes, edges, seconds by phase, peak
RSS, and the exponents of the growth of seconds per task against edges, fitted over all scales (1 is linear).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

PHASES = ("prepare", "train", "memory", "evaluate")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """One scale, in this process."""
    from delome import DeLoMe, TaskStream, load_graph
    from delome.progress import Tracker

    # the first steps of a process pay for lazy initialisation and are not counted
    DeLoMe(budget=2, epochs=1).observe(TaskStream(load_graph("synthetic", nodes=200, classes=4))[0])
    start = time.perf_counter()
    graph = load_graph(f"synthetic:{arguments.twin},scale={arguments.scales[0]}")
    generated = time.perf_counter() - start
    made = peak_gigabytes()
    stream = TaskStream(graph)
    learner = DeLoMe(budget=arguments.budget, epochs=arguments.epochs)
    seconds = dict.fromkeys(("cut", *PHASES), 0.0)
    tasks = list(stream)[: arguments.tasks or None]
    nodes = edges = 0
    for task in tasks:
        start = time.perf_counter()
        nodes, edges = nodes + task.graph.num_nodes, edges + task.graph.num_edges
        seconds["cut"] += time.perf_counter() - start
        tracker = Tracker()
        learner.observe(task, tracker)
        with tracker.phase("evaluate"):
            accuracies = learner.evaluate(stream.seen(task))
        for phase in PHASES:
            seconds[phase] += tracker.seconds.get(phase, 0.0)
        print(f"scale {arguments.scales[0]}: task {task.index}, AA {np.mean(accuracies):.1f}", file=sys.stderr)
    return {
        "scale": arguments.scales[0],
        "graph": {"nodes": graph.num_nodes, "edges": graph.num_edges},
        "tasks": {"count": len(tasks), "nodes": nodes, "edges": edges},
        "generated": {"seconds": generated, "peak_gb": made},
        "seconds": seconds,
        "peak_gb": peak_gigabytes(),
        "aa": float(np.mean(accuracies)),
    }


def peak_gigabytes() -> float:
    """Peak resident memory of this process so far; Linux counts kilobytes, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def exponents(results: list[dict[str, Any]]) -> dict[str, float]:
    """Slope of log seconds per task against log edges per task, for each phase and in total."""
    edges = np.log([result["tasks"]["edges"] / result["tasks"]["count"] for result in results])
    found = {}
    for phase in ("cut", *PHASES, "total"):
        seconds = [
            sum(result["seconds"].values()) if phase == "total" else result["seconds"][phase] for result in results
        ]
        found[phase] = float(np.polyfit(edges, np.log(np.maximum(seconds, 1e-3)), 1)[0])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--twin", default="products", choices=("corafull", "arxiv", "reddit", "products"))
    parser.add_argument("--scales", type=float, nargs="+", default=[0.01, 0.03, 0.1, 0.3, 1.0])
    parser.add_argument("--tasks", type=int, default=3, help="tasks of the stream to learn; 0 = all")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--budget", type=int, default=400)
    parser.add_argument("--full", action="store_true", help="all tasks at scale 1")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments)))
        return
    if arguments.full:
        arguments.scales, arguments.tasks = [1.0], 0
    results = []
    for scale in arguments.scales:
        command = [sys.executable, __file__, "--child", "--twin", arguments.twin, "--scales", str(scale)]
        command += [
            "--tasks",
            str(arguments.tasks),
            "--epochs",
            str(arguments.epochs),
            "--budget",
            str(arguments.budget),
        ]
        results.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    growth = exponents(results) if len(results) > 1 else {}
    if arguments.json:
        print(json.dumps({"twin": arguments.twin, "epochs": arguments.epochs, "runs": results, "exponents": growth}))
        return
    print(f"{arguments.twin} twins, {arguments.epochs} epochs, {arguments.budget} rows per class, CIL, SGC")
    phases = "".join(f"{phase:>10}" for phase in ("cut", *PHASES))
    print(f"{'scale':>6}{'nodes':>12}{'edges':>13}{'tasks':>6}{phases}{'peak GB':>9}{'AA':>7}   (seconds)")
    for result in results:
        seconds = "".join(f"{value:10.1f}" for value in result["seconds"].values())
        graph, count = result["graph"], result["tasks"]["count"]
        print(
            f"{result['scale']:6.2f}{graph['nodes']:12,}{graph['edges']:13,}{count:6}{seconds}"
            f"{result['peak_gb']:9.2f}{result['aa']:7.1f}"
        )
    if growth:
        print(
            "seconds per task grow with edges to the power of " + ", ".join(f"{k} {v:.2f}" for k, v in growth.items())
        )


if __name__ == "__main__":
    main()

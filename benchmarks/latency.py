"""Latency of predictions: a few nodes of a large graph, on generated twins of ogbn-products.

    python benchmarks/latency.py [--twin products] [--scale 0.1] [--nodes 1 1000] [--repeat 200] [--backbone sgc]

A network is trained on a small graph; then random nodes of a twin whose propagated features nobody has computed are
classified again and again. Prints p50 and p99 in milliseconds (the first call, which computes the degrees, apart), and
the time of preparing the whole graph for the same question, measured once in the same run, over p50.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from typing import Any

import numpy as np

from delome import FineTune, Graph, load_graph
from delome.graph.graph import SCALE


def milliseconds(learner: FineTune, graph: Graph, nodes: np.ndarray) -> float:
    fresh = graph._like()  # what was computed for an earlier question is forgotten, except degrees
    fresh._cache[SCALE] = graph.scale()
    start = time.perf_counter()
    learner.predict(fresh, nodes=nodes)
    return 1000 * (time.perf_counter() - start)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    graph = load_graph(f"synthetic:{arguments.twin},scale={arguments.scale}")
    learner = FineTune(epochs=1, backbone=arguments.backbone)
    rng = np.random.default_rng(0)
    learner.observe(graph.subgraph(np.arange(min(2000, graph.num_nodes))))
    start = time.perf_counter()
    learner.predict(graph, nodes=[0])
    first = 1000 * (time.perf_counter() - start)
    found: dict[str, Any] = {"nodes": graph.num_nodes, "edges": graph.num_edges, "first_ms": first, "asked": {}}
    for count in arguments.nodes:
        repeat = max(5, arguments.repeat if count == 1 else arguments.repeat // 10)
        took = [milliseconds(learner, graph, rng.choice(graph.num_nodes, count, False)) for _ in range(repeat)]
        p50, p99 = np.percentile(took, [50, 99])
        found["asked"][count] = {"p50_ms": float(p50), "p99_ms": float(p99)}
    start = time.perf_counter()
    learner.network.prepare(graph)
    found["whole_ms"] = 1000 * (time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found | {"peak_gb": peak / (1e9 if sys.platform == "darwin" else 1e6)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--twin", default="products")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 1000])
    parser.add_argument("--repeat", type=int, default=200, help="questions about one node; a tenth of it about more")
    parser.add_argument("--backbone", default="sgc", choices=("sgc", "gcn", "gat"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments)
    if arguments.json:
        print(json.dumps({"twin": arguments.twin, "scale": arguments.scale, **found}))
        return
    print(f"{arguments.twin} twin, scale {arguments.scale:g}: {found['nodes']:,} nodes, {found['edges']:,} edges")
    print(f"whole graph {found['whole_ms']:.0f} ms, first question {found['first_ms']:.1f} ms")
    for count, took in found["asked"].items():
        ratio = found["whole_ms"] / took["p50_ms"]
        print(
            f"{count:5} nodes: p50 {took['p50_ms']:8.2f} ms   p99 {took['p99_ms']:8.2f} ms   whole / p50 {ratio:7.1f}"
        )
    print(f"peak {found['peak_gb']:.1f} GB")


if __name__ == "__main__":
    main()

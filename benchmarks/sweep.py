"""How much faster two jobs are than one, and that they measure the same: 2 methods × 2 budgets × 3 seeds on two graphs.

    python benchmarks/sweep.py [--graph cora_ml.npz] [--epochs 100] [--jobs 2]

Both sweeps run with one thread for each job. Needs as many free cores as jobs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from delome.experiment.plan import Plan
from delome.experiment.seed_folder import RESULT_KIND
from delome.experiment.sweep import run_sweep
from delome.persistence.documents import read_document


def measured(out: Path) -> dict[str, object]:
    files = out.glob("*/seed-*/result.json")
    return {str(file.relative_to(out)): read_document(file, RESULT_KIND)["matrix"] for file in files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    datasets = ["digits", *([f"file:{arguments.graph}"] if arguments.graph else [])]
    plan = Plan(
        {
            "dataset": datasets,
            "method": ["delome", "ergnn"],
            "budget": [5, 20],
            "seeds": 3,
            "epochs": arguments.epochs,
        }
    )
    seconds, results = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for jobs in (1, arguments.jobs):
            start = time.perf_counter()
            state = run_sweep(plan.configs(), Path(folder) / str(jobs), jobs=jobs)
            seconds[jobs], results[jobs] = time.perf_counter() - start, measured(Path(folder) / str(jobs))
            print(f"{jobs} jobs: {len(state.done)} runs", flush=True)
    same = results[1] == results[arguments.jobs]
    ratio = seconds[1] / seconds[arguments.jobs]
    print(
        f"{arguments.jobs} jobs are {ratio:.2f} times as fast as one; results are {'identical' if same else 'OTHERS'}"
    )


if __name__ == "__main__":
    main()

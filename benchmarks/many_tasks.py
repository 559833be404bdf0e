"""Streams of many tasks: what a task costs when 250, 500 and 1,000 came before it.

    python benchmarks/many_tasks.py [--tasks 250 500 1000] [--method finetune] [--json]

Tasks of two classes with six nodes each, two epochs, a run folder with checkpoints. Prints for each length of the
stream the seconds per task, those of the last fifth of its tasks over those of the second, and the seconds by phase.
Seconds per task are those of the processor, so that other jobs and slow disks do not count.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from delome.experiment import RunConfig, RunFolder, run
from delome.progress import Tracker


def measure(tasks: int, method: str) -> dict[str, Any]:
    """One stream."""
    config = RunConfig.resolve(
        f"synthetic:nodes={12 * tasks},classes={2 * tasks}", method, epochs=2, **{"budget": 1} if keeps(method) else {}
    )
    stream = config.stream()
    starts = []

    def make_tracker(*_: int) -> Tracker:
        starts.append(time.process_time())
        return Tracker()

    with tempfile.TemporaryDirectory() as place:
        begin = time.perf_counter()
        with RunFolder.open(Path(place) / "run", config, stream) as folder:
            result = run(config, stream, folder, make_tracker)
        starts.append(time.process_time())
        elapsed = time.perf_counter() - begin
        size = sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file())
    each = np.diff(starts)[:-1]  # the last one writes the whole result, once
    fifth = tasks // 5
    return {
        "tasks": tasks,
        "per_task": float(np.mean(each)),
        "growth": float(np.median(each[-fifth:]) / np.median(each[fifth : 2 * fifth])),
        "end": float(starts[-1] - starts[-2]),
        "elapsed": elapsed,
        "phases": result.seconds,
        "folder_bytes": size,
    }


def keeps(method: str) -> bool:
    return RunConfig.resolve("digits", method).budget is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--method", default="finetune")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    measure(10, arguments.method)  # the first run of a process pays for lazy initialisation and is not counted
    for tasks in arguments.tasks:
        found = measure(tasks, arguments.method)
        if arguments.json:
            print(json.dumps({"method": arguments.method, **found}), flush=True)
            continue
        phases = ", ".join(f"{name} {seconds:.1f}" for name, seconds in found["phases"].items())
        print(
            f"{tasks:5} tasks: {1000 * found['per_task']:7.1f} ms of processor a task, last fifth / second fifth "
            f"{found['growth']:.2f}, last task and result {found['end']:.1f} s, "
            f"folder {found['folder_bytes'] / 1e6:.1f} MB; elapsed {found['elapsed']:.0f} s ({phases})",
            flush=True,
        )


if __name__ == "__main__":
    main()

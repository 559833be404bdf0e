"""Cost of durability: what checkpoints add to the time of a run.

    python benchmarks/durability.py --dataset file:PATH [--method delome] [--budget 60] [--epochs 200] [--every 60]

`share` is the time of writing checkpoints over the time of everything else in the same run: learning, memories and
evaluation. `against_none` compares the whole run with one that writes nothing, made before it in the same process; it
includes everything (locks, events, reading back), but also the noise of two separate runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from delome.experiment import RunConfig, RunFolder, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--method", default="delome")
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--every", type=float, default=60, help="seconds between checkpoints inside a task")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # the first run of a process pays for lazy initialisation and is not counted
    warm_up = RunConfig.resolve("synthetic:nodes=200,classes=4", "delome", epochs=1)
    run(warm_up, warm_up.stream())
    config = RunConfig.resolve(arguments.dataset, arguments.method, budget=arguments.budget, epochs=arguments.epochs)
    print("running without a folder", file=sys.stderr)
    stream = config.stream()
    start = time.perf_counter()
    run(config, stream)
    without = time.perf_counter() - start
    print("running with checkpoints", file=sys.stderr)
    stream = config.stream()
    with tempfile.TemporaryDirectory(dir=".") as place:
        start = time.perf_counter()
        with RunFolder.open(Path(place) / "run", config, stream) as folder:
            result = run(config, stream, folder, checkpoint_every=arguments.every)
        total = time.perf_counter() - start
        size = sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file())
        events = [json.loads(line)["event"] for line in (Path(place) / "run" / "events.jsonl").read_text().splitlines()]
    checkpoint = result.seconds["checkpoint"]
    rest = sum(result.seconds.values()) - checkpoint
    row = {
        "checkpoints": events.count("checkpoint") + events.count("task"),
        "checkpoint_seconds": checkpoint,
        "other_seconds": rest,
        "share": checkpoint / rest,
        "against_none": total / without,
        "folder_bytes": size,
    }
    if arguments.json:
        print(json.dumps({"dataset": arguments.dataset, "method": arguments.method, "every": arguments.every, **row}))
        return
    print(
        f"{row['checkpoints']} checkpoints took {checkpoint:.2f} s, the rest of the run {rest:.1f} s: "
        f"share {row['share']:.2%}"
    )
    print(f"whole run with / without a run folder: {row['against_none']:.3f}; folder {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

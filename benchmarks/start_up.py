"""How long the commands take that learn nothing, against importing torch alone: the best of some starts of each.

    python benchmarks/start_up.py [--starts 5]

Needs a free core.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

BASELINE = ["-c", "import torch"]
COMMANDS = ["--version", "--help", "methods", "methods delome", "datasets", "run --help", "run --bugdet 5", "rnu"]


def best_seconds(arguments: list[str], starts: int) -> float:
    seconds = []
    for _ in range(starts):
        begin = time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=5)
    starts = parser.parse_args().starts
    baseline = best_seconds(BASELINE, starts)
    print(f"{'import torch':24} {baseline:5.2f} s")
    for command in COMMANDS:
        seconds = best_seconds(["-m", "delome", *command.split()], starts)
        print(f"{'delome ' + command:24} {seconds:5.2f} s, 1/{baseline / seconds:.1f} of importing torch")


if __name__ == "__main__":
    main()

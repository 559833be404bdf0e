"""Tables of selections that sweeps left: what was tried, what validation nodes said, and what the winner came to.

    delome sweep benchmarks/plans/selection-honest.toml --out FOLDER
    python benchmarks/selections.py keep FOLDER [--results FILE]    # adds what it finds to lines of JSON
    python benchmarks/selections.py write [--page FILE]             # writes the tables between their markers

A marker is `<!-- selections: PROTOCOL -->` or `<!-- selections: means -->`, the mean of each candidate over graphs and
settings of the honest table.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from delome.experiment.seed_folder import finished_result
from delome.experiment.selection import FOLDER, KIND, in_words
from delome.persistence.documents import read_document

KEYS = ("protocol", "dataset", "columns", "backbone", "tasks", "setting", "method")
MARKED = re.compile(r"(?P<start><!-- selections: (?P<what>\w+) -->\n).*?(?P<end><!-- end -->)", re.S)


def selections(folder: Path) -> list[dict[str, Any]]:
    """Every selection below a folder; of winners that are not finished there is no AA."""
    found = []
    for file in sorted((folder / FOLDER).glob("*.json")):
        document = read_document(file, KIND)
        best = document["candidates"][document["winner"]]
        results = [finished_result(folder / best["whole"], seed) for seed in document["seeds"]]
        finished = [result for result in results if result is not None]
        if len(finished) < len(results):
            finished = []
        run = document["run"]
        found.append(
            {
                "protocol": document["protocol"],
                "dataset": re.sub(r"^file:(.*/)?|\.npz$", "", run["dataset"]),
                "columns": run["parameters"]["reading"]["columns"],
                "backbone": run["parameters"].get("backbone", {}).get("name", "sgc"),
                "tasks": run["tasks"],
                "method": run["method"],
                "setting": run["parameters"]["setting"],
                "candidates": [
                    {"chosen": each["chosen"], "validation_aa": each["validation_aa"]}
                    for each in document["candidates"]
                ],
                "winner": best["chosen"],
                "aa": [result["aa"] for result in finished],
                "validation_aa": [result["validation_aa"] for result in finished],
            }
        )
    return found


def table(lines: list[dict[str, Any]], protocol: str) -> str:
    rows = ["| graph | setting | method | candidates: validation AA | winner | its AA |", "|---|---|---|---|---|---:|"]
    for line in lines:
        if line["protocol"] != protocol:
            continue
        tried = "; ".join(
            f"{in_words(each['chosen'])}: {mean(each['validation_aa']):.1f}" for each in line["candidates"]
        )
        graph = line["dataset"] + ("" if line["tasks"] is None else f", first {line['tasks']} tasks")
        graph += "" if line["columns"] is None else f", {line['columns']} columns"
        graph += "" if line["backbone"] == "sgc" else f", {line['backbone'].upper()}"
        spread = f" ± {stdev(line['aa']):.1f}" if len(line["aa"]) > 1 else ""
        own = f"{mean(line['aa']):.1f}{spread}" if line["aa"] else "–"
        rows.append(
            f"| {graph} | {line['setting'].upper()} | `{line['method']}` | {tried} | {in_words(line['winner'])} "
            f"| {own} |"
        )
    return "\n".join(rows)


def means(lines: list[dict[str, Any]], protocol: str) -> str:
    """Mean validation AA of each candidate over graphs and settings; the best is in bold."""
    found: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        if line["protocol"] == protocol:
            for each in line["candidates"]:
                scores = found.setdefault(line["method"], {}).setdefault(in_words(each["chosen"]), [])
                scores.append(mean(each["validation_aa"]))
    rows = ["| method | mean validation AA of candidates |", "|---|---|"]
    for method, candidates in found.items():
        best = max(map(mean, candidates.values()))
        texts = [f"{name}: {mean(scores):.1f}" for name, scores in candidates.items()]
        marked = [
            f"**{text}**" if mean(scores) == best else text
            for text, scores in zip(texts, candidates.values(), strict=True)
        ]
        rows.append(f"| `{method}` | {'; '.join(marked)} |")
    return "\n".join(rows)


def write(page: Path, lines: list[dict[str, Any]]) -> None:
    def replaced(marked: re.Match[str]) -> str:
        text = means(lines, "honest") if marked["what"] == "means" else table(lines, marked["what"])
        return f"{marked['start']}{text}\n{marked['end']}"

    page.write_text(MARKED.sub(replaced, page.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("keep", "write"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/selections.jsonl"))
    parser.add_argument("--page", type=Path, default=Path("docs/methods.md"))
    arguments = parser.parse_args()
    lines = (
        [json.loads(line) for line in arguments.results.read_text().splitlines()] if arguments.results.exists() else []
    )
    if arguments.command == "write":
        write(arguments.page, lines)
        return
    fresh = {tuple(line[key] for key in KEYS): line for line in [*lines, *selections(arguments.folder)]}
    ordered = sorted(fresh.values(), key=lambda line: [str(line[key]) for key in KEYS])
    arguments.results.write_text("".join(json.dumps(line) + "\n" for line in ordered))


if __name__ == "__main__":
    main()

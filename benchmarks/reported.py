"""Writes the tables of docs/reported-and-measured.md from CSV files that `delome paper` left and that are kept here.

    delome paper cil,til --datasets file:… --out FOLDER
    python benchmarks/reported.py keep FOLDER [--as NAME]    # takes FOLDER/paper/*.csv into results/paper/NAME
    python benchmarks/reported.py write                      # writes the tables between their markers

What was kept before and is measured again is replaced, the rest stays. A marker is
`<!-- NAME/EXPERIMENT[ METRIC] -->`; what stands between it and `<!-- end -->` becomes a table with a row for each
method and a column for each dataset, or for a curve a table for each dataset with a column for each place. Numbers are
means ± standard deviations over seeds.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Callable
from pathlib import Path

from delome.reporting.names import short_name
from delome.reporting.paper import with_spread

RESULTS = Path("benchmarks/results/paper")
PAGE = Path("docs/reported-and-measured.md")
MARKED = re.compile(
    r"(<!-- (?P<name>[\w.-]+)/(?P<experiment>[\w-]+)(?: (?P<metric>\w+))? -->\n).*?(<!-- end -->)", re.S
)

Lines = list[dict[str, str]]


def table(lines: Lines, metric: str) -> str:
    """Rows by method, columns by dataset; of a curve a table for each dataset, columns by place."""
    lines = [line for line in lines if line["metric"] == metric]
    datasets = list(dict.fromkeys(line["dataset"] for line in lines))
    if any(line["x"] for line in lines):
        curves = [[line for line in lines if line["dataset"] == dataset] for dataset in datasets]
        return "\n".join(_table(own, "x", short_name(own[0]["dataset"]), lambda x: f"{float(x):.3g}") for own in curves)
    return _table(lines, "dataset", "", short_name)


def _table(lines: Lines, across: str, corner: str, heading: Callable[[str], str]) -> str:
    columns, rows = (list(dict.fromkeys(line[name] for line in lines)) for name in (across, "row"))
    cells = {(line["row"], line[across]): _cell(line) for line in lines}
    found = ["| " + " | ".join([corner, *map(heading, columns)]) + " |", "|---|" + "---:|" * len(columns)]
    found += ["| " + " | ".join([row, *(cells.get((row, each), "–") for each in columns)]) + " |" for row in rows]
    return "\n".join(found) + "\n"


def _cell(line: dict[str, str]) -> str:
    if not line["measured"]:
        return "–"
    return with_spread(float(line["measured"]), float(line["std"]) if line["std"] else None, line["metric"])


def read(file: Path) -> Lines:
    with file.open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def write(page: Path, results: Path) -> None:
    def replaced(marked: re.Match[str]) -> str:
        lines = read(results / marked["name"] / f"{marked['experiment']}.csv")
        return f"{marked[1]}{table(lines, marked['metric'] or 'aa')}{marked[5]}"

    text = page.read_text(encoding="utf-8")
    page.write_text(MARKED.sub(replaced, text), encoding="utf-8")


def keep(folder: Path, results: Path, name: str) -> None:
    place = results / name
    place.mkdir(parents=True, exist_ok=True)
    for file in sorted((folder / "paper").glob("*.csv")):
        fresh, kept = {key(line): line for line in read(file)}, place / file.name
        before = {key(line): line for line in (read(kept) if kept.exists() else [])}
        with kept.open("w", encoding="utf-8", newline="") as opened:
            # versions differ in what they write beside the numbers
            columns = dict.fromkeys(name for line in (*fresh.values(), *before.values()) for name in line)
            writer = csv.DictWriter(opened, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows((before | fresh).values())  # what is measured again stays where it was


def key(line: dict[str, str]) -> tuple[str, ...]:
    """Which number of an experiment a line has."""
    return line["dataset"], line["row"], line["x"], line["metric"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    kept = commands.add_parser("keep")
    kept.add_argument("folder", type=Path)
    kept.add_argument("--as", dest="name", default=None)
    written = commands.add_parser("write")
    written.add_argument("--page", type=Path, default=PAGE)
    for each in (kept, written):
        each.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.command == "keep":
        keep(arguments.folder, arguments.results, arguments.name or arguments.folder.name)
    else:
        write(arguments.page, arguments.results)


if __name__ == "__main__":
    main()

"""Writes the tables of docs/reported-and-measured.md from CSV files that `delome paper` left and that are kept here.

    delome paper cil,til --datasets file:… --out FOLDER
    python benchmarks/reported.py keep FOLDER [--as NAME]    # copies FOLDER/paper/*.csv to results/paper/NAME
    python benchmarks/reported.py write                      # writes the tables between their markers

A marker is `<!-- NAME/EXPERIMENT[ METRIC] -->`; what stands between it and `<!-- end -->` is replaced by a table with a
row for each method and a column for each dataset, mean ± standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
from pathlib import Path

RESULTS = Path("benchmarks/results/paper")
PAGE = Path("docs/reported-and-measured.md")
MARKED = re.compile(
    r"(<!-- (?P<name>[\w.-]+)/(?P<experiment>[\w-]+)(?: (?P<metric>\w+))? -->\n).*?(<!-- end -->)", re.S
)

Lines = list[dict[str, str]]


def table(lines: Lines, metric: str) -> str:
    """Rows by method (and place on a curve), columns by dataset."""
    lines = [line for line in lines if line["metric"] == metric]
    datasets = list(dict.fromkeys(line["dataset"] for line in lines))
    rows = list(dict.fromkeys((line["row"], line["x"]) for line in lines))
    placed = any(x for _, x in rows)
    cells = {(line["row"], line["x"], line["dataset"]): _cell(line) for line in lines}
    heads = ["", *(["x"] if placed else []), *map(short, datasets)]
    found = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for row, x in rows:
        own = [cells.get((row, x, dataset), "–") for dataset in datasets]
        found.append("| " + " | ".join([row, *([f"{float(x):.4g}" if x else ""] if placed else []), *own]) + " |")
    return "\n".join(found) + "\n"


def short(dataset: str) -> str:
    """A dataset without its path.

    >>> short("file:data/cora70.npz"), short("digits")
    ('cora70', 'digits')
    """
    return re.sub(r"^file:(.*/)?|\.npz.*$", "", dataset)


def _cell(line: dict[str, str]) -> str:
    if not line["measured"]:
        return "–"
    spread = f" ± {float(line['std']):.1f}" if line["std"] else ""
    return f"{float(line['measured']):.1f}{spread}".replace("-", "−")


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
        shutil.copyfile(file, place / file.name)


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

"""Collection: what all runs below some folders have measured, a record for each seed of each run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from delome.errors import ParameterError, PersistenceError
from delome.experiment.folder import ASKED, CONFIG, CONFIG_KIND, flat_run
from delome.experiment.seed_folder import RESULT, TASKS, read_result
from delome.experiment.selection import FOLDER as SELECTIONS
from delome.experiment.selection import KIND as SELECTION_KIND
from delome.experiment.selection import selected
from delome.persistence.documents import read_document, write_document

INDEX, INDEX_KIND = ".index.json", "index of results"
MOST = 1 << 30
MOST_TASKS = 100
"""Of streams whose accuracy matrices are remembered; those of longer ones are in ``matrix.csv``."""
PRUNED = ("model", "progress")
_BESIDE = re.compile(r"^\.|\.backup-\d+$")
_SEED = re.compile(r"^seed-\d+$")


@dataclass(frozen=True)
class Record:
    """One seed of a run: its configuration (parameters under dotted names), how it was measured, and what came out.

    ``matrix`` has the class-balanced accuracies, of streams of at most `MOST_TASKS` tasks. ``selection`` names the
    protocol by which its parameters were chosen; a ``candidate`` was tried and not chosen.
    """

    folder: str
    run: str
    seed: int
    config: dict[str, Any]
    protocol: dict[str, Any]
    metrics: dict[str, float | None]
    tasks: int
    finished: bool
    curve: list[float]
    matrix: list[list[float]] | None
    selection: str = ""
    candidate: bool = False


def collect(folders: Iterable[str | Path], problems: list[str] | None = None) -> list[Record]:
    """Records of all runs below folders, also of unfinished ones, which may not have learned a task yet; a seed of a
    run counts once, however often it is found, and backups do not count. Of copies the finished one is read; it is a
    candidate only if all are, and was selected as any of them was, so that the order of folders does not matter.

    An index in each folder remembers what was read, so that only what is new or changed is read again. ``problems``
    gets a sentence for each result that cannot be read.
    """
    found: dict[tuple[str, int], _Marked] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise ParameterError(f"'{folder}' is not a folder: give folders of runs or sweeps")
        for each in _with_selections(folder, _records(folder, [] if problems is None else problems)):
            key = each.record.run, each.record.seed
            found[key] = found[key].merged(each) if key in found else each
    return [replace(each.record, selection=_joined(sorted(each.selections))) for each in found.values()]


@dataclass(frozen=True)
class _Marked:
    """A record that is marked as a candidate if it is one, and what has selected it."""

    record: Record
    selections: frozenset[str]

    def merged(self, other: _Marked) -> _Marked:
        """What two copies of a run tell together."""
        finished = other.record if other.record.finished and not self.record.finished else self.record
        record = replace(finished, candidate=self.record.candidate and other.record.candidate)
        return _Marked(record, self.selections | other.selections)


def _records(root: Path, problems: list[str]) -> list[Record]:
    known = _index(root)
    fresh: dict[str, Any] = {}
    configs: dict[Path, dict[str, Any]] = {}
    for file in _result_files(root):
        name = str(file.relative_to(root))
        stamp = _stamp(file)
        entry = known.get(name)
        if entry is None or entry["stamp"] != stamp:
            try:
                record = _read(file, configs)
            except (PersistenceError, KeyError, TypeError, AttributeError, ValueError, OSError) as error:
                reason = str(error) if isinstance(error, PersistenceError) else f"'{file}' is damaged"
                problems.append(f"{reason}; it is left out")
                continue
            entry = {"stamp": stamp, "record": asdict(record)}
        fresh[name] = entry
    if fresh != known and not (root / CONFIG).exists():  # a run folder is read as fast without one
        with suppress(OSError, PersistenceError):  # on a read-only disk everything is read again
            write_document(root / INDEX, INDEX_KIND, {"files": fresh})
    # the folder may have been moved since
    return [Record(**entry["record"] | {"folder": str((root / name).parents[1])}) for name, entry in fresh.items()]


def _index(root: Path) -> dict[str, Any]:
    try:
        files = read_document(root / INDEX, INDEX_KIND, MOST)["files"]
        for entry in files.values():
            Record(**entry["record"])
        return dict(files)
    except (PersistenceError, KeyError, TypeError, AttributeError):
        return {}


def _result_files(root: Path) -> Iterator[Path]:
    """Where each seed has, or will have, what it has measured."""
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in PRUNED and not _BESIDE.search(name))
        if found := [name for name in (RESULT, TASKS) if name in files]:
            yield Path(place) / found[0]
        elif _SEED.search(Path(place).name) and (Path(place).parent / CONFIG).exists():
            yield Path(place) / TASKS


def _stamp(file: Path) -> list[int]:
    """Tells the states of a file apart; nothing of one that is not there."""
    try:
        state = file.stat()
    except FileNotFoundError:
        return []
    return [state.st_mtime_ns, state.st_size]


def _read(file: Path, configs: dict[Path, dict[str, Any]]) -> Record:
    """The record of a seed."""
    folder = file.parent.parent
    if folder not in configs:
        configs[folder] = read_document(folder / CONFIG, CONFIG_KIND, MOST)
    run, stream = configs[folder]["run"], configs[folder]["stream"]
    begun = Record(
        folder=str(folder),
        run=str(configs[folder]["hash"]),
        seed=int(file.parent.name.rpartition("-")[2]),
        config=flat_run(run),
        protocol={
            "split": _in_words(stream.get("split")),
            "classes per task": stream.get("classes_per_task"),
            "tasks": len(stream["tasks"]),
            "graph": str(stream["graph"]["sha256"])[:8] if "graph" in stream else None,
        },
        metrics={},
        tasks=0,
        finished=False,
        curve=[],
        matrix=None,
    )
    found = read_result(file, MOST) if file.exists() else None
    if found is None or not found["tasks"]:
        return begun
    metrics = {name: value for name, value in found.items() if isinstance(value, float) or value is None}
    metrics.pop("model", None)
    metrics |= {"seconds": sum(found["seconds"].values()), "bytes": float(found["memory"]["bytes"])}
    return replace(
        begun,
        run=str(found["run"]),
        seed=int(found["seed"]),
        metrics=metrics,
        tasks=len(found["tasks"]),
        finished=bool(found["finished"]),
        curve=[round(float(value), 3) for value in found["curve"]],
        matrix=_rounded(found["matrix"]) if len(found["tasks"]) <= MOST_TASKS else None,
    )


def _rounded(rows: Any) -> list[list[float]]:
    return [[round(float(value), 3) for value in row] for row in rows]


def _in_words(split: Any) -> str:
    if not isinstance(split, dict):
        return "unknown"
    return " ".join(str(value)[:16] for value in split.values())


def _with_selections(root: Path, records: list[Record]) -> list[_Marked]:
    """The records, with those that a selection has chosen or only tried marked."""
    chosen: dict[str, set[str]] = {}
    tried: set[str] = set()
    # a folder may be that of a run: selections are beside it then
    beside = {Path(record.folder).absolute().parent for record in records} - {root.absolute()}
    files = [
        *root.rglob(f"{SELECTIONS}/*.json"),
        *(file for each in beside for file in each.glob(f"{SELECTIONS}/*.json")),
    ]
    for file in sorted({file.absolute() for file in files}):
        with suppress(PersistenceError, KeyError, TypeError, IndexError, AttributeError):
            found = read_document(file, SELECTION_KIND, MOST)
            best = found["candidates"][found["winner"]]
            how = selected(found["protocol"], found["tasks"], best["chosen"], found.get("saw_all", False))
            chosen.setdefault(best["whole"], set()).add(how)
            # whole runs too: that of an earlier winner was run only because it won then
            tried |= {each[run] for each in found["candidates"] for run in ("tried", "whole")}
    marked = []
    for record in records:
        name = Path(record.folder).absolute().name
        only_tried = name in tried and name not in chosen and not (Path(record.folder) / ASKED).exists()
        marked.append(_Marked(replace(record, candidate=only_tried), frozenset(chosen.get(name, ()))))
    return marked


def _joined(selections: list[str]) -> str:
    """Selections that have chosen the same run, what they have in common said once.

    >>> _joined(["benchmark: strength 1", "honest (first 3 tasks): strength 1"])
    'benchmark and honest (first 3 tasks): strength 1'
    """
    protocols = {each.partition(": ")[0]: None for each in selections}
    values = {each.partition(": ")[2]: None for each in selections}
    return f"{' and '.join(protocols)}: {values.popitem()[0]}" if len(values) == 1 else " and ".join(selections)

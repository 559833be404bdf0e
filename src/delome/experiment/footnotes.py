"""Footnotes of a table of results: what a reader must know before comparing its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delome.experiment.collection import Record
from delome.experiment.rows import MARKS, Row, marks_of
from delome.experiment.settings import BESIDE, HOW, SELECTION, differing, named, rank, settings_of
from delome.printable import counted, plain

TRAINED = ("epochs", "hidden", "columns")
"""Settings that most methods share and that change what a number is worth: a footnote names methods that differ."""


def footnotes(rows: Sequence[Row], columns: Sequence[str], records: Sequence[Record], candidates: bool) -> list[str]:
    """What must be said of rows that were made of records."""
    shown_records = [record for row in rows for record in row.records]
    notes = [
        *_averaged(rows),
        *_measured_unlike(rows),
        *_trained_unlike(rows, columns),
        *_unusual(shown_records),
        *_marked(shown_records),
    ]
    counts = sorted({len(row.seeds) for row in rows})
    if len(counts) > 1:
        notes.append(f"rows have {counts[0]} to {counts[-1]} seeds")
    notes += _selected(shown_records, columns)
    if unfinished := sum(not record.finished for record in records):
        notes.append(f"{counted(unfinished, 'unfinished run')} {_are(unfinished)} left out")
    if not candidates and (left_out := sum(record.candidate and record.finished for record in records)):
        tried = f"{counted(left_out, 'run')} that a selection has only tried {_are(left_out)} left out"
        notes.append(f"{tried} (--candidates shows {'it' if left_out == 1 else 'them'})")
    return notes


def _averaged(rows: Sequence[Row]) -> list[str]:
    """Says over what rows average beside seeds, and if they do not average over the same."""
    found: dict[str, dict[Any, None]] = {}
    covered: dict[str, set[frozenset[str]]] = {}
    for row in rows:
        settings = [_settings(record) for record in row.records]
        for name in {name for each in settings for name in each} - {*BESIDE, *HOW, SELECTION}:
            values = {each.get(name): None for each in settings}
            covered.setdefault(name, set()).add(frozenset(map(str, values)))
            if len(values) > 1:
                found.setdefault(name, {}).update(values)
    listed = [f"{name} ({', '.join(map(plain, sorted(values, key=rank)))})" for name, values in sorted(found.items())]
    unlike = [name for name in ("dataset", "setting") if name in found and len(covered[name]) > 1]
    notes = [f"rows average over {'; '.join(listed)}"] if listed else []
    return notes + (
        [f"rows do not average over the same {' and '.join(unlike)}: do not compare them"] if unlike else []
    )


def _measured_unlike(rows: Sequence[Row]) -> list[str]:
    """Says of each dataset in what its rows differ, or over what they average, that was not measured alike."""
    notes = []
    for dataset in _datasets([record for row in rows for record in row.records]):
        of_rows = [own for row in rows if (own := [each for each in row.records if each.config["dataset"] == dataset])]
        for name in ("split", *HOW.values(), "classes per task", "tasks"):
            values = [{str(_how(record)[name]) for record in own} for own in of_rows]
            every = ", ".join(sorted(set.union(*values)))
            if all(len(each) == 1 for each in values):
                if len(set.union(*values)) > 1:
                    notes.append(f"rows of {dataset} differ in {name}: {every}; do not compare them")
            elif all(each == values[0] for each in values):
                notes.append(f"rows of {dataset} average over {name}: {every}")
            else:
                notes.append(f"rows of {dataset} do not average over the same {name} ({every}): do not compare them")
        if len({record.protocol.get("graph") for own in of_rows for record in own}) > 1:
            notes.append(f"{dataset} was not the same graph in all runs; do not compare them")
    return notes


def _how(record: Record) -> dict[str, Any]:
    """How a run was measured, by the names that footnotes have for it."""
    of_stream = {name: record.protocol.get(name) for name in ("split", "classes per task", "tasks")}
    settings = _settings(record)
    return of_stream | {called: settings[name] for name, called in HOW.items()}


def _trained_unlike(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Says which methods were trained otherwise than the others; columns of the table speak for themselves."""
    notes = []
    for name in (name for name in TRAINED if name not in columns):
        methods: dict[str, set[str]] = {}
        for row in rows:
            for own in map(_settings, row.records):
                if name in own:
                    methods.setdefault(str(own[name]), set()).add(str(own["method"]))
        if len(methods) > 1:
            usual = max(methods, key=lambda value: len(methods[value]))
            odd = [f"{', '.join(sorted(own))} {value}" for value, own in sorted(methods.items()) if value != usual]
            notes.append(f"methods differ in {name}: {'; '.join(odd)}; others {usual}")
    return notes


def _unusual(records: Sequence[Record]) -> list[str]:
    """Says how all runs of a dataset were measured, if not as the benchmark does."""
    notes = []
    for dataset in _datasets(records):
        own = [_settings(record) for record in records if record.config["dataset"] == dataset]
        same = {name: own[0][name] for name in HOW if len({str(each[name]) for each in own}) == 1}
        odd = [
            f"{HOW[name]} {value}" for name, value in same.items() if value not in ("cut", "transductive", "classes")
        ]
        notes += [f"{dataset} was measured with {', '.join(odd)}"] if odd else []
    return notes


def _marked(records: Sequence[Record]) -> list[str]:
    """Says what marks mean, and whose they are."""
    methods = {
        mark: sorted({str(each.config["method"]) for each in records if mark in marks_of(each.config)})
        for mark in MARKS
    }
    return [f"{mark} {', '.join(methods[mark])}: {meaning}" for mark, meaning in MARKS.items() if methods[mark]]


def _selected(records: Sequence[Record], columns: Sequence[str]) -> list[str]:
    """Says that not all parameters were selected alike, and where no column does, how those of each method were."""
    protocols = sorted({record.selection.partition(": ")[0] for record in records} - {""})
    notes = [f"parameters were selected by different protocols: {'; '.join(protocols)}"] if len(protocols) > 1 else []
    if protocols and not all(record.selection for record in records):
        notes.append("parameters were selected for some rows only")
    if SELECTION in columns:
        return notes
    methods: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record.selection:
            methods.setdefault(str(record.config["method"]), []).append(_settings(record))
    for method, runs in sorted(methods.items()):
        telling = [name for name in differing(runs) if name != SELECTION]
        places: dict[str, dict[str, None]] = {}
        for run in runs:
            places.setdefault(run[SELECTION], {})[named({name: run.get(name) for name in telling})] = None
        several = len(places) > 1
        found = [f"{how} ({' and '.join(where)})" if several else how for how, where in places.items()]
        notes.append(f"parameters of {method} were selected: {'; '.join(found)}")
    return notes


def _datasets(records: Sequence[Record]) -> list[str]:
    return sorted({str(record.config["dataset"]) for record in records})


def _settings(record: Record) -> dict[str, Any]:
    return settings_of(record.config, record.selection)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"

"""Table of results: rows of equal configuration, means over seeds, and which differences are more than luck."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any

from delome.errors import ParameterError, unknown
from delome.experiment.collection import Record
from delome.printable import counted

KEYS = ("dataset", "setting", "method", "backbone", "budget")
"""What a row is always described by; other settings are added if rows differ in them."""

DECLARED = ("asked", "learned_from")
"""Settings that a method decides: marks tell of them."""

BESIDE = ("device", "class_order", "split", "split_seed", "inter_task_edges", "classes_per_task", "tasks", *DECLARED)
"""Settings that are not listed among those a row averages over: how runs were measured has footnotes of its own."""

HOW = {"test_graph": "test graph", "test_nodes": "test nodes", "stream": "stream"}
"""Settings that say how a run was measured, and how footnotes call them: such runs are told apart, and pointed out."""

TRAINED = ("epochs", "hidden", "columns")
"""Settings that most methods share and that change what a number is worth: a footnote names methods that differ."""

TOGETHER, ALL_NODES = "†", "‡"
"""Stand after methods that must be asked about the nodes of one task together, and that learn from test nodes."""

MARKS = {
    TOGETHER: "asked about the nodes of one task together, which tells the task; "
    "not comparable with methods that are asked about each node",
    ALL_NODES: "learned from features of test nodes too, and not only where edges lead from them to training nodes",
}

MEASURED = ("dataset", "setting", "class_order", "inter_task_edges", "test_graph", "inductive", "stream_kind")
"""Settings that rows must share to be compared, beside how they were split."""

EQUAL = 1e-9
"""Share of the largest number below which differences between two are rounding."""

METRICS = ("aa", "af")
LOWER_IS_BETTER = ("seconds", "bytes")


@dataclass(frozen=True)
class Row:
    """Runs of equal configuration: their settings, and a record for each seed."""

    settings: dict[str, Any]
    records: tuple[Record, ...]

    def by_seed(self, metric: str) -> dict[int, float]:
        """The number of each seed; a mean, if the row has several runs of a seed."""
        found: dict[int, list[float]] = {}
        for record in self.records:
            if (value := record.metrics.get(metric)) is not None:
                found.setdefault(record.seed, []).append(value)
        return {seed: mean(values) for seed, values in found.items()}

    def values(self, metric: str) -> list[float]:
        """The numbers of all seeds."""
        return list(self.by_seed(metric).values())

    @property
    def measured(self) -> frozenset[str]:
        """How its numbers came about: datasets, their graphs, splits and tasks, all that makes rows comparable."""
        found = [([each.config.get(name) for name in MEASURED], each.protocol) for each in self.records]
        return frozenset(json.dumps(each, sort_keys=True, default=str) for each in found)

    @property
    def seeds(self) -> list[int]:
        """Different seeds, of which statistics are made."""
        return sorted({record.seed for record in self.records})

    @property
    def mark(self) -> str:
        """Stands after the name of a method that knows more than others."""
        found = [record.config for record in self.records]
        marks = {
            TOGETHER: any(config.get("asked") == "together" for config in found),
            ALL_NODES: any(
                config.get("learned_from") == "all nodes" and not config.get("inductive") for config in found
            ),
        }
        return "".join(f" {mark}" for mark, stands in marks.items() if stands)

    def spread(self, metric: str) -> tuple[float, float] | None:
        """Mean and standard deviation over seeds; none if it is undefined."""
        values = self.values(metric)
        return (mean(values), stdev(values) if len(values) > 1 else 0.0) if values else None


@dataclass(frozen=True)
class Comparison:
    """Two methods on the same data: mean difference over common seeds, its 95 % interval, p of a paired t-test.

    Of one seed, or of seeds that all differ by the same, there is no test.
    """

    settings: dict[str, Any]
    first: str
    second: str
    seeds: int
    difference: float
    low: float | None
    high: float | None
    p: float | None

    def in_words(self, metric: str) -> str:
        given = [(name, value) for name, value in self.settings.items() if value is not None]
        where = ", ".join(str(value) if name in KEYS else f"{name} {value}" for name, value in given)
        start = f"{self.first} − {self.second} ({where}): {metric.upper()} {self.difference:+.2f}"
        if self.p is None or self.low is None or self.high is None:
            why = "too few for a test" if self.seeds < 2 else "no spread over seeds"
            return f"{start}, {self.seeds} common seeds: {why}"
        return f"{start}, 95 % interval {self.low:+.2f} to {self.high:+.2f}, p = {self.p:.3g}, {self.seeds} seeds"


@dataclass
class ResultTable:
    """Rows, the settings that are columns, the numbers that are shown, and what a reader must know about them."""

    rows: list[Row]
    columns: list[str]
    metrics: list[str]
    footnotes: list[str] = field(default_factory=list)

    def best(self, metric: str) -> set[int]:
        """Numbers of the rows with the best mean among those of the same setting that were measured alike."""
        groups: dict[Any, list[tuple[float, int]]] = {}
        sign = -1 if metric in LOWER_IS_BETTER else 1
        for number, row in enumerate(self.rows):
            if (found := row.spread(metric)) is not None:
                key = row.settings.get("dataset"), row.settings.get("setting"), row.measured
                groups.setdefault(key, []).append((sign * found[0], number))
        winners = {key: max(group)[0] for key, group in groups.items() if len(group) > 1}
        return {number for key, group in groups.items() for value, number in group if value == winners.get(key)}

    def compare(self, first: str, second: str, metric: str) -> list[Comparison]:
        """Differences between rows of two methods that were measured alike, by a paired test over seeds."""
        if self.rows and "method" not in self.columns:
            raise ParameterError("methods can be compared only if rows are told apart by method: add it to --by")
        known = {str(row.settings["method"]) for row in self.rows}
        for name in (first, second):
            if name not in known:
                raise ParameterError(unknown("method in these results", name, known))
        of = {name: [row for row in self.rows if row.settings["method"] == name] for name in (first, second)}
        pairs = [(one, two) for one in of[first] for two in of[second] if _is_comparable(one, two)]
        found = [_paired(one, two, metric) for one, two in pairs]
        if not any(found):
            raise ParameterError(
                f"no runs of {first} and {second} share dataset, setting, backbone, budget, how they were measured "
                "(graph, split, tasks) and a seed"
            )
        return [comparison for comparison in found if comparison is not None]


def _beside(one: Row, two: Row) -> dict[str, tuple[Any, Any]]:
    """All that describes two rows but the method."""
    names = [name for name in dict.fromkeys([*KEYS, *one.settings]) if name != "method"]
    return {name: (one.settings.get(name), two.settings.get(name)) for name in names}


def _is_comparable(one: Row, two: Row) -> bool:
    """Whether two rows share what describes both: a method without a memory has no budget to share."""
    pairs = [pair for name, pair in _beside(one, two).items() if name in KEYS]
    return one.measured == two.measured and all(a == b or a is None or b is None for a, b in pairs)


def _joint(a: Any, b: Any) -> Any:
    """A setting of two rows: of one of them if the other has none, and of both if they differ."""
    if a is None or b is None:
        return b if a is None else a
    return a if a == b else f"{a} against {b}"


def _paired(one: Row, two: Row, metric: str) -> Comparison | None:
    from scipy.stats import ttest_rel  # takes a while to import

    own, theirs = one.by_seed(metric), two.by_seed(metric)
    pairs = [(value, theirs[seed]) for seed, value in own.items() if seed in theirs]
    if not pairs:
        return None
    differences = [value - other for value, other in pairs]
    low = high = p = None
    scale = max(abs(value) for pair in pairs for value in pair)
    if max(differences) - min(differences) > EQUAL * scale:
        test = ttest_rel(*zip(*pairs, strict=True))
        interval = test.confidence_interval(0.95)
        low, high, p = float(interval.low), float(interval.high), float(test.pvalue)
    names = str(one.settings["method"]), str(two.settings["method"])
    settings = {name: _joint(*pair) for name, pair in _beside(one, two).items()}
    return Comparison(settings, *names, len(pairs), mean(differences), low, high, p)


def tabulate(
    records: Sequence[Record],
    *,
    by: Iterable[str] | None = None,
    metrics: Iterable[str] | None = None,
    candidates: bool = False,
) -> ResultTable:
    """Finished runs as rows, means over seeds; ``by`` names the settings that tell rows apart.

    Runs that only a selection has tried are left out unless ``candidates`` are wanted.
    """
    finished = [record for record in records if record.finished]
    shown_records = [record for record in finished if candidates or not record.candidate]
    settings = [_settings(record) for record in shown_records]
    differing = _differing(settings)
    if by is None:
        columns = [key for key in KEYS if any(each.get(key) is not None for each in settings)]
        columns += [name for name in differing if name not in (*columns, "device", "inter_task_edges")]
    else:
        columns = list(by)
        names = {name for each in settings for name in each}
        if odd := [name for name in columns if name not in names]:
            raise ParameterError(unknown("setting", odd[0], names))
    wanted = list(METRICS if metrics is None else metrics)
    known = {name for record in shown_records for name in record.metrics}
    if shown_records and (odd := [name for name in wanted if name not in known]):
        raise ParameterError(unknown("metric", odd[0], known))
    rows: dict[str, tuple[dict[str, Any], list[Record]]] = {}
    for record, each in zip(shown_records, settings, strict=True):
        own = {name: each.get(name) for name in columns}
        key = record.run if by is None else repr(own)
        rows.setdefault(key, (own, []))[1].append(record)
    table = ResultTable([Row(own, tuple(found)) for own, found in rows.values()], columns, wanted)
    table.rows.sort(key=lambda row: [_rank(row.settings.get(name)) for name in columns])
    table.footnotes = _footnotes(table, records, candidates)
    return table


def _rank(value: Any) -> tuple[bool, float, str]:
    """Numbers in their order, then words in theirs."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return not number, float(value) if number else 0.0, str(value)


def _settings(record: Record) -> dict[str, Any]:
    """Settings under the shortest names that tell them apart: ``memory.budget`` is called ``budget``."""
    short: dict[str, Any] = {}
    for path, value in record.config.items():
        name = path.rpartition(".")[2]
        short[path if name in short else name] = value
    if record.selection:
        short["selection"] = record.selection
    edges, inductive = short.get("inter_task_edges"), short.pop("inductive", False)
    how = {"test_graph": "grown" if edges else "cut", "test_nodes": "inductive" if inductive else "transductive"}
    return how | {"stream": short.pop("stream_kind", "classes")} | short


def _differing(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Settings that have several values among runs of one method: of another method they are what it is."""
    found: dict[str, None] = {}
    for method in dict.fromkeys(each["method"] for each in settings):
        own = [each for each in settings if each["method"] == method]
        for name in {name: None for each in own for name in each}:
            # what was selected everywhere stands beside the protocol of the selection
            selected = all(f" {name} " in each.get("selection", "") for each in own)
            if len({repr(each.get(name)) for each in own}) > 1 and not selected:
                found[name] = None
    if any("selection" in each for each in settings):
        found["selection"] = None
    return list(found)


def _averaged(table: ResultTable) -> list[str]:
    """Says over what rows average beside seeds, and if they do not average over the same."""
    found: dict[str, dict[Any, None]] = {}
    covered: dict[str, set[frozenset[str]]] = {}
    for row in table.rows:
        settings = [_settings(record) for record in row.records]
        for name in {name for each in settings for name in each} - set(BESIDE):
            values = {each.get(name): None for each in settings}
            covered.setdefault(name, set()).add(frozenset(map(str, values)))
            if len(values) > 1:
                found.setdefault(name, {}).update(values)
    listed = [f"{name} ({', '.join(map(str, sorted(values, key=_rank)))})" for name, values in sorted(found.items())]
    unlike = [name for name in ("dataset", "setting") if name in found and len(covered[name]) > 1]
    notes = [f"rows average over {'; '.join(listed)}"] if listed else []
    return notes + (
        [f"rows do not average over the same {' and '.join(unlike)}: do not compare them"] if unlike else []
    )


def _footnotes(table: ResultTable, records: Sequence[Record], candidates: bool) -> list[str]:
    shown_records = [record for row in table.rows for record in row.records]
    notes = _averaged(table)
    for name in ("split", *HOW, "classes per task", "tasks"):
        for dataset in sorted({str(record.config["dataset"]) for record in shown_records}):
            own = [record for record in shown_records if record.config["dataset"] == dataset]
            values = sorted({str(_settings(each)[name] if name in HOW else each.protocol.get(name)) for each in own})
            if len(values) > 1:
                called = HOW.get(name, name)
                notes.append(f"rows of {dataset} differ in {called}: {', '.join(values)}; do not compare them")
    for dataset in sorted({str(record.config["dataset"]) for record in shown_records}):
        graphs = {record.protocol.get("graph") for record in shown_records if record.config["dataset"] == dataset}
        if len(graphs) > 1:
            notes.append(f"{dataset} was not the same graph in all runs; do not compare them")
    notes += _trained_unlike(table) + _unusual(shown_records)
    for mark, meaning in MARKS.items():
        if marked := sorted({str(row.settings.get("method")) for row in table.rows if mark in row.mark}):
            notes.append(f"{mark} {', '.join(marked)}: {meaning}")
    counts = sorted({len(row.seeds) for row in table.rows})
    if len(counts) > 1:
        notes.append(f"rows have {counts[0]} to {counts[-1]} seeds")
    mixed = {bool(record.selection) for record in shown_records}
    if len(mixed) > 1:
        notes.append("parameters were selected for some rows only")
    if unfinished := sum(not record.finished for record in records):
        notes.append(f"{counted(unfinished, 'unfinished run')} {_are(unfinished)} left out")
    if not candidates and (left_out := sum(record.candidate and record.finished for record in records)):
        tried = f"{counted(left_out, 'run')} that a selection has only tried {_are(left_out)} left out"
        notes.append(f"{tried} (--candidates shows {'it' if left_out == 1 else 'them'})")
    return notes


def _trained_unlike(table: ResultTable) -> list[str]:
    """Says which methods were trained otherwise than the others; columns of the table speak for themselves."""
    notes = []
    for name in (name for name in TRAINED if name not in table.columns):
        methods: dict[str, set[str]] = {}
        for row in table.rows:
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
    for dataset in sorted({str(record.config["dataset"]) for record in records}):
        own = [_settings(record) for record in records if record.config["dataset"] == dataset]
        same = {name: own[0][name] for name in HOW if len({str(each[name]) for each in own}) == 1}
        odd = [
            f"{HOW[name]} {value}" for name, value in same.items() if value not in ("cut", "transductive", "classes")
        ]
        notes += [f"{dataset} was measured with {', '.join(odd)}"] if odd else []
    return notes


def _are(number: int) -> str:
    return "is" if number == 1 else "are"

"""Table of results: rows of equal configuration, means over seeds, and which differences are more than luck."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from delome.errors import ParameterError, unknown
from delome.experiment.collection import Record
from delome.experiment.footnotes import footnotes
from delome.experiment.rows import ALL_NODES, TOGETHER, Row
from delome.experiment.settings import KEYS, PROTOCOL, differing, named, rank, settings_of
from delome.printable import counted, plain

__all__ = ["ALL_NODES", "LOWER_IS_BETTER", "METRICS", "TOGETHER", "Comparison", "ResultTable", "Row", "tabulate"]

EQUAL = 1e-9
"""Share of the largest number below which differences between two are rounding."""

METRICS = ("aa", "af")
LOWER_IS_BETTER = ("seconds", "bytes")

FORWARD = "forward"
CALLED_HERE = {"bwt": "af", "backward": "af", "backward_transfer": "af", "fwt": FORWARD, "forward_transfer": FORWARD}
"""Metrics by the names they have elsewhere."""


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

    marks: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def in_words(self, metric: str) -> str:
        """The difference in a sentence: of what, where, and how sure."""
        where = named({name: value for name, value in self.settings.items() if value is not None})
        first, second = " ".join([self.first, *self.marks[0]]), " ".join([self.second, *self.marks[1]])
        start = f"{first} − {second}{f' ({where})' if where else ''}: {metric.upper()} {_signed(self.difference)}"
        if self.p is None or self.low is None or self.high is None:
            why = "too few for a test" if self.seeds < 2 else "no spread over seeds"
            return f"{start}, {counted(self.seeds, 'common seed')}: {why}"
        interval = f"95 % interval {_signed(self.low)} to {_signed(self.high)}"
        return f"{start}, {interval}, p = {self.p:.3g}, {self.seeds} seeds"


def _signed(difference: float) -> str:
    return f"{difference:+.2f}".replace("-", "−")


@dataclass
class ResultTable:
    """Rows, the settings that are columns, the numbers that are shown, and what a reader must know about them."""

    rows: list[Row]
    columns: list[str]
    metrics: list[str]
    footnotes: list[str] = field(default_factory=list)

    def best(self, metric: str) -> set[int]:
        """Numbers of the rows with the best mean among those that look alike; none if they were not measured alike.

        A method that must be asked about nodes together does not compete with those that are asked about each.
        """
        sign = -1 if metric in LOWER_IS_BETTER else 1
        means = {
            number: sign * mean for number, row in enumerate(self.rows) if (mean := row.mean_of(metric)) is not None
        }
        groups: dict[str, list[int]] = {}
        for number in means:
            seen = [self.rows[number].settings.get(name) for name in PROTOCOL]
            groups.setdefault(repr(seen), []).append(number)
        found: set[int] = set()
        for group in groups.values():
            rows = {number: self.rows[number] for number in group}
            competing = [number for number, row in rows.items() if TOGETHER not in row.marks] or group
            if len({row.measured for row in rows.values()}) == 1 and len(competing) > 1:
                highest = max(means[number] for number in competing)
                found |= {number for number in competing if means[number] == highest}
        return found

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
    """All that describes two rows but the method, whether it is a column or not."""
    names = [name for name in dict.fromkeys([*KEYS, *one.settings]) if name != "method"]
    return {name: (one.shared(name), two.shared(name)) for name in names}


def _is_comparable(one: Row, two: Row) -> bool:
    """Whether two rows share what describes both: a method without a memory has no budget to share."""
    pairs = [pair for name, pair in _beside(one, two).items() if name in KEYS]
    return one.measured == two.measured and all(a == b or a is None or b is None for a, b in pairs)


def _joint(a: Any, b: Any) -> Any:
    """A setting of two rows: of one of them if the other has none, and of both if they differ."""
    if a is None or b is None:
        return b if a is None else a
    return a if a == b else f"{plain(a)} against {plain(b)}"


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
    return Comparison(settings, *names, len(pairs), mean(differences), low, high, p, (one.marks, two.marks))


def _unknown_metric(name: str, known: Iterable[str]) -> str:
    """Sentence for a metric that no run has."""
    if name == FORWARD:
        return (
            f"none of these runs has the metric {FORWARD}: it exists for streams by time alone, since elsewhere the "
            "classes of a task are unknown before it"
        )
    if here := CALLED_HERE.get(name.lower()):
        return f"unknown metric '{name}': {'backward' if here == 'af' else 'forward'} transfer is called {here} here"
    return unknown("metric", name, known)


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
    settings = [settings_of(record.config, record.selection) for record in shown_records]
    if by is None:
        columns = [key for key in KEYS if any(each.get(key) is not None for each in settings)]
        columns += [name for name in differing(settings) if name not in (*columns, "device", "inter_task_edges")]
    else:
        columns = list(by)
        names = {name for each in settings for name in each}
        if odd := [name for name in columns if name not in names]:
            raise ParameterError(unknown("setting", odd[0], names))
    wanted = list(METRICS if metrics is None else metrics)
    known = {name for record in shown_records for name in record.metrics}
    if shown_records and (odd := [name for name in wanted if name not in known]):
        raise ParameterError(_unknown_metric(odd[0], known))
    rows: dict[str, tuple[dict[str, Any], list[Record]]] = {}
    for record, each in zip(shown_records, settings, strict=True):
        own = {name: each.get(name) for name in columns}
        key = record.run if by is None else repr(own)
        rows.setdefault(key, (own, []))[1].append(record)
    table = ResultTable([Row(own, tuple(found)) for own, found in rows.values()], columns, wanted)
    table.rows.sort(key=lambda row: [rank(row.settings.get(name)) for name in columns])
    table.footnotes = footnotes(table.rows, columns, records, candidates)
    return table

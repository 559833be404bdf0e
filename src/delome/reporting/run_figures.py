"""Figures of a group of runs: curves, forgetting, cost against accuracy, budgets and accuracy matrices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import mean
from typing import Any

from delome.reporting import charts
from delome.reporting.charts import Data, Drawn, Figure
from delome.reporting.series import Group, Series, label_of

AA = "average accuracy (AA), %"
ERRORS = "AA is placed by the logarithm of its error, 100 − AA, so that good methods can be told apart."
FLAGSHIP = "delome"
"""Drawn above others."""
BAND = "Lines are means over seeds, bands reach from the worst to the best seed."


def run_figures(group: Group) -> list[Figure]:
    """Every figure that the runs of a group have something for; accuracy matrices last."""
    return [_curves(group), *_budgets(group), *_trade_offs(group), *_forgetting(group), *_matrices(group)]


def _drawn(series: list[Series]) -> list[Drawn]:
    return [Drawn(each.label, each.method, each.look) for each in series]


def _flagship_last(series: Iterable[Series]) -> list[Series]:
    """In the order of drawing: what comes last is not covered."""
    return sorted(series, key=lambda each: each.method == FLAGSHIP)


def _legend(group: Group) -> list[Drawn]:
    return _drawn(group.drawn) if len(group.drawn) > 1 else []


def _band(group: Group) -> str:
    """What lines and bands are, if there are several seeds."""
    return BAND if any(len(each.row.seeds) > 1 for each in group.series) else ""


def _curves(group: Group) -> Figure:
    data: Data = []
    for each in _flagship_last(group.drawn):
        for task, values in enumerate(zip(*each.curves, strict=True)):
            point = {"x": task, "mean": mean(values), "low": min(values), "high": max(values)}
            data.append({"label": each.label, "method": each.method} | point)
    spec = charts.lines(data, _drawn(group.drawn), x="after learning task", y=AA)
    switch = "Switch a method off above, and the axis adapts to the others." if len(group.drawn) > 1 else ""
    caption = f"{_band(group)} {group.fewer}".strip()
    size = "wide" if len(group.drawn) > 1 else "half"
    name, title = f"{group.name}-curve", "Average accuracy after each task"
    return Figure(name, title, caption, spec, size, legend=_legend(group), hint=switch)


def _forgetting(group: Group) -> Iterator[Figure]:
    """Bars of AF, to compare several."""
    data: Data = []
    for each in group.drawn:
        if (spread := each.row.spread("af")) is not None:
            middle, std = spread
            numbers = {"mean": middle, "std": std, "low": middle - std, "high": middle + std}
            data.append({"label": each.label, "method": each.method} | numbers)
    if len(data) > 1:
        spec = charts.bars(data, _drawn(group.drawn), x="average forgetting (AF), points")
        lines = "; lines are one standard deviation" if _band(group) else ""
        caption = f"Mean change of earlier tasks since they were learned{lines}. {group.fewer}".strip()
        yield Figure(f"{group.name}-forgetting", "Forgetting", caption, spec, "wide")


def _budgets(group: Group) -> Iterator[Figure]:
    """AA against budget, if a method was run with several. Methods without one are level lines to compare with; those
    that are worse than every curve are named, and do not stretch the axis."""
    budgets = sorted({each.budget for each in group.series if each.budget is not None})
    if len(budgets) < 2:
        return
    families: dict[str, list[Series]] = {}  # what differs in nothing but its budget is one line
    for each in group.series:
        families.setdefault(repr(each.beside_budget), []).append(each)
    curves = [own for own in families.values() if len(own) > 1 or own[0].budget is None]
    if not any(own[0].budget for own in curves):
        return
    worst = min(value for own in curves if own[0].budget for each in own for value in each.row.values("aa"))
    below = {own[0].name: own[0].row.mean_of("aa") for own in curves if _is_below(own, worst)}
    data, series = list[dict[str, Any]](), list[Drawn]()
    for own in [own for own in curves if not _is_below(own, worst)]:
        alike = [each[0] for each in curves if each[0].method == own[0].method]
        differing = [name for name, value in own[0].beside_budget.items() if _differ(alike, name, value)]
        label = label_of(own[0].name, own[0].row, differing)
        series.append(Drawn(label, own[0].method, own[0].look))
        for budget in budgets:
            values = [value for each in own if each.budget in (budget, None) for value in each.row.values("aa")]
            if values:
                numbers = {"x": budget, "mean": mean(values), "low": min(values), "high": max(values)}
                level = {"level": True} if own[0].budget is None else {}
                data.append({"label": label, "method": own[0].method} | numbers | level)
    spec = charts.lines(data, series, x="memory rows per class", y=AA, log=True)
    named = ", ".join(f"{name} {aa:.1f}" for name, aa in below.items())
    parts = [
        _band(group),
        "A method without a budget is a thin level line.",
        f"Below the axis: {named}." if named else "",
    ]
    caption = " ".join(part for part in parts if part)
    yield Figure(f"{group.name}-budgets", "Accuracy against memory budget", caption, spec, "wide", legend=series)


def _is_below(own: list[Series], worst: float) -> bool:
    """Whether runs of a method without a budget are worse than some number."""
    return own[0].budget is None and max(own[0].row.values("aa"), default=0.0) < worst


def _differ(series: list[Series], name: str, value: object) -> bool:
    return any(each.beside_budget.get(name) != value for each in series)


def _trade_offs(group: Group) -> Iterator[Figure]:
    if len(group.drawn) < 2:
        return
    costs = {
        "seconds": ("Time against accuracy", "seconds of a run", "Up and to the left is better."),
        "bytes": ("Memory against accuracy", "bytes kept for old tasks", "What is kept between tasks, after the last."),
    }
    for metric, (title, axis, caption) in costs.items():
        data: Data = []
        for each in _flagship_last(group.drawn):
            cost, accuracy = each.row.spread(metric), each.row.spread("aa")
            if cost is not None and accuracy is not None:
                data.append({"label": each.label, "method": each.method, "x": cost[0], "mean": accuracy[0]})
        if data:
            spec = charts.trade_off(data, _drawn(group.drawn), x=axis, y=AA)
            said = f"{caption} {ERRORS} {group.fewer}".strip()
            yield Figure(f"{group.name}-{metric}", title, said, spec, legend=_legend(group))


def _matrices(group: Group) -> Iterator[Figure]:
    matrices = [(each, matrix) for each in group.drawn if (matrix := each.matrix) is not None]
    if not matrices:
        return
    every = [value for _, matrix in matrices for row in matrix for value in row]
    shared = min(every), max(every)
    for number, (each, matrix) in enumerate(matrices):
        values = [value for row in matrix for value in row]
        spec = charts.heat_map(matrix, shared)
        name = f"{group.name}-matrix-{number + 1}-{each.label}"
        alone = len(matrices) == 1
        title, size = ("Accuracy matrix", "half") if alone else (each.label, "cell")
        colours = f"Colours reach from {shared[0]:.1f} (dark) to {shared[1]:.1f}."
        caption = (
            f"Accuracy on each task after learning each task, in percent, mean over seeds. {colours}" if alone else ""
        )
        limits = min(values), max(values)
        yield Figure(name, title, caption, spec, size, limits, shared, method=each.method)

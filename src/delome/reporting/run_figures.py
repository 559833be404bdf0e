"""Figures of a group of runs: curves, forgetting, cost against accuracy, budgets and accuracy matrices."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

from delome.reporting import charts
from delome.reporting.charts import Data, Drawn, Figure
from delome.reporting.series import Group, Series, shown_method

AA = "average accuracy (AA), %"
BAND = "Lines are means over seeds, bands reach from the worst to the best seed."


def run_figures(group: Group) -> list[Figure]:
    """Every figure that the runs of a group have something for; accuracy matrices last."""
    return [_curves(group), *_budgets(group), *_trade_offs(group), *_forgetting(group), *_matrices(group)]


def _drawn(series: list[Series]) -> list[Drawn]:
    return [Drawn(each.label, each.method, each.look) for each in series]


def _fewer(group: Group) -> str:
    """Says that not all rows are drawn."""
    if len(group.drawn) == len(group.series):
        return ""
    return " Of each method the row with the best AA on validation nodes is drawn."


def _curves(group: Group) -> Figure:
    data: Data = []
    for each in group.drawn:
        for task, values in enumerate(zip(*each.curves, strict=True)):
            point = {"x": task, "mean": mean(values), "low": min(values), "high": max(values)}
            data.append({"label": each.label, "method": each.method} | point)
    spec = charts.lines(data, _drawn(group.drawn), x="after learning task", y=AA)
    switch = " Switch a method off above, and the axis adapts to the others." if len(group.drawn) > 1 else ""
    caption = f"{BAND}{switch}{_fewer(group)}"
    size = "wide" if len(group.drawn) > 1 else "half"
    return Figure(f"{group.name}-curve", "Average accuracy after each task", caption, spec, size)


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
        caption = (
            f"Mean change of earlier tasks since they were learned; lines are one standard deviation.{_fewer(group)}"
        )
        yield Figure(f"{group.name}-forgetting", "Forgetting", caption, spec, "wide")


def _budgets(group: Group) -> Iterator[Figure]:
    """AA against budget, if a method was run with several; methods without one are level lines."""
    budgets = sorted({each.budget for each in group.series if each.budget is not None})
    if len(budgets) < 2:
        return
    data: Data = []
    firsts: dict[str, Series] = {}
    for method in dict.fromkeys(each.method for each in group.series):
        own = [each for each in group.series if each.method == method]
        firsts[method] = own[0]
        for budget in budgets:
            values = [value for each in own if each.budget in (budget, None) for value in each.row.values("aa")]
            if values:
                numbers = {"x": budget, "mean": mean(values), "low": min(values), "high": max(values)}
                data.append({"label": shown_method(method), "method": method} | numbers)
    series = [Drawn(shown_method(method), method, each.look) for method, each in firsts.items()]
    spec = charts.lines(data, series, x="memory rows per class", y=AA, log=True)
    caption = f"{BAND} A method without a budget is a level line."
    yield Figure(f"{group.name}-budgets", "Accuracy against memory budget", caption, spec, "wide")


def _trade_offs(group: Group) -> Iterator[Figure]:
    if len(group.drawn) < 2:
        return
    costs = {
        "seconds": ("Time against accuracy", "seconds of a run", "Up and to the left is better."),
        "bytes": ("Memory against accuracy", "bytes kept for old tasks", "What is kept between tasks, after the last."),
    }
    for metric, (title, axis, caption) in costs.items():
        data: Data = []
        for each in group.drawn:
            cost, accuracy = each.row.spread(metric), each.row.spread("aa")
            if cost is not None and accuracy is not None:
                data.append({"label": each.label, "method": each.method, "x": cost[0], "mean": accuracy[0]})
        if data:
            spec = charts.trade_off(data, _drawn(group.drawn), x=axis, y=AA)
            yield Figure(f"{group.name}-{metric}", title, caption + _fewer(group), spec)


def _matrices(group: Group) -> Iterator[Figure]:
    matrices = {each.label: matrix for each in group.drawn if (matrix := each.matrix) is not None}
    if not matrices:
        return
    every = [value for matrix in matrices.values() for row in matrix for value in row]
    shared = min(every), max(every)
    for number, (label, matrix) in enumerate(matrices.items()):
        values = [value for row in matrix for value in row]
        spec = charts.heat_map(matrix, shared)
        name = f"{group.name}-matrix-{number + 1}-{label}"
        alone = len(matrices) == 1
        title, size = ("Accuracy matrix", "half") if alone else (label, "cell")
        colours = f"Colours reach from {shared[0]:.1f} (dark) to {shared[1]:.1f}."
        caption = (
            f"Accuracy on each task after learning each task, in percent, mean over seeds. {colours}" if alone else ""
        )
        yield Figure(name, title, caption, spec, size, (min(values), max(values)), shared)

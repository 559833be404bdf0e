from __future__ import annotations

from collections.abc import Callable
from typing import Any

from delome.experiment.collection import Record
from delome.reporting.charts import Figure
from delome.reporting.run_figures import run_figures
from delome.reporting.series import groups_of

Make = Callable[..., Record]
OTHER = [[100.0], [60.0, 90.0], [40.0, 85.0, 85.0]]


def figures(records: list[Record]) -> dict[str, Figure]:
    (group,) = groups_of(records)
    return {figure.name.removeprefix("1-digits-cil-"): figure for figure in run_figures(group)}


def values(figure: Figure) -> list[dict[str, Any]]:
    return figure.spec["data"]["values"]


def test_a_single_run_is_a_curve_and_a_matrix(record: Make) -> None:
    assert [*figures([record()])] == ["curve", "matrix-1-delome"]


def test_curves_are_means_with_the_range_over_seeds_and_tasks_start_at_0(record: Make) -> None:
    curve = figures([record(seed=0), record(seed=1, rows=OTHER)])["curve"]
    assert [(row["x"], row["low"], row["high"]) for row in values(curve)] == [
        (0, 90.0, 100.0), (1, 75.0, 75.0), (2, 70.0, 220 / 3)
    ]  # fmt: skip
    assert [round(row["mean"], 6) for row in values(curve)] == [95.0, 75.0, 71.666667]


def test_forgetting_is_a_bar_with_one_standard_deviation(record: Make) -> None:
    found = figures([record(seed=0), record(seed=1, rows=OTHER), record("joint", rows=[[90.0], [90.0, 90.0]])])
    joint, delome = values(found["forgetting"])
    assert (joint["label"], joint["mean"], joint["low"], joint["high"]) == ("joint", 0.0, 0.0, 0.0)
    assert (delome["mean"], round(delome["low"], 4), round(delome["high"], 4)) == (-25.0, -35.6066, -14.3934)


def test_budgets_are_a_curve_and_methods_without_one_are_level(record: Make) -> None:
    records = [record(config={"memory.budget": budget}, metrics={"aa": float(budget)}) for budget in (5, 20)]
    found = figures([*records, record("joint", config={"memory.budget": None}, metrics={"aa": 90.0})])
    drawn = [(row["label"], row["x"], row["mean"]) for row in values(found["budgets"])]
    assert drawn == [("joint", 5, 90.0), ("joint", 20, 90.0), ("delome", 5, 5.0), ("delome", 20, 20.0)]
    assert "budgets" not in figures([record(), record("ewc", config={"memory.budget": None})])


def test_what_differs_in_more_than_its_budget_is_not_averaged(record: Make) -> None:
    records = [
        record(config={"memory.budget": budget, "loss.tau": tau}, metrics={"aa": budget + tau})
        for budget in (5, 20)
        for tau in (0.0, 1.0)
    ]
    found = figures([*records, record("ergnn")])  # of one budget there is no curve
    drawn = {(row["label"], row["x"], row["mean"]) for row in values(found["budgets"])}
    assert drawn == {(f"delome, tau {tau}", budget, budget + tau) for budget in (5, 20) for tau in (0.0, 1.0)}
    assert found["budgets"].caption == "A method without a budget is a thin level line."


def test_cost_is_drawn_against_accuracy_and_zero_has_a_place(record: Make) -> None:
    found = figures([record(metrics={"bytes": 4000.0}), record("finetune", metrics={"bytes": 0.0})])
    assert [(row["label"], row["x"]) for row in values(found["bytes"])] == [("finetune", 0.0), ("delome", 4000.0)]
    assert found["bytes"].spec["encoding"]["x"]["scale"]["type"] == "symlog"
    assert found["seconds"].spec["encoding"]["x"]["scale"]["type"] == "log"


def test_nothing_covers_delome_and_errors_are_spread(record: Make) -> None:
    accuracies = {"finetune": 20.0, "delome": 99.5, "analytic": 100.0, "replay": 99.4}
    found = figures([record(method, metrics={"aa": aa}) for method, aa in accuracies.items()])
    assert [values(found[name])[-1]["label"] for name in ("curve", "seconds", "bytes")] == ["delome"] * 3
    up = found["seconds"].spec["layer"][0]["encoding"]["y"]
    assert up["scale"]["type"] == "log" and up["scale"]["reverse"]
    errors = {row["label"]: round(row["error"], 2) for row in values(found["seconds"])}
    assert errors == {"finetune": 80.0, "delome": 0.5, "analytic": 0.05, "replay": 0.6}
    assert up["axis"]["values"] == [0.1, 1.0, 10.0] and up["axis"]["labelExpr"].startswith("format(100 - datum.value")


def test_lower_bounds_do_not_stretch_the_axis_of_budgets(record: Make) -> None:
    records = [record(config={"memory.budget": budget}, metrics={"aa": 90.0 + budget}) for budget in (2, 5)]
    without = {"config": {"memory.budget": None}}
    others = [record(name, metrics={"aa": aa}, **without) for name, aa in (("finetune", 20.0), ("joint", 97.0))]
    found = figures([*records, *others])["budgets"]
    assert {(row["label"], row.get("level", False)) for row in values(found)} == {("joint", True), ("delome", False)}
    assert found.caption.endswith("Below the axis: finetune 20.0.")
    thin = found.spec["layer"][0]
    assert thin["transform"] == [{"filter": "datum.level"}] and thin["mark"]["strokeWidth"] < 2


def test_a_matrix_belongs_to_its_method(record: Make) -> None:
    found = figures([record(), record("joint")])
    assert (found["matrix-1-joint"].method, found["curve"].method) == ("joint", "")


def test_matrices_know_their_own_limits_and_those_of_all(record: Make) -> None:
    found = figures([record(), record("joint", rows=[[99.0], [98.0, 100.0], [97.5, 99.0, 99.5]])])
    assert (found["matrix-1-joint"].limits, found["matrix-2-delome"].limits) == ((97.5, 100.0), (60.0, 95.0))
    assert {figure.shared_limits for name, figure in found.items() if "matrix" in name} == {(60.0, 100.0)}


def test_numbers_in_cells_show_what_colours_hardly_do(record: Make) -> None:
    def form(rows: list[list[float]]) -> str | None:
        layers = figures([record(rows=rows)])["matrix-1-delome"].spec["layer"]
        return layers[1]["encoding"]["text"]["format"] if len(layers) > 1 else None

    def stream(tasks: int, step: float) -> list[list[float]]:
        return [[90 + step * j for j in range(t + 1)] for t in range(tasks)]

    assert form(stream(3, 1.0)) == ".1f"
    assert (form(stream(12, 5.0)), form(stream(12, 0.1))) == (".0f", ".1f")
    assert form(stream(13, 0.1)) is None


def test_the_matrix_of_a_very_long_stream_is_left_to_its_file(record: Make) -> None:
    assert [*figures([record(matrix=None)])] == ["curve"]


def test_every_method_has_the_same_look_in_every_figure(record: Make) -> None:
    found = figures([record(), record("finetune"), record("ergnn")])
    colours = set()
    for name in ("curve", "forgetting", "seconds", "bytes"):
        scale = found[name].spec["layer"][-1 if name == "curve" else 0]["encoding"]["color"]["scale"]
        colours.add((tuple(scale["domain"]), tuple(scale["range"])))
    assert len(colours) == 1 and next(iter(colours))[0] == ("finetune", "ergnn", "delome")

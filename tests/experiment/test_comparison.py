from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from delome.errors import ParameterError
from delome.experiment.collection import Record
from delome.experiment.comparison import tabulate


def record(method: str = "delome", seed: int = 0, aa: float = 90.0, **changes: Any) -> Record:
    config = {"dataset": "d", "setting": "cil", "method": method, "backbone": "sgc", "memory.budget": 5}
    config |= changes.pop("config", {})
    protocol = {"split": "random 0", "tasks": 3} | changes.pop("protocol", {})
    made = Record(
        f"runs/{method}", f"{method}{config}", seed, config, protocol, {"aa": aa, "af": -1.0}, 3, True, [aa], [[aa]]
    )
    return replace(made, **changes)


def test_rows_are_means_over_seeds_and_the_best_of_a_group_is_known() -> None:
    records = [record(seed=0, aa=90), record(seed=1, aa=92), record("ergnn", 0, 80), record("ergnn", 1, 80)]
    table = tabulate(records)
    assert table.columns == ["dataset", "setting", "method", "backbone", "budget"]
    assert [(row.settings["method"], row.mean_of("aa"), row.std_of("aa")) for row in table.rows] == [
        ("delome", 91.0, pytest.approx(2**0.5)),
        ("ergnn", 80.0, 0.0),
    ]
    assert table.best("aa") == {0} and table.footnotes == []


def test_a_paired_test_compares_common_seeds() -> None:
    first = [record(seed=seed, aa=aa) for seed, aa in enumerate((90, 92, 95))]
    second = [record("ergnn", seed, aa) for seed, aa in enumerate((88, 91, 91, 0))]
    (found,) = tabulate(first + second).compare("delome", "ergnn", "aa")
    # differences 2, 1, 4: mean 7/3, standard error 0.8819, t 2.6458 with 2 degrees of freedom
    assert found.seeds == 3 and found.difference == pytest.approx(7 / 3)
    assert found.p == pytest.approx(0.118, abs=5e-4)
    assert found.low == pytest.approx(-1.4612, abs=1e-3) and found.high == pytest.approx(6.1279, abs=1e-3)
    (one,) = tabulate([first[0], second[0]]).compare("delome", "ergnn", "aa")
    assert one.p is None and one.in_words("aa").endswith("1 common seed: too few for a test")
    with pytest.raises(ParameterError, match="unknown method in these results 'lwf'"):
        tabulate(first).compare("delome", "lwf", "aa")
    with pytest.raises(ParameterError, match="no runs of delome and ergnn share"):
        tabulate([first[0], second[3]]).compare("delome", "ergnn", "aa")


def test_only_rows_that_were_measured_alike_are_compared_and_captions_tell_them_apart() -> None:
    splits = [{"protocol": {"split": f"random {seed}"}, "config": {"split_seed": seed}} for seed in (0, 1)]
    records = [
        record("delome", seed, 90.0 + seed + each, **split) for seed in (0, 1) for each, split in enumerate(splits)
    ]
    records += [record("ergnn", seed, 80.0, **split) for seed in (0, 1) for split in splits]
    table = tabulate(records)
    found = [each.in_words("aa") for each in table.compare("delome", "ergnn", "aa")]
    assert [each.partition(":")[0] for each in found] == [
        f"delome − ergnn (d, cil, sgc, budget 5, split_seed {seed})" for seed in (0, 1)
    ]
    assert {table.rows[number].settings["method"] for number in table.best("aa")} == {"delome"}
    assert len(table.best("aa")) == 2  # the best of each split
    alone = tabulate([record(), record("ergnn", protocol={"graph": "abc"})])
    assert alone.best("aa") == set()
    with pytest.raises(ParameterError, match=r"share dataset, .* how they were measured \(graph, split, tasks\)"):
        alone.compare("delome", "ergnn", "aa")
    taus = [record(seed=seed, aa=90.0 + seed * tau, config={"loss.tau": tau}) for seed in (0, 1) for tau in (1, 2)]
    captions = {
        each.in_words("aa").partition(":")[0] for each in tabulate(taus + records[4:]).compare("delome", "ergnn", "aa")
    }
    assert captions == {f"delome − ergnn (d, cil, sgc, budget 5, tau {tau}, split_seed 0)" for tau in (1, 2)}
    with pytest.raises(ParameterError, match="told apart by method: add it to --by"):
        tabulate(records, by=["dataset"]).compare("delome", "ergnn", "aa")


def test_rounding_is_no_spread() -> None:
    records = [record(seed=seed, aa=0.1 + seed) for seed in range(3)]
    records += [record("ergnn", seed, seed + 0.1 + 0.2 - 0.1) for seed in range(3)]
    (found,) = tabulate(records).compare("delome", "ergnn", "aa")
    assert found.p is None and found.in_words("aa").endswith("AA −0.10, 3 common seeds: no spread over seeds")


@pytest.mark.parametrize(
    ("other", "note"),
    [
        ({"protocol": {"split": "random 1"}}, "rows of d differ in split: random 0, random 1; do not compare them"),
        ({"protocol": {"tasks": 5}}, "rows of d differ in tasks: 3, 5; do not compare them"),
        ({"config": {"inter_task_edges": True}}, "rows of d differ in test graph: cut, grown"),
        ({"config": {"test_graph": "joined"}}, "rows of d differ in test graph: cut, joined"),
        ({"config": {"inductive": True}}, "rows of d differ in test nodes: inductive, transductive"),
        ({"config": {"stream_kind": "blurry"}}, "rows of d differ in stream: blurry, classes"),
        ({"protocol": {"graph": "abc"}}, "d was not the same graph in all runs; do not compare them"),
        ({"selection": "honest"}, "parameters were selected for some rows only"),
        ({"finished": False}, "1 unfinished run is left out"),
        ({"candidate": True}, "1 run that a selection has only tried is left out (--candidates shows it)"),
    ],
)
def test_what_cannot_be_compared_is_said(other: dict[str, Any], note: str) -> None:
    table = tabulate([record(), record("ergnn", **other)])
    assert any(found.startswith(note) for found in table.footnotes), table.footnotes


def test_rows_that_average_over_different_settings_are_not_compared() -> None:
    both = [record(config={"setting": setting}) for setting in ("cil", "til")]
    table = tabulate([*both, record("hpns", aa=99.0, config={"setting": "til"})], by=["method"])
    assert table.footnotes[1] == "rows do not average over the same setting: do not compare them"
    assert table.best("aa") == set()


def test_of_rows_that_average_over_different_protocols_none_is_best() -> None:
    joined = record(aa=92, config={"test_graph": "joined"})
    records = [record(aa=88), joined, record("cat", aa=89), record("ergnn", aa=80)]
    table = tabulate(records, by=["method"])
    assert table.best("aa") == set()
    assert table.footnotes == ["rows of d do not average over the same test graph (cut, joined): do not compare them"]
    with pytest.raises(ParameterError, match="no runs of delome and cat share"):
        table.compare("delome", "cat", "aa")
    # where no row averages, a column tells the row apart that was measured otherwise
    other = tabulate([joined, *records[2:]])
    assert "test_graph" in other.columns
    assert [other.rows[number].settings["method"] for number in other.best("aa")] == ["cat"]
    # where a column tells them apart, each protocol has its best
    apart = tabulate([*records, record("cat", aa=91, config={"test_graph": "joined"})])
    best = [(apart.rows[number].settings["method"], apart.rows[number].mean_of("aa")) for number in apart.best("aa")]
    assert sorted(best) == [("cat", 89), ("delome", 92)]


def test_rows_that_average_over_the_same_protocols_are_compared() -> None:
    both = [{}, {"test_graph": "joined"}]
    records = [record(method, aa=aa, config=how) for method, aa in (("delome", 90), ("cat", 80)) for how in both]
    table = tabulate(records, by=["method"])
    assert [table.rows[number].settings["method"] for number in table.best("aa")] == ["delome"]
    assert table.footnotes == ["rows of d average over test graph: cut, joined"]


def test_a_method_that_is_asked_about_nodes_together_does_not_beat_others() -> None:
    together = {"asked": "together"}
    tpp = record("tpp", aa=99, config=together)
    table = tabulate([tpp, record(aa=90), record("ergnn", aa=80)])
    assert [table.rows[number].settings["method"] for number in table.best("aa")] == ["delome"]
    assert tabulate([tpp, record(aa=90)]).best("aa") == set()
    alike = tabulate([tpp, record("tpp", aa=98, config=together | {"prompts": 3})])
    assert len(alike.best("aa")) == 1
    assert table.compare("tpp", "delome", "aa")[0].in_words("aa").startswith("tpp † − delome (d, cil, sgc, budget 5)")


def test_a_comparison_says_what_both_share_whether_it_is_a_column_or_not() -> None:
    records = [record("ewc", seed, 80.0 - seed, config={"memory.budget": None}) for seed in range(2)]
    records += [
        record("ergnn", seed, 80.0, config={"memory.budget": budget}) for seed in range(2) for budget in (5, 20)
    ]
    (found,) = tabulate(records, by=["method"]).compare("ewc", "ergnn", "aa")
    assert found.in_words("aa").startswith("ewc − ergnn (d, cil, sgc): AA −0.50, 95 % interval −6.85 to +5.85, p = ")
    nowhere = replace(found, settings={})
    assert nowhere.in_words("aa").startswith("ewc − ergnn: AA −0.50")


def test_protocols_of_selection_and_winners_are_named_in_every_table() -> None:
    ewc = record("ewc", selection="honest (first 3 tasks): strength 1000")
    mas = record("mas", selection="benchmark: strength 1")
    differ = "parameters were selected by different protocols: benchmark; honest (first 3 tasks)"
    with_column = tabulate([ewc, mas])
    assert "selection" in with_column.columns and with_column.footnotes == [differ]
    assert tabulate([ewc, mas, record("finetune")], by=["method"]).footnotes == [
        differ,
        "parameters were selected for some rows only",
        "parameters of ewc were selected: honest (first 3 tasks): strength 1000",
        "parameters of mas were selected: benchmark: strength 1",
    ]
    til = [
        record("ewc", config={"setting": "til", "memory.budget": budget}, selection="honest (first task): strength 1")
        for budget in (5, 20)
    ]
    assert tabulate([ewc, *til], by=["method", "setting"]).footnotes[-1] == (
        "parameters of ewc were selected: honest (first 3 tasks): strength 1000 (cil, budget 5); "
        "honest (first task): strength 1 (til, budget 5 and til, budget 20)"
    )


def test_methods_that_were_trained_otherwise_are_named() -> None:
    records = [record(method, config={"epochs": 200, "backbone.hidden": 256}) for method in ("delome", "ergnn", "cat")]
    records.append(record("joint", config={"epochs": 25, "backbone.hidden": 256}))
    assert tabulate(records).footnotes == ["methods differ in epochs: joint 25; others 200"]
    assert tabulate(records[:3]).footnotes == []
    # within a method it is a column, and needs no footnote
    assert tabulate([*records, record("cat", config={"epochs": 5})]).footnotes == []


def test_runs_of_one_seed_are_one_sample() -> None:
    first = [record(seed=seed, aa=90.0 + seed) for seed in range(3)]
    first += [record(seed=seed, aa=80.0 + 2 * seed, config={"memory.budget": 20}) for seed in range(3)]
    second = [record("finetune", seed, 10.0, config={"memory.budget": None}) for seed in range(3)]
    (found,) = tabulate(first + second, by=["method"]).compare("delome", "finetune", "aa")
    assert found.seeds == 3 and found.difference == pytest.approx(76.5)
    # a method without a memory is compared with each budget
    assert [each.seeds for each in tabulate(first + second).compare("delome", "finetune", "aa")] == [3, 3]


def test_rows_that_average_over_more_than_seeds_say_so() -> None:
    records = [record(aa=80), record(aa=90, config={"memory.budget": 20})]
    assert [row.settings["budget"] for row in tabulate(records).rows] == [5, 20]
    table = tabulate(records, by=["method"])
    (row,) = table.rows
    # of one seed there is no standard deviation, whatever it averages over
    assert (row.mean_of("aa"), row.std_of("aa"), row.spread("aa"), row.seeds) == (85.0, None, (85.0, 0.0), [0])
    assert table.footnotes == ["rows average over budget (5, 20)"]
    with pytest.raises(ParameterError, match="unknown setting 'metod'"):
        tabulate(records, by=["metod"])
    with pytest.raises(ParameterError, match="unknown metric 'ab'"):
        tabulate(records, metrics=["ab"])
    with pytest.raises(ParameterError, match="unknown metric 'bwt': backward transfer is called af here"):
        tabulate(records, metrics=["bwt"])
    with pytest.raises(ParameterError, match=r"none of these runs has the metric forward: .* streams by time alone"):
        tabulate(records, metrics=["forward"])
    # candidates are shown when they are asked for
    tried = [record(), record(candidate=True, config={"memory.budget": 7})]
    assert (len(tabulate(tried).rows), len(tabulate(tried, candidates=True).rows)) == (1, 2)

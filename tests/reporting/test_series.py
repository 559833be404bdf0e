from __future__ import annotations

from collections.abc import Callable, Sequence

from delome.experiment.collection import Record
from delome.learning import METHODS
from delome.reporting.looks import look_of
from delome.reporting.series import MOST_SERIES, Known, groups_of

Make = Callable[..., Record]


def test_runs_on_the_same_stream_are_a_group_in_the_order_of_methods(record: Make) -> None:
    records = [record("delome"), record("finetune"), record(config={"setting": "til"}), record(protocol={"tasks": 2})]
    groups = groups_of(records)
    assert [group.title for group in groups] == ["digits · CIL, tasks 3", "digits · TIL", "digits · CIL, tasks 2"]
    assert [series.label for series in groups[0].series] == ["finetune", "delome"]
    assert len({group.name for group in groups}) == 3


def test_runs_under_another_protocol_are_a_group_of_their_own(record: Make) -> None:
    blurry = {"stream_kind": "blurry:sigma=0.1", "backbone": None, "memory.budget": None}
    records = [
        record(),
        record(config={"test_graph": "joined"}),
        record(config={"inter_task_edges": True, "inductive": True}),
        record("prototypes", config=blurry, protocol={"classes per task": None}),
    ]
    groups = groups_of(records)
    assert [group.title for group in groups] == [
        "digits · CIL",
        "digits · CIL, test graph joined",
        "digits · CIL, stream blurry:sigma=0.1",
        "digits · CIL, test graph grown",
    ]
    assert any("test nodes inductive" in note for note in groups[3].table.footnotes)
    assert groups_of(records[::-1])[0].title == "digits · CIL"  # the usual comes first
    assert groups_of([]) == []
    assert [group.title for group in groups_of(records[:2])] == ["digits · CIL", "digits · CIL, test graph joined"]
    assert [group.title for group in groups_of(records[3:])] == ["digits · CIL"]


def test_a_method_that_knows_more_than_others_has_its_marks(record: Make) -> None:
    (group,) = groups_of([record("tpp", config={"asked": "together", "learned_from": "all nodes"}), record()])
    assert [series.label for series in group.series] == ["delome", "tpp † ‡"]
    assert [series.competes for series in group.series] == [True, False]


def test_a_label_says_what_tells_runs_of_a_method_apart_and_variants_share_a_colour(record: Make) -> None:
    (group,) = groups_of([record(config={"memory.budget": budget}) for budget in (5, 20)] + [record("joint")])
    assert [series.label for series in group.series] == ["joint", "delome, budget 5", "delome, budget 20"]
    joint, five, twenty = (series.look for series in group.series)
    assert five.colour == twenty.colour != joint.colour and five.dash != twenty.dash
    assert (group.shared, group.differing) == ({"backbone": "sgc"}, ["budget"])


def test_a_setting_that_some_methods_do_not_have_is_shared_by_the_others(record: Make) -> None:
    (group,) = groups_of([record(), record("finetune", config={"memory.budget": None})])
    assert group.shared == {"backbone": "sgc", "budget": 5} and group.differing == []


def test_matrices_are_means_over_seeds(record: Make) -> None:
    (group,) = groups_of([record(seed=0), record(seed=1, rows=[[100.0], [60.0, 90.0], [40.0, 85.0, 85.0]])])
    (series,) = group.series
    assert series.matrix == [[95.0], [70.0, 80.0], [50.0, 75.0, 90.0]]
    assert series.curves == [[90.0, 75.0, 220 / 3], [100.0, 75.0, 70.0]]
    assert series.row.spread("aa") is not None and group.tasks == 3


def test_candidates_and_unfinished_runs_are_not_drawn(record: Make) -> None:
    assert groups_of([record(candidate=True), record("ewc", finished=False)]) == []
    (group,) = groups_of([record(), record("ewc", finished=False)])
    assert len(group.series) == 1 and group.table.footnotes == []


def swept(record: Make, budgets: dict[str, list[int]], taus: Sequence[float] = (0.0,)) -> list[Record]:
    return [
        record(
            method,
            config={"memory.budget": budget, "loss.tau": tau},
            metrics={"validation_aa": budget + tau, "aa": 100 - tau},
        )
        for method, own in budgets.items()
        for budget in own
        for tau in taus
    ]


def test_of_many_runs_those_with_one_budget_are_drawn(record: Make) -> None:
    budgets = {"delome": [*range(1, MOST_SERIES)], "ergnn": [1, 5, 9, 40], "cat": [5, 9, 60]}
    (group,) = groups_of([*swept(record, budgets), record("joint", config={"memory.budget": None})])
    labels = ["joint", "ergnn, budget 9", "cat, budget 9", "delome, budget 9"]
    assert [series.label for series in group.drawn] == labels
    assert group.fewer == "Of methods with a memory, rows with budget 9 are drawn."
    assert len(group.series) == MOST_SERIES + 7


def test_of_many_runs_with_one_budget_the_best_on_validation_nodes_are_drawn(record: Make) -> None:
    records = swept(record, {"delome": [5, 9], "ergnn": [5, 9]}, [float(tau) for tau in range(MOST_SERIES)])
    (group,) = groups_of(records)
    labels = [f"{name}, budget 9, tau {MOST_SERIES - 1:.1f}" for name in ("ergnn", "delome")]
    assert [series.label for series in group.drawn] == labels
    assert group.fewer == "Of each method the row with budget 9 that is best on validation nodes is drawn."


def test_budgets_that_no_method_shares_are_pointed_out(record: Make) -> None:
    (group,) = groups_of(swept(record, {"delome": [*range(1, MOST_SERIES + 1)], "ergnn": [30, 40]}))
    assert [series.label for series in group.drawn] == ["ergnn, budget 40", f"delome, budget {MOST_SERIES}"]
    assert group.fewer.endswith(" is drawn. Budgets differ.")
    (many,) = groups_of([record(method) for method in METHODS])
    assert many.drawn == many.series and many.fewer == ""
    (few,) = groups_of(swept(record, {"delome": [5, 9]}))
    assert few.drawn == few.series and few.fewer == ""


def test_a_file_is_called_by_its_name_without_folders_unless_another_has_it_too(record: Make) -> None:
    (group,) = groups_of([record(config={"dataset": "file:/some/where/my graph.npz"})])
    assert group.title == "my graph · CIL" and group.name == "1-my-graph-cil"
    groups = groups_of([record(config={"dataset": f"file:{folder}/x.npz"}) for folder in "ab"])
    assert [group.title for group in groups] == ["file:a/x.npz · CIL", "file:b/x.npz · CIL"]


def test_backbones_are_groups_of_their_own_and_methods_without_one_stand_beside_the_first(record: Make) -> None:
    records = [record(), record("analytic", config={"backbone": None}), record(config={"backbone": "gcn"})]
    groups = groups_of(records)
    assert [group.title for group in groups] == ["digits · CIL, backbone sgc", "digits · CIL, backbone gcn"]
    assert [[series.method for series in group.series] for group in groups] == [["delome", "analytic"], ["delome"]]


def test_beside_experiments_methods_have_the_names_of_the_paper(record: Make) -> None:
    records = [record(config={"memory.budget": budget}) for budget in (5, 20)] + [record("mine:Own")]
    (group,) = groups_of(records, {"delome": "DeLoMe"})
    assert [series.label for series in group.series] == ["DeLoMe, budget 5", "DeLoMe, budget 20", "Own"]
    assert [series.method for series in group.series] == ["delome", "delome", "mine:Own"]


def test_runs_of_the_papers_tables_have_their_names_and_looks_there(record: Make) -> None:
    look = look_of("cat")
    known = {"one": Known("lossless × plain", "replay", look), "two": Known("ERGNN (memory alone)", "ergnn", look)}
    records = [
        record("replay", config={"memory": memory}, folder=f"runs/{folder}")
        for memory, folder in (("a", "one"), ("b", "x"))
    ]
    (group,) = groups_of([*records, record("alone:M", folder="runs/two")], known=known)
    named = {series.label: series.look for series in group.series}
    assert [*named] == ["lossless × plain", "replay, memory b", "ERGNN (memory alone)"]
    assert named["lossless × plain"] == look != named["ERGNN (memory alone)"]  # which is not the method of that look
    twice = {"one": known["one"], "x": known["one"]}  # with other settings: one name would be two rows
    assert [each.label for each in groups_of(records, known=twice)[0].series] == [
        "replay, memory a",
        "replay, memory b",
    ]


def test_what_is_drawn_has_the_look_of_its_method(record: Make) -> None:
    (group,) = groups_of(swept(record, {"delome": [*range(1, MOST_SERIES)], "ergnn": [1, 5, 9, 40], "cat": [5, 9, 60]}))
    assert [series.look for series in group.drawn] == [look_of(series.method) for series in group.drawn]
    assert all(series in group.series for series in group.drawn)
    looks = [(series.method, series.look) for series in group.series]
    assert len({*looks}) == len(looks)


def test_a_method_of_your_own_looks_the_same_in_all_groups(record: Make) -> None:
    first, second = groups_of([record("b:B"), record("a:A"), record("b:B", config={"setting": "til"})])
    assert second.series[0].look == first.series[1].look != first.series[0].look


def test_a_label_leaves_out_settings_that_a_run_does_not_have(record: Make) -> None:
    (group,) = groups_of([record("replay", config={"memory": "raw"}), record("replay", config={"loss.tau": 2.0})])
    assert {series.label for series in group.series} == {"replay, memory raw", "replay, tau 2.0"}

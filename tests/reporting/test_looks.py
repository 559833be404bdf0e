from __future__ import annotations

from itertools import combinations

from delome.experiment import RunConfig, RunResult, SeedResult, TaskResult
from delome.learning import METHODS
from delome.reporting.figures import curve
from delome.reporting.looks import OWN, in_order, look_of, looks_of, looks_of_rows


def test_every_method_of_ours_has_a_colour_and_methods_differ_without_colours_too() -> None:
    assert {*OWN} == {*METHODS}
    looks = looks_of(METHODS)
    for one, two in combinations(looks, 2):
        assert (looks[one].shape, looks[one].dash) != (looks[two].shape, looks[two].dash)
    assert [*looks] == [*METHODS]


def test_methods_that_are_often_compared_have_different_colours() -> None:
    often = ["finetune", "joint", "ergnn", "ssm-uniform", "cat", "delome", "analytic"]
    assert len({look_of(name).colour for name in often}) == len(often)


def test_the_look_of_a_method_does_not_depend_on_the_others() -> None:
    assert looks_of(["mine:A", "delome", "finetune"])["delome"] == look_of("delome")
    mine = looks_of(["mine:B", "mine:A"])
    assert [*mine] == ["mine:A", "mine:B"] and mine["mine:A"] != mine["mine:B"]
    every = looks_of([*METHODS, *(f"mine:{number}" for number in range(30))]).values()
    assert len({(look.colour, look.shape) for look in every}) == len(every)


def test_methods_come_in_the_order_of_the_registry() -> None:
    assert in_order(["delome", "mine:A", "joint", "finetune"]) == ["finetune", "joint", "delome", "mine:A"]


def test_methods_differ_without_dashes_too() -> None:
    looks = looks_of(METHODS)
    assert len({(look.colour, look.shape) for look in looks.values()}) == len(METHODS)


def test_rows_that_are_drawn_together_differ_without_dashes_and_keep_the_colours_of_their_methods() -> None:
    methods = ["delome", "hpns", *["delome"] * 4, "private", "hpns"]
    rows = looks_of_rows(methods, looks_of(methods))
    assert [look.colour for look in rows] == [look_of(name).colour for name in methods]
    assert len({(look.colour, look.shape) for look in rows}) == len(rows)
    assert [rows[0], rows[1], rows[6]] == [look_of("delome"), look_of("hpns"), look_of("private")]


def test_many_rows_of_one_method_differ_by_marker_and_dashes() -> None:
    rows = looks_of_rows(["delome"] * 16, looks_of(["delome"]))
    assert len({*rows}) == 16


def test_variants_of_a_method_share_its_colour_only() -> None:
    look = look_of("delome")
    other = look.variant(1)
    assert look.variant(0) == look and other.colour == look.colour
    assert other.shape != look.shape and other.dash != look.dash


def test_pictures_of_a_run_have_the_same_look() -> None:
    for method in ("finetune", "delome"):
        config = RunConfig.resolve("digits", method)
        rows = [[90.0], [80.0, 70.0]]
        result = RunResult(config, [SeedResult(0, [TaskResult(row, row, row, row) for row in rows])], {}, {})
        (line,) = curve(result).axes[0].lines
        look = look_of(method)
        assert (line.get_color(), line.get_linestyle(), line.get_marker()) == (look.colour, look.line, look.marker)
    assert (look_of("finetune").marker, look_of("finetune").line) == ("o", "--")
    assert (look_of("delome").marker, look_of("delome").line) == ("v", "-")

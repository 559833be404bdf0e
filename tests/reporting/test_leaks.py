from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from delome.errors import PersistenceError
from delome.experiment.collection import Record
from delome.privacy.audit import BLIND, LEAK, NO_LEAK, ROWS, WHOLE
from delome.reporting import leaks
from delome.reporting.leaks import Leaks, leaks_of
from delome.reporting.series import groups_of

Make = Callable[..., Record]
Shown = Callable[..., "Leaks | None"]


def found(value: float, verdict: str, control: float = 0.5) -> dict[str, Any]:
    return {"value": value, "control": control, "verdict": verdict}


LEAKY = {
    "raw": {"reidentified": found(0.25, LEAK, 0.01), "membership_auc": found(0.6, NO_LEAK)},
    "propagated": {"reidentified": found(0.2, NO_LEAK, 0.01), "membership_auc": found(0.7, LEAK)},
    "model": {"membership_auc": found(0.51, BLIND), "link_auc": found(0.5, BLIND)},
    "privacy": None,
}
GUARDED: dict[str, Any] = {
    "model": {"membership_auc": found(0.5, NO_LEAK)},
    "privacy": {"epsilon": 4.0, "guarantee": "(4, 1e-05)-differential privacy of nodes", "covers": WHOLE},
}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """What a report shows of records with these audits, by method."""

    def show(records: list[Record], audits: dict[str, Any], problems: list[str] | None = None) -> Leaks | None:
        def read(folder: Any, seed: int) -> Any:
            audit = audits.get(str(folder))
            if isinstance(audit, Exception):
                raise audit
            return audit

        monkeypatch.setattr(leaks, "read_audit", read)
        (group,) = groups_of(records)
        return leaks_of(group, [] if problems is None else problems)

    return show


def points(figure: Any) -> list[tuple[str, float, float]]:
    return [(row["label"], row["x"], row["mean"]) for row in figure.spec["data"]["values"]]


def test_runs_with_an_audit_are_in_the_table_and_others_are_not(shown: Shown, record: Make) -> None:
    records = [record(folder="a"), record("private", folder="b"), record("finetune", folder="c")]
    assert shown(records, {}) is None
    made = shown(records, {"a": LEAKY, "b": GUARDED})
    assert made is not None
    rows = {row[0].text: [cell.text for cell in row[-7:]] for row in made.sheet.rows}
    assert made.sheet.heads[-7:] == [
        "AA", "re-identified", "membership AUC, memory", "membership AUC, model", "ε", "leaks found", "cannot tell"
    ]  # fmt: skip
    # of both spaces the one with the larger value: 0.25 in raw space, 0.7 in propagated space
    memory = ["0.250 (0.01, leak)", "0.700 (0.5, leak)"]
    assert rows == {
        "delome": ["73.33", *memory, "0.510 (0.5, cannot tell)", "–", "2", "2"],
        "private": ["73.33", "–", "–", "0.500 (0.5)", "4", "0", "0"],
    }


def test_accuracy_is_drawn_against_what_is_given_away(shown: Shown, record: Make) -> None:
    records = [record(folder="a"), record("private", folder="b", metrics={"aa": 50.0})]
    made = shown(records, {"a": LEAKY, "b": GUARDED})
    assert made is not None
    aa = 220 / 3
    assert [points(figure) for figure in made.figures] == [
        [("delome", 0.25, aa)],
        [("delome", 0.7, aa)],
        [("delome", 0.51, aa), ("private", 0.5, 50.0)],
        [("private", 4.0, 50.0)],
    ]
    scales = [figure.spec["encoding"]["x"]["scale"].get("type", "linear") for figure in made.figures]
    assert scales == ["linear", "linear", "linear", "log"]


def test_methods_look_as_in_every_other_figure(shown: Shown, record: Make) -> None:
    records = [record(folder="a"), record("private", folder="b"), record("finetune", folder="c")]
    made = shown(records, {"a": LEAKY, "b": GUARDED})
    assert made is not None
    (group,) = groups_of(records)
    looks = {series.label: series.look for series in group.series}
    encoding = made.figures[2].spec["layer"][0]["encoding"]
    for part, name in (("color", "colour"), ("shape", "shape")):
        scale = encoding[part]["scale"]
        assert scale["range"] == [getattr(looks[label], name) for label in scale["domain"]]
        assert scale["domain"] == ["delome", "private"]
    assert {row["method"] for row in made.figures[2].spec["data"]["values"]} == {"delome", "private"}


@pytest.mark.parametrize(
    ("change", "text", "drawn"),
    [({"covers": ROWS}, "4 (memory rows)", False), ({"guarantee": "none: no noise was added"}, "–", False),
     ({"epsilon": 2.5}, "2.5", True)],
)  # fmt: skip
def test_a_guarantee_is_drawn_if_it_covers_the_model(
    change: dict[str, Any], text: str, drawn: bool, shown: Shown, record: Make
) -> None:
    made = shown([record(folder="a")], {"a": GUARDED | {"privacy": GUARDED["privacy"] | change}})
    assert made is not None
    assert made.sheet.rows[0][-3].text == text
    assert any("epsilon" in figure.name for figure in made.figures) == drawn


def test_the_first_seed_with_an_audit_is_shown_with_its_own_accuracy(shown: Shown, record: Make) -> None:
    records = [record(folder="a", seed=0), record(folder="b", seed=1, metrics={"aa": 12.0})]
    made = shown(records, {"b": LEAKY})
    assert made is not None and points(made.figures[0]) == [("delome", 0.25, 12.0)]


@pytest.mark.parametrize(
    ("audit", "problem"),
    [
        (PersistenceError("'a' is damaged"), "'a' is damaged; it is left out"),
        ({"raw": {"reidentified": {}}}, "'a/seed-0/audit.json' is damaged, or of another version; it is left out"),
        ({"raw": 3}, "'a/seed-0/audit.json' is damaged, or of another version; it is left out"),
        (GUARDED | {"privacy": {"guarantee": "x"}}, "'a/seed-0/audit.json' is damaged, or of another version; it is"),
    ],
)
def test_what_cannot_be_read_is_left_out(audit: Any, problem: str, shown: Shown, record: Make) -> None:
    problems: list[str] = []
    made = shown([record(folder="a"), record("private", folder="b")], {"a": audit, "b": GUARDED}, problems)
    assert made is not None and [row[0].text for row in made.sheet.rows] == ["private"]
    assert len(problems) == 1 and problems[0].startswith(problem)

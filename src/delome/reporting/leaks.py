"""What memories give away: audits of the runs of a group, as a table and as figures of AA against what is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delome.errors import PersistenceError
from delome.experiment.audits import audit_file, read_audit
from delome.privacy.audit import BLIND, LEAK, WHOLE
from delome.reporting import charts
from delome.reporting.charts import Data, Drawn, Figure
from delome.reporting.run_figures import AA
from delome.reporting.series import Group, Series
from delome.reporting.sheets import Cell, Sheet

MEMORY, MODEL = ("raw", "propagated"), ("model",)


@dataclass(frozen=True)
class Attack:
    """A measure that is shown: what was attacked and its name there, its heading, and how it is drawn."""

    places: tuple[str, ...]
    name: str
    heading: str
    title: str
    caption: str


ATTACKS = (
    Attack(
        MEMORY, "reidentified", "re-identified", "Re-identified rows against accuracy",
        "Share of memory rows whose nearest node is one that they were made from; for learners that keep such rows.",
    ),
    Attack(
        MEMORY, "membership_auc", "membership AUC, memory", "Membership told by the memory against accuracy",
        "0.5 is chance. AUC of the largest cosine of a node with a memory row.",
    ),
    Attack(
        MODEL, "membership_auc", "membership AUC, model", "Membership told by answers against accuracy",
        "0.5 is chance. AUC of the confidence in the class of a node.",
    ),
)  # fmt: skip
SPACES = " Of raw and propagated space the one in which more is given away."
EPSILON = "ε of the guarantee"


@dataclass(frozen=True)
class Audited:
    """A series, an audit of one of its seeds, and the AA of that seed."""

    series: Series
    found: Mapping[str, Any]
    aa: float

    def finding(self, attack: Attack) -> Mapping[str, Any] | None:
        """What an attack found, in the space where it found most; none if there was nothing to attack."""
        each = [self.found[place][attack.name] for place in attack.places if attack.name in self.found.get(place, {})]
        return max(each, key=lambda one: float(one["value"]), default=None)

    @property
    def epsilon(self) -> float | None:
        """ε that is guaranteed; none without a guarantee."""
        account = self.found.get("privacy")
        if account is None or str(account["guarantee"]).startswith("none"):
            return None
        return float(account["epsilon"])

    @property
    def covered(self) -> bool:
        """Whether a guarantee is one for the whole model, not for its memory rows alone."""
        return self.epsilon is not None and self.found["privacy"]["covers"] == WHOLE

    def verdicts(self, verdict: str) -> int:
        """How many attacks ended with this verdict."""
        places = [each for each in self.found.values() if isinstance(each, Mapping)]
        return sum(
            isinstance(one, Mapping) and one.get("verdict") == verdict for each in places for one in each.values()
        )


@dataclass(frozen=True)
class Leaks:
    """Audits of runs on the same stream."""

    title: str
    sheet: Sheet
    figures: list[Figure]


def leaks_of(group: Group, problems: list[str]) -> Leaks | None:
    """What audits of a group's runs have found; none if no run was audited."""
    audits = list(_audits(group, problems))
    return Leaks(group.title, _sheet(group, audits), list(_figures(group, audits))) if audits else None


def _audits(group: Group, problems: list[str]) -> Iterator[Audited]:
    """Audits that can be read, in the order of series; of a series that of its first seed with one."""
    for series in group.series:
        for record in series.row.records:
            place, aa = Path(record.folder), record.metrics.get("aa")
            try:
                found = read_audit(place, record.seed)
                if found is not None and aa is not None:
                    audited = Audited(series, found, aa)
                    _sheet(group, [audited])  # whether it has all that is shown
                    yield audited
                    break
            except PersistenceError as error:
                problems.append(f"{error}; it is left out")
            except (KeyError, TypeError, AttributeError, ValueError):
                problems.append(f"'{audit_file(place, record.seed)}' is damaged, or of another version; it is left out")


def _sheet(group: Group, audits: Sequence[Audited]) -> Sheet:
    heads = [
        "method",
        *group.differing,
        "AA",
        *(attack.heading for attack in ATTACKS),
        "ε",
        "leaks found",
        "cannot tell",
    ]
    rows = []
    for each in audits:
        settings = [each.series.row.settings.get(name) for name in group.differing]
        epsilon = each.epsilon
        rows.append(
            [
                Cell(each.series.name, look=each.series.look),
                *(Cell("–" if value is None else str(value)) for value in settings),
                Cell(f"{each.aa:.2f}"),
                *(_cell(each.finding(attack)) for attack in ATTACKS),
                Cell(
                    "–" if epsilon is None else f"{epsilon:.3g}" + ("" if each.covered else " (memory rows)"), epsilon
                ),
                Cell(str(each.verdicts(LEAK))),
                Cell(str(each.verdicts(BLIND))),
            ]
        )
    return Sheet(f"What audits found on {group.title}", heads, rows, 1 + len(group.differing))


def _cell(finding: Mapping[str, Any] | None) -> Cell:
    """A value, what it would be by chance, and whether that is a leak."""
    if finding is None:
        return Cell("–")
    value = float(finding["value"])
    said = {LEAK: ", leak", BLIND: ", cannot tell"}.get(finding["verdict"], "")
    return Cell(f"{value:.3f} ({float(finding['control']):.3g}{said})", value=value)


def _figures(group: Group, audits: Sequence[Audited]) -> Iterator[Figure]:
    for attack in ATTACKS:
        found = {each.series.label: one["value"] for each in audits if (one := each.finding(attack)) is not None}
        caption = attack.caption + (SPACES if attack.places == MEMORY else "") + " Up and to the left is better."
        name = f"{group.name}-leaks-{attack.heading}"
        yield from _figure(name, attack.title, attack.heading, caption, audits, found, log=False)
    spent = {each.series.label: each.epsilon for each in audits if each.epsilon is not None and each.covered}
    caption = "Of learners with a guarantee for the whole model. Up and to the left is better."
    yield from _figure(
        f"{group.name}-leaks-epsilon", "Guarantee against accuracy", EPSILON, caption, audits, spent, log=True
    )


def _figure(
    name: str,
    title: str,
    axis: str,
    caption: str,
    audits: Sequence[Audited],
    costs: Mapping[str, float],
    log: bool,
) -> Iterator[Figure]:
    """AA against one number; nothing if no run has it."""
    shown = [each for each in audits if each.series.label in costs]
    data: Data = [
        {
            "label": each.series.label,
            "method": each.series.method,
            "x": float(costs[each.series.label]),
            "mean": each.aa,
        }
        for each in shown
    ]
    if data:
        series = [Drawn(each.series.label, each.series.method, each.series.look) for each in shown]
        yield Figure(name, title, caption, charts.trade_off(data, series, x=axis, y=AA, log=log), legend=series)

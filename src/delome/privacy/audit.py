"""The audit: all attacks on a learner, beside the same attacks on a planted leak and on noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from delome.errors import ParameterError, StateError
from delome.graph import Graph
from delome.learning import METHODS, Learner
from delome.learning.replay import Replay
from delome.privacy.measure import Measure
from delome.privacy.model_audit import Scores, links, membership
from delome.privacy.rows_audit import Measures, evidence, measures, noise, planted
from delome.privacy.shadows import Shadow, likelihood_ratios
from delome.privacy.subject import SPACES, Audited, class_rows
from delome.randomness import generator
from delome.streams.live import as_graph, is_live
from delome.streams.tasks import Task

LEAK, NO_LEAK, BLIND = "leak found", "no leak found by this attack", "cannot tell"


WHOLE = "everything that was learned"
ROWS = "memory rows only: the network was trained on nodes, too"
"""What a guarantee covers."""
PLANTS = 10
"""How often a leak is planted, to see how often it is found."""
ENOUGH = 0.8
"""Share of planted leaks that an attack must find before its silence means anything."""


@dataclass(frozen=True)
class Finding:
    """One measure, the same on planted leaks and on noise, and what may be concluded."""

    measure: Measure
    planted: Sequence[Measure]
    noise: Measure | None

    @property
    def power(self) -> float:
        """Share of the planted leaks that were found; none can be where not even 1 would be above the control."""
        if self.measure.saturated or not self.planted:
            return 0.0
        return sum(each.leaks for each in self.planted) / len(self.planted)

    @property
    def verdict(self) -> str:
        """A leak that noise shows too is none, and where planted leaks are not seen, nothing can be."""
        if self.noise is not None and self.noise.leaks:
            return BLIND
        if self.measure.leaks:
            return LEAK
        return NO_LEAK if self.power >= ENOUGH else BLIND

    def as_dict(self) -> dict[str, Any]:
        values = [each.value for each in self.planted]
        compared = {
            "planted": round(sum(values) / len(values), 6) if values else None,
            "power": self.power,
            "noise": None if self.noise is None else round(self.noise.value, 6),
        }
        return self.measure.as_dict() | compared | {"verdict": self.verdict}


@dataclass(frozen=True)
class Audit:
    """What attacks found, by what was attacked: memory rows in ``raw`` and ``propagated`` space, and the ``model``."""

    method: str
    training_nodes: int
    held_out_nodes: int
    memory_rows: int
    findings: Mapping[str, Mapping[str, Finding]]
    privacy: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)

    def verdicts(self, verdict: str) -> list[str]:
        """Attacks with this verdict."""
        return [f"{where}: {name}" for where, found in self.findings.items() for name, each in found.items()
                if each.verdict == verdict]  # fmt: skip

    @property
    def summary(self) -> str:
        """What may be said in one sentence."""
        leaks, blind = self.verdicts(LEAK), self.verdicts(BLIND)
        total = sum(map(len, self.findings.values()))
        if leaks:
            found = f"{len(leaks)} of {total} attacks found a leak"
        elif len(blind) == total:
            return "nothing can be concluded: none of these attacks would reliably have seen a planted leak"
        else:
            found = "no leak found by these attacks, which proves nothing about others"
        return found + (f"; {len(blind)} cannot tell" if blind else "")

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of the command."""
        return {
            "method": self.method,
            "training_nodes": self.training_nodes,
            "held_out_nodes": self.held_out_nodes,
            "memory_rows": self.memory_rows,
            "summary": self.summary,
            **{where: {name: each.as_dict() for name, each in found.items()} for where, found in self.findings.items()},
            "privacy": self.privacy,
            "notes": self.notes,
        }


def audit(
    learner: Learner,
    data: Iterable[Task] | Graph | Any,
    *,
    seed: int = 0,
    shadows: Sequence[Shadow] = (),
    canaries: Mapping[str, Scores] | None = None,
) -> Audit:
    """Attacks a learner with the nodes it was trained on and held-out nodes of the same classes.

    ``data`` are the tasks that it has learned, or a graph with a train mask. ``shadows`` are scores of runs on other
    splits (`delome.privacy.shadows`), for the likelihood-ratio attack; ``canaries`` those of a learner of the same kind
    that has learned planted nodes (`delome.privacy.canaries`). An audit can find leaks; it cannot show that there are
    none.

    >>> from delome import Replay, TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = Replay(memory="raw", budget=10, epochs=5)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> audit(learner, stream).findings["raw"]["reidentified"].measure.value
    1.0
    """
    if not learner.columns.tasks:
        raise StateError("nothing was learned yet: there is nothing to audit")
    audited = _audited(learner, data)
    rng = generator(seed, "audit")
    findings: dict[str, dict[str, Finding]] = {}
    rows = 0
    for space in SPACES:
        parts = list(class_rows(learner, audited, space))
        rows = sum(part.memory.shape[0] for part in parts)
        if parts:
            own, chance, *leaks = (
                measures([evidence(forge(part, rng), rng) for part in parts], rng)
                for forge in (lambda part, _: part, noise, *[planted] * PLANTS)
            )
            findings[space] = _findings(own, leaks, chance)
    findings["model"] = _compared(membership(learner, audited), "membership", rng) | _links(learner, audited, rng)
    if shadows:
        findings["model"] |= _compared(likelihood_ratios(learner, audited, shadows), "shadow", rng)
    if canaries:
        findings["canaries"] = {
            name: each for kind, scores in canaries.items() for name, each in _compared(scores, kind, rng).items()
        }
    return Audit(
        METHODS.name_of(type(learner)),
        sum(len(each.train) for each in audited),
        sum(len(each.held_out) for each in audited),
        rows,
        findings,
        _guarantee(learner),
        _notes(learner, rows),
    )


def _audited(learner: Learner, data: Any) -> list[Audited]:
    if is_live(data):
        return [Audited.of_graph(learner, as_graph(data))]
    tasks = list(data) if isinstance(data, Iterable) else []
    if not tasks or not all(isinstance(task, Task) for task in tasks):
        raise ParameterError("an audit needs the tasks of a stream that were learned, or a graph with a train_mask")
    return [Audited.of_task(learner, task) for task in tasks if task.index < len(learner.columns.tasks)]


def _compared(scores: Scores, prefix: str, rng: np.random.Generator) -> dict[str, Finding]:
    leaks = [scores.planted(rng).measures(prefix) for _ in range(PLANTS)]
    return _findings(scores.measures(prefix), leaks, scores.noise(rng).measures(prefix))


def _findings(own: Measures, leaks: Sequence[Measures], chance: Measures) -> dict[str, Finding]:
    """Measures beside those of planted leaks, and of noise, of the same names."""
    return {
        name: Finding(each, [leak[name] for leak in leaks if name in leak], chance.get(name))
        for name, each in own.items()
    }


def _links(learner: Learner, audited: Sequence[Audited], rng: np.random.Generator) -> dict[str, Finding]:
    """Links told from answers, where features alone are the control: neighbours are alike without any model."""
    answers, features = links(learner, audited, rng)
    if len(answers.members) < 2 or len(answers.others) < 2:
        return {}
    alone = features.measures("link")["link_auc"]
    own, chance, *leaks = (
        replace(each.measures("link")["link_auc"], control=max(0.5, alone.high))
        for each in (answers, answers.noise(rng), *(features.planted(rng) for _ in range(PLANTS)))
    )
    return {"link_auc": Finding(own, leaks, chance)}


def _guarantee(learner: Learner) -> dict[str, Any] | None:
    """What the learner, or its memory, guarantees, and how much of the model that covers; none of most."""
    account = getattr(learner, "privacy", None)
    if callable(account):
        return {**account(), "covers": WHOLE}
    if not isinstance(learner, Replay) or (found := learner.memory.privacy(learner.columns.tasks)) is None:
        return None
    return {**found, "covers": WHOLE if learner.train_on == "memory" else ROWS}


def _notes(learner: Learner, rows: int) -> list[str]:
    notes = []
    if rows == 0:
        notes.append("the learner keeps no memory rows that could be attacked")
    if learner.needs_past:
        notes.append("the learner reads all earlier graphs again: whoever keeps them for it keeps every node")
    return notes

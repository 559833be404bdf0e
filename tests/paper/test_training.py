from __future__ import annotations

import pytest
import torch

from delome.learning.gradient import GradientLearner
from delome.learning.replay import Replay
from delome.methods import DeLoMe, FineTune, Joint
from delome.paper.alone import MemoryAlone
from delome.paper.experiment import NAMES, load_experiment
from delome.paper.training import training_notes


def notes_by_label(name: str, *assignments: str) -> dict[str, list[str]]:
    cells = load_experiment(name).asked(["digits"], assignments=assignments).cells()
    return {cell.row.label: training_notes(cell.config.learner(0)) for cell in cells}


def starts(notes: list[str]) -> list[str]:
    return [text.split(",")[0].split(";")[0] for text in notes]


def test_notes_say_the_parameters_of_what_is_run() -> None:
    found = notes_by_label("cil")
    coupled = "Weight decay 0.0005 is coupled: part of Adam's gradient"
    drawn, replayed = "A task has 200 steps", "A step replays at most 512 rows of the memory"
    assert starts(found["Fine-tune"]) == [drawn, coupled]
    assert starts(found["Joint"]) == [coupled]
    assert starts(found["CaT"]) == [drawn, coupled] and "each on all its training rows" in found["CaT"][0]
    for label in ("ERGNN", "SSM-uniform", "SSM-degree", "SEM-curvature", "DeLoMe", "DeLoMe (our defaults)"):
        assert starts(found[label]) == [drawn, replayed, coupled]
        assert "at most 512 training rows" in found[label][0]
    assert found["analytic"] == []


def test_what_is_trained_as_in_the_paper_has_no_note_but_its_decay() -> None:
    found = notes_by_label("cil", "passes=true", "batch_size=2000", "replayed=none")
    assert all(len(texts) == 1 for label, texts in found.items() if label != "analytic")


def test_other_passes_and_batches_are_named() -> None:
    assert "7 passes over its training rows in batches of 2,000;" in training_notes(Joint(epochs=7))[0]
    assert "200 passes over its training rows in batches of 64;" in training_notes(Joint(batch_size=64))[0]


@pytest.mark.parametrize("name", [name for name in NAMES if load_experiment(name).kind != "map"])
def test_every_note_on_training_agrees_with_how_a_learner_trains(name: str) -> None:
    for cell in load_experiment(name).asked(["digits"]).cells():
        learner = cell.config.learner(0)
        text = " ".join(training_notes(learner))
        if not isinstance(learner, GradientLearner):
            assert text == ""
            continue
        learner.reset(4, 2)
        assert (" is coupled:" in text) == (type(learner.optimizer) is torch.optim.Adam)
        assert (" is decoupled" in text) == (type(learner.optimizer) is torch.optim.AdamW)
        assert ("drawn from every class; the paper has 200" in text) == (
            not learner.passes and bool(learner.batch_size)
        )
        alone = isinstance(learner, MemoryAlone) or getattr(learner, "train_on", "task") == "memory"
        assert ("A step replays" in text) == (isinstance(learner, Replay) and not alone)


def test_settings_decide_the_form_of_decay() -> None:
    forms = [training_notes(FineTune(setting=setting))[-1].split(";")[0].split(":")[0] for setting in ("cil", "til")]
    assert forms == ["Weight decay 0.0005 is coupled", "Weight decay 0.0005 is decoupled"]
    assert "columns of old tasks" in training_notes(FineTune(setting="til"))[-1]
    assert "columns of old tasks" not in training_notes(FineTune(decay="decoupled"))[-1]
    assert training_notes(DeLoMe(weight_decay=0.0))[-1] == "There is no weight decay; the benchmark's is 0.0005."

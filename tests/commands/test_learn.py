"""`delome.learn`: one more task for a saved model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import delome
from delome import FineTune, Graph
from delome.errors import DelomeError, GraphError, ParameterError, PersistenceError
from delome.experiment import Stopped
from delome.progress import Tracker, Watcher

SMALL: dict[str, Any] = {"method": "finetune", "assignments": ["epochs=3", "hidden=8"]}
Files = Callable[[Path], dict[str, bytes]]
Make = Callable[..., Graph]


class Failing(Watcher):
    """Raises an error in the second epoch, or when everything is done."""

    def __init__(self, error: BaseException, at_the_end: bool = False) -> None:
        super().__init__()
        self.error, self.at_the_end = error, at_the_end

    @contextmanager
    def watching(self, seeds: Sequence[int] = ()) -> Iterator[None]:
        yield
        if self.at_the_end:
            raise self.error

    def single(self, activity: str) -> Tracker:
        tracker = Tracker()

        def show(phase: str, done: int, total: int) -> None:
            if not self.at_the_end and (phase, done) == ("train", 2):
                raise self.error

        tracker.show = show  # type: ignore[method-assign]
        return tracker


def test_a_model_is_made_and_learns_more(folder: Path, graph: Make) -> None:
    first = delome.learn("m", graph(7, 100), **SMALL)
    assert (first.task, first.already, first.failure, first.model) == (0, False, None, Path("m"))
    assert (first.counts, first.new_classes) == ({7: 12, 100: 12}, [7, 100])
    second = delome.learn("m", graph(3, 7, -1))
    assert (second.task, second.counts, second.new_classes) == (1, {3: 8, 7: 8}, [3])
    assert second.learner.classes == delome.load("m").classes == [7, 100, 3]
    assert second.seconds["train"] > 0
    assert second.as_dict().keys() == {
        "model", "already_learned", "task", "learned", "new_classes", "seconds", "classes"
    }  # fmt: skip


def test_the_model_is_the_one_that_the_learner_itself_would_become(folder: Path, graph: Make, files_of: Files) -> None:
    days = graph(0, 1), graph(1, 2, seed=1)
    learner = FineTune(epochs=3, hidden=8)
    for day in days:
        learner.observe(day)
        delome.learn("m", day, **(SMALL if day is days[0] else {}))
    learner.save("by-hand")
    assert files_of(folder / "m") == files_of(folder / "by-hand")


def test_a_graph_may_be_given_by_name_or_as_data_of_pyg(
    folder: Path, write_npz: Callable[..., Path], files_of: Files
) -> None:
    name = f"file:{write_npz()}"
    as_graph = delome.load_graph(name)
    for place, given in (("name", name), ("graph", as_graph), ("data", as_graph.to_pyg())):
        learned = delome.learn(place, given, **SMALL)
        assert learned.counts == {0: 6, 1: 6, 2: 6, 3: 6}
    assert files_of(folder / "name") == files_of(folder / "graph")
    labels = [delome.predict(place, as_graph).labels.tolist() for place in ("name", "data")]
    assert labels[0] == labels[1]
    with pytest.raises(GraphError, match="a dict cannot be learned from"):
        delome.learn("other", {})
    assert not Path("other").exists()


def test_a_graph_that_was_learned_is_not_learned_twice_unless_it_is_to_be(
    folder: Path, graph: Make, files_of: Files
) -> None:
    delome.learn("m", graph(0, 1), **SMALL)
    delome.learn("m", graph(2, 3))
    before = files_of(folder)
    known = delome.learn("m", graph(0, 1))
    assert (known.already, known.task, known.new_classes) == (True, 0, [])
    assert known.as_dict().keys() == {"model", "already_learned", "task", "classes"}
    assert files_of(folder) == before
    again = delome.learn("m", graph(0, 1), again=True)
    assert (again.already, again.task) == (False, 2)
    assert files_of(folder) != before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "delom"}, r"unknown method 'delom': did you mean 'delome'\? .+"),
        ({"method": "json:Mine"}, r"cannot import method 'json:Mine': .+"),
        ({"assignments": ["tua=1"]}, r"unknown parameter of method delome 'tua': did you mean 'tau'\? .+"),
        ({"assignments": ["epochs=0"]}, "epochs must be at least 1, not 0"),
        ({"setting": "tal"}, r"unknown setting 'tal': did you mean 'til'\? .+"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here: try auto or cpu"),
        ({"method": "joint"}, r".*joint.*|.*past.*"),
    ],
)
def test_a_model_that_cannot_be_made_is_refused_in_a_sentence_and_leaves_no_folder(
    options: dict[str, Any], sentence: str, folder: Path, graph: Make
) -> None:
    with pytest.raises(DelomeError, match=f"(?i)^{sentence}$"):
        delome.learn("deep/m", graph(0, 1), **options)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("given", [{"method": "finetune"}, {"setting": "cil"}, {"assignments": ["epochs=3"]}])
def test_what_only_a_new_model_takes_is_refused_for_one_that_is_there(
    given: dict[str, Any], folder: Path, graph: Make, files_of: Files
) -> None:
    delome.learn("m", graph(0, 1), **SMALL)
    before = files_of(folder)
    with pytest.raises(ParameterError, match="'m' is already a model: leave out --"):
        delome.learn("m", graph(2, 3), **given)
    assert files_of(folder) == before


@pytest.mark.parametrize("error", [Stopped(15), KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_what_is_interrupted_changes_nothing(error: BaseException, folder: Path, graph: Make, files_of: Files) -> None:
    with pytest.raises((Stopped, KeyboardInterrupt, PersistenceError)):
        delome.learn("new", graph(0, 1), **SMALL, watcher=Failing(error))
    assert list(folder.iterdir()) == []
    delome.learn("m", graph(0, 1), **SMALL)
    before = files_of(folder)
    with pytest.raises((Stopped, KeyboardInterrupt, PersistenceError)):
        delome.learn("m", graph(2, 3), watcher=Failing(error))
    assert files_of(folder) == before
    assert delome.learn("m", graph(2, 3)).task == 1


@pytest.mark.parametrize("error", [Stopped(15), OSError(5, "Input/output error")])
def test_whatever_fails_after_the_model_was_replaced_the_graph_is_learned(
    error: BaseException, folder: Path, graph: Make
) -> None:
    learned = delome.learn("m", graph(0, 1), **SMALL, watcher=Failing(error, at_the_end=True))
    assert (learned.failure, learned.counts) == (error, {0: 12, 1: 12})
    assert delome.load("m").classes == [0, 1]


def test_the_model_of_a_run_is_left_to_the_run(folder: Path, graph: Make, files_of: Files) -> None:
    delome.run("synthetic:nodes=60,classes=4", "finetune", epochs=1, out="r")
    before = files_of(folder)
    with pytest.raises(ParameterError, match=r"belongs to a run, .+: copy it and learn in the copy"):
        delome.learn("r/seed-0/model", graph(0, 1))
    assert files_of(folder) == before


def test_a_model_of_a_method_of_ones_own_learns_more_if_the_method_is_named(
    folder: Path, graph: Make, mine: str, files_of: Files
) -> None:
    delome.learn("m", graph(0, 1), method=mine, assignments=["epochs=2"])
    before = files_of(folder / "m")
    with pytest.raises(PersistenceError, match=f"method '{mine}' is not one of delome's: name its class to allow it"):
        delome.learn("m", graph(2, 3))
    assert files_of(folder / "m") == before
    from my_methods import Mine  # type: ignore[import-not-found]

    assert delome.learn("m", graph(2, 3), methods=[Mine]).task == 1
    by_name = delome.learn("m", graph(4, 5), method=mine)
    assert (by_name.task, type(by_name.learner), by_name.learner.classes) == (2, Mine, [0, 1, 2, 3, 4, 5])


def test_a_saved_model_runs_no_code_that_it_names(folder: Path, graph: Make, mine: str) -> None:
    delome.learn("m", graph(0, 1), method=mine, assignments=["epochs=2"])
    (folder / "my_methods.py").write_text("raise SystemExit('imported')")
    del sys.modules["my_methods"]
    for call in (delome.learn, delome.predict):
        with pytest.raises(PersistenceError, match="is not one of delome's"):
            call("m", graph(2, 3))
    assert "my_methods" not in sys.modules

"""The examples, used as a reader of them would."""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import delome
from delome.errors import PersistenceError
from delome.learning import GradientLearner
from delome.testing.subject import same_state

EXAMPLES = Path(__file__).parents[1] / "examples"
SYNTHETIC = "synthetic:nodes=120,classes=4,features=8,noise=0.5"
QUICK = ("--dataset", SYNTHETIC, "--epochs", "20", "--set", "lr=0.05", "--set", "hidden=16", "--json")


@pytest.fixture
def examples(folder, monkeypatch):
    """A folder with copies of the examples, in which commands run; afterwards nothing of them is imported."""
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    yield folder
    for file in EXAMPLES.glob("*.py"):
        sys.modules.pop(file.stem, None)


@pytest.fixture
def stream():
    """Two easy tasks."""
    return delome.TaskStream(delome.load_graph(SYNTHETIC))


@pytest.fixture
def labelled(write_npz):
    """A file with a graph of 24 nodes."""
    return f"file:{write_npz()}"


@pytest.mark.parametrize("name", ["own_method", "own_backbone"])
def test_an_example_fits_on_a_screen(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 40


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own_method", "own_backbone"])
def test_an_example_runs_as_a_program(examples, name):
    done = subprocess.run([sys.executable, f"{name}.py"], capture_output=True, text=True, check=True, cwd=examples)
    accuracies = json.loads(done.stdout)
    assert len(accuracies) == 5
    assert np.mean(accuracies) > 85
    assert done.stderr == ""


def test_a_method_of_ones_own_is_run_by_its_place(cli, examples):
    outcome = cli("run", "--method", "own_method:NoisyMeans", "--set", "spread=0.5", "--budget", "5", *QUICK)
    assert outcome.code == 0, outcome.err
    assert outcome.document["method"] == "own_method:NoisyMeans"
    assert outcome.document["budget"] == 5
    assert outcome.document["aa"] > 90
    config = json.loads((Path(outcome.document["folder"]) / "config.json").read_text())
    memory = config["run"]["parameters"]["memory"]
    assert memory == {"name": "own_method:NoisyRows", "budget": 5, "spread": 0.5}
    again = cli("run", "--method", "own_method:NoisyMeans", "--set", "spread=0.5", "--budget", "5", *QUICK)
    assert again.document["aa"] == outcome.document["aa"]
    assert "this run was finished before" in again.err


def test_parameters_of_ones_own_are_checked(cli, examples):
    outcome = cli("run", "--method", "own_method:NoisyMeans", "--set", "spread=-1", "--dataset", SYNTHETIC)
    assert (outcome.code, outcome.notes) == (2, ["delome: spread must be at least 0, not -1.0"])


def test_parameters_of_ones_own_matter(examples, stream):
    method = import_module("own_method").NoisyMeans
    without, usual = (method(spread=spread, budget=3, epochs=1, hidden=8) for spread in (0.0, 1.0))
    for learner in (without, usual):
        learner.observe(stream[0])
    first, second = (learner.bank.memories[0].graph.features for learner in (without, usual))
    assert np.ptp(first[:3], axis=0).max() == 0
    assert np.ptp(second[:3], axis=0).min() > 0


def test_a_saved_method_of_ones_own_is_loaded_by_those_who_name_it(examples, stream, tmp_path):
    module = import_module("own_method")
    learner = module.NoisyMeans(budget=3, epochs=2, hidden=8)
    for task in stream:
        learner.observe(task)
    learner.save(tmp_path / "model")
    with pytest.raises(PersistenceError, match=r"method 'own_method:NoisyMeans' is not one of delome's: name its"):
        delome.load(tmp_path / "model")
    loaded = delome.load(tmp_path / "model", methods=[module.NoisyMeans])
    assert type(loaded) is module.NoisyMeans
    assert same_state(loaded.state(), learner.state())
    assert (loaded.predict(stream[1].graph) == learner.predict(stream[1].graph)).all()


def test_what_a_file_names_is_never_imported(examples, stream, tmp_path):
    module = import_module("own_method")
    learner = module.NoisyMeans(budget=3, epochs=2, hidden=8)
    learner.observe(stream[0])
    learner.save(tmp_path / "model")
    del sys.modules["own_method"]
    with pytest.raises(PersistenceError, match="is not one of delome's"):
        delome.load(tmp_path / "model")
    assert "own_method" not in sys.modules


def test_a_model_of_a_method_of_ones_own_learns_and_predicts_on_the_command_line(cli, examples, labelled):
    own = ("--method", "own_method:NoisyMeans")
    start = ("learn", "--model", "model", "--graph", labelled)
    learned = cli(*start, *own, "--set", "budget=3", "--set", "epochs=2", "--json")
    assert learned.code == 0, learned.err
    assert learned.document["task"] == 0
    refused = cli(*start, "--again")
    assert refused.code == 2
    assert "method 'own_method:NoisyMeans' is not one of delome's: name its class to allow it" in refused.err
    again = cli(*start, *own, "--again", "--json")
    assert (again.code, again.document["task"]) == (0, 1)
    asked = ("predict", "--model", "model", "--graph", labelled)
    assert cli(*asked).code == 2
    predicted = cli(*asked, *own)
    assert predicted.code == 0
    assert predicted.out.splitlines()[0].startswith("node,label")
    assert len(predicted.out.splitlines()) == 25


@pytest.mark.slow
def test_the_example_of_a_method_passes_the_suite(cli, examples):
    outcome = cli("check", "own_method:NoisyMeans", "--json")
    assert [each for each in outcome.document["checks"] if each["failure"]] == []
    assert (outcome.code, outcome.document["holds"]) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["delome", "joint"])
def test_the_example_of_a_backbone_passes_the_suite(cli, examples, method):
    outcome = cli("check", method, "--set", "backbone=own_backbone:SIGN", "--json")
    assert [each for each in outcome.document["checks"] if each["failure"]] == []
    assert outcome.code == 0


@pytest.mark.parametrize("method", ["delome", "joint", "finetune", "ergnn"])
def test_methods_run_on_a_backbone_of_ones_own(cli, examples, method):
    outcome = cli("run", "--method", method, "--set", "backbone=own_backbone:SIGN", *QUICK)
    assert outcome.code == 0, outcome.err
    assert outcome.document["backbone"] == "own_backbone:SIGN"
    matrix = outcome.document["matrices"][0]
    assert matrix[0][0] > 85 and matrix[1][1] > 85
    model = Path(outcome.document["folder"]) / "seed-0" / "model"
    loaded = delome.load(model, methods=[import_module("own_backbone").SIGN])
    assert isinstance(loaded, GradientLearner)
    assert loaded.network.middle.shape == (16, 16)
    assert loaded.evaluate(delome.TaskStream(delome.load_graph(SYNTHETIC))) == matrix[1]


def test_the_option_of_the_backbone_takes_ones_own_too(cli, examples):
    outcome = cli("run", "--method", "finetune", "--backbone", "own_backbone:SIGN", *QUICK)
    assert (outcome.code, outcome.document["backbone"]) == (0, "own_backbone:SIGN")


def test_a_backbone_that_lacks_what_a_method_needs_is_refused(cli, examples):
    outcome = cli("run", "--method", "twp", "--set", "backbone=own_backbone:SIGN", *QUICK)
    assert outcome.code == 2
    assert "backbone own_backbone:SIGN does not offer 'topology', which" in outcome.err

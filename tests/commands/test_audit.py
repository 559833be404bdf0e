import shutil

import numpy as np
import pytest

import delome
from delome.errors import ParameterError, PersistenceError, RunFolderError
from delome.experiment.audits import read_audit
from delome.persistence.documents import read_document, write_document

GRAPH = "synthetic:nodes=160,classes=4,features=12"


@pytest.fixture
def run(folder):
    return delome.run(GRAPH, "ergnn", budget=6, epochs=1, out="run").folder


def test_a_run_folder_is_audited_with_its_own_graph_and_split(run):
    found = delome.audit(run, shadows=2, canaries=8)
    assert found.dataset == GRAPH
    assert found.audit.findings["raw"]["reidentified"].measure.value == 1.0
    assert {"raw", "propagated", "model", "canaries"} == set(found.audit.findings)
    assert "shadow_auc" in found.audit.findings["model"]
    document = found.as_dict()
    assert document["audited"] == "run" and document["raw"]["reidentified"]["value"] == 1.0


def test_what_was_found_is_kept_beside_the_model(run, monkeypatch, caplog):
    found = delome.audit(run)
    assert found.file == run / "seed-0/audit.json"
    assert read_audit(run, 0) == found.audit.as_dict()
    assert found.as_dict()["file"] == "run/seed-0/audit.json"

    def refuse(*_):
        raise PersistenceError("cannot write 'run'")

    monkeypatch.setattr("delome.experiment.audits.write_document", refuse)
    assert delome.audit(run).file is None
    assert "the audit is not kept: cannot write 'run'" in caplog.text


def test_a_model_is_audited_with_a_graph_that_has_a_train_mask(folder):
    graph = delome.load_graph(GRAPH)
    learner = delome.Replay(memory="raw", budget=5, epochs=1)
    mask = np.arange(160) % 3 > 0
    masked = delome.Graph(graph.adjacency.nonzero()[::-1], graph.features, graph.labels, train_mask=mask)
    learner.observe(masked)
    learner.save("model")
    assert delome.audit("model", graph=masked).audit.findings["raw"]["exact_copies"].measure.value == 1.0


def test_what_cannot_be_audited_is_refused_in_a_sentence(run, folder):
    with pytest.raises(ParameterError, match=r"neither a run folder nor a saved model"):
        delome.audit("elsewhere")
    with pytest.raises(ParameterError, match=r"leave --graph out"):
        delome.audit(run, graph="digits")
    with pytest.raises(ParameterError, match=r"is a saved model: give the graph"):
        delome.audit(run / "seed-0/model")
    with pytest.raises(ParameterError, match=r"repeat a run: give a run folder"):
        delome.audit(run / "seed-0/model", graph="digits", shadows=1)
    with pytest.raises(ParameterError, match=r"give the run folder, 'run'"):
        delome.audit(run / "seed-0")
    with pytest.raises(ParameterError, match=r"give one of the runs that it holds, such as 'run'"):
        delome.audit(".")
    (run / "seed-0/model").rename(folder / "moved")
    with pytest.raises(PersistenceError, match=r"holds no model: of a sweep only --models keeps them"):
        delome.audit(run)


def test_a_run_that_is_not_finished_is_refused(run):
    (run / "seed-0/result.json").unlink()
    with pytest.raises(RunFolderError, match="the run in 'run' is not finished: resume it with the command"):
        delome.audit(run)


def test_the_first_finished_seed_is_audited_by_number(run):
    (run / "seed-0").rename(run / "seed-10")
    shutil.copytree(run / "seed-10", run / "seed-9")
    shutil.copytree(run / "seed-10/model", run / "seed-2/model")  # left by a seed that was interrupted
    found = delome.audit(run)
    assert found.seed == found.as_dict()["seed"] == 9


def test_a_run_of_a_stream_of_ones_own_says_how_to_audit_it(folder):
    run = delome.run(stream=delome.TaskStream(delome.load_graph(GRAPH)), method="finetune", epochs=1, out="own")
    with pytest.raises(ParameterError, match=r"call delome.privacy.audit\(delome.load\('own/seed-0/model'\), stream\)"):
        delome.audit(run.folder)


def test_another_graph_than_the_one_that_was_learned_is_refused(run):
    document = read_document(run / "config.json", "configuration of a run")
    document["stream"]["graph"]["sha256"] = "0" * 64
    content = {name: document[name] for name in ("run", "hash", "versions", "stream")}
    write_document(run / "config.json", "configuration of a run", content)
    with pytest.raises(RunFolderError, match="is not the one that the run in 'run' has learned"):
        delome.audit(run)


def test_a_damaged_configuration_is_refused(run):
    write_document(run / "config.json", "configuration of a run", {"run": {"dataset": 3}})
    with pytest.raises(RunFolderError, match="is damaged"):
        delome.audit(run)


def test_the_command_prints_tables_or_one_document(run, cli):
    shown = cli("audit", "run", "-q")
    assert shown.code == 0
    assert "reidentified" in shown.out and "memory rows against features" in shown.out
    assert "attacks found a leak" in shown.out and "private" not in shown.out
    document = cli("audit", "run", "--json").document
    assert document["raw"]["reidentified"]["verdict"] == "leak found"
    refused = cli("audit", "elsewhere")
    assert refused.code == 2 and "neither a run folder" in refused.err


def test_a_private_model_shows_its_guarantee(folder, cli):
    delome.run(GRAPH, "private", assignments=["features=8"], out="kept")
    shown = cli("audit", "kept", "-q")
    assert "guarantee: (4, 1e-05)-differential privacy of nodes" in shown.out
    assert "it covers everything that was learned" in shown.out

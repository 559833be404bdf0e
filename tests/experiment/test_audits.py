import json

import pytest

import delome
from delome.errors import PersistenceError
from delome.experiment.audits import AUDIT_KIND, audit_file, read_audit, write_audit
from delome.persistence.documents import write_document

GRAPH = "synthetic:nodes=60,classes=4"


@pytest.fixture
def run(folder):
    return delome.run(GRAPH, "finetune", epochs=1, out="run").folder


def test_an_audit_is_read_back_as_long_as_its_model_is_that_of_the_result(run):
    assert read_audit(run, 0) is None
    assert write_audit(run, 0, {"x": 1}) == run / "seed-0/audit.json"
    assert read_audit(run, 0) == {"x": 1}
    write_audit(run, 0, {"x": 2})
    assert read_audit(run, 0) == {"x": 2}
    (run / "seed-0/model/manifest.json").write_text("another model")
    write_audit(run, 0, {"x": 3})
    assert read_audit(run, 0) is None


def test_an_audit_of_an_unfinished_seed_does_not_count(run):
    write_audit(run, 0, {"x": 1})
    (run / "seed-0/result.json").unlink()
    assert read_audit(run, 0) is None


def test_a_damaged_audit_is_refused(run):
    file = write_audit(run, 0, {"x": 1})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"audit": {"x": 2}}))
    with pytest.raises(PersistenceError, match="does not have the checksum"):
        read_audit(run, 0)
    write_document(audit_file(run, 0), AUDIT_KIND, {"audit": 3})
    with pytest.raises(PersistenceError, match="it holds no findings"):
        read_audit(run, 0)

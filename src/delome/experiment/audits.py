"""Audits beside the models of a run: what attacks found, and in which model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from delome.errors import PersistenceError
from delome.experiment.seed_folder import finished_result
from delome.persistence.documents import read_document, write_document
from delome.persistence.files import reporting_write_errors
from delome.persistence.reading import path_exists, sha256_of
from delome.persistence.state_files import MANIFEST

AUDIT, AUDIT_KIND = "audit.json", "audit of a model"


def audit_file(run_folder: Path, seed: int) -> Path:
    """Where the audit of a seed is kept."""
    return run_folder / f"seed-{seed}" / AUDIT


def write_audit(run_folder: Path, seed: int, found: dict[str, Any]) -> Path:
    """Keeps what was found in the model of a seed, in place of what was found before."""
    file = audit_file(run_folder, seed)
    with reporting_write_errors(file):
        write_document(file, AUDIT_KIND, {"model": sha256_of(file.parent / "model" / MANIFEST), "audit": found})
    return file


def read_audit(run_folder: Path, seed: int) -> dict[str, Any] | None:
    """What was found in the model that a finished seed ended with; none if that was not audited."""
    file = audit_file(run_folder, seed)
    result = finished_result(run_folder, seed) if path_exists(file) else None
    if result is None:
        return None
    document = read_document(file, AUDIT_KIND)
    found = document.get("audit")
    if not isinstance(found, dict):
        raise PersistenceError(f"'{file}' is damaged: it holds no findings")
    return found if document.get("model") == result.get("model") else None

from __future__ import annotations

from pathlib import Path

import pytest

import delome

SMALL = "synthetic:nodes=60,classes=4"


def test_damaged_results_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    delome.run(SMALL, "finetune", epochs=1, seeds=2, out=tmp_path / "run")
    assert list(delome.results(tmp_path)["seed"]) == [0, 1]
    damaged = tmp_path / "run" / "seed-1" / "result.json"
    damaged.write_text("{}")
    caplog.clear()
    assert list(delome.results(tmp_path)["seed"]) == [0]
    (message,) = caplog.messages
    assert str(damaged) in message and message.endswith("; it is left out")

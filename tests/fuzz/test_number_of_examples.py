from __future__ import annotations

import re
from pathlib import Path

LEAST = 8_000
"""Examples of a full run, all files of this folder together; those written out with ``@example`` come on top."""


def test_a_full_run_has_many_examples() -> None:
    files = [file for file in Path(__file__).parent.glob("test_*.py") if file.name != Path(__file__).name]
    counts = {file.stem: sum(map(int, re.findall(r"max_examples=(\d+)\)", file.read_text()))) for file in files}
    names = {"test_graph", "test_stream", "test_files", "test_strangers", "test_configuration", "test_command_line"}
    assert counts.keys() == names
    assert min(counts.values()) >= 500
    assert sum(counts.values()) >= LEAST, counts

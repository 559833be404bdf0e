from __future__ import annotations

import json

import pytest
from rich.console import Console

from delome.experiment.collection import Record
from delome.experiment.comparison import ResultTable, tabulate
from delome.reporting import formats


@pytest.fixture
def table() -> ResultTable:
    def record(method: str, seed: int, aa: float) -> Record:
        config = {"dataset": "a_b", "setting": "cil", "method": method, "backbone": "sgc", "memory.budget": 5}
        return Record(
            method, method, seed, config, {"split": "x"}, {"aa": aa, "af": None, "bytes": 1e6 + aa}, 3, True, [aa], None
        )

    records = [record("=delome", 0, 90.0), record("=delome", 1, 92.0), record("ergnn", 0, 80.0)]
    return tabulate(records, metrics=["aa", "af", "bytes"])


def test_markdown(table: ResultTable) -> None:
    assert formats.markdown(table) == (
        "| dataset | setting | method | backbone | budget | seeds | AA | AF | bytes |\n"
        "|---|---|---|---|---|---:|---:|---:|---:|\n"
        "| a_b | cil | =delome | sgc | 5 | 2 | **91.00 ± 1.41** | – | 1,000,091 ± 1 |\n"
        "| a_b | cil | ergnn | sgc | 5 | 1 | 80.00 | – | **1,000,080** |\n"
        "\nrows have 1 to 2 seeds\n"
    )


def test_latex_escapes_names(table: ResultTable) -> None:
    lines = formats.latex(table).splitlines()
    assert lines[0] == r"\begin{tabular}{lllllrrrr}"
    assert lines[4] == r"a\_b & cil & =delome & sgc & 5 & 2 & \textbf{91.00 $\pm$ 1.41} & -- & 1,000,091 $\pm$ 1 \\"
    assert lines[-1] == "% rows have 1 to 2 seeds"


def test_csv_is_safe_in_a_spreadsheet(table: ResultTable) -> None:
    lines = formats.comma_separated(table).splitlines()
    assert lines[0] == "dataset,setting,method,backbone,budget,seeds,aa,aa_std,af,af_std,bytes,bytes_std"
    assert lines[1] == "a_b,cil,'=delome,sgc,5,2,91.0,1.4142135623730951,,,1000091.0,1.4142135623730951"


def test_json_has_every_seed(table: ResultTable) -> None:
    found = json.loads(formats.document(table, table.compare("=delome", "ergnn", "aa")))
    assert found["rows"][0]["metrics"]["aa"] == {"mean": 91.0, "std": pytest.approx(2**0.5), "values": [90.0, 92.0]}
    assert found["rows"][1]["metrics"]["af"] == {"mean": None, "std": None, "values": []}
    assert found["comparisons"][0]["difference"] == 10.0 and found["footnotes"] == ["rows have 1 to 2 seeds"]


def test_the_terminal_shows_common_settings_once(table: ResultTable) -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(formats.terminal_table(table))
    shown = captured.get()
    assert "dataset a_b, setting cil, backbone sgc, budget 5" in shown
    assert "=delome" in shown and "91.00 ± 1.41" in shown and "dataset ┃" not in shown

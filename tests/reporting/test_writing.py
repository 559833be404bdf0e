from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from delome.errors import ParameterError, PersistenceError
from delome.experiment import collection
from delome.experiment.collection import Record
from delome.paper.measured import KIND
from delome.persistence.documents import write_document
from delome.reporting import contents, writing
from delome.reporting.contents import read_contents
from delome.reporting.page import html as page
from delome.reporting.writing import leave_report, write_figures_to, write_report

Make = Callable[..., Record]
Folder = Callable[..., Path]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Has a folder hold the runs of these records."""

    def make(*records: Record) -> Path:
        monkeypatch.setattr(contents, "collect", lambda folders, problems: list(records))
        return tmp_path

    return make


class Parts(html.parser.HTMLParser):
    """Elements of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, text: str) -> None:
        if self.elements and self.elements[-1][0] == "script" and len(self.scripts) < self.number("script"):
            self.scripts.append(text)

    def number(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def test_a_report_is_one_file_that_names_nothing_elsewhere(runs: Folder, record: Make) -> None:
    file, _ = write_report([runs(record(), record("finetune"))])
    parts = Parts(file.read_text())
    loading = {"src", "srcset", "action", "data", "poster"}
    assert not [(tag, each) for tag, each in parts.elements if loading & each.keys()]
    assert {each["href"][:5] for tag, each in parts.elements if tag == "link" and each["href"]} == {"data:"}
    links = [each["href"] or "" for tag, each in parts.elements if tag == "a"]
    assert links and all(link.startswith("#") for link in links)
    ids = [each["id"] for _, each in parts.elements if "id" in each]
    assert len(ids) == len({*ids}) and {link[1:] for link in links} <= {*ids}


def test_only_the_script_of_the_page_may_run(runs: Folder, record: Make) -> None:
    parts = Parts(write_report([runs(record())])[0].read_text())
    (policy,) = [each["content"] for tag, each in parts.elements if each.get("http-equiv")]
    data, script = parts.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None and f"script-src 'sha256-{digest}' 'unsafe-eval'" in policy
    assert policy.startswith("default-src 'none'")
    assert len(json.loads(data)["figures"]) == 2
    assert "Copyright (c) 2015-2023, University of Washington Interactive Data Lab" in script[:500]


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}"]
)
def test_names_are_escaped_wherever_they_stand(name: str, runs: Folder, record: Make) -> None:
    records = [record(config={"dataset": name}), record(name, config={"dataset": name}), record(selection=name)]
    problems: list[str] = []
    plain = Parts(page(read_contents([runs(record(), record("x"), record(selection="x"))], problems)))
    found = Parts(page(read_contents([runs(*records)], problems)))
    assert found.number("script") == plain.number("script") == 2 and found.number("img") == 0
    assert json.dumps(name)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e") in found.scripts[0]


def test_a_report_of_20_runs_is_small_and_of_200_fast(tmp_path: Path, record: Make) -> None:
    rows = [[50.0 + (t * j) % 49 / 1.7 for j in range(t + 1)] for t in range(35)]
    names = ["finetune", "joint", "ewc", "ergnn", "delome"]

    def index(seeds: int) -> None:
        files = {}
        for method in names:
            for seed in range(seeds):
                name = f"{method}/seed-{seed}/result.json"
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).touch()
                state = (tmp_path / name).stat()
                made = record(method, seed, rows, tasks=35)
                files[name] = {"stamp": [state.st_mtime_ns, state.st_size], "record": asdict(made)}
        write_document(tmp_path / collection.INDEX, collection.INDEX_KIND, {"files": files})

    index(4)
    file, found = write_report([tmp_path])
    assert found.runs == 20 and file.stat().st_size < 2_000_000
    index(40)
    start = time.monotonic()
    file, found = write_report([tmp_path])
    assert found.runs == 200 and time.monotonic() - start < 5
    assert file.stat().st_size < 2_000_000


def test_a_folder_without_runs_is_refused_and_damage_is_pointed_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ParameterError, match="no finished runs or experiments below"):
        write_report([tmp_path])
    place = tmp_path / "paper"
    place.mkdir()
    write_document(place / "cil.json", KIND, {"name": "cil", "rows": [{"label": "x"}]})
    with pytest.raises(ParameterError, match="no finished runs or experiments below"):
        write_report([tmp_path])
    assert leave_report(tmp_path) is None
    assert "there is no report: there are no finished runs" in caplog.messages[-1]


def test_an_experiment_of_another_version_is_left_out_with_advice(tmp_path: Path, runs: Folder, record: Make) -> None:
    (tmp_path / "paper").mkdir()
    write_document(
        tmp_path / "paper/cil.json", KIND, {"name": "cil", "notes": [], "rows": [{"label": "x", "notes": [1]}]}
    )
    problems: list[str] = []
    assert read_contents([runs(record())], problems).experiments == []
    (said,) = problems
    assert said.endswith("of another version; it is left out: 'delome paper' writes it again, and repeats no run")


def test_what_cannot_be_read_is_a_note(tmp_path: Path, runs: Folder, record: Make) -> None:
    (tmp_path / "selections").mkdir()
    (tmp_path / "selections/x.json").write_text("{}")
    problems: list[str] = []
    found = read_contents([runs(record())], problems)
    assert found.selections == [] and len(problems) == 1 and "is no selection of delome" in problems[0]


def test_a_place_that_cannot_be_written_is_a_sentence(runs: Folder, record: Make, tmp_path: Path) -> None:
    with pytest.raises(PersistenceError, match=r"cannot write '.*/no/where.html': No such file"):
        write_report([runs(record())], tmp_path / "no/where.html")


def test_headlines_leave_out_what_looks_back_and_memories_of_nothing(runs: Folder, record: Make) -> None:
    joint = record("joint", metrics={"aa": 99.0, "seconds": 0.1, "bytes": 1.0})
    finetune = record("finetune", metrics={"aa": 20.0, "af": -90.0, "seconds": 1.0, "bytes": 0.0})
    found = read_contents([runs(joint, finetune, record())], [])
    cards = [(card.title, card.number, card.whose) for card in found.comparisons[0].cards]
    assert cards == [
        ("Highest AA", "73.3 %", "delome"),
        ("Least forgetting", "−17.5", "delome"),
        ("Fastest", "2.0 s", "delome"),
        ("Smallest memory", "1.0 kB", "delome"),
    ]
    aside = found.comparisons[0].aside
    assert aside.startswith("Best values exclude joint, which keeps every graph. In bold: the highest AA, and in other")


def test_headlines_leave_out_what_is_asked_about_nodes_together(runs: Folder, record: Make) -> None:
    tpp = record("tpp", metrics={"aa": 99.0}, config={"asked": "together", "learned_from": "all nodes"})
    (found,) = read_contents([runs(tpp, record(), record("joint"), record("gem"))], []).comparisons
    assert found.cards[0].whose == "delome"
    excluded = "joint and gem, which keep every graph, and tpp † ‡, which judges the nodes of a task together"
    assert found.aside.startswith(f"Best values exclude {excluded}. ")
    (alone,) = read_contents([runs(tpp, record("joint"))], []).comparisons
    assert alone.cards[0].whose == "tpp † ‡" and "exclude" not in alone.aside


def test_a_method_that_learned_little_is_not_praised_for_forgetting_less(runs: Folder, record: Make) -> None:
    weak = record("ewc", metrics={"aa": 2.6, "af": 32.4, "seconds": 0.1, "bytes": 1.0})
    near = record("cat", metrics={"aa": 73.3 - 1.9, "af": -0.04, "seconds": 1.0, "bytes": 500.0})
    (found,) = read_contents([runs(weak, near, record())], []).comparisons
    assert [(card.title, card.whose) for card in found.cards] == [
        ("Highest AA", "delome"), ("Least forgetting", "cat"), ("Fastest", "cat"), ("Smallest memory", "cat")
    ]  # fmt: skip
    assert found.cards[1].number == "0.0"


def test_runs_that_are_left_out_are_counted_once_for_the_whole_page(runs: Folder, record: Make) -> None:
    tried = [record("ewc", seed, candidate=True, protocol={"tasks": tasks}) for tasks in (1, 3) for seed in (0, 1)]
    found = read_contents([runs(record(), record("ewc"), *tried, record("mas", finished=False))], [])
    text = page(found)
    assert "Left out: 4 runs that a selection has only tried; " in text and "Left out: 1 unfinished run." in text
    assert f"<code>delome results {found.folders[0]} --candidates</code> shows them." in text
    assert text.count("only tried") == 1 and found.comparisons[0].sheet.notes == []
    assert "Left out" not in page(read_contents([runs(record())], []))


def test_a_page_with_experiments_calls_methods_as_the_paper_does(runs: Folder, record: Make) -> None:
    numbers = {"measured": 50.0, "seeds": 1, "reported": None, "difference": None, "within": None}
    how: dict[str, Any] = {"notes": [], "settings": [], "left_out": [], "command": ""}
    row = {"label": "DeLoMe", "dataset": "digits", "x": None, "metrics": {"aa": numbers}} | how
    place = runs(record(), record("finetune"), record("tpp"))
    (place / "paper").mkdir()
    document = {"name": "cil", "title": "T", "form": "table", "x": None, "y": "AA, %", "rows": [row]}
    write_document(place / "paper/cil.json", KIND, document)
    found = read_contents([place], [])
    named = ["Fine-tune", "DeLoMe", "tpp"]
    assert [each.label for each in found.methods] == named
    assert [line[0].text for line in found.comparisons[0].sheet.rows] == named
    (place / "paper/cil.json").unlink()
    assert [each.label for each in read_contents([place], []).methods] == ["finetune", "delome", "tpp"]


def test_a_page_is_headed_by_its_methods_and_datasets(runs: Folder, record: Make) -> None:
    def title(*records: Record) -> str:
        return read_contents([runs(*records)], []).title

    digits, til = record(), record(config={"setting": "til"})
    assert title(digits) == "delome on digits · CIL"
    assert title(digits, til, record("ewc")) == "2 methods on digits"
    others = [record(config={"dataset": f"file:a/{name}.npz"}) for name in "xyz"]
    assert title(digits, til, *others[:2]) == "delome on digits, x, y"
    assert title(digits, *others) == "delome on 4 datasets"


def test_headlines_say_that_several_methods_are_best(runs: Folder, record: Make) -> None:
    same = [record(method, metrics={"aa": 99.72}) for method in ("ergnn", "delome")]
    (card, *_) = read_contents([runs(*same, record("cat"))], []).comparisons[0].cards
    assert (card.number, card.whose) == ("99.7 %", "ergnn and 1 other")


def test_figures_are_written_for_papers(runs: Folder, record: Make, tmp_path: Path) -> None:
    found = read_contents([runs(record(), record("finetune"))], [])
    wanted = [figure for figure in found.figures if figure.name.endswith(("-curve", "-forgetting"))]
    written = write_figures_to(tmp_path / "figures", wanted)
    assert [file.name for file in written] == [
        "1-digits-cil-curve.svg", "1-digits-cil-curve.pdf", "1-digits-cil-forgetting.svg", "1-digits-cil-forgetting.pdf"
    ]  # fmt: skip
    drawing = written[0].read_text()
    assert drawing.startswith("<svg") and "currentColor" not in drawing + written[2].read_text()
    assert re.search(r">finetune</text>", drawing) and ">after learning task</text>" in drawing
    assert all(file.read_bytes()[:5] == b"%PDF-" for file in written[1::2])


def test_a_mistake_of_ours_does_not_fail_what_is_finished(
    runs: Folder, record: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def mistake(_: Any) -> str:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(writing, "html", mistake)
    assert leave_report(runs(record())) is None
    assert caplog.messages == ["there is no report: ZeroDivisionError: ours"]

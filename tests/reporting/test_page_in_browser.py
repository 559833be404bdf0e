"""Reports in a real browser: everything is drawn, switched, sorted and escaped, and nothing is asked of any server."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

import delome
from delome.commands.paper import paper
from delome.experiment.plan import Plan
from delome.experiment.selection import Selection
from delome.paper.experiment import NAMES
from delome.paper.measured import KIND
from delome.persistence.documents import write_document

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser: pip install '.[test]'")

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium opens the reports: apt-get install chromium")

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
SCREENS = {"light": (1200, 900), "dark": (1200, 900), "phone": (380, 800)}
HOSTILE = "<img src=x onerror=window.stolen=1>&amp;<script>window.stolen=1<script>.npz"
SMALL = "synthetic:nodes=200,classes=4"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The report of one run, of a sweep with a selection, and of all experiments, left by the calls."""
    place = tmp_path_factory.mktemp("reports")
    labels = np.repeat(np.arange(6), 12)
    edges = sp.csr_array((np.ones(72), (np.arange(72), np.roll(np.arange(72), 1))), (72, 72))
    arrays = {f"adj_{part}": getattr(edges, part) for part in ("data", "indices", "indptr", "shape")}
    graph = place / HOSTILE
    np.savez(
        graph, features=np.eye(6)[labels] + 0.1 * np.random.default_rng(0).normal(size=(72, 6)), labels=labels, **arrays
    )
    one = delome.run(f"file:{graph}", "finetune", epochs=2, out=place / "one", seeds=2)
    plan = Plan(
        {"dataset": "synthetic:nodes=120,classes=6", "method": ["finetune", "joint", "ewc", "delome"], "budget": [2, 5],
         "seeds": 2, "epochs": 3}
    )  # fmt: skip
    chosen = Selection("honest", 2, {"strength": [1.0, 100.0]})
    many = delome.sweep(plan, place / "many", select=chosen, jobs=1)
    few: dict[str, Any] = {"datasets": [SMALL], "methods": ["SSM-uniform", "DeLoMe"], "assignments": ["epochs=2"]}
    papers = paper("all", place / "paper", quick=True, jobs=1, **few)
    found = {"run": one.report, "sweep": many.report, "paper": papers.report}
    for method in ("ergnn", "private"):
        delome.audit(delome.run(SMALL, method, epochs=2, budget=5, out=place / "audited" / method).folder)
    found["audited"] = delome.report(place / "audited").file
    assert None not in found.values()
    return {name: file for name, file in found.items() if file is not None}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield opened
        opened.close()


@dataclass
class Opened:
    """A page, what it said on the console, and what it asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Opened]]:
    contexts = []

    def open_report(file: Path, screen: str = "light") -> Opened:
        width, height = SCREENS[screen]
        scheme = "dark" if screen == "dark" else "light"
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.said.append(f"{message.type}: {message.text}"))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.goto(file.as_uri())
        found.page.wait_for_selector("html[data-drawn]", timeout=120_000)
        return found

    yield open_report
    for context in contexts:
        context.close()


def pixels(page: Any) -> np.ndarray:
    """The whole page as an array of colours."""
    return np.asarray(Image.open(io.BytesIO(page.screenshot(full_page=True, timeout=120_000))).convert("RGB"))


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", ["run", "sweep", "paper", "audited"])
def test_every_figure_is_drawn_without_a_word_or_a_request(
    name: str, screen: str, reports: dict[str, Path], opened: Callable[..., Opened]
) -> None:
    found = opened(reports[name], screen)
    page = found.page
    page.evaluate("() => document.querySelectorAll('details.more').forEach(each => each.open = true)")
    page.wait_for_function(
        "document.querySelectorAll('.chart').length == document.querySelectorAll('.chart .marks').length"
    )
    shown = pixels(page)
    boxes = page.eval_on_selector_all(
        ".chart",
        "all => all.map(each => { const b = each.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]})",
    )
    assert len(boxes) >= {"run": 2, "sweep": 8, "paper": 8, "audited": 10}[name]
    for x, y, width, height in boxes:
        picture = shown[int(y) : int(y + height), int(x) : int(x + width)]
        colours = {tuple(colour) for colour in picture.reshape(-1, 3)[::7]}
        assert height > 80 and len(colours) > 8, "a figure is empty"
    labels = page.eval_on_selector_all(".chart [role=graphics-document]", "all => all.map(e => e.ariaLabel)")
    assert len(labels) == len(boxes) and all(labels)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert found.said == []
    assert found.asked == [reports[name].as_uri()] or set(found.asked) <= {reports[name].as_uri(), "data:,"}


def test_the_dark_page_is_dark_and_its_text_light(reports: dict[str, Path], opened: Callable[..., Opened]) -> None:
    brightness = {}
    for screen in ("light", "dark"):
        page = opened(reports["sweep"], screen).page
        text = page.evaluate("getComputedStyle(document.querySelector('.chart svg.marks text')).fill")
        numbers = [int(each) for each in text.removeprefix("rgb(").rstrip(")").split(",")]
        brightness[screen] = float(np.median(pixels(page))), float(np.mean(numbers))
    assert brightness["light"][0] > 230 > 100 > brightness["light"][1]
    assert brightness["dark"][0] < 60 < 180 < brightness["dark"][1]


def column(page: Any, number: int) -> list[float]:
    """Numbers of a column of the first table of results."""
    return page.evaluate(
        "n => [...document.querySelector('#runs-1 tbody').rows].map(row => parseFloat(row.cells[n].dataset.value))",
        number,
    )


def test_a_table_is_sorted_by_mouse_and_by_keyboard(reports: dict[str, Path], opened: Callable[..., Opened]) -> None:
    page = opened(reports["sweep"]).page
    heads = page.eval_on_selector_all("#runs-1 thead th", "all => all.map(each => each.textContent)")
    number = heads.index("AA")
    before = column(page, number)
    assert before != sorted(before, reverse=True) and before != sorted(before)
    button = page.locator("#runs-1 thead button").nth(number)
    button.click()
    assert column(page, number) == sorted(before, reverse=True)
    assert button.locator("..").get_attribute("aria-sort") == "descending"
    page.locator("#runs-1 thead button").nth(number - 1).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert column(page, number) == sorted(before)
    assert button.locator("..").get_attribute("aria-sort") == "ascending"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.locator("#runs-1 thead button").first.click()
    names = page.eval_on_selector("#runs-1 tbody", "body => [...body.rows].map(row => row.cells[0].textContent.trim())")
    assert names == sorted(names)


def curve(page: Any, part: str) -> list[str]:
    """Parts of the first figure of runs: where lines go, and what labels say."""
    read = "all => all.map(each => each.getAttribute('d') ?? each.textContent).sort()"
    return page.eval_on_selector_all(f"#runs-1 figure.wide:first-child {part}", read)


def test_a_method_is_switched_off_and_on_in_every_figure(
    reports: dict[str, Path], opened: Callable[..., Opened]
) -> None:
    page = opened(reports["sweep"]).page
    lines = ".mark-line path"
    before = curve(page, lines), curve(page, ".role-axis-label text")
    names = page.eval_on_selector_all(".switches label", "all => all.map(each => each.textContent.trim())")
    assert names == ["finetune", "joint", "ewc", "delome"]
    page.locator(".switches input[value=finetune]").focus()
    page.keyboard.press("Space")
    page.wait_for_function(f"document.querySelectorAll('#runs-1 figure.wide:first-child {lines}').length == 4")
    assert len(before[0]) == 5
    assert "finetune" not in "".join(page.locator("#runs-1 .role-axis-label").all_text_contents())
    page.locator(".switches input[value=finetune]").check()
    page.wait_for_function(f"document.querySelectorAll('#runs-1 figure.wide:first-child {lines}').length == 5")
    assert (curve(page, lines), curve(page, ".role-axis-label text")) == before


def test_switches_reach_the_figures_of_experiments_and_of_single_methods(
    reports: dict[str, Path], opened: Callable[..., Opened]
) -> None:
    page = opened(reports["paper"]).page
    section = f"#paper-{1 + NAMES.index('ablation')}"
    assert "lossless × debiased" in page.locator(f"{section} .role-axis-label").all_text_contents()
    own = page.locator("figure[data-method=delome]:visible")  # accuracy matrices, and a panel of the map
    assert own.count() > 2
    page.get_by_role("checkbox", name="DeLoMe").uncheck()
    page.wait_for_function(f"document.querySelectorAll('{section} .mark-rect.role-mark path').length == 0")
    assert own.count() == 0 and page.locator("figure[data-method=ssm-uniform]:visible").count() > 2


def test_colours_of_matrices_have_one_scale_or_each_their_own(
    reports: dict[str, Path], opened: Callable[..., Opened]
) -> None:
    page = opened(reports["sweep"]).page
    of_cells = "() => [...document.querySelectorAll('.cell')].map(cell => [...cell.querySelectorAll('%s')].map(%s))"
    fills = of_cells % (".mark-rect path", "each => each.getAttribute('fill')")
    before = page.evaluate(fills)
    numbers = page.evaluate(of_cells % (".mark-text.role-mark text", "each => each.textContent"))
    assert all(len(cell) == 6 for cell in numbers)
    page.get_by_label("from the lowest to the highest number of each").check()
    page.wait_for_function(f"before => JSON.stringify(({fills})()) != JSON.stringify(before)", arg=before)
    after = page.evaluate(fills)
    for cell, values in zip(after, numbers, strict=True):
        assert len({*cell}) > 1 or len({*values}) == 1


def test_names_from_elsewhere_are_text_and_no_other_script_may_run(
    reports: dict[str, Path], opened: Callable[..., Opened]
) -> None:
    page = opened(reports["run"]).page
    assert HOSTILE.removesuffix(".npz") in page.inner_text("h1")
    assert page.evaluate("window.stolen") is None
    page.evaluate(
        "() => { const script = document.createElement('script'); script.textContent = 'window.stolen = 2';"
        " document.body.append(script);"
        " document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.stolen=3>') }"
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.stolen") is None
    refused = page.evaluate("fetch('https://example.org').then(() => 'loaded', () => 'refused')")
    assert refused == "refused"


def test_notes_lead_to_their_text_and_selections_and_commands_are_there(
    reports: dict[str, Path], opened: Callable[..., Opened]
) -> None:
    page = opened(reports["paper"]).page
    targets = page.eval_on_selector_all("sup a, nav a", "all => all.map(each => each.getAttribute('href'))")
    assert targets and all(page.locator(f'[id="{target[1:]}"]').count() == 1 for target in targets)
    page = opened(reports["sweep"]).page
    assert page.locator("#selection td.best").count() == 1
    assert "strength" in page.inner_text("#selection")
    assert "delome run --dataset synthetic:nodes=120,classes=6 --method finetune" in page.inner_text("#configuration")


def test_what_memories_give_away_is_a_section_of_its_own(
    reports: dict[str, Path], opened: Callable[..., Opened]
) -> None:
    page = opened(reports["audited"]).page
    rows = page.eval_on_selector_all("#leaks tbody tr", "all => all.map(row => row.innerText)")
    assert len(rows) == 2 and "1.000" in rows[0] and "leak" in rows[0] and "4" in rows[1]
    assert page.locator("#leaks .chart .marks").count() == 4
    page.locator(".switches input[value=ergnn]").uncheck()
    page.wait_for_function("document.querySelectorAll('#leaks .mark-symbol path').length == 2")
    assert opened(reports["sweep"]).page.locator("#leaks").count() == 0


def test_menus_of_figures_pass_behind_the_switches(reports: dict[str, Path], opened: Callable[..., Opened]) -> None:
    page = opened(reports["sweep"]).page
    covering = """menu => {
        window.scrollBy(0, menu.getBoundingClientRect().top - 4)
        const box = menu.getBoundingClientRect()
        return !!document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2).closest(".switches")
    }"""
    assert page.locator(".chart summary").first.evaluate(covering)


def test_figures_in_files_have_room_for_their_text(reports: dict[str, Path], browser: Any, tmp_path: Path) -> None:
    drawn = delome.report(reports["sweep"].parent, out=tmp_path / "r.html", figures=tmp_path / "drawn").figures
    page = browser.new_page()
    boxes = (
        "all => all.map(each => { const b = each.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]})"
    )
    for file in [file for file in drawn if file.suffix == ".svg"]:
        page.goto(file.as_uri())
        ((_, _, width, height),) = page.eval_on_selector_all("svg", boxes)
        texts = page.eval_on_selector_all("text", boxes)
        assert texts and all(x0 >= 0 and y0 >= 0 and x1 <= width and y1 <= height for x0, y0, x1, y1 in texts), (
            file.name
        )
        for k, (x0, y0, x1, y1) in enumerate(texts):
            # boxes are as high as the tallest letters of a font
            assert not any(x0 < b[2] and b[0] < x1 and y0 + 2 < b[3] and b[1] + 2 < y1 for b in texts[:k]), file.name
    page.close()


def test_a_page_is_printed_in_black_on_white(reports: dict[str, Path], opened: Callable[..., Opened]) -> None:
    page = opened(reports["sweep"], "dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.chart svg.marks text')).fill") == "rgb(0, 0, 0)"
    assert page.locator(".switches, .hint, nav").filter(visible=True).count() == 0
    assert "Switch a method off" not in page.inner_text("main")
    assert page.pdf()[:5] == b"%PDF-"


@pytest.mark.parametrize("name", ["sweep", "paper", "audited"])
def test_nothing_is_cut_on_a_printed_page(name: str, reports: dict[str, Path], opened: Callable[..., Opened]) -> None:
    page = opened(reports[name]).page
    page.emulate_media(media="print")
    # A4 within margins of 1 cm; paper is no window whose size changes, so that nothing is drawn again
    page.add_style_tag(content="body { width: 718px }")
    wide = (
        "all => all.filter(each => each.getBoundingClientRect().right > 718).map(each => each.outerHTML.slice(0, 80))"
    )
    assert page.eval_on_selector_all("table, .chart svg", wide) == []


def test_figures_are_drawn_for_the_width_of_paper_and_back(
    reports: dict[str, Path], opened: Callable[..., Opened]
) -> None:
    page = opened(reports["sweep"]).page
    widths = "() => [...document.querySelectorAll('figure.wide svg.marks')].map(each => +each.getAttribute('width'))"
    before = page.evaluate(widths)
    assert before and min(before) > 1000
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    assert {*page.evaluate(widths)} == {640}  # of a sheet's 700 pixels: its text is not made smaller
    page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(widths) == before


def test_tables_and_notes_stay_on_one_sheet(reports: dict[str, Path], opened: Callable[..., Opened]) -> None:
    page = opened(reports["paper"]).page
    page.emulate_media(media="print")
    for part in (".scroll", "ul.notes", "ol.notes", "figure", "h2"):
        assert page.eval_on_selector(part, "each => getComputedStyle(each).breakInside") == "avoid", part


def test_titles_that_links_lead_to_are_not_covered_by_switches(
    reports: dict[str, Path], opened: Callable[..., Opened]
) -> None:
    page = opened(reports["paper"]).page
    page.evaluate(
        "() => { const bar = document.querySelector('.switches');"
        " for (let k = 0; k < 40; k++) bar.append(bar.querySelector('label').cloneNode(true)) }"
    )
    page.wait_for_timeout(100)
    assert page.locator(".switches").bounding_box()["height"] > 100
    page.locator("nav a").nth(1).click()
    bar, title = page.locator(".switches").bounding_box(), page.locator("#paper-2 h2").bounding_box()
    assert bar["y"] == 0 and bar["height"] <= title["y"] < bar["height"] + 60


def test_columns_of_reported_and_measured_numbers_fit_beside_each_other(browser: Any, tmp_path: Path) -> None:
    numbers = {"measured": -93.4, "std": 12.5, "seeds": 3, "reported": -95.2, "reported_std": 10.5, "difference": 11.8}
    how: dict[str, Any] = {"notes": ["A note."], "settings": [], "left_out": [], "command": "", "dataset": "corafull"}
    metrics = {name: numbers | {"within": False} for name in ("aa", "af")}
    rows = [{"label": label, "x": None, "metrics": metrics} | how for label in ("DeLoMe (our defaults)", "Joint")]
    document = {"name": "cil", "title": "T", "form": "table", "x": None, "y": "AA, %", "rows": rows}
    (tmp_path / "paper").mkdir()
    write_document(tmp_path / "paper/cil.json", KIND, document)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(delome.report(tmp_path).file.resolve().as_uri())
    page.wait_for_selector("html[data-drawn]")
    assert page.eval_on_selector(".scroll", "each => each.scrollWidth - each.clientWidth") == 0
    page.close()

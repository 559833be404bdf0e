"""Pages a person reads: links lead somewhere, code runs, and nothing unfinished is left in them."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from delome.cli import app
from delome.cli.options import several_values
from delome.experiment import RunConfig
from delome.experiment.options import RunOptions
from delome.methods import METHODS
from delome.parameters import parse_assignments

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_and_images_exist(page):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_placeholder_is_left(page):
    assert "@@" not in page.read_text()


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "docs"], ids=lambda page: page.name)
def test_python_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}  # shared: a page is read from its beginning
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(code, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_package_that_a_page_names_exist(page):
    named = re.findall(r"`(?:src/)?(?:delome/)?((?:\w+/)+\w+\.py)`", page.read_text())
    assert [name for name in named if not (ROOT / "src/delome" / name).is_file() and not (ROOT / name).is_file()] == []


def commands_in(page):
    """Command lines in code blocks and between backquotes, each as a list of words."""
    text = page.read_text()
    blocks = re.findall(r"```\w*\n(.*?)```", text, flags=re.DOTALL)
    spans = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line for block in blocks for line in block.splitlines()] + [" ".join(span.split()) for span in spans]
    lines = [re.split(r" #| > |( --[a-z-]+)? …", line)[0] for line in lines]
    return [shlex.split(line)[1:] for line in lines if re.match(r"delome (run|learn|predict|check) (?!NAME)", line)]


COMMANDS = [(page, words) for page in PAGES for words in commands_in(page)]


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=lambda part: getattr(part, "name", None) or " ".join(part))
def test_commands_have_the_options_and_parameters_that_a_page_gives_them(page, words):
    name, *arguments = words
    if name in ("learn", "predict"):  # a sentence may name only the option that it is about
        arguments += [word for option in ("--model", "--graph") if option not in words for word in (option, "any")]
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    parsed = group.commands[name].make_context(name, arguments).params
    lists = several_values(RunOptions, parsed)
    parsed |= {each: values[0] for each, values in lists.items()}
    method = parsed.get("method") or "delome"
    own = [each for each in (method, *(parsed.get("assignments") or [])) if re.search(r"\w+:[A-Z]", each)]
    if name == "run" and not own:
        for each in lists.get("method", [method]):
            RunConfig.of(RunOptions.given(parsed | {"method": each}))
    elif not own:
        parse_assignments(METHODS[method], parsed.get("assignments") or [], method)


def test_commands_are_found_in_pages():
    assert len(COMMANDS) > 10

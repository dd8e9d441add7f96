"""Documents that cannot rot: printed pages are up to date, links lead somewhere, and what is quoted is really said."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from bus.cli.commands import app
from bus.settings.catalogue import SETTINGS
from tools.pages import DOCS, printed, write

ROOT = DOCS.parent
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
PACKAGES = ("protocol", "bus", "actors", "supervisors")
QUOTE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")


@pytest.mark.parametrize("name", printed())
def test_a_printed_page_is_that_of_the_code(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == printed()[name], "out of date: run `make docs`"


def test_writing_leaves_exactly_the_printed_pages_however_often(tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "tester.md").write_text("a machine that is gone")

    write(tmp_path)
    write(tmp_path)

    found = {str(path.relative_to(tmp_path)): path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.md")}
    assert found == printed()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    targets = [target for target, _ in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]

    missing = [target for target in targets if not (page.parent / target).exists()]

    assert missing == []


def quoted_messages() -> Iterator[str]:
    """What the first column of the table of messages quotes."""
    _, _, table = (DOCS / "operations.md").read_text(encoding="utf-8").partition("| it says | do |\n|---|---|\n")
    for row in table.splitlines():
        yield from QUOTE.findall(row.split(" | ")[0])


@cache
def texts_in_the_code() -> tuple[str, ...]:
    """Every text in the packages, with those that are written in several pieces put together."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return tuple(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("message", list(quoted_messages()))
def test_a_message_that_the_operations_page_quotes_is_one_of_the_program(message: str) -> None:
    fragments = [fragment.strip() for fragment in message.split("…") if fragment.strip()]

    unsaid = [fragment for fragment in fragments if not any(fragment in text for text in texts_in_the_code())]

    assert fragments
    assert unsaid == []


def test_the_operations_page_quotes_messages() -> None:
    assert len(list(quoted_messages())) >= 15


def test_the_settings_page_names_the_flags_that_there_are() -> None:
    offered = {option for parameter in get_command(app).params for option in parameter.opts}
    flags = [setting.flag for setting in SETTINGS.values() if setting.flag in offered]

    page = (DOCS / "settings.md").read_text(encoding="utf-8")

    assert [flag for flag in QUOTE.findall(page) if flag.startswith("--") and flag != "--directory"] == flags
    assert "--directory" in offered

"""Documents that cannot rot: printed pages are up to date, and every link leads somewhere."""

import re
from pathlib import Path

import pytest

from tools.pages import DOCS, printed, write

ROOT = DOCS.parent
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
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

"""Writes the pages of docs/ that are printed from the code: `python -m tools.pages`, or `make docs`."""

from pathlib import Path

from bus.settings.page import render_page
from protocol.pages import all_pages
from protocol.reference import protocol_page

DOCS = Path(__file__).parent.parent / "docs"
STATES = "states"


def printed() -> dict[str, str]:
    """Every printed page, by its place below docs/."""
    states = {f"{STATES}/{name}": text for name, text in all_pages().items()}
    return {**states, "protocol.md": protocol_page(), "settings.md": render_page()}


def write(docs: Path) -> None:
    """Make `docs` hold the printed pages; a page whose machine is gone is removed."""
    pages = printed()
    (docs / STATES).mkdir(parents=True, exist_ok=True)
    for stale in (docs / STATES).glob("*.md"):
        if f"{STATES}/{stale.name}" not in pages:
            stale.unlink()
    for name, text in pages.items():
        (docs / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(DOCS)

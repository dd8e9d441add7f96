"""Writes docs/states from the machines: `python -m tools.pages`, or `make docs`."""

from pathlib import Path

from protocol.pages import all_pages

FOLDER = Path(__file__).parent.parent / "docs" / "states"


def write(folder: Path) -> None:
    """Make `folder` hold exactly the pages of the machines; a page whose machine is gone is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = all_pages()
    for stale in folder.glob("*.md"):
        if stale.name not in pages:
            stale.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(FOLDER)

"""List items as text: an acceptance criterion without its marker, checkbox and indentation."""

import re

from protocol.spec.problems import Problems
from protocol.spec.source import BLANK

INDENT = "  "

_MARKER = re.compile(r" {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?=[ \t]|$)")
_CHECKBOXES = re.compile(r"(?:\[[ xX]\](?:[ \t\n]+|\Z))+")
_WORDLESS = re.compile(r"[-+*_ \t]*(?:\n|\Z)")
_CONTAINER = re.compile(r">|(?:[-+*]|[0-9]{1,9}[.)])(?:[ \t\n]|\Z)")
_TAB_COLUMNS = 4


def item_text(lines: list[str], first: int, end: int) -> str:
    """The item on these lines; the lines after its first keep what indentation they have beyond the item's own.

    Leading tabs become spaces, because how wide a tab is depends on where the item stands.
    """
    marker = _MARKER.match(lines[first])
    assert marker is not None
    opening = lines[first][marker.end() :]
    column = _content_column(opening, marker.end())
    following = [_outdent(line, column) for line in lines[first + 1 : end]]
    text = "\n".join([opening.lstrip(BLANK), *following]).strip(" \t\n")
    checkboxes = _CHECKBOXES.match(text)
    return text[checkboxes.end() :] if checkboxes else text


def render_item(text: str) -> str:
    """A list item from which `item_text` gives the same text again."""
    return "- " + "\n".join(f"{INDENT}{line}" if line else "" for line in text.split("\n")).removeprefix(INDENT)


def read_criterion(lines: list[str], first: int, end: int, problems: Problems) -> str:
    """An item as a criterion, with a problem reported if it is none."""
    text = item_text(lines, first, end)
    if _WORDLESS.match(text):
        problems.add(first, "there is an acceptance criterion without words", "say what has to be true, or delete it")
    elif _CONTAINER.match(text):
        what = "an acceptance criterion begins with the marker of another list or quote"
        problems.add(first, what, "begin it with words")
    return text


def _content_column(opening: str, marker_end: int) -> int:
    """The column from which on lines belong to the item; markdown's rule for the spaces after a marker."""
    content = opening.lstrip(BLANK)
    column = _column_after(opening[: len(opening) - len(content)], marker_end)
    return column if content and column - marker_end <= _TAB_COLUMNS else marker_end + 1


def _outdent(line: str, column: int) -> str:
    content = line.lstrip(BLANK)
    if not content:
        return ""
    indent = _column_after(line[: len(line) - len(content)], 0)
    return " " * max(0, indent - column) + content


def _column_after(space: str, column: int) -> int:
    for character in space:
        column += _TAB_COLUMNS - column % _TAB_COLUMNS if character == "\t" else 1
    return column

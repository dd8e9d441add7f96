"""What stands below a requirement's heading: its description, acceptance criteria and dependencies, in any order.

The description is one piece of the text, kept as it is. Were it put together from several, markdown might take the
beginning of one for the end of another, and what was inside a code block for a heading.
"""

from typing import NamedTuple

from protocol.spec.criteria import item_text, read_criterion
from protocol.spec.dependencies import NamedId, read_ids
from protocol.spec.labels import Label, LabelKind, hides_label, read_label
from protocol.spec.outline import Block
from protocol.spec.problems import Problems
from protocol.spec.source import slice_text

_NAMES: dict[LabelKind, str] = {"criteria": "Acceptance criteria", "dependencies": "Dependencies"}
_FIX_CRITERIA = "write a line `**Acceptance criteria:**` and below it a list of what has to be true"
_FIX_HIDDEN = "put it at the beginning of a line of its own, without a marker"
_FIX_NOTHING = "name the requirements it needs, as in `Dependencies: R-001, R-002`, or write `none`"


class Content(NamedTuple):
    """A requirement without its heading."""

    description: str
    acceptance_criteria: list[str]
    depends_on: list[NamedId]


class _Part(NamedTuple):
    """A label on line `first` with what it takes: text, each line with its index, and list items."""

    kind: LabelKind
    first: int
    values: list[tuple[int, str]]
    items: list[tuple[int, int]]


def read_content(name: str, heading: int, blocks: list[Block], lines: list[str], problems: Problems) -> Content:
    """Read the blocks below the heading of requirement `name`, which is on line `heading`."""
    for block in blocks:
        _check_hidden_labels(block, lines, problems)
    parts, text = _split(blocks, lines, problems)
    criteria, dependencies = parts.get("criteria"), parts.get("dependencies")
    if criteria is None:
        problems.add(heading, f"{name} has no acceptance criteria", _FIX_CRITERIA)
    return Content(
        slice_text(lines, text[0].first, text[-1].end) if text else "",
        _read_criteria(criteria, lines, problems) if criteria else [],
        _read_dependencies(dependencies, lines, problems) if dependencies else [],
    )


def _label_of(block: Block, lines: list[str]) -> Label | None:
    """The label that a heading is, or that a paragraph begins with."""
    if block.kind == "heading":
        return read_label(block.text)
    return read_label(lines[block.first]) if block.kind == "paragraph" else None


def _check_hidden_labels(block: Block, lines: list[str], problems: Problems) -> None:
    """Report a label that is part of a list or a quote, rather than lose what it says."""
    if block.kind in ("list", "quote"):
        for index in range(block.first, block.end):
            if hides_label(lines[index]):
                problems.add(index, f"there is a label inside a {block.kind}", _FIX_HIDDEN)


def _split(blocks: list[Block], lines: list[str], problems: Problems) -> tuple[dict[LabelKind, _Part], list[Block]]:
    """The labelled parts, the first of each kind, and the blocks of the description."""
    parts: dict[LabelKind, _Part] = {}
    text: list[Block] = []
    part: _Part | None = None
    for block in blocks:
        if label := _label_of(block, lines):
            part = _Part(label.kind, block.first, _values(label.value, block, lines), [])
            _check_first(parts.setdefault(label.kind, part), part, problems)
        elif part and _takes(part, block):
            part.items.extend(block.items)
            part.values.extend(_values(lines[block.first], block, lines) if block.kind == "paragraph" else ())
        elif not (part and block.kind == "rule"):  # A line --- may part two requirements.
            if part and text:
                what = "there is text below the acceptance criteria or dependencies, apart from the description"
                problems.add(block.first, what, "move it up into the description")
            part = None
            text.append(block)
    return parts, text


def _values(opening: str, block: Block, lines: list[str]) -> list[tuple[int, str]]:
    """A block's text in its lines, with `opening` for the first of them."""
    following = lines[block.first + 1 : block.end] if block.kind == "paragraph" else []
    return [(block.first + offset, text) for offset, text in enumerate([opening, *following]) if text]


def _takes(part: _Part, block: Block) -> bool:
    """Criteria are lists; dependencies are on the label's own line, or else in lists or in one paragraph."""
    if part.kind == "dependencies" and not part.values:
        return block.kind == "list" or (block.kind == "paragraph" and not part.items)
    return part.kind == "criteria" and block.kind == "list"


def _check_first(first: _Part, part: _Part, problems: Problems) -> None:
    if first is not part:
        what = f"there is a second {_NAMES[part.kind]} in one requirement; the first is on line {first.first + 1}"
        problems.add(part.first, what, "put the two together")


def _read_criteria(part: _Part, lines: list[str], problems: Problems) -> list[str]:
    if part.values or not part.items:
        problems.add(part.first, "Acceptance criteria is not followed by a list", _FIX_CRITERIA)
    return [read_criterion(lines, first, end, problems) for first, end in part.items]


def _read_dependencies(part: _Part, lines: list[str], problems: Problems) -> list[NamedId]:
    values = [*part.values, *((first, item_text(lines, first, end)) for first, end in part.items)]
    if not any(value for _, value in values):
        problems.add(part.first, "Dependencies says nothing", _FIX_NOTHING)
    return read_ids(values, problems)

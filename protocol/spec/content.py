"""What stands below a requirement's heading: its description, acceptance criteria and dependencies, in any order.

The description is one piece of the text, kept as it is. Were it put together from several, markdown might take the
beginning of one for the end of another, and what was inside a code block for a heading.
"""

from typing import NamedTuple

from protocol.spec.criteria import item_text, read_criterion
from protocol.spec.dependencies import NamedId, read_ids
from protocol.spec.labels import Part, hides_label, read_parts
from protocol.spec.outline import Block
from protocol.spec.problems import Problems
from protocol.spec.source import slice_text

_FIX_CRITERIA = "write a line `**Acceptance criteria:**` and below it a list of what has to be true"
_FIX_HIDDEN = "put it on a line of its own, with an empty line above it and without a marker"
_FIX_NOTHING = "name the requirements it needs, as in `Dependencies: R-001, R-002`, or write `none`"


class Content(NamedTuple):
    """A requirement without its heading."""

    description: str
    acceptance_criteria: list[str]
    depends_on: list[NamedId]


def read_content(name: str, heading: int, blocks: list[Block], lines: list[str], problems: Problems) -> Content:
    """Read the blocks below the heading of requirement `name`, which is on line `heading`."""
    parts = read_parts(blocks, lines)
    labels: dict[str, Part] = {}
    for part in parts:
        if part.kind in ("criteria", "dependencies"):
            _check_first(part, labels, problems)
    if "criteria" not in labels:
        problems.add(heading, f"{name} has no acceptance criteria", _FIX_CRITERIA)
    return Content(
        _read_description(parts, lines, problems),
        _read_criteria(labels["criteria"], lines, problems) if "criteria" in labels else [],
        _read_dependencies(labels["dependencies"], lines, problems) if "dependencies" in labels else [],
    )


def _check_first(label: Part, labels: dict[str, Part], problems: Problems) -> None:
    earlier = labels.setdefault(label.kind, label)
    if earlier is not label:
        name = "Acceptance criteria" if label.kind == "criteria" else "Dependencies"
        what = f"there is a second {name} in one requirement; the first is on line {earlier.first + 1}"
        problems.add(label.first, what, "put the two together")


def _read_criteria(label: Part, lines: list[str], problems: Problems) -> list[str]:
    if label.values or not label.items:
        problems.add(label.first, "Acceptance criteria is not followed by a list", _FIX_CRITERIA)
    return [read_criterion(lines, first, end, problems) for first, end in label.items]


def _read_dependencies(label: Part, lines: list[str], problems: Problems) -> list[NamedId]:
    values = [*label.values, *((first, item_text(lines, first, end)) for first, end in label.items)]
    if not any(value for _, value in values):
        problems.add(label.first, "Dependencies says nothing", _FIX_NOTHING)
    return read_ids(values, problems)


def _read_description(parts: list[Part], lines: list[str], problems: Problems) -> str:
    first = end = None
    for before, part in zip([None, *parts], parts, strict=False):
        if part.kind in ("criteria", "dependencies"):
            continue
        _check_hidden_labels(part, lines, problems)
        if end is None:
            first = part.first
        elif before is not None and before.kind in ("criteria", "dependencies"):
            what = "there is text below the acceptance criteria or dependencies, apart from the description"
            problems.add(part.first, what, "move it up into the description")
        end = part.end
    return "" if first is None or end is None else slice_text(lines, first, end)


def _check_hidden_labels(part: Part, lines: list[str], problems: Problems) -> None:
    """Report a label that is part of a list or a quote, rather than lose what it says."""
    if part.kind not in ("list", "quote"):
        return
    for index in range(part.first, part.end):
        if hides_label(lines[index]):
            problems.add(index, f"there is a label inside a {part.kind}", _FIX_HIDDEN)

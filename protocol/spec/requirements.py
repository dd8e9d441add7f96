"""The section Requirements: one heading for each requirement, and what stands below it."""

import re
from typing import NamedTuple

from protocol.spec.content import Content, read_content
from protocol.spec.dependencies import REQUIREMENT_ID
from protocol.spec.labels import read_label
from protocol.spec.outline import Block
from protocol.spec.problems import Problems, shown

REQUIREMENT_LEVEL = 3

_HEADING = re.compile(rf"({REQUIREMENT_ID.pattern})\b[ \t]*(:?)(.*)")
_LIKE_AN_ID = re.compile(r"R[-_ ]?[0-9]", re.IGNORECASE)
_FIX = "write it as `### R-001: Title`, with R-, three to nine digits, a colon and a title"


class Draft(NamedTuple):
    """A requirement as it was read, on line `line_index`; id and title can be empty where a problem was reported."""

    line_index: int
    id: str
    title: str
    content: Content


def is_requirement(block: Block) -> bool:
    """Whether a block is certainly meant as a requirement's heading, wherever it stands."""
    return block.kind == "heading" and REQUIREMENT_ID.match(block.text) is not None


def looks_like_requirement(heading: Block) -> bool:
    """Whether a heading below Requirements is meant as one, well written or not."""
    return _LIKE_AN_ID.match(heading.text) is not None


def read_requirements(heading: Block, blocks: list[Block], lines: list[str], problems: Problems) -> list[Draft]:
    """Read everything below the section's heading."""
    above, groups = _group(blocks)
    if above:
        what = "there is text in Requirements that belongs to no requirement"
        problems.add(above[0].first, what, "move it into Scope, or into the description of a requirement")
    if not groups:
        fix = "add a heading `### R-001: Title` for each thing that has to be true"
        problems.add(heading.first, "there are no requirements", fix)
    drafts: list[Draft] = []
    for group in groups:
        if looks_like_requirement(group[0]):
            drafts.append(_read_requirement(group[0], group[1:], lines, problems))
        else:
            # What stands below it may belong to the requirement before: there is no telling what is missing.
            problems.add(group[0].first, f"{shown(group[0].text)} is not a requirement", _fix(group[0]))
    return drafts


def _group(blocks: list[Block]) -> tuple[list[Block], list[list[Block]]]:
    """What stands above the first requirement, and the blocks of each requirement with its heading first."""
    above: list[Block] = []
    groups: list[list[Block]] = []
    for block in blocks:
        if _begins_requirement(block, groups[-1][0].level if groups else 0):
            groups.append([block])
        else:
            (groups[-1] if groups else above).append(block)
    return [block for block in above if block.kind != "rule"], groups


def _begins_requirement(block: Block, level: int) -> bool:
    """Also true of a heading that stands where a requirement should and is none, which is then reported."""
    if block.kind != "heading" or read_label(block.text):
        return False
    return block.level <= max(level, REQUIREMENT_LEVEL) or looks_like_requirement(block)


def _fix(heading: Block) -> str:
    deeper = "#" * min(max(heading.level, REQUIREMENT_LEVEL) + 1, 6)
    return f"{_FIX}; if it is part of the requirement above, make it a deeper heading ({deeper})"


def _read_requirement(heading: Block, blocks: list[Block], lines: list[str], problems: Problems) -> Draft:
    found = _HEADING.fullmatch(heading.text)
    # The id counts even where the rest is wrong: nobody is told that it does not exist.
    requirement_id, colon, title = found.groups() if found else ("", "", "")
    if not (colon and title.strip()):
        problems.add(heading.first, f"{shown(heading.text)} is not the heading of a requirement", _FIX)
    content = read_content(requirement_id or "this requirement", heading.first, blocks, lines, problems)
    return Draft(heading.first, requirement_id, title.strip(), content)

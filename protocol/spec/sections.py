"""A spec's sections: the three that every spec has, and whatever others the person added."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from protocol.spec.outline import Block
from protocol.spec.problems import Problems, shown
from protocol.spec.requirements import is_requirement, looks_like_requirement
from protocol.spec.source import slice_text

VISION, SCOPE, REQUIREMENTS = "Vision", "Scope", "Requirements"
SECTION_LEVEL_MAX = 2

_WHAT_BELONGS_THERE = {
    VISION: "what this is for and who will be glad of it",
    SCOPE: "what is part of it and what is not",
    REQUIREMENTS: "one heading `### R-001: Title` for each requirement",
}
_NAMES = {name.lower(): name for name in _WHAT_BELONGS_THERE}


class Section(NamedTuple):
    """A section's heading and the blocks below it, up to line `end` (not included)."""

    name: str
    heading: Block
    blocks: list[Block]
    end: int

    def text(self, lines: list[str]) -> str:
        """All that stands below the heading, as it is."""
        return slice_text(lines, self.heading.end, self.end)


def read_sections(blocks: list[Block], lines: list[str], problems: Problems) -> list[Section]:
    """Cut the text at its sections' headings. A title above all sections is dropped if it has no text of its own."""
    sections = _split(blocks, len(lines), problems)
    if sections and _is_only_a_title(sections[0]):
        del sections[0]
    _check_names(sections, problems)
    _check_presence(sections, blocks, len(lines) - 1, problems)
    for section in sections:
        if section.name in (VISION, SCOPE) and not section.blocks:
            fix = f"say {_WHAT_BELONGS_THERE[section.name]}, in text that no heading of level 1 or 2 cuts off"
            problems.add(section.heading.first, f"the section {section.name} is empty", fix)
    return sections


def _split(blocks: list[Block], end: int, problems: Problems) -> list[Section]:
    starts = [position for position, block in enumerate(blocks) if _may_begin_section(block)]
    sections: list[Section] = []
    for position in starts:
        if not (sections and _belongs_to_requirements(blocks[position], sections[-1])):
            name = _NAMES.get(blocks[position].text.lower(), blocks[position].text)
            sections.append(Section(name, blocks[position], [], end))
    return _with_blocks(sections, blocks, problems)


def _with_blocks(sections: list[Section], blocks: list[Block], problems: Problems) -> list[Section]:
    """Give every section the blocks between its heading and the next section's."""
    firsts = [section.heading.first for section in sections]
    filled = [
        section._replace(end=following) for section, following in zip(sections, firsts[1:], strict=False)
    ] + sections[-1:]
    current = -1
    for block in blocks:
        if current + 1 < len(filled) and block.first == firsts[current + 1]:
            current += 1
        elif current >= 0:
            filled[current].blocks.append(block)
        elif block is blocks[0]:
            fix = "move it into a section, for example below `## Vision`"
            problems.add(block.first, "there is text above the first section", fix)
    return filled


def _may_begin_section(block: Block) -> bool:
    return block.kind == "heading" and block.level <= SECTION_LEVEL_MAX


def _belongs_to_requirements(heading: Block, section: Section) -> bool:
    """Below `# Requirements` the requirements may be headings of level 2."""
    return section.name == REQUIREMENTS and heading.level > section.heading.level and looks_like_requirement(heading)


def _is_only_a_title(section: Section) -> bool:
    if section.heading.level > 1 or section.blocks or not section.name:
        return False
    return section.name not in _WHAT_BELONGS_THERE and not is_requirement(section.heading)


def _check_names(sections: list[Section], problems: Problems) -> None:
    seen: dict[str, Block] = {}
    for section in sections:
        line = section.heading.first
        if not section.name:
            problems.add(line, "there is a heading without words", "give it a name or delete it")
        elif section.name in seen:
            earlier = seen[section.name].first + 1
            what = f"there is a second section {shown(section.name)}; the first is on line {earlier}"
            problems.add(line, what, "put their texts together under one heading")
        elif is_requirement(section.heading):
            what = f"{shown(section.heading.text)} stands outside the section Requirements"
            problems.add(line, what, "put it below `## Requirements` and make its heading `###`")
        seen.setdefault(section.name, section.heading)


def _check_presence(sections: list[Section], blocks: list[Block], last: int, problems: Problems) -> None:
    present = {section.name for section in sections}
    missing = [name for name in _WHAT_BELONGS_THERE if name not in present]
    for name in missing:
        other = [block for block in blocks if block.kind == "heading" and block.text.lower() not in present]
        near = _nearest(name.lower(), other)
        fix = f"add a heading `## {name}` and below it {_WHAT_BELONGS_THERE[name]}"
        if near is None:
            problems.add(last, f"there is no section {name}", fix)
        else:
            fix = f"did you mean {name}? write the heading as `## {name}`"
            problems.add(near.first, f"there is a heading {shown(near.text)} but no section {name}", fix)


def _nearest(name: str, headings: Iterable[Block]) -> Block | None:
    """The heading that was probably meant as section `name`."""
    by_text: dict[str, Block] = {}
    for heading in headings:
        by_text.setdefault(heading.text.lower(), heading)
    near = difflib.get_close_matches(name, [text for text in by_text if text not in _NAMES], n=1, cutoff=0.7)
    near = [name] if name in by_text else near
    return by_text[near[0]] if near else None

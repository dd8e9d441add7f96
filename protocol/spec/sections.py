"""A spec's sections: the three that every spec has, and whatever others the person added."""

import difflib
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
    """A section's heading and the blocks below it."""

    name: str
    heading: Block
    blocks: list[Block]

    def text(self, lines: list[str]) -> str:
        """All that stands below the heading, as it is."""
        return slice_text(lines, self.heading.end, self.blocks[-1].end) if self.blocks else ""


def read_sections(blocks: list[Block], lines: list[str], problems: Problems) -> list[Section]:
    """Cut the text at its sections' headings. A title above all sections is dropped if it has no text of its own."""
    above, sections = _split(blocks)
    if above:
        fix = "move it into a section, for example below `## Vision`"
        problems.add(above[0].first, "there is text above the first section", fix)
    if sections and _is_only_a_title(sections[0]):
        del sections[0]
    _check_names(sections, problems)
    _check_presence(sections, blocks, len(lines) - 1, problems)
    _check_strays(sections, problems)
    for section in sections:
        _check_content(section, problems)
    return sections


def _split(blocks: list[Block]) -> tuple[list[Block], list[Section]]:
    """The blocks above the first section, and the sections."""
    above: list[Block] = []
    sections: list[Section] = []
    for block in blocks:
        if _may_begin_section(block) and not (sections and _belongs_to_requirements(block, sections[-1])):
            sections.append(Section(_NAMES.get(block.text.lower(), block.text), block, []))
        else:
            (sections[-1].blocks if sections else above).append(block)
    return above, sections


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
        seen.setdefault(section.name, section.heading)


def _check_content(section: Section, problems: Problems) -> None:
    if section.name in (VISION, SCOPE) and not section.blocks:
        fix = f"say {_WHAT_BELONGS_THERE[section.name]}, in text that no heading of level 1 or 2 cuts off"
        problems.add(section.heading.first, f"the section {section.name} is empty", fix)


def _check_strays(sections: list[Section], problems: Problems) -> None:
    """Report requirements in other sections, unless that follows from a section Requirements that is not there."""
    others = [section for section in sections if section.name != REQUIREMENTS]
    for section in others if len(others) < len(sections) else ():
        for block in (section.heading, *section.blocks):
            if is_requirement(block):
                what = f"{shown(block.text)} stands outside the section Requirements"
                fix = "move it below `## Requirements`, as a heading `###`, or begin the heading with another word"
                problems.add(block.first, what, fix)


def _check_presence(sections: list[Section], blocks: list[Block], last: int, problems: Problems) -> None:
    present = {section.name for section in sections}
    headings = {block.text.lower(): block for block in reversed(blocks) if block.kind == "heading"}
    for name in (name for name in _WHAT_BELONGS_THERE if name not in present):
        near = _nearest(name.lower(), headings)
        if near is None:
            fix = f"add a heading `## {name}` and below it {_WHAT_BELONGS_THERE[name]}"
            problems.add(last, f"there is no section {name}", fix)
        else:
            fix = f"did you mean {name}? write the heading as `## {name}`"
            problems.add(near.first, f"there is a heading {shown(near.text)} but no section {name}", fix)


def _nearest(name: str, headings: dict[str, Block]) -> Block | None:
    """The heading that was probably meant as section `name`: a deeper one of that name, or one that is much like it."""
    others = [text for text in headings if text not in _NAMES]
    near = [name] if name in headings else difflib.get_close_matches(name, others, n=1, cutoff=0.7)
    return headings[near[0]] if near else None

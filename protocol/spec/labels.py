"""The labelled parts of a requirement: its acceptance criteria and its dependencies, told from its description."""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from protocol.spec.outline import Block
from protocol.spec.source import BLANK

LabelKind = Literal["criteria", "dependencies"]
PartKind = Literal["criteria", "dependencies", "paragraph", "list", "quote", "other"]

_LABEL = re.compile(
    r"(?P<emphasis>[*_]{0,3})"
    r"(?:(?P<criteria>acceptance[ \t]+criteria)|dependencies|dependency|depends[ \t]+on)"
    r"[ \t]*(?P<colon>:?)[*_]{0,3}[ \t]*(?P<late_colon>:?)[ \t]*(?P<value>.*)",
    re.IGNORECASE | re.ASCII,
)
_MARKERS = re.compile(r"(?:[ \t>]|(?:[-+*]|[0-9]{1,9}[.)])[ \t])*")
_PLAUSIBLE_DEPENDENCIES = re.compile(r"(?:none\b|$|[`*_\[]*R-?[0-9])", re.IGNORECASE)


class Label(NamedTuple):
    """What a line says after its label."""

    kind: LabelKind
    value: str


class Part(NamedTuple):
    """A piece of a requirement on lines `first` to `end` (not included): a label with what it takes, or text.

    `values` are the lines of a paragraph or after a label, each with its index; `items` are those of lists.
    """

    kind: PartKind
    first: int
    end: int
    values: list[tuple[int, str]]
    items: list[tuple[int, int]]


def label_of_heading(heading: Block) -> Label | None:
    """The label that a heading is, if it is one."""
    found = _LABEL.fullmatch(heading.text)
    if found is None or (found["value"] and not _has_colon(found)):
        return None
    return _label(found)


def label_of_line(line: str) -> Label | None:
    """The label that a line of text begins with: emphasised or with a colon, so that a mere mention is none."""
    found = _LABEL.fullmatch(line.strip(BLANK))
    if found is None or not (_has_colon(found) or (found["emphasis"] and not found["value"])):
        return None
    return _label(found)


def hides_label(line: str) -> bool:
    """Whether a line inside a list or a quote says what only a label outside of them can say."""
    label = label_of_line(line[_end_of_markers(line) :])
    return label is not None and _is_surely_meant(label)


def read_parts(blocks: Iterable[Block], lines: list[str]) -> list[Part]:
    """The parts of a requirement in their order, each label with the lists that follow it."""
    parts: list[Part] = []
    for part in _split(blocks, lines):
        if parts and _takes(parts[-1], part):
            parts[-1].values.extend(part.values)
            parts[-1].items.extend(part.items)
        else:
            parts.append(part)
    return parts


def _takes(label: Part, part: Part) -> bool:
    """Criteria are lists; dependencies are on the label's own line, or else in lists or in one paragraph."""
    if label.kind == "dependencies" and not label.values:
        return part.kind == "list" or (part.kind == "paragraph" and not label.items)
    return label.kind == "criteria" and part.kind == "list"


def _split(blocks: Iterable[Block], lines: list[str]) -> Iterator[Part]:
    for block in blocks:
        if block.kind == "paragraph":
            yield from _split_paragraph(block, lines)
        elif block.kind == "heading":
            label = label_of_heading(block)
            yield Part(label.kind if label else "other", block.first, block.end, _values(block.first, label), [])
        else:
            yield Part(block.kind, block.first, block.end, [], list(block.items))


def _split_paragraph(block: Block, lines: list[str]) -> Iterator[Part]:
    """Text first, then labels. A label takes the lines that follow it, for text there cannot stand on its own:
    cut off from the line above, markdown might read it as something else."""
    parts = [Part("paragraph", block.first, block.end, [], [])]
    for index in range(block.first, block.end):
        label = label_of_line(lines[index])
        if label and (len(parts) > 1 or index == block.first or _is_surely_meant(label)):
            parts[-1] = parts[-1]._replace(end=index)
            parts.append(Part(label.kind, index, block.end, _values(index, label), []))
        else:
            parts[-1].values.append((index, lines[index].strip(BLANK)))
    return (part for part in parts if part.end > part.first)


def _is_surely_meant(label: Label) -> bool:
    """Prose can happen to have "dependencies:" at the beginning of a line; then no id follows."""
    return label.kind == "criteria" or _PLAUSIBLE_DEPENDENCIES.match(label.value) is not None


def _end_of_markers(line: str) -> int:
    found = _MARKERS.match(line)
    return found.end() if found else 0


def _has_colon(found: re.Match[str]) -> bool:
    return bool(found["colon"] or found["late_colon"])


def _label(found: re.Match[str]) -> Label:
    return Label("criteria" if found["criteria"] else "dependencies", found["value"].strip(BLANK))


def _values(index: int, label: Label | None) -> list[tuple[int, str]]:
    return [(index, label.value)] if label and label.value else []

"""Labels: the lines after which a requirement's acceptance criteria or dependencies come."""

import re
from typing import Literal, NamedTuple

from protocol.spec.source import BLANK

LabelKind = Literal["criteria", "dependencies"]

_LABEL = re.compile(
    r"[*_]{0,3}(?:(?P<criteria>acceptance[ \t]+criteria)|dependencies|dependency|depends[ \t]+on)"
    r"[*_]{0,3}[ \t]*(?P<colon>:?)[*_]{0,3}[ \t]*(?P<value>.*)",
    re.IGNORECASE | re.ASCII,
)
_MARKERS = re.compile(r"(?:[ \t>]|(?:[-+*]|[0-9]{1,9}[.)])[ \t]|\[[ xX]\][ \t])*")
_IDS_OR_NOTHING = re.compile(r"(?:none[*_.]*|[`*_\[(]*R-?[0-9].*)?", re.IGNORECASE)


class Label(NamedTuple):
    """What a line says after its label."""

    kind: LabelKind
    value: str


def read_label(line: str) -> Label | None:
    """The label that a line begins with; it is the whole line, or has a colon, so that a mere mention is none."""
    found = _LABEL.fullmatch(line.strip(BLANK))
    if found is None or (found["value"] and not found["colon"]):
        return None
    return Label("criteria" if found["criteria"] else "dependencies", found["value"])


def is_surely_label(line: str) -> bool:
    """Whether a line is meant as a label even in the middle of a text.

    Prose can happen to have "dependencies:" at the beginning of a line; then no id follows.
    """
    label = read_label(line)
    return label is not None and _IDS_OR_NOTHING.fullmatch(label.value) is not None


def hides_label(line: str) -> bool:
    """Whether a line of a list or a quote says, behind its markers, what only a label outside of them can say."""
    markers = _MARKERS.match(line)
    return is_surely_label(line[markers.end() if markers else 0 :])

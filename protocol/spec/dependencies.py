"""The ids by which requirements name one another."""

import re
from typing import NamedTuple

from protocol.spec.problems import Problems, shown

REQUIREMENT_ID = re.compile(r"R-[0-9]{3,9}")

_SEPARATOR = re.compile(r"[\s,;]+")


class NamedId(NamedTuple):
    """An id that a requirement depends on, and the line that says so."""

    id: str
    line_index: int


def read_ids(values: list[tuple[int, str]], problems: Problems) -> list[NamedId]:
    """The ids in these lines of text, with a problem for each line that has anything else in it; `none` is none."""
    words = [NamedId(word, index) for index, value in values for word in _words(value)]
    if [word.id.lower() for word in words] == ["none"]:
        return []
    strange: dict[int, list[str]] = {}
    for word in words:
        if not REQUIREMENT_ID.fullmatch(word.id):
            strange.setdefault(word.line_index, []).append(word.id)
    for index, found in strange.items():
        what = f"{shown(' '.join(found))} among the dependencies is no requirement's id"
        fix = "name ids such as R-001 with commas between them, or write `none`, and leave an empty line after it"
        problems.add(index, what, fix)
    return [word for word in words if REQUIREMENT_ID.fullmatch(word.id)]


def _words(value: str) -> list[str]:
    """The words without emphasis, brackets and what joins them: `**R-001**, [R-002] and R-003.`"""
    words = (word.strip("`*_.[]()") for word in _SEPARATOR.split(value))
    return [word for word in words if word and word.lower() != "and"]

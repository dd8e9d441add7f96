"""The front matter: a flat YAML mapping in which every value is text.

It is read from YAML's events and no object is ever built from it, so an alias has nothing to multiply and a tag
nothing to call; nesting, anchors, aliases and tags are refused where they stand.
"""

import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

import yaml

from protocol.spec.model import FRONT_MATTER_BYTES_MAX
from protocol.spec.problems import Problems, shown
from protocol.spec.source import UNPRINTABLE, Source, bytes_of

SPEC_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
KEY = re.compile(r"\w(?:[\w .-]{0,62}[\w.-])?")
NESTING_MAX = 20  # All nesting is refused, but YAML takes long to get through thousands of brackets to their end.

_WHAT_IS_REFUSED: dict[type[yaml.Event], str] = {
    yaml.AliasEvent: "an alias",
    yaml.MappingStartEvent: "a nested mapping",
    yaml.SequenceStartEvent: "a list",
}


class FrontMatter(NamedTuple):
    """The front matter's contents; id and title are empty where a problem was reported."""

    id: str
    title: str
    metadata: dict[str, str]


_UNREADABLE = FrontMatter("", "", {})


class _Entry(NamedTuple):
    """A key on its line; its value is empty where a problem was reported."""

    line_index: int
    key: str
    value: str
    is_refused: bool


class _TooDeepError(Exception):
    """The rest of the front matter is not worth reading."""


def read_front_matter(source: Source, problems: Problems) -> FrontMatter:
    """Read and check the front matter; there is nothing to add where it is missing."""
    if source.front_start == 0:
        return _UNREADABLE
    opening = source.front_start - 1
    text = "".join(f"{line}\n" for line in source.lines[source.front_start : source.front_end])
    if not check_front_matter_size(text, opening, problems):
        return _UNREADABLE
    reader = _Reader(text, source.front_start, problems)
    entries = _unique(reader.entries(), problems)
    if reader.is_broken:
        return _UNREADABLE
    values = {key: entry.value for key, entry in entries.items() if key not in ("id", "title")}
    return FrontMatter(_read_id(entries, opening, problems), _read_title(entries, opening, problems), values)


def check_front_matter_size(text: str, line: int, problems: Problems) -> bool:
    """Whether the front matter is small enough to be read."""
    if bytes_of(text) <= FRONT_MATTER_BYTES_MAX:
        return True
    what = f"the front matter is larger than {FRONT_MATTER_BYTES_MAX:,} bytes"
    problems.add(line, what, "keep short facts there and move longer text into a section")
    return False


class _Reader:
    """Turns the YAML parser's events into entries, and what may not be there into problems."""

    def __init__(self, text: str, first: int, problems: Problems) -> None:
        self._text = text
        self._first = first
        self._problems = problems
        self.is_broken = False

    def entries(self) -> Iterator[_Entry]:
        """Every key with its value that is well-formed; the first syntax error ends it."""
        try:
            loader = yaml.SafeLoader(self._text)
        except yaml.reader.ReaderError as error:
            self._break(error.position, error.reason)
            return
        try:
            yield from self._mapping(iter(loader.get_event, None))
        except yaml.MarkedYAMLError as error:
            self._break(error.problem_mark.index if error.problem_mark else 0, error.problem or "it is malformed")
        except _TooDeepError:
            self.is_broken = True  # Where it begins was reported before it was passed over.
        except (ValueError, OverflowError):
            # An escape such as \UFFFFFFFF gets as far as chr().
            self._break(loader.index, "there is no such character")

    def _mapping(self, events: Iterator[yaml.Event]) -> Iterator[_Entry]:
        opening = (yaml.StreamStartEvent, yaml.DocumentStartEvent)
        root = next(event for event in events if not isinstance(event, opening))
        if isinstance(root, yaml.StreamEndEvent):
            return
        if not isinstance(root, yaml.MappingStartEvent):
            self._break(_offset(root), "it is not a list of `key: value` lines")
            return
        self._refuse_decoration(root)
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key, value = self._scalar(event, events), self._scalar(next(events), events)
            if key is not None:
                yield _Entry(self._line_index(_offset(event)), key, value or "", value is None)
        self._end(events)

    def _end(self, events: Iterator[yaml.Event]) -> None:
        """Refuse a second document, which `...` or `--- text` would begin."""
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._break(_offset(event), "a second YAML document begins here")
                return

    def _scalar(self, event: yaml.Event, events: Iterator[yaml.Event]) -> str | None:
        """The text of a key or value. Anything but text is refused, and passed over to its end."""
        if isinstance(event, yaml.ScalarEvent):
            self._refuse_decoration(event)
            return event.value if self._is_printable(event) else None
        what = _WHAT_IS_REFUSED[type(event)]
        self._refuse(event, f"the front matter has {what}", "write `key: value` on one line, the value as plain text")
        if isinstance(event, yaml.CollectionStartEvent):
            _pass_over(events)
        return None

    def _refuse_decoration(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.anchor is not None:
            self._refuse(event, f"the front matter has an anchor ({shown(f'&{event.anchor}')})", "delete it")
        if event.tag is not None:
            self._refuse(event, f"the front matter has a tag ({shown(event.tag)})", "delete it: every value is text")

    def _is_printable(self, event: yaml.ScalarEvent) -> bool:
        # An escape in a quoted value can stand for a character that the text itself may not have.
        if found := UNPRINTABLE.search(event.value.replace("\r", "\n")):
            self._refuse(event, f"a value has a control character (U+{ord(found.group()):04X})", "delete its escape")
            return False
        return True

    def _refuse(self, event: yaml.Event, what: str, fix: str) -> None:
        self._problems.add(self._line_index(_offset(event)), what, fix)

    def _break(self, offset: int, reason: str) -> None:
        self.is_broken = True
        fix = "write one `key: value` to a line, and put a value with : or # in it between quotes"
        self._problems.add(self._line_index(offset), f"the front matter cannot be read as YAML: {shown(reason)}", fix)

    def _line_index(self, offset: int) -> int:
        # YAML ends lines at more characters than markdown does, so its own line numbers may be too high.
        return self._first + self._text.count("\n", 0, offset)


def _pass_over(events: Iterator[yaml.Event]) -> None:
    """Go on to the end of the list or mapping that has just begun."""
    depth = 1
    while depth:
        event = next(events)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > NESTING_MAX:
            raise _TooDeepError


def _offset(event: yaml.Event) -> int:
    return event.start_mark.index if event.start_mark else 0


def _unique(entries: Iterator[_Entry], problems: Problems) -> dict[str, _Entry]:
    found: dict[str, _Entry] = {}
    for entry in entries:
        if entry.key in found:
            what = f"the key {shown(entry.key)} is there twice, first on line {found[entry.key].line_index + 1}"
            problems.add(entry.line_index, what, "delete one of the two")
        elif not KEY.fullmatch(entry.key):
            what = f"{shown(entry.key)} cannot be a key"
            problems.add(entry.line_index, what, "use up to 64 letters, digits, spaces and . _ -")
        else:
            found[entry.key] = entry
    return found


def _read_id(entries: dict[str, _Entry], opening: int, problems: Problems) -> str:
    entry = entries.get("id")
    if entry is None:
        _report_missing("id", "my-project", entries, opening, problems)
        return ""
    if not (entry.is_refused or SPEC_ID.fullmatch(entry.value)):
        what = f"{shown(entry.value)} cannot be an id"
        fix = "use 1 to 64 of a-z, 0-9, - and _, beginning with a letter or a digit"
        problems.add(entry.line_index, what, fix)
    return entry.value


def _read_title(entries: dict[str, _Entry], opening: int, problems: Problems) -> str:
    """The title on one line, however YAML folded it."""
    entry = entries.get("title")
    if entry is None:
        _report_missing("title", "What it is called", entries, opening, problems)
        return ""
    title = re.sub(r"\s*[\n\r\u2028\u2029]\s*", " ", entry.value.strip())
    if not (entry.is_refused or title):
        problems.add(entry.line_index, "the title is empty", "write `title: What it is called`")
    return title


def _report_missing(key: str, example: str, entries: dict[str, _Entry], opening: int, problems: Problems) -> None:
    by_lower = {name.lower(): entry for name, entry in entries.items() if name not in ("id", "title")}
    near = difflib.get_close_matches(key, by_lower, n=1)
    if near:
        entry = by_lower[near[0]]
        fix = f"did you mean {key}? write `{key}: {example}`"
        problems.add(entry.line_index, f"the front matter has {shown(entry.key)} but no {key}", fix)
    else:
        problems.add(opening, f"the front matter has no {key}", f"add a line `{key}: {example}`")

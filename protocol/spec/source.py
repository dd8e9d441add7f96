"""From bytes to lines: what is not text, too large or unprintable is found here, before anything is read into it."""

import re
from typing import NamedTuple

from protocol.spec.model import SPEC_BYTES_MAX, SPEC_LINES_MAX
from protocol.spec.problems import Problems

BLANK = " \t"
FENCE = "---"
FIX_SIZE = "shorten it, or split it into several specs"
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

_BYTE_ORDER_MARK = "\ufeff"
_REPLACEMENT = "\ufffd"
# Only what markdown takes for a line's end: a text with U+2028 or a form feed has no more lines than markdown sees.
_LINE_END = re.compile(r"\r\n?|\n")


class Source(NamedTuple):
    """A text in lines, without the blank ones at its end.

    The front matter is `lines[front_start:front_end]`, the rest begins at `body_start`. A text without front matter
    has 0 for `front_start`; with one, the line --- comes first.
    """

    lines: list[str]
    front_start: int
    front_end: int
    body_start: int


def read_source(source: str | bytes, problems: Problems) -> Source:
    """Split `source` into its lines and find the front matter; raises at once for what cannot be read at all."""
    _check_size(source, problems)
    text = _decode(source, problems).removeprefix(_BYTE_ORDER_MARK)
    lines = _LINE_END.split(text)
    while lines and is_blank(lines[-1]):
        lines.pop()
    if not lines:
        problems.stop(0, "the spec is empty", "write a spec, beginning with its front matter between two lines of ---")
    if len(lines) > SPEC_LINES_MAX:
        problems.stop(SPEC_LINES_MAX, f"the spec has more than {SPEC_LINES_MAX:,} lines", FIX_SIZE)
    return _split([_printable(index, line, problems) for index, line in enumerate(lines)], problems)


def is_blank(line: str) -> bool:
    """Whether markdown takes the line for an empty one."""
    return not line.strip(BLANK)


def slice_text(lines: list[str], first: int, end: int) -> str:
    """Lines `first` to `end` (which is not included) as they are, without the blank ones at both ends."""
    while first < end and is_blank(lines[first]):
        first += 1
    while end > first and is_blank(lines[end - 1]):
        end -= 1
    return "\n".join(lines[first:end])


def bytes_of(text: str) -> int:
    """The size of `text` in UTF-8, lone surrogates included."""
    return len(text.encode("utf-8", "surrogatepass"))


def _check_size(source: str | bytes, problems: Problems) -> None:
    # The length comes first: there is no need to encode a text that has more characters than bytes are allowed.
    size = len(source)
    if isinstance(source, str) and size <= SPEC_BYTES_MAX:
        size = bytes_of(source)
    if size > SPEC_BYTES_MAX:
        problems.stop(0, f"the spec is larger than {SPEC_BYTES_MAX:,} bytes", FIX_SIZE)


def _decode(source: str | bytes, problems: Problems) -> str:
    if isinstance(source, str):
        return source
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        line = len(_LINE_END.findall(source[: error.start].decode("utf-8")))
        what = f"the spec is not UTF-8 text: byte {error.start} is 0x{source[error.start]:02X}"
        problems.stop(line, what, "save it as UTF-8")


def _printable(index: int, line: str, problems: Problems) -> str:
    """The line with a replacement for each character that may not be there, so that reading can go on."""
    if found := UNPRINTABLE.search(line):
        what = f"there is a control character (U+{ord(found.group()):04X}) in column {found.start() + 1}"
        problems.add(index, what, "delete it")
        return UNPRINTABLE.sub(_REPLACEMENT, line)
    return line


def _split(lines: list[str], problems: Problems) -> Source:
    opening = next(index for index, line in enumerate(lines) if not is_blank(line))
    if lines[opening].rstrip(BLANK) != FENCE:
        what = "there is no front matter"
        fix = "begin the spec with a line ---, then `id: …` and `title: …`, then another line ---"
        problems.add(opening, what, fix)
        return Source(lines, 0, 0, opening)
    fences = (index for index in range(opening + 1, len(lines)) if lines[index].rstrip(BLANK) == FENCE)
    closing = next(fences, None)
    if closing is None:
        problems.stop(opening, "the front matter has no end", "close it with a line ---")
    return Source(lines, opening + 1, closing, closing + 1)

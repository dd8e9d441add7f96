"""callboard.toml as it is read: its size bounded, its mistakes told with their line, every key with its line."""

import errno
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from bus.settings.errors import Problem, SettingsError

FILE_BYTES_MAX = 1024 * 1024
# Deeper keys are not placed: a key of nothing but dots would take the square of its length in memory.
DOTS_MAX = 8
# The file's name is there, or nobody would read it; what is missing is at the other end of a link.
_NOWHERE = (errno.ENOENT, errno.ELOOP)
_ERROR_LINE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
# The document is known to be valid when this is used, so the first quote that can close a string does.
_TOKEN = re.compile(
    r"""(?P<skip>\#[^\n]*|\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\])*"|'[^']*')"""
    r"""|(?P<open>[\[{])|(?P<close>[\]}])|(?P<end>\n)""",
    re.DOTALL,
)


class TomlFile:
    """A file that was read: `data` as tomllib gives it, and the place of any key in it."""

    def __init__(self, path: Path, text: str, data: dict[str, Any]) -> None:
        self.path = path
        self.data = data
        self._text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TomlFile) and (self.path, self._text) == (other.path, other._text)

    def __hash__(self) -> int:
        return hash((self.path, self._text))

    def place(self, key: str) -> str:
        """`path:line` of a dotted key, or of the inline table that it is in; `key[1]` is the second table [[key]]."""
        while key and key not in self._lines:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return f"{self.path}:{self._lines[key]}" if key else str(self.path)

    @cached_property
    def _lines(self) -> dict[str, int]:
        """Found only when there is a problem to place: tomllib does not tell."""
        lines: dict[str, int] = {}
        counts: dict[str, int] = {}
        table = ""
        for number, statement in _statements(self._text):
            if statement.startswith("["):
                keys = list(_header_keys(tomllib.loads(statement), counts))
                table = keys[-1]
            else:
                keys = list(_keys(tomllib.loads(statement), table))
            lines |= {key: number for key in keys if key not in lines}
        return lines


def read_toml(path: Path) -> TomlFile:
    """Raises SettingsError with one problem: the file, the line where there is one, and what is wrong."""
    text = _decode(path, _read(path))
    try:
        return TomlFile(path, text, tomllib.loads(text))
    except RecursionError:
        # Not chained: a thousand frames of the parser help nobody.
        raise _error(str(path), "is nested too deeply", "write it flat") from None
    except ValueError as error:  # TOMLDecodeError, and int() on a number of thousands of digits.
        place = f"{path}:{_error_line(str(error), text)}".rstrip(":")
        raise _error(place, f"is not valid TOML: {_ERROR_LINE.sub('', str(error))}") from error


def _error_line(message: str, text: str) -> str:
    """The line that tomllib's message names, which is the last one where it says only "end of document"."""
    found = _ERROR_LINE.search(message)
    if found is None:
        return ""
    return found["line"] or str(text.rstrip().count("\n") + 1)


def _read(path: Path) -> bytes:
    try:
        # Without O_NONBLOCK a named pipe would hold the command up before it can be refused.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 (a descriptor)
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _error(str(path), "is not a file", "move it away, or put the settings in a file of that name")
            content = file.read(FILE_BYTES_MAX + 1)
    except IsADirectoryError as error:
        raise _error(str(path), "is a folder", "move it away, or put the settings in a file of that name") from error
    except OSError as error:
        if error.errno in _NOWHERE:
            raise _error(str(path), "is a link that leads nowhere", "mend the link, or remove it") from error
        raise _error(str(path), f"cannot be read ({error.strerror})", "make it readable for this user") from error
    if len(content) > FILE_BYTES_MAX:
        raise _error(str(path), f"is over {FILE_BYTES_MAX} bytes", "keep only settings in it")
    return content


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        # Not chained: the decoding error carries the whole file.
        raise _error(f"{path}:{line}", "is not UTF-8 text", "save the file as UTF-8") from None


def _error(place: str, what: str, fix: str = "") -> SettingsError:
    return SettingsError([Problem(place=place, key=place, what=what, fix=fix)])


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Every table header and every key with its value, with the line where it begins."""
    line, start, depth = 1, 0, 0
    for token in _TOKEN.finditer(f"{text}\n"):
        depth += {"open": 1, "close": -1}.get(token.lastgroup or "", 0)
        if token.lastgroup == "end" and depth == 0:
            statement = text[start : token.start()].strip()
            if statement and not statement.startswith("#"):
                yield line, statement
            line += text.count("\n", start, token.end())
            start = token.end()


def _header_keys(data: Any, counts: dict[str, int]) -> Iterator[str]:
    """The dotted keys of a header, the shortest first; `counts` has how many there were so far of each [[name]]."""
    path = ""
    while data and path.count(".") < DOTS_MAX:
        [(name, data)] = data.items()
        path = f"{path}.{name}" if path else name
        yield path
        if isinstance(data, list):  # [[name]] makes a list of one table.
            counts[path] = counts.get(path, 0) + 1
            [data] = data
        if path in counts:
            path = f"{path}[{counts[path] - 1}]"
            yield path


def _keys(data: dict[str, Any], prefix: str) -> Iterator[str]:
    """The dotted keys of a key and its value, the shortest first, down to where any setting can be."""
    waiting: list[tuple[str, Any]] = [(prefix, data)]
    for path, node in waiting:
        if path and path != prefix:
            yield path
        if isinstance(node, dict) and path.count(".") < DOTS_MAX:
            waiting.extend((f"{path}.{name}" if path else name, inner) for name, inner in node.items())

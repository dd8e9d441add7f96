"""What processes have said, out of all their files in the order of time; files that are put aside are followed on."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from bus.cli.output import one_line, plain

SUFFIX, ASIDE = ".log", ".log.1"
BLOCK_BYTES = 1 << 16
INDENT = "    "

_OURS = ("timestamp", "level", "event", "actor", "exception")


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a process; `facts` is None where it is no line of our log. It is as old as the one before it."""

    name: str
    timestamp: str
    text: str
    facts: dict[str, Any] | None


def names(folder: Path) -> list[str]:
    """Who has a file."""
    found = [path.name for path in folder.glob(f"*{SUFFIX}*")] if folder.is_dir() else []
    return sorted({name.removesuffix(ASIDE).removesuffix(SUFFIX) for name in found if name.endswith((SUFFIX, ASIDE))})


class Logs:
    """The files of some processes, or of all who have one by the time."""

    def __init__(self, folder: Path, name: str = "") -> None:
        self._folder = folder
        self._name = name
        self._files: dict[str, _File] = {}

    def last(self, count: int) -> list[Line]:
        """The last lines until now; `more` goes on behind them."""
        lines: list[Line] = []
        for name in self._names():
            file = self._files[name] = _File(self._folder / f"{name}{SUFFIX}", name)
            earlier = _last_lines(self._folder / f"{name}{ASIDE}", count)
            lines += file.read_lines((*earlier, *file.last(count))[-count:] if count else ())
        return _in_order(lines)[-count:] if count else []

    def more(self) -> list[Line]:
        """Whatever was said since."""
        for name in self._names():
            if name not in self._files:
                self._files[name] = _File(self._folder / f"{name}{SUFFIX}", name)
        return _in_order([line for file in self._files.values() for line in file.read_lines(file.more())])

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files.values():
            file.close()

    def _names(self) -> list[str]:
        return [self._name] if self._name else names(self._folder)


class _File:
    """One file, which may not be there yet, and may be another one when it is looked at again."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._file: BinaryIO | None = None
        self._rest = b""
        self._timestamp = ""

    def last(self, count: int) -> list[bytes]:
        self._open()
        if self._file is None:
            return []
        lines = _tail(self._file, count)
        if lines and not lines[-1].endswith(b"\n"):
            self._rest = lines.pop()  # somebody is just writing it
        return lines

    def more(self) -> Iterator[bytes]:
        if self._file is None:
            self._open()
        yield from self._new_lines()
        if self._is_another():
            self.close()
            self._open()
            yield from self._new_lines()

    def read_lines(self, lines: Iterable[bytes]) -> list[Line]:
        """Lines with their times."""
        found = []
        for line in lines:
            text = line.decode(errors="backslashreplace").rstrip("\r\n")
            facts = _facts(text)
            self._timestamp = str(facts.get("timestamp", self._timestamp)) if facts else self._timestamp
            found.append(Line(name=self._name, timestamp=self._timestamp, text=text, facts=facts))
        return found

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file, self._rest = None, b""

    def _open(self) -> None:
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            self._file = None

    def _new_lines(self) -> Iterator[bytes]:
        if self._file is None:
            return
        if self._file.tell() > os.fstat(self._file.fileno()).st_size:
            self._file.seek(0)  # it was emptied
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        yield from lines

    def _is_another(self) -> bool:
        """Whether what has the name now is not what we read."""
        try:
            return self._file is not None and not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False


def _last_lines(path: Path, count: int) -> list[bytes]:
    try:
        with path.open("rb") as file:
            return _tail(file, count)
    except FileNotFoundError:
        return []


def _tail(file: BinaryIO, count: int) -> list[bytes]:
    """The last lines, read from the end; leaves the file there."""
    end = position = file.seek(0, os.SEEK_END)
    data = b""
    while position and data.count(b"\n") <= count:
        position = max(0, position - BLOCK_BYTES)
        file.seek(position)
        data = file.read(end - position)
    file.seek(end)
    lines = data.splitlines(keepends=True)
    return lines[-count - 1 :] if count else lines[-1:] if not data.endswith(b"\n") else []


def _in_order(lines: list[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: line.timestamp)


def _facts(text: str) -> dict[str, Any] | None:
    try:
        facts = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def render(line: Line) -> str:
    """For a person: time, name, level, what happened, and everything else that is said of it."""
    if line.facts is None:
        return one_line(f"{line.timestamp:27}  {line.name:12}  {line.text}")
    facts = line.facts
    more = "  ".join(f"{key}={_short(value)}" for key, value in facts.items() if key not in _OURS)
    head = f"{line.timestamp:27}  {line.name:12}  {facts.get('level', ''):8}  {facts.get('event', '')}"
    trace = [f"{INDENT}{each}" for each in plain(str(facts.get("exception", ""))).splitlines()]
    return "\n".join([one_line(f"{head}  {more}".rstrip()), *trace])


def _short(value: object) -> str:
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()

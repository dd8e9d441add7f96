"""What a command writes: data on stdout, talk on stderr."""

import errno
import io
import os
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

_program = ContextVar("program", default="callboard")
"""The name of the command that talks."""


class ReaderGoneError(Exception):
    """Whoever read our output has read enough; no failure of anybody."""


class OutputError(Exception):
    """Our output cannot be written; `reason` says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"cannot write to standard output: {reason}")


def prepare_streams(program: str) -> None:
    """Talk as `program`, in UTF-8 whatever the locale says: JSON knows no other. What has no UTF-8 is escaped."""
    _program.set(program)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def say(text: str) -> None:
    """Talk to the person; nobody may be listening, and that is no reason to stop."""
    if sys.stderr is None:
        return
    try:
        _write(sys.stderr, _encode(text))
    except OSError:
        _discard(sys.stderr)


def complain(text: str, *, lines: bool = False) -> None:
    """Say what is wrong, under the command's name. Names and texts in it may be hostile; `lines` may be several."""
    say(f"{_program.get()}: {plain(text) if lines else one_line(text)}")


def show(text: str) -> None:
    """Print data."""
    show_bytes(_encode(text))


def show_json(value: Any) -> None:
    """Print one value as a line of JSON."""
    show_bytes(json_line(value))


def json_line(value: Any) -> bytes:
    """One value as a line of JSON; a file name that is no UTF-8 is escaped, for JSON cannot hold it."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_encodable(msgspec.to_builtins(value)))
    return data + b"\n"


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_encodable(key): _encodable(each) for key, each in value.items()}
        case list() | tuple():
            return [_encodable(each) for each in value]
        case _:
            return value


def show_bytes(data: bytes) -> None:
    """Print data as it is, or raise ReaderGoneError or OutputError."""
    if sys.stdout is None:
        raise OutputError("it is closed")
    try:
        _write(sys.stdout, data)
    except BrokenPipeError as error:
        _discard(sys.stdout)
        raise ReaderGoneError from error
    except OSError as error:
        _discard(sys.stdout)
        raise OutputError(error.strerror or str(error)) from error


def output_failure(error: Exception) -> OutputError | None:
    """What typer met when it wrote the help to a full disk: it does not write through us."""
    if not isinstance(error, OSError) or error.errno != errno.ENOSPC or error.filename is not None:
        return None
    _discard(sys.stdout)
    return OutputError(error.strerror or str(error))


def plain(text: str) -> str:
    """A text of unknown origin for a terminal: whatever could move the cursor or hide something is escaped."""
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """As `plain`, in one line."""
    return plain(text).replace("\n", "\\n")


def moment(at: datetime) -> str:
    """A time, the same way everywhere: UTC, to the second."""
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    try:
        at = at.astimezone(UTC)
    except OverflowError:  # in the first or last hours there are, elsewhere
        return at.isoformat(timespec="seconds")
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _encode(text: str) -> bytes:
    return f"{text}\n".encode(errors="backslashreplace")


def _write(stream: TextIO, data: bytes) -> None:
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _discard(stream: TextIO) -> None:
    """Send the rest nowhere: what could not be written is still buffered, and Python tries again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)

"""One line of the log: from an event to bytes on standard error, without secrets.

What a line costs is a good part of what a durable step costs. So the usual line, of texts and numbers, is rendered
first and searched once; only where a secret is found, or anything unusual, each value is looked at on its own.
"""

import io
import os
import select
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO

import msgspec
from structlog.contextvars import merge_contextvars
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import format_exc_info

from actors.redaction import clean, has_secret, redact_all

WRITE_SECONDS_MAX = 1.0
"""How long a line waits for a reader where standard error does not block; then the rest of it is lost."""

Event = MutableMapping[str, Any]
Render = Callable[[Event], bytes]

_PLAIN = frozenset({str, int, float, bool, type(None)})
_encode = msgspec.json.Encoder().encode


class Lines:
    """A processor of structlog, the only one: makes a line of an event."""

    def __init__(self, actor: str, render: Render) -> None:
        self._actor = actor
        self._render = render
        self._second = (0, "")

    def __call__(self, logger: Any, level: str, event: Event) -> bytes:
        """The line of an event. It never raises: a line must not end what it tells of."""
        try:
            merge_contextvars(logger, level, event)
            event["actor"] = self._actor
            event["level"] = level
            event["timestamp"] = self._now()
            if "exc_info" in event:
                format_exc_info(logger, level, event)
            return self._render(event)
        except Exception as error:
            return _encode({"event": "line.lost", "error": type(error).__name__, "actor": self._actor}) + b"\n"

    def _now(self) -> str:
        """The time. Each second is spelled out once: that costs more than to read the clock."""
        second, microsecond = divmod(time.time_ns() // 1000, 1_000_000)
        known, text = self._second
        if known != second:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = (second, text)
        return f"{text}.{microsecond:06d}Z"


def render_json(event: Event) -> bytes:
    """For programs: one JSON object."""
    if _is_plain(event):
        try:
            line = _encode(event)
        except UnicodeEncodeError:
            return _encode(redact_all(event)) + b"\n"  # with half a character, which is spelled out
        if not has_secret(line):
            return line + b"\n"
    return _encode(redact_all(event)) + b"\n"


def _is_plain(event: Event) -> bool:
    """Whether the encoder shows every value as it is: bytes, for one, it would hide in base64, and a secret in them."""
    for value in event.values():
        kind = type(value)
        if kind not in _PLAIN and not (kind is list and _PLAIN.issuperset(map(type, value))):
            return False
    return True


def console_renderer() -> Render:
    """For people, in colours."""
    renderer = ConsoleRenderer(exception_formatter=plain_traceback)

    def render(event: Event) -> bytes:
        return f"{clean(renderer(None, event['level'], redact_all(event)))}\n".encode()

    return render


class Output:
    """Where lines go: each by one write, at once, so that a crash loses none.

    Whoever cannot be written to any more does not read either: that is no error of those who log.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        """Write a line; returns when it is out of our hands."""
        try:
            # Asked each time: the number of a file that was closed may be another's by now.
            _write(self._stream.fileno(), line)
        except io.UnsupportedOperation:
            self._stream.write(line.decode())
        except (OSError, ValueError):
            return

    debug = info = warning = error = critical = write


def _write(descriptor: int, line: bytes) -> None:
    while line:
        try:
            line = line[os.write(descriptor, line) :]
        except BlockingIOError:
            # A child that has the same standard error can make it so.
            if not select.select([], [descriptor], [], WRITE_SECONDS_MAX)[1]:
                return

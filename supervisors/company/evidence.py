"""What is known of a process that has ended: the end of what it said, and why it ended, in a sentence."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from actors.evidence import as_evidence, as_reason
from actors.exits import ActorExit
from supervisors.core.patience import Patience
from supervisors.core.watch import Way

TAIL_BYTES = 1 << 16
"""So much of what it said is looked at: far more than is kept."""

LOG_BYTES_MAX = 16 * 1024 * 1024
"""A log that is larger is put aside when its actor is started; what was put aside before is gone then."""


class Said:
    """A process's log, from where it begins to write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        put_aside(path)
        self._start = _size(path)

    def tail(self) -> str:
        """The end of what was said since then."""
        return tail_of(self.path, self._start)


def tail_of(path: Path, start: int = 0) -> str:
    """The end of a log, from no earlier than `start`."""
    try:
        with path.open("rb") as file:
            file.seek(max(start, _size(path) - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="backslashreplace")
    except (OSError, ValueError):  # a name that no file can have
        return ""


def put_aside(path: Path) -> None:
    """Begin a new log where the old one is large; where that cannot be, it grows on."""
    if _size(path) > LOG_BYTES_MAX:
        with suppress(OSError):
            path.replace(path.with_name(f"{path.name}.1"))


def evidence(said: str) -> str:
    """As it may be recorded."""
    return as_evidence(said.strip())


def reason(way: Way, code: int, said: str, patience: Patience) -> str:
    """Why a process has ended, in a sentence."""
    match way:
        case "never_ready":
            return f"not ready within {patience.ready_seconds:g} s, so it was killed"
        case "hung":
            return f"its loop stood still for over {patience.hung_seconds:g} s, so it was killed"
        case "configuration":
            return as_reason(_last_text(said))
        case _ if code < 0:
            return f"killed by {_signal_name(-code)}"
        case "normal" | "asked":
            return ""
        case _:
            return as_reason(f"{_exit_name(code)}: {_last_reason(said)}" if _last_reason(said) else _exit_name(code))


def _last_reason(said: str) -> str:
    """What the last line that has a reason gives for one."""
    for line in reversed(said.splitlines()):
        facts = _facts(line)
        if facts.get("reason"):
            return str(facts["reason"])
        if facts.get("exception"):
            return str(facts["exception"]).strip().rpartition("\n")[2]
    return ""


def _last_text(said: str) -> str:
    """The last lines that are no lines of the log: what a person is to read."""
    lines = [line for line in said.splitlines() if line.strip() and not _facts(line)]
    return "\n".join(lines) or _last_reason(said)


def _facts(line: str) -> dict[str, Any]:
    try:
        facts = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _exit_name(code: int) -> str:
    try:
        return ActorExit(code).name.lower()
    except ValueError:
        return f"exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

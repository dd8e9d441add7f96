"""What became of a command that failed: a sentence, an exit code and, with `--json`, the same as data.

The data is one line on stdout: `{"error": …, "message": …}`. `error` is the exit code's name in lower case; settings
that are wrong add `problems`.
"""

from contextlib import suppress
from io import StringIO
from typing import Any

import msgspec
from typer.exceptions import TyperException

from bus.cli.output import OutputError, ReaderGoneError, say, show_json
from bus.errors import BusError, BusUnreachableError, ServerError
from bus.exits import Exit
from bus.settings import SettingsError
from protocol.errors import BadSubjectError, ProtocolError, UnknownMachineError


class CommandError(Exception):
    """A command cannot do what it was asked; the message says why and what to do."""

    def __init__(self, code: Exit, message: str) -> None:
        self.code = code
        super().__init__(message)


class StoppedError(Exception):
    """Somebody told the command to end."""


def explain(error: Exception, *, json: bool) -> Exit | None:
    """Say what went wrong; None if it is a bug of ours."""
    if isinstance(error, ReaderGoneError):
        return Exit.OK
    if isinstance(error, StoppedError):
        return Exit.TERMINATED
    code = _code(error)
    if code is not None:
        _tell(code, f"bus: {error}", _facts(error), json=json)
    return code


def say_usage(error: TyperException, *, json: bool) -> Exit:
    """Say how the command line is wrong."""
    if json:
        _tell(Exit.USAGE, f"bus: {error.format_message()}", {"message": error.format_message()}, json=True)
    else:
        shown = StringIO()
        error.show(shown)  # type: ignore[attr-defined]  # typer keeps the class that has it to itself
        say(shown.getvalue().rstrip("\n"))
    return Exit.USAGE


def _code(error: Exception) -> Exit | None:
    match error:
        case CommandError():
            return error.code
        case SettingsError() | BadSubjectError() | UnknownMachineError():
            return Exit.USAGE
        case BusUnreachableError() | ServerError():
            return Exit.UNREACHABLE
        case BusError() | ProtocolError() | OutputError():
            return Exit.FAILED
        case _:
            return None


def _facts(error: Exception) -> dict[str, Any]:
    facts: dict[str, Any] = {"message": str(error)}
    if isinstance(error, SettingsError):
        facts["problems"] = msgspec.to_builtins(error.problems)
    return facts


def _tell(code: Exit, sentence: str, facts: dict[str, Any], *, json: bool) -> None:
    if json:
        with suppress(ReaderGoneError, OutputError):  # one failure is enough
            show_json({"error": code.name.lower(), **facts})
    say(sentence)

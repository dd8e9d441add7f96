"""What became of a command that failed: a sentence, an exit code and, with `--json`, the same as data.

The data is one line on stdout: `{"error": …, "message": …}`. `error` is the exit code's name in lower case; settings
that are wrong add `problems`.
"""

from contextlib import suppress
from typing import Any

import msgspec

from bus.cli.output import OutputError, ReaderGoneError, complain, show_json
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
    """Somebody told the command to end: `code` says how, `advice` what to think of what it did until then.

    `expected` where a command goes on until it is told to end: then there is nothing to say.
    """

    def __init__(self, code: Exit, advice: str = "", *, expected: bool = False) -> None:
        self.code = code
        self.expected = expected
        super().__init__(f"{code.name.lower()}{'; ' + advice if advice else ''}")


def explain(error: Exception, *, json: bool) -> Exit | None:
    """Say what went wrong; None if it is a bug of ours."""
    if isinstance(error, ReaderGoneError):
        return Exit.OK
    if isinstance(error, StoppedError) and error.expected:
        return error.code
    code = _code(error)
    if code is not None:
        tell(code, str(error), _facts(error), json=json, lines=isinstance(error, SettingsError | ServerError))
    return code


def tell(code: Exit, sentence: str, facts: dict[str, Any], *, json: bool, lines: bool = False) -> None:
    """Say it, and with `json` print it as data too."""
    if json:
        with suppress(ReaderGoneError, OutputError):  # one failure is enough
            show_json({"error": code.name.lower(), "message": sentence, **facts})
    complain(sentence, lines=lines)


def _code(error: Exception) -> Exit | None:
    match error:
        case CommandError() | StoppedError():
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
    return {"problems": msgspec.to_builtins(error.problems)} if isinstance(error, SettingsError) else {}

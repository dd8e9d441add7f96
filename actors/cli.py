"""The `actor` command: run one actor's process by hand, or rehearse without a model.

The first word is a machine; `rehearsal` is none, and has a command line of its own.
"""

import io
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import structlog
import typer
import uvloop
from typer.exceptions import TyperException

from actors.errors import NoPartError
from actors.exits import ActorExit
from actors.finding import find_part
from actors.logs import configure_logs
from actors.process import run_actor
from actors.redaction import redact, remember_secrets
from actors.rehearsal.command import app as rehearsal_app
from actors.rehearsal.errors import RehearsalError
from bus.errors import BusError, BusUnreachableError, ServerError
from bus.settings import SettingsError, environment_secrets, load
from protocol.errors import BadSubjectError
from protocol.machines import MACHINES
from protocol.subjects import check_token

REHEARSAL = "rehearsal"

log = structlog.get_logger()

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class UsageError(Exception):
    """The command line asks for something that there is not; the message says what to do."""


@app.command(
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=(
        "Examples: actor coder --id coder-1 · actor architect --id main -C ~/demo · "
        "actor coder --id coder-1 --part my_package.parts:CODER\n\n"
        "Without a key of the API: actor rehearsal --parts FOLDER (actor rehearsal --help) plays the model.\n\n"
        "Logs go to standard error, as JSON unless that is a terminal.\n\n"
        "Exit codes: 0 the session came to DONE; 1 a bug; 2 wrong command line or settings; 3 broker unreachable; "
        "4 the session came to ERROR; 5 another process has taken over; 6 told to stop or restart; "
        "130 interrupted (Ctrl-C); 143 terminated."
    ),
)
def actor(  # noqa: PLR0913 -- one for each flag
    machine: Annotated[str, typer.Argument(help=f"The machine to play: {', '.join(MACHINES)}.")],
    *,
    identifier: Annotated[str, typer.Option("--id", help="The actor's name, for example coder-1.")],
    part: Annotated[
        str, typer.Option("--part", help="Who plays it, as MODULE:NAME of a Part (default: the machine's own agent).")
    ] = "",
    project: Annotated[str | None, typer.Option(help="Name of the project (default: the folder's).")] = None,
    url: Annotated[str | None, typer.Option("--bus-url", help="NATS servers (default: the embedded server).")] = None,
    folder: Annotated[
        Path,
        typer.Option("--directory", "-C", exists=True, file_okay=False, help="Work as if started in this folder."),
    ] = Path(),
) -> int:
    """Run one actor's process: it finds its session again, or waits for one.

    Kill it at any moment: the next process of the same name goes on where it was.
    """
    _check_name(identifier)
    configure_logs("info", actor=identifier)  # until the settings say how much
    sys.path[:0] = [str(folder.resolve()), str(Path.cwd())]  # a command looks in neither by itself
    played = find_part(machine, part)
    loaded = load({"project": project, "bus.url": url}, os.environ, folder.resolve())
    configure_logs(loaded.settings.log_level, actor=identifier)
    return uvloop.run(run_actor(played, identifier, loaded, os.environ, prepare=True))


def _check_name(identifier: str) -> None:
    try:
        check_token(identifier)
    except BadSubjectError as error:
        raise UsageError(f"--id: {error}") from error


def main() -> None:
    """Entry point of the command."""
    # Until the process listens for itself, and can say that it leaves.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ActorExit.TERMINATED))
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command line; every failure becomes a sentence and an exit code."""
    remember_secrets(environment_secrets(os.environ))  # first of all: even a wrong command line can hold one
    configure_logs("info", actor="")
    try:
        result = _run(arguments)
    except TyperException as error:
        _show(error)
        return ActorExit.CONFIGURATION
    except KeyboardInterrupt:
        return ActorExit.INTERRUPTED
    except Exception as error:
        return _explain(error)
    return result if isinstance(result, int) else ActorExit.DONE


def _run(arguments: list[str]) -> object:
    if arguments[:1] == [REHEARSAL]:
        return rehearsal_app(arguments[1:], prog_name=f"actor {REHEARSAL}", standalone_mode=False)
    return app(arguments, prog_name="actor", standalone_mode=False)


def _show(error: TyperException) -> None:
    """What typer has to say of a command line, which may hold a secret."""
    said = io.StringIO()
    error.show(said)  # type: ignore[attr-defined]  # typer keeps the class that has it to itself
    sys.stderr.write(redact(said.getvalue()))


def _explain(error: Exception) -> ActorExit:
    """Say what went wrong; a bug with all that is known of it."""
    match error:
        case UsageError() | NoPartError() | SettingsError() | RehearsalError():
            code = ActorExit.CONFIGURATION
        case BusUnreachableError() | ServerError():
            code = ActorExit.UNREACHABLE
        case _:
            code = ActorExit.CRASHED
    if isinstance(error, UsageError | NoPartError | RehearsalError | BusError):
        sys.stderr.write(redact(f"actor: {error}\n"))
    else:
        log.critical("actor.crashed", exc_info=error)
    return code

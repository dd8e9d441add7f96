"""What all `bus` commands share: settings from flags and environment, output, errors and exit codes."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import structlog
import typer
from typer.exceptions import TyperException

from bus.bus import Bus
from bus.errors import BusError, BusUnreachableError, ServerError
from bus.exits import Exit
from bus.opening import open_bus
from bus.settings import Loaded, SettingsError, load
from protocol.errors import ProtocolError

T = TypeVar("T")

app = typer.Typer(
    name="bus",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Read and write what Callboard's actors say to each other.",
    epilog="Exit codes: 0 ok, 1 failed, 2 usage or settings, 3 broker unreachable, 130 interrupted.",
)

Json = Annotated[bool, typer.Option("--json", help="Print data for programs instead of people.")]


@app.callback()
def settings_flags(
    context: typer.Context,
    project: Annotated[str | None, typer.Option(help="Name of the project (default: the folder's).")] = None,
    url: Annotated[str | None, typer.Option("--bus-url", help="NATS servers (default: the embedded server).")] = None,
    folder: Annotated[Path, typer.Option("--directory", "-C", help="Work as if started in this folder.")] = Path(),
) -> None:
    """Flags that stand before the command."""
    context.obj = ({"project": project, "bus.url": url}, folder)


def loaded_settings(context: typer.Context) -> Loaded:
    """The settings for this call."""
    flags, folder = context.obj
    return load(flags, os.environ, folder.resolve())


@asynccontextmanager
async def person_bus(context: typer.Context) -> AsyncIterator[Bus]:
    """The bus as the person at the keyboard sees it."""
    async with open_bus(loaded_settings(context), os.environ, "person") as bus:
        yield bus


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run one asynchronous piece of work."""

    async def main() -> T:
        return await work()

    return asyncio.run(main())


def say(text: str) -> None:
    """Talk to the person; data goes to stdout, talk does not."""
    typer.echo(text, err=True)


def show(text: str) -> None:
    """Print data."""
    typer.echo(text)


def show_json(value: Any) -> None:
    """Print one value as a line of JSON."""
    typer.echo(msgspec.json.encode(value).decode())


def run_app() -> int:
    """Run the command line; every error becomes a sentence and an exit code."""
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.dev.ConsoleRenderer(colors=False)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),  # a command talks for itself
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        result = app(standalone_mode=False)
    except TyperException as error:
        error.show()  # type: ignore[attr-defined]  # typer keeps the class that has it to itself
        return Exit.USAGE
    except typer.Exit as error:
        return error.exit_code
    except Exception as error:
        code = _explain(error)
        if code is None:
            raise
        return code
    except KeyboardInterrupt:
        return _interrupted()
    return result if isinstance(result, int) else Exit.OK


def _explain(error: Exception) -> Exit | None:
    """Say what went wrong; None if it is a bug of ours."""
    match error:
        case typer.Abort():
            return _interrupted()
        case SettingsError():
            code = Exit.USAGE
        case BusUnreachableError() | ServerError():
            code = Exit.UNREACHABLE
        case BusError() | ProtocolError():
            code = Exit.FAILED
        case BrokenPipeError():
            # Whoever read us has read enough; Python must not try to flush to it again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Exit.OK
        case _:
            return None
    say(f"bus: {error}")
    return code


def _interrupted() -> Exit:
    say("interrupted; what had been acknowledged stays")
    return Exit.INTERRUPTED

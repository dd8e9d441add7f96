"""What all `bus` commands share: the flags before the command, the settings and the bus that they lead to."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bus.bus import Bus
from bus.cli.output import show
from bus.opening import open_bus
from bus.settings import Loaded, load

app = typer.Typer(
    name="bus",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Read and write what Callboard's actors say to each other.",
    epilog=(
        "Examples: bus publish spec.md · bus --project demo tail · bus verify --json\n\n"
        "Data goes to standard output, talk to standard error. With --json a failure is data too: "
        '{"error": ..., "message": ...}.\n\n'
        "Exit codes: 0 ok; 1 failed, or what was asked for is not there or not as it should be; "
        "2 wrong command line or settings; 3 broker unreachable; 130 interrupted (Ctrl-C); 143 terminated."
    ),
)

Json = Annotated[bool, typer.Option("--json", help="Print data for programs instead of people.")]


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before the command."""

    project: str | None
    url: str | None
    folder: Path


def _show_version(wanted: bool) -> None:
    if wanted:
        show(f"callboard {version('callboard')}")
        raise typer.Exit


@app.callback()
def take_flags(
    context: typer.Context,
    project: Annotated[str | None, typer.Option(help="Name of the project (default: the folder's).")] = None,
    url: Annotated[str | None, typer.Option("--bus-url", help="NATS servers (default: the embedded server).")] = None,
    folder: Annotated[
        Path,
        typer.Option("--directory", "-C", exists=True, file_okay=False, help="Work as if started in this folder."),
    ] = Path(),
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Say which version this is.")
    ] = False,
) -> None:
    """Flags that stand before the command."""
    context.obj = Flags(project=project, url=url, folder=folder)


def started_in(context: typer.Context) -> Path:
    """The folder to which relative paths belong."""
    flags: Flags = context.obj
    return flags.folder


def loaded_settings(context: typer.Context) -> Loaded:
    """The settings for this call."""
    flags: Flags = context.obj
    return load({"project": flags.project, "bus.url": flags.url}, os.environ, flags.folder.resolve())


@asynccontextmanager
async def person_bus(context: typer.Context) -> AsyncIterator[Bus]:
    """The bus as the person at the keyboard sees it."""
    async with open_bus(loaded_settings(context), os.environ, "person", migrate=False) as bus:
        yield bus

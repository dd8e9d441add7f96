"""What all commands share: the flags before the command, the settings and the bus that they lead to."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bus.bus import Bus
from bus.cli.failures import CommandError
from bus.cli.output import show
from bus.exits import Exit
from bus.opening import open_bus
from bus.settings import Loaded, load

_AFTER_THE_EXAMPLES = (
    "Data goes to standard output, talk to standard error. With --json a failure is data too: "
    '{"error": ..., "message": ...}.\n\n'
    "Exit codes: 0 ok; 1 failed, or what was asked for is not there or not as it should be; "
    "2 wrong command line or settings; 3 broker unreachable; 4 somebody is suspended, or an API is not healthy; "
    "5 something waits for a person; 6 a ceiling of the budget is reached; "
    "130 interrupted (Ctrl-C); 143 terminated."
)

Json = Annotated[bool, typer.Option("--json", help="Print data for programs instead of people.")]


def new_app(name: str, purpose: str, examples: str) -> typer.Typer:
    """A command without any commands yet, with the flags that stand before them."""
    app = typer.Typer(
        name=name,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        help=purpose,
        epilog=f"Examples: {examples}\n\n{_AFTER_THE_EXAMPLES}",
    )
    app.callback()(take_flags)
    return app


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before the command."""

    project: str | None
    url: str | None
    folder: Path


def _show_version(wanted: bool) -> None:
    if wanted:
        show(f"callboard {version('callboard')}")
        raise typer.Exit


def take_flags(
    context: typer.Context,
    project: Annotated[
        str | None,
        typer.Option(
            help="Name of the project (default: the folder's). "
            "An embedded server belongs to a project and its folder: with another folder it is another server."
        ),
    ] = None,
    url: Annotated[str | None, typer.Option("--bus-url", help="NATS servers (default: the embedded server).")] = None,
    folder: Annotated[
        Path,
        typer.Option("--directory", "-C", help="Work as if started in this folder."),
    ] = Path(),
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Say which version this is.")
    ] = False,
) -> None:
    """Flags that stand before the command."""
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise typer.BadParameter(f"{str(folder)!r} {problem}", param_hint="--directory")
    context.obj = Flags(project=project, url=url, folder=folder)


def started_in(context: typer.Context) -> Path:
    """The folder to which relative paths belong."""
    flags: Flags = context.obj
    return flags.folder


def project_of(context: typer.Context) -> str:
    """The project of this call, for whoever looks in the wrong one."""
    return loaded_settings(context).settings.project


def loaded_settings(context: typer.Context) -> Loaded:
    """The settings for this call."""
    flags: Flags = context.obj
    try:
        folder = flags.folder.resolve()
    except FileNotFoundError as error:
        raise CommandError(Exit.USAGE, "the working folder is gone; cd to another, or use -C") from error
    return load({"project": flags.project, "bus.url": flags.url}, os.environ, folder)


@asynccontextmanager
async def person_bus(context: typer.Context) -> AsyncIterator[Bus]:
    """The bus as the person at the keyboard sees it."""
    async with open_bus(loaded_settings(context), os.environ, "person", migrate=False) as bus:
        yield bus

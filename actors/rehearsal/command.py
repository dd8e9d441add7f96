"""The command `actor rehearsal`: run the server by hand until somebody ends it."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import uvloop

from actors.exits import ActorExit
from actors.logs import configure_logs
from actors.rehearsal.errors import BadFaultsError, NoPlaceError
from actors.rehearsal.faults import Fault
from actors.rehearsal.parts import Part
from actors.rehearsal.playbook import read_parts
from actors.rehearsal.server import Rehearsal

SIGNALS = {signal.SIGINT: ActorExit.INTERRUPTED, signal.SIGTERM: ActorExit.TERMINATED}
PORT_MAX = 65535

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line asks for."""

    parts: tuple[Part, ...]
    faults: tuple[Fault, ...]
    host: str
    port: int
    is_json: bool


@app.command(
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=(
        "Examples: actor rehearsal --parts examples/parts · "
        "actor rehearsal --parts parts --port 8900 --faults outage.json\n\n"
        "Then: export ANTHROPIC_BASE_URL=http://127.0.0.1:8900 ANTHROPIC_API_KEY=any\n\n"
        "The URL is written to standard output; each call is a line on standard error, as JSON unless that is a "
        "terminal. docs/rehearsal.md says how to write a part and what can go wrong on demand.\n\n"
        "Exit codes: 1 a bug; 2 wrong command line, part, fault or address; 130 interrupted (Ctrl-C); 143 terminated."
    ),
)
def rehearsal(
    *,
    parts: Annotated[Path, typer.Option(help="Folder of parts, one Python file for each.")],
    port: Annotated[int, typer.Option(min=0, max=PORT_MAX, help="Port to listen on (default: a free one).")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    faults: Annotated[Path | None, typer.Option(help="JSON file with a list of faults to begin with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help='Write the URL as {"url": …}.')] = False,
) -> int:
    """Play scripted parts behind a local stand-in for the Messages API of Claude.

    It is as strict as the API, needs no key of yours, and fails on demand.
    """
    configure_logs("info", actor="rehearsal")
    chosen = read_faults(faults) if faults else ()
    return uvloop.run(run(Settings(parts=read_parts(parts), faults=chosen, host=host, port=port, is_json=as_json)))


def read_faults(path: Path) -> tuple[Fault, ...]:
    """The faults of a file; BadFaultsError says what is wrong with it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[Fault, ...])
    except (OSError, ValueError, RecursionError) as error:
        raise BadFaultsError(f"--faults {path}: {error}") from error


async def run(settings: Settings) -> int:
    """Play until a signal comes; NoPlaceError if the address cannot be had."""
    ended = asyncio.get_running_loop().create_future()
    for number, code in SIGNALS.items():
        asyncio.get_running_loop().add_signal_handler(number, _end, ended, code)
    rehearsal = Rehearsal(settings.parts, settings.faults, host=settings.host, port=settings.port)
    try:
        await rehearsal.__aenter__()
    except OSError as error:
        raise NoPlaceError(f"{settings.host}:{settings.port} cannot be listened on: {error}") from error
    try:
        typer.echo(json.dumps({"url": rehearsal.url}) if settings.is_json else rehearsal.url)
        return int(await ended)
    finally:
        await rehearsal.__aexit__(None, None, None)


def _end(ended: "asyncio.Future[ActorExit]", code: ActorExit) -> None:
    if not ended.done():
        ended.set_result(code)

"""`supervisor logs`: what processes have said."""

import asyncio
import os
from typing import Annotated

import typer

from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings
from bus.cli.output import one_line, say, show, show_bytes, show_json
from bus.cli.running import run, while_somebody_reads
from bus.cli.usage import number_from
from bus.exits import Exit
from supervisors.cli.app import app
from supervisors.company.place import find_place
from supervisors.views.logs import Line, Logs, names, render

LOOK_SECONDS = 0.2
LINES = 50


@app.command(epilog="Examples: supervisor logs · supervisor logs -f coder-1 · supervisor logs --lines 1000 --json")
def logs(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="ID", help="A name in the tree, or `supervisor`; without it everybody.")
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    lines: Annotated[
        int, typer.Option(parser=number_from(0), metavar="NUMBER", help="How many of the last lines to begin with.")
    ] = LINES,
    json: Json = False,
) -> int:
    """Show what processes have said, in the order of time.

    With --json lines are shown as they were written, one JSON value each. Needs no broker.
    """
    folder = find_place(loaded_settings(context), os.environ).logs
    known = names(folder)
    if name and name not in known and not follow:
        there = f"there are {', '.join(known)}" if known else "nobody has said anything yet"
        raise CommandError(Exit.FAILED, f"there is no log of {name!r} in {folder}; {there}")
    found = Logs(folder, _checked(name))
    for line in found.last(lines):
        _show(line, json=json)
    if follow:
        if name and name not in known:
            say(one_line(f"there is no log of {name!r} yet; there are {', '.join(known) or 'none'}"))
        run(lambda: _follow(found, json=json), endless=True)
    elif not known:
        say(f"nobody has said anything yet in {folder}")
    return Exit.OK


def _checked(name: str) -> str:
    """No name of a process leads to another folder."""
    if name and (os.sep in name or name.startswith(".")):
        raise CommandError(Exit.USAGE, f"{name!r} is no name of a process")
    return name


async def _follow(found: Logs, *, json: bool) -> None:
    say("following; Ctrl-C ends it")
    async with while_somebody_reads():
        while True:
            for line in found.more():
                _show(line, json=json)
            await asyncio.sleep(LOOK_SECONDS)


def _show(line: Line, *, json: bool) -> None:
    if not json:
        show(render(line))
    elif line.facts is None:
        show_json({"actor": line.name, "timestamp": line.timestamp, "line": line.text})
    else:
        show_bytes(line.text.encode(errors="backslashreplace") + b"\n")

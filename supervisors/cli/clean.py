"""`supervisor clean`: remove what companies have left behind."""

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from bus.bus import Bus
from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings, person_bus
from bus.cli.output import complain, counted, one_line, say, show, show_json
from bus.cli.running import run
from bus.exits import Exit
from bus.server.process import end_process
from supervisors.clerk.handover import find_left, hand_over
from supervisors.cli.app import app
from supervisors.company.place import Place, find_place
from supervisors.core.planning import plan_of
from supervisors.views.leftovers import (
    LeftEntry,
    LeftLease,
    LeftLog,
    LeftOver,
    LeftProcess,
    find_leftovers,
    role_of,
)

END_SECONDS = 5.0
"""What a process may take to end before it is killed."""


@app.command(epilog="Examples: supervisor clean · supervisor clean --yes · supervisor clean --json")
def clean(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False,
    json: Json = False,
) -> int:
    """Remove what companies have left behind.

    Leases that nobody renews, entries of actors that are in no tree, their logs, and processes without a supervisor.
    Shows all of it and asks first; with --json and without --yes it only shows. What a running company uses and
    what is recorded in journals is never touched. Exit code 1: something could not be removed.
    """
    loaded = loaded_settings(context)
    place, plan = find_place(loaded, os.environ), plan_of(loaded.settings)

    async def find() -> list[LeftOver]:
        async with person_bus(context) as bus:
            say("looking at what is there, and which leases somebody still renews")
            return await find_leftovers(bus, place, plan)

    found = run(find)
    if not json:
        for each in found:
            show(one_line(str(each)))
    if not found or not (yes or (not json and _agrees(len(found)))):
        if json:
            show_json({"found": found, "removed": []})
        else:
            say("nothing was removed" if found else f"there is nothing to remove in project {loaded.settings.project}")
        return Exit.OK

    async def remove() -> list[LeftOver]:
        async with person_bus(context) as bus:
            still = await find_leftovers(bus, place, plan)  # a company may have been started while we asked
            return [each for each in found if each in still and await _remove(bus, place, each)]

    removed = run(remove, if_stopped="some of it was perhaps removed: run it again")
    if json:
        show_json({"found": found, "removed": removed})
    for each in found:
        if each not in removed:
            complain(f"not removed, for it has changed since or cannot be: {each}")
    say(f"removed {len(removed)} of {len(found)}")
    return Exit.OK if len(removed) == len(found) else Exit.FAILED


def _agrees(number: int) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError(Exit.USAGE, "nothing was removed: nobody can be asked here, so say --yes")
    return typer.confirm(f"Remove {counted(number, 'thing')}?", err=True)


async def _remove(bus: Bus, place: Place, leftover: LeftOver) -> bool:
    """Whether it is gone; whatever somebody has begun to use meanwhile stays."""
    match leftover:
        case LeftLease(lease=lease):
            await bus.leases.release(lease)
            return await bus.leases.holder(lease.key) is None
        case LeftEntry(key=key, role="coder", actor=actor):
            left = await find_left(bus, role_of(leftover), actor)
            if left is not None:
                await hand_over(bus, left, f"clean/{secrets.token_hex(8)}")
            await bus.board.take_down(key)
        case LeftEntry(key=key):
            await bus.board.take_down(key)
        case LeftLog(path=path):
            return _unlink(Path(path))
        case LeftProcess(pid=pid, born=born):
            if place.supervisor() is not None:
                return False  # whoever it is, a company that has just been started sees to it
            end_process(pid, born, END_SECONDS)
    return True


def _unlink(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        complain(f"{path}: {error.strerror}")
        return False
    return True

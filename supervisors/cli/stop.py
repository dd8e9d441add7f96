"""`supervisor stop`: close the company, with nothing left running and nothing lost."""

import os
import signal
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from bus import server
from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings, person_bus
from bus.cli.output import counted, say, show_json
from bus.cli.running import run
from bus.exits import Exit
from bus.opening import server_folder
from bus.server.process import is_alive, signal_process
from bus.settings import Loaded
from protocol.messages import Stop
from protocol.routing import address
from protocol.subjects import ALL
from supervisors.cli import company
from supervisors.cli.app import app
from supervisors.company.place import Place, Record, find_place
from supervisors.core.standing import ROOT_LEASE, STANDING
from supervisors.views.overview import is_running, read_standing

POLL_SECONDS = 0.05
TALK_SECONDS = 5.0
ROUNDS = 6
"""Supervisors end their children one level after the other: so many times an actor's own limit is more than enough."""


@app.command(epilog="Examples: supervisor stop · supervisor stop --now")
def stop(
    context: typer.Context,
    now: Annotated[bool, typer.Option("--now", help="End everybody at once; what is in hand is done again.")] = False,
    json: Json = False,
) -> int:
    """Close the company: everybody finishes what is in hand, the broker ends last.

    Sessions stay where they are, and go on at the next `supervisor up`.
    """
    loaded = loaded_settings(context)
    place = find_place(loaded, os.environ)
    record = place.supervisor()
    if record is not None:
        _end(record, loaded, now=now)
    elif _ends_elsewhere(context, loaded):
        show_json({"told": True}) if json else say(
            "the company runs on another machine: its supervisor was told to stop"
        )
        return Exit.OK
    left = _clear(context, place, loaded)
    was = record is not None
    if json:
        show_json({"stopped": was, "left_behind": left})
    else:
        say("the company is closed; its work is kept" if was else "no supervisor runs here")
        if left:
            say(f"{counted(len(left), 'process')} of an earlier company had been left behind, and ended")
    return Exit.OK


def _end(record: Record, loaded: Loaded, *, now: bool) -> None:
    """Tell it as its terminal would, and wait until it is gone."""
    for _ in range(2 if now else 1):
        signal_process(record.pid, record.born, signal.SIGTERM)
    patience_seconds = ROUNDS * loaded.settings.actor.stop_seconds + loaded.settings.server.stop_seconds
    for waited in _until_gone(record, patience_seconds):
        say(f"waiting for everybody to finish what is in hand ({waited:.0f} s)")
    if is_alive(record.pid, record.born):
        say("that takes too long: ending it at once, nothing is lost")
        signal_process(record.pid, record.born, signal.SIGTERM)
        for _ in _until_gone(record, patience_seconds):
            continue
    if is_alive(record.pid, record.born):
        advice = f"kill -9 {record.pid}, then `supervisor stop` again"
        raise CommandError(Exit.FAILED, f"the supervisor (process {record.pid}) does not end: {advice}")


def _until_gone(record: Record, seconds: float) -> Iterator[float]:
    """How long it has taken, each time that a person should hear of it."""
    began = time.monotonic()
    told = began
    while is_alive(record.pid, record.born) and (now := time.monotonic()) - began < seconds:
        time.sleep(POLL_SECONDS)  # polls to a deadline: the process is no child of ours
        if now - told >= TALK_SECONDS:
            told = now
            yield now - began


def _ends_elsewhere(context: typer.Context, loaded: Loaded) -> bool:
    """Tell a supervisor on another machine; whether there is one."""
    if not loaded.settings.bus.url:
        return False

    async def work() -> bool:
        async with person_bus(context) as bus:
            standing = await read_standing(bus)
            if standing is None or not await is_running(bus, standing):
                return False
            await company.signal(bus, Stop(reason="closed by a person"), address("supervisor", ALL))
            return True

    return run(work)


def _clear(context: typer.Context, place: Place, loaded: Loaded) -> list[int]:
    """End whoever is left of a company whose supervisor was killed, and the broker that has outlived it."""
    left = place.end_orphans()
    folder = None if loaded.settings.bus.url else server_folder(loaded, os.environ)
    if folder is not None and server.find_running(folder) is not None:
        run(lambda: _take_down(context))
    if folder is not None and server.stop(folder, loaded.settings.server.stop_seconds):
        say("the broker of an earlier company was still there, and was stopped")
    return left


async def _take_down(context: typer.Context) -> None:
    """What stands on the board of a company that is no longer there, and the lease of its supervisor."""
    async with person_bus(context) as bus:
        await bus.board.take_down(STANDING)
        await bus.health.take_down()
        crown = await bus.leases.holder(ROOT_LEASE)
        if crown is not None:
            await bus.leases.release(crown)

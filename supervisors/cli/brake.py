"""`supervisor pause` and `supervisor resume`: the person's own brake."""

from typing import Annotated

import msgspec
import typer

from bus.bus import Bus
from bus.cli.flags import Json, person_bus, project_of
from bus.cli.output import complain, one_line, say, show, show_json
from bus.cli.running import run
from bus.exits import Exit
from protocol.messages import AnyPayload, Pause, Resume
from supervisors.cli.app import app
from supervisors.cli.company import signal, wait_for
from supervisors.health.monitor import EVERYBODY
from supervisors.presence import presences

LEASE_PART = 0.5
"""Heartbeats are at most a quarter of a lease old: after half of one, everybody has said whether it heard."""


class Braked(msgspec.Struct, frozen=True, kw_only=True):
    """Who has taken the signal to heart, and who has not said so in time."""

    heard: tuple[str, ...]
    silent: tuple[str, ...]


@app.command(epilog="Examples: supervisor pause · supervisor pause --reason 'the build is broken' --json")
def pause(
    context: typer.Context,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the record.")] = "",
    json: Json = False,
) -> int:
    """Have everybody stay where they are.

    What is in hand is finished and kept, nothing new is begun, until `supervisor resume`. It also holds for whoever
    starts later. Exit code 1: somebody has not said in time that it heard.
    """
    return _brake(context, Pause(reason=reason), "is paused", paused=True, json=json)


@app.command(epilog="Examples: supervisor resume · supervisor resume --json")
def resume(context: typer.Context, json: Json = False) -> int:
    """Let everybody go on.

    Exit code 1: somebody has not said in time that it heard.
    """
    return _brake(context, Resume(), "goes on", paused=False, json=json)


def _brake(context: typer.Context, payload: AnyPayload, done: str, *, paused: bool, json: bool) -> int:
    async def work() -> Braked:
        async with person_bus(context) as bus:
            await signal(bus, payload, EVERYBODY)
            return await _heard(bus, paused=paused)

    braked = run(work, if_stopped="the signal was perhaps sent: `supervisor status` shows who is paused")
    if json:
        show_json(braked)
    else:
        for actor in braked.heard:
            show(one_line(f"{actor} {done}"))
        if not braked.heard and not braked.silent:
            say(f"nobody of project {project_of(context)} is there now: whoever comes {done}")
    for actor in braked.silent:
        complain(f"{actor} has not said yet that it {done}; the signal is kept for it")
    return Exit.FAILED if braked.silent else Exit.OK


async def _heard(bus: Bus, *, paused: bool) -> Braked:
    async def look() -> Braked:
        present = await presences(bus)
        heard = {actor: beat is not None and beat.paused == paused for actor, beat in present.items()}
        return Braked(
            heard=tuple(sorted(actor for actor in heard if heard[actor])),
            silent=tuple(sorted(actor for actor in heard if not heard[actor])),
        )

    async def everybody() -> Braked | None:
        braked = await look()
        return None if braked.silent else braked

    return await wait_for(everybody, bus.leases.seconds * LEASE_PART) or await look()

"""`supervisor restore`: look at once whether all APIs are healthy, and have whoever is suspended go on."""

import os

import msgspec
import typer

from bus.bus import Bus
from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings, person_bus
from bus.cli.output import complain, counted, one_line, say, show, show_json
from bus.cli.running import run
from bus.exits import Exit
from bus.health import Health
from bus.settings import Loaded
from protocol.machine import SUSPEND
from protocol.messages import Restore
from supervisors.cli.app import app
from supervisors.cli.company import look_for_modules_in, signal, wait_for
from supervisors.core.health import HealthPolicy
from supervisors.errors import NoProbeError
from supervisors.health.model import model_probes
from supervisors.health.monitor import EVERYBODY, check_now
from supervisors.health.probes import Probe, find_probes
from supervisors.views.overview import gather
from supervisors.views.sessions import Memory, Seen, look_up, memory_of, steps

RESTORE_SECONDS = 10.0
"""Every session that somebody hosts has recorded its return by then, or something else is wrong with it."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was suspended. `state` is where it went, empty while it is still in SUSPEND."""

    actor: str
    session: str
    present: bool
    """Whether its actor has a process; if not, it hears the signal when it is back."""
    state: str = ""
    repeated: int = 0
    """How many effects were outstanding, and run again."""


class Restoring(msgspec.Struct, frozen=True, kw_only=True):
    """What was found and done. Without a generation nothing was signalled."""

    health: Health
    generation: int = 0
    sessions: tuple[Restored, ...] = ()


@app.command(epilog="Examples: supervisor restore · supervisor restore --json")
def restore(context: typer.Context, json: Json = False) -> int:
    """Restore whoever is suspended, if all APIs are healthy.

    Probes every API at once, without waiting for the next round, and says where each session returned to and how many
    effects were repeated. Exit code 4: an API is not healthy, and nothing was done; 1: somebody did not return in time.
    """
    loaded = loaded_settings(context)
    probes = _probes(loaded)
    policy = msgspec.convert(loaded.settings.health, HealthPolicy, from_attributes=True)

    async def work() -> Restoring:
        async with person_bus(context) as bus:
            return await _restore(bus, probes, policy)

    restoring = run(work, if_stopped="the signal was perhaps sent: `supervisor status` shows who is suspended")
    if json:
        show_json(restoring)
    else:
        _tell(restoring)
    if not restoring.health.healthy:
        return Exit.SUSPENDED
    return Exit.FAILED if any(each.present and not each.state for each in restoring.sessions) else Exit.OK


def _probes(loaded: Loaded) -> tuple[Probe, ...]:
    look_for_modules_in(loaded)
    try:
        return find_probes(loaded.settings.health.probes, model_probes(loaded, os.environ))
    except NoProbeError as error:
        raise CommandError(Exit.USAGE, str(error)) from error


def _tell(restoring: Restoring) -> None:
    for service in restoring.health.services:
        if not service.healthy:
            complain(f"{service.name} is not healthy: {service.error}")
    if not restoring.health.healthy:
        say("nobody was restored: that happens only when all APIs are healthy")
    elif not restoring.sessions:
        say("all APIs are healthy, and nobody is suspended")
    for each in restoring.sessions:
        where = f"{each.actor}: {each.session}"
        if each.state:
            show(one_line(f"{where} returned to {each.state}, {counted(each.repeated, 'effect')} repeated"))
        elif each.present:
            complain(f"{where} has not returned yet; `supervisor why {each.session}` says more")
        else:
            show(one_line(f"{where} is restored when its actor is back"))


async def _restore(bus: Bus, probes: tuple[Probe, ...], policy: HealthPolicy) -> Restoring:
    health = await check_now(bus, probes, policy)
    suspended = await _suspended(bus) if health.healthy else []
    if not suspended:
        return Restoring(health=health)
    generation = await signal(bus, Restore(), EVERYBODY)

    async def look() -> tuple[Restored, ...]:
        return tuple([await _returned(bus, *each) for each in suspended])

    async def all_back() -> tuple[Restored, ...] | None:
        sessions = await look()
        return sessions if all(each.state or not each.present for each in sessions) else None

    sessions = await wait_for(all_back, RESTORE_SECONDS) or await look()
    return Restoring(health=health, generation=generation, sessions=sessions)


async def _suspended(bus: Bus) -> list[tuple[Restored, Seen]]:
    found = []
    for actor, work in (await gather(bus)).suspended:
        seen = await look_up(bus, actor.address.partition(".")[0], work.session)
        if seen is not None and seen.state == SUSPEND:
            found.append((Restored(actor=actor.name, session=work.session, present=actor.present), seen))
    return found


async def _returned(bus: Bus, restored: Restored, seen: Seen) -> Restored:
    """What a session has recorded since it was seen in SUSPEND, up to its return."""
    before = seen.memory
    async for record in steps(bus, seen.machine, seen.session, seen.sequence + 1):
        after = memory_of(record)
        if record.state_to != SUSPEND:
            repeated = _repeated(before, after)
            return msgspec.structs.replace(restored, state=record.state_to, repeated=repeated)
        before = after
    return restored


def _repeated(before: Memory, after: Memory) -> int:
    """The effects that were parked and are still wanted."""
    parked = before.suspension.parked if before.suspension else ()
    return sum(1 for effect in parked if effect in after.open)

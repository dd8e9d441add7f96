"""Who is there, and what they say of themselves."""

from datetime import datetime

from actors.hosting.heartbeat import Heartbeat, read_heartbeat
from bus.bus import Bus
from protocol.errors import BadSubjectError
from protocol.machine import SUSPEND
from protocol.routing import address, parse_address


async def presences(bus: Bus) -> dict[str, Heartbeat | None]:
    """The actors that have a process, by address; None for one whose heartbeat this code cannot read."""
    present: dict[str, Heartbeat | None] = {}
    async for lease, holder in bus.leases.all():
        role, _, rest = lease.key.partition(".")
        kind, _, actor = rest.partition(".")
        if kind == "actor" and _is_address(address(role, actor)):
            present[address(role, actor)] = read_heartbeat(holder.details)
    return present


async def suspensions(bus: Bus) -> dict[str, datetime]:
    """The sessions that wait in SUSPEND, by machine and name, and since when."""
    beats = [beat for beat in (await presences(bus)).values() if beat]
    return {
        f"{beat.machine}.{each.session}": each.since
        for beat in beats
        for each in beat.sessions
        if each.state == SUSPEND and each.since is not None
    }


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except BadSubjectError:
        return False
    return True

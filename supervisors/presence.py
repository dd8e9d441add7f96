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
    """The sessions that wait in SUSPEND, and since when."""
    beats = (await presences(bus)).values()
    playing = [each for beat in beats if beat for each in beat.sessions]
    return {each.session: each.since for each in playing if each.state == SUSPEND and each.since is not None}


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except BadSubjectError:
        return False
    return True

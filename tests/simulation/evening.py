"""An evening at the theatre: a company on a virtual clock, and what it has recorded."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from actors.hosting.heartbeat import Heartbeat
from bus.leases import Holder
from protocol.record import Record
from tests.simulation.loop import VirtualLoop, run_virtual
from tests.simulation.theatre import Theatre

HOUR = 3600.0
TRACE_LINES = 40
"""Printed for whoever looks at a test that fails."""

Play = Callable[[Theatre], Awaitable[Any]]


def on_stage(play: Play, *actors: str) -> Theatre:
    """Play something with these actors on a virtual clock; nothing may violate what always holds."""

    async def main(loop: VirtualLoop) -> Theatre:
        theatre = Theatre(loop)
        await theatre.open(*(actors or ("architect.main", "coder.coder-1")))
        try:
            await play(theatre)
        finally:
            print("\n".join(theatre.monitor.trace[-TRACE_LINES:]))
        theatre.monitor.check_histories()
        assert theatre.monitor.violations == []
        return theatre

    theatre: Theatre = run_virtual(main)
    return theatre


def states(theatre: Theatre, session: str = "s-1.1") -> list[str]:
    """The states that a session came to."""
    records = theatre.monitor.records.get(session, [])
    return [record.state_to for record in records if record.state_to != record.state_from]


def last(theatre: Theatre, session: str = "s-1.1") -> Record:
    return theatre.monitor.records[session][-1]


def events(theatre: Theatre, session: str, kind: str) -> list[Any]:
    """What a session has recorded of one kind."""
    decoded = [msgspec.json.decode(record.event) for record in theatre.monitor.records[session]]
    return [event for event in decoded if event["event"] == kind]


def after(record: Record) -> Any:
    """The session as a record has it."""
    return msgspec.json.decode(record.after)


async def come_to(theatre: Theatre, state: str, session: str = "s-1.1", seconds: float = HOUR) -> None:
    def is_there() -> bool:
        return session in theatre.monitor.records and last(theatre, session).state_to == state

    assert await theatre.until(is_there, seconds), states(theatre, session)


async def suspended(theatre: Theatre) -> None:
    """A coder whose plan waits for the model."""
    theatre.outside.down_until = 10 * HOUR
    await theatre.order("s-1")
    await come_to(theatre, "SUSPEND")


def beat_of(holder: Holder) -> Heartbeat | Any:
    return msgspec.convert(holder.details, Heartbeat) if holder.details else None

"""The heartbeat: what an actor says of itself while it lives, under its presence.

That it is there says that the process is alive; `ready`, that it takes events; the time of the last event, whether it
makes progress.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from protocol.messages import Instant


class Playing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session that the process hosts."""

    session: str
    state: str
    since: Instant | None
    records: int
    last_event: str = ""
    last_event_at: Instant | None = None
    in_hand: tuple[str, ...] = ()
    """The kinds of effects that it waits for."""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One actor, as of its last renewal. `state` is that of its only session, or where it waits for one."""

    machine: str
    state: str
    started_at: Instant
    sessions: tuple[Playing, ...] = ()
    ready: bool = False
    paused: bool = False
    unreadable: tuple[str, ...] = ()
    """Sessions that wait for a person, because this code cannot read their records."""


def read_heartbeat(details: Mapping[str, Any]) -> Heartbeat | None:
    """What the holder of a lease says of itself; None for a lease that is no actor's presence."""
    try:
        return msgspec.convert(details, Heartbeat)
    except msgspec.ValidationError:
        return None

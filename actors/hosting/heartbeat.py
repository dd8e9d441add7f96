"""The heartbeat: what an actor says of itself while it lives, under its presence.

That it is there says that the process is alive; `ready`, that it takes events; the time of the last event, whether it
makes progress.
"""

from datetime import datetime

import msgspec


class Playing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session that the process hosts."""

    session: str
    state: str
    since: datetime | None
    records: int
    last_event: str = ""
    last_event_at: datetime | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One actor, as of its last renewal. `state` is that of its only session, or where it waits for one."""

    machine: str
    state: str
    started_at: datetime
    sessions: tuple[Playing, ...] = ()
    ready: bool = False
    paused: bool = False
    unreadable: tuple[str, ...] = ()
    """Sessions that wait for a person, because this code cannot read their records."""

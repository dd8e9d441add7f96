"""A session as its last record tells it, whatever machine it is of: why it waits, why it fails, what it has in hand."""

from collections.abc import AsyncIterator, Mapping

import msgspec

from bus.bus import Bus
from bus.cli.lines import UNREADABLE
from bus.journal import Entry
from protocol.errors import BadSubjectError
from protocol.messages import Instant
from protocol.record import Record
from protocol.subjects import parse_subject

MACHINES_OF: Mapping[str, tuple[str, ...]] = {
    "pm": ("pm",),
    "architect": ("architect", "architect-classic"),
    "coder": ("coder", "coder-classic"),
}
"""Whose sessions an actor of a role can have."""


class Suspended(msgspec.Struct, frozen=True, kw_only=True):
    """Why a session is in SUSPEND, and what runs again when it is restored."""

    suspended_from: str
    service: str
    timer: str = ""
    parked: tuple[str, ...] = ()


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """Why a session is in ERROR or on its way there."""

    kind: str
    reason: str
    evidence: str = ""


class InHand(msgspec.Struct, frozen=True, kw_only=True):
    """An effect that is not done yet; a timer has the time when it is due."""

    effect: str
    name: str = ""
    due: Instant | None = None


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """As much of an actor's session as any reader understands."""

    open: dict[str, InHand] = {}
    since: Instant | None = None
    suspension: Suspended | None = None
    failing: Failing | None = None

    @property
    def due(self) -> Instant | None:
        """When a suspension leads to ERROR."""
        timer = self.open.get(self.suspension.timer) if self.suspension else None
        return timer.due if timer else None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A session as of its record at a sequence of the journal."""

    machine: str
    session: str
    state: str
    records: int
    sequence: int
    memory: Memory


_memory = msgspec.json.Decoder(Memory)


def memory_of(record: Record) -> Memory:
    """What a record's session remembers; nothing of one that keeps other things."""
    try:
        return _memory.decode(record.after)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Memory()


async def look_up(bus: Bus, role: str, session: str) -> Seen | None:
    """A session of an actor of a role; None if it has recorded nothing that can be read."""
    found = [await bus.journal.last(machine, session) for machine in MACHINES_OF.get(role, ())]
    newest = max((entry for entry in found if entry), key=lambda entry: entry.sequence, default=None)
    return _seen(newest) if newest else None


async def newest_run(bus: Bus, story: str) -> Seen | None:
    """The run at a story that has recorded last."""
    entry = await bus.journal.last_run(story)
    return _seen(entry) if entry else None


async def steps(bus: Bus, machine: str, session: str, first: int = 1) -> AsyncIterator[Record]:
    """The records of a session that can be read."""
    async for entry in bus.journal.read(machine, session, first):
        try:
            yield entry.record()
        except UNREADABLE:
            continue


def _place(entry: Entry) -> tuple[str, str]:
    """Machine and session, by the subject."""
    try:
        subject = parse_subject(entry.subject)
    except BadSubjectError:
        return "", ""
    return subject.role, subject.id


def _seen(entry: Entry) -> Seen | None:
    try:
        record = entry.record()
    except UNREADABLE:
        return None
    machine, session = _place(entry)
    return Seen(
        machine=machine,
        session=session,
        state=record.state_to,
        records=record.n,
        sequence=entry.sequence,
        memory=memory_of(record),
    )

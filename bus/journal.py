"""The journal: one subject per session, appended to by one process at a time.

An append is a write behind the fence (`bus.fence`), under an id that names its process.
"""

from collections.abc import AsyncIterator

import msgspec

from bus.broker import MESSAGE_ID, Broker, Message
from bus.fence import Fence
from bus.following import follow
from bus.retrying import surely
from protocol.codec import encode
from protocol.record import Record, decode_record
from protocol.subjects import Subjects


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One place of a journal: where it stands, under which append id, and its bytes, which may not be a record."""

    subject: str
    sequence: int
    append_id: str
    data: bytes

    def record(self) -> Record:
        """The record, or MalformedMessageError or UnsupportedSchemaError."""
        return decode_record(self.data)


class Journal:
    """All journals of a project."""

    def __init__(self, broker: Broker, subjects: Subjects) -> None:
        self._broker = broker
        self._subjects = subjects
        self._stream = subjects.stream("JOURNAL")
        self._fence = Fence(broker, self._stream)

    async def append(self, record: Record, expected: int) -> int:
        """Store a record after sequence `expected` (0: the first); returns its sequence.

        Waits out any outage. FencedError: another process has written; stop at once.
        """
        subject = self._subjects.journal(record.machine, record.session)
        return await self._fence.append(subject, encode(record), record.append_id, expected)

    async def last(self, machine: str, session: str) -> Entry | None:
        """The newest entry of a session, whose machine need not be known: all that a resume needs."""
        subject = self._filter(machine, session)
        message = await surely(lambda: self._broker.last(self._stream, subject))
        return None if message is None else _entry(message)

    async def last_run(self, story: str) -> Entry | None:
        """The newest entry of all runs at a story."""
        message = await surely(lambda: self._broker.last(self._stream, self._subjects.journals_below(story)))
        return None if message is None else _entry(message)

    async def read(self, machine: str = "", session: str = "", first: int = 1) -> AsyncIterator[Entry]:
        """All entries of a session, of a machine or of everything, up to the newest at the time of the call."""
        async for message in self._broker.read(self._stream, self._filter(machine, session), first):
            yield _entry(message)

    async def follow(self, machine: str = "", session: str = "", first: int = 1) -> AsyncIterator[Entry]:
        """As `read`, and then whatever comes, for ever."""
        live = self._subjects.live("journal")
        async for message in follow(self._broker, self._stream, self._filter(machine, session), live, first):
            yield _entry(message)

    def _filter(self, machine: str, session: str) -> str:
        if session and machine:
            return self._subjects.journal(machine, session)
        return self._subjects.journals_of(session) if session else self._subjects.every("journal", machine)


def _entry(message: Message) -> Entry:
    return Entry(
        subject=message.subject,
        sequence=message.sequence,
        append_id=message.headers.get(MESSAGE_ID, ""),
        data=message.data,
    )

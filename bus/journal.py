"""The journal: one subject per session, appended to by one process at a time.

The fence: an append states the sequence that it expects and carries an id that names its process. When the broker
refuses it, the last record tells why: ours, then the append had succeeded and only the word of it was lost; somebody
else's, then we are fenced. One node and three replicas check ids and sequences in opposite order, and a broker that is
just back may answer reads with an older truth; only this rule is right in all of these cases.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from bus.broker import EXPECTED_LAST_SUBJECT_SEQUENCE, MESSAGE_ID, Broker, Message
from bus.errors import FencedError, HistoryLostError, WrongLastSequenceError
from bus.following import follow
from bus.retrying import surely
from protocol.codec import encode
from protocol.record import Record, decode_record
from protocol.subjects import Subjects

DOUBTS_MAX = 50
DOUBT_SECONDS = 0.1
"""A refusal that no read explains is asked about again this often before the history counts as lost."""


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

    async def append(self, record: Record, expected: int) -> int:
        """Store a record after sequence `expected` (0: the first); returns its sequence.

        Waits out any outage. FencedError: another process has written; stop at once.
        """
        subject = self._subjects.journal(record.machine, record.session)
        data, append_id = encode(record), record.append_id
        headers = {MESSAGE_ID: append_id, EXPECTED_LAST_SUBJECT_SEQUENCE: str(expected)}
        for _ in range(DOUBTS_MAX):
            try:
                return (await surely(lambda: self._broker.publish(subject, data, headers))).sequence
            except WrongLastSequenceError as refusal:
                last = await surely(lambda: self._broker.last(self._stream, subject))
                stored = self._explain(last, append_id, expected, refusal)
                if stored:
                    return stored
            await asyncio.sleep(DOUBT_SECONDS)
        last = await surely(lambda: self._broker.last(self._stream, subject))
        raise HistoryLostError(subject, expected, last.sequence if last else 0)

    def _explain(self, last: Message | None, append_id: str, expected: int, refusal: WrongLastSequenceError) -> int:
        """Why an append was refused: the sequence if it is stored after all, 0 if this read cannot tell."""
        if last is not None and last.headers.get(MESSAGE_ID) == append_id:
            return last.sequence
        if last is not None and last.sequence > expected:
            raise FencedError(refusal.subject, append_id, last.headers.get(MESSAGE_ID, "")) from refusal
        return 0

    async def last(self, machine: str, session: str) -> Entry | None:
        """The newest entry of a session: all that a resume needs."""
        subject = self._subjects.journal(machine, session)
        message = await surely(lambda: self._broker.last(self._stream, subject))
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

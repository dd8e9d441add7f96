"""The fence: storing a message behind a known one, exactly once, whatever the broker forgets to say.

A write states the sequence that it expects and carries an id of its own. When the broker refuses it, the last message
tells why: ours to the byte, then the write had succeeded and only the word of it was lost; else we are fenced. The same
id with other bytes is another hand of our own process, and a fence too.
One node and three replicas check ids and sequences in opposite order, ids are forgotten after a while, and a broker
that is just back may answer reads with an older truth; only this rule is right in all of these cases.
"""

import asyncio
from typing import NamedTuple

from bus.broker import EXPECTED_LAST_SUBJECT_SEQUENCE, MESSAGE_ID, Acknowledged, Broker, Message
from bus.errors import FencedError, HistoryLostError, WrongLastSequenceError
from bus.retrying import surely

DOUBTS_MAX = 50
DOUBT_SECONDS = 0.1
"""How often and how long a read that does not explain a refusal, because it is older, is asked for again."""


class Fence:
    """The fences of one stream: each subject has its own."""

    def __init__(self, broker: Broker, stream: str) -> None:
        self._broker = broker
        self._stream = stream

    async def append(self, subject: str, data: bytes, message_id: str, expected: int) -> int:
        """Store a message after sequence `expected` of its subject (0: the first); returns its sequence.

        Waits out any outage. FencedError: somebody else has written. HistoryLostError: `expected` is gone.
        """
        headers = {MESSAGE_ID: message_id, EXPECTED_LAST_SUBJECT_SEQUENCE: str(expected)}
        ours = _Write(subject, data, message_id, expected)
        for _ in range(DOUBTS_MAX):
            try:
                answer = await surely(lambda: self._broker.publish(subject, data, headers))
            except WrongLastSequenceError as refusal:
                stored = _explain(await self._last(subject), ours, refusal)
            else:
                stored = await self._confirm(answer, ours) if answer.duplicate else answer.sequence
            if stored:
                return stored
            await asyncio.sleep(DOUBT_SECONDS)
        last = await self._last(subject)
        raise HistoryLostError(subject, expected, last.sequence if last else 0)

    async def last_after(self, subject: str, refusal: WrongLastSequenceError) -> Message | None:
        """The last message of a subject, from a read that is no older than a refusal."""
        last = await self._last(subject)
        for _ in range(DOUBTS_MAX):
            if (last.sequence if last else 0) >= (refusal.actual or 0):
                break
            await asyncio.sleep(DOUBT_SECONDS)
            last = await self._last(subject)
        return last

    async def _confirm(self, answer: Acknowledged, ours: "_Write") -> int:
        """What is stored under our id must be what we write, or the id is not ours alone; 0 if no read can tell yet."""
        stored = await surely(lambda: self._broker.get(self._stream, answer.sequence))
        if stored is not None and stored.data != ours.data:
            raise FencedError(ours.subject, ours.message_id, ours.message_id)
        return 0 if stored is None else stored.sequence

    async def _last(self, subject: str) -> Message | None:
        return await surely(lambda: self._broker.last(self._stream, subject))


class _Write(NamedTuple):
    """What somebody wants to have stored."""

    subject: str
    data: bytes
    message_id: str
    expected: int


def _explain(last: Message | None, ours: _Write, refusal: WrongLastSequenceError) -> int:
    """Why a write was refused: the sequence if it is stored after all, 0 if this read cannot tell."""
    if last is None:
        return 0
    owner = last.headers.get(MESSAGE_ID, "")
    if owner == ours.message_id and last.data == ours.data:
        return last.sequence
    if owner == ours.message_id or last.sequence > ours.expected:
        raise FencedError(ours.subject, ours.message_id, owner) from refusal
    return 0

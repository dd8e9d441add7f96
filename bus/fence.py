"""The fence: storing a message behind a known one, exactly once, whatever the broker forgets to say.

A write states the sequence that it expects and carries an id of its own. When the broker refuses it, the last message
tells why: ours, then the write had succeeded and only the word of it was lost; somebody else's, then we are fenced.
One node and three replicas check ids and sequences in opposite order, ids are forgotten after a while, and a broker
that is just back may answer reads with an older truth; only this rule is right in all of these cases.
"""

import asyncio

from bus.broker import EXPECTED_LAST_SUBJECT_SEQUENCE, MESSAGE_ID, Broker, Message
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
        for _ in range(DOUBTS_MAX):
            try:
                return (await surely(lambda: self._broker.publish(subject, data, headers))).sequence
            except WrongLastSequenceError as refusal:
                stored = _explain(await self._last(subject), message_id, expected, refusal)
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

    async def _last(self, subject: str) -> Message | None:
        return await surely(lambda: self._broker.last(self._stream, subject))


def _explain(last: Message | None, message_id: str, expected: int, refusal: WrongLastSequenceError) -> int:
    """Why a write was refused: the sequence if it is stored after all, 0 if this read cannot tell."""
    if last is not None and last.headers.get(MESSAGE_ID) == message_id:
        return last.sequence
    if last is not None and last.sequence > expected:
        raise FencedError(refusal.subject, message_id, last.headers.get(MESSAGE_ID, "")) from refusal
    return 0

"""The board: the latest of everything a person may want to see, by key.

Specs, stories, asks, health and settings stand here for status and browser. It can be rebuilt from the journals and is
never the truth itself, except for what has no other record: which revision of a spec was published.
"""

from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from bus.broker import EXPECTED_LAST_SUBJECT_SEQUENCE, OPERATION, Broker, Message
from bus.errors import WrongLastSequenceError
from bus.following import follow
from bus.retrying import surely
from bus.topology import BOARD
from protocol.subjects import Subjects


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """What stands under a key; `value` is None once it was taken down."""

    key: str
    value: bytes | None
    revision: int


class Board:
    """All keys of a project."""

    def __init__(self, broker: Broker, subjects: Subjects) -> None:
        self._broker = broker
        self._subjects = subjects
        self._stream = subjects.key_stream(BOARD)

    async def get(self, key: str) -> Posted | None:
        """What stands under a key; None if nothing ever did, or it was taken down."""
        posted = await self.last(key)
        return None if posted is None or posted.value is None else posted

    async def last(self, key: str) -> Posted | None:
        """What was last done under a key: as `get`, but it also says that something was taken down."""
        subject = self._subjects.key(BOARD, key)
        message = await surely(lambda: self._broker.last(self._stream, subject))
        return None if message is None else self._posted(message)

    async def put(self, key: str, value: bytes) -> int:
        """Replace whatever stands there; returns the revision."""
        return await surely(lambda: self.put_once(key, value))

    async def put_once(self, key: str, value: bytes) -> int:
        """As `put`, tried once: for what can as well be put up later."""
        return (await self._broker.publish(self._subjects.key(BOARD, key), value)).sequence

    async def replace(self, key: str, value: bytes, expected: int) -> int | None:
        """Replace revision `expected` (0: nothing stands there); None if something else does."""
        subject = self._subjects.key(BOARD, key)
        if expected == 0:
            taken_down = await self.last(key)
            if taken_down is not None and taken_down.value is None:
                expected = taken_down.revision
        headers = {EXPECTED_LAST_SUBJECT_SEQUENCE: str(expected)}
        try:
            return (await surely(lambda: self._broker.publish(subject, value, headers))).sequence
        except WrongLastSequenceError:
            # Our own write whose answer was lost looks like a stranger's: the value tells.
            posted = await self.last(key)
            ours = posted is not None and posted.value == value and posted.revision > expected
            return posted.revision if posted is not None and ours else None

    async def take_down(self, key: str, revision: int = 0) -> None:
        """Remove a key; with a revision only that, and whatever else stands there stays."""
        subject = self._subjects.key(BOARD, key)
        headers = {OPERATION: "DEL"} | ({EXPECTED_LAST_SUBJECT_SEQUENCE: str(revision)} if revision else {})
        with suppress(WrongLastSequenceError):
            await surely(lambda: self._broker.publish(subject, b"", headers))

    async def all(self, prefix: str = "") -> AsyncIterator[Posted]:
        """Everything that stands below a prefix."""
        async for message in self._broker.read(self._stream, self._subjects.every_key(BOARD, prefix)):
            posted = self._posted(message)
            if posted.value is not None:
                yield posted

    async def follow(self, prefix: str = "") -> AsyncIterator[Posted]:
        """Everything below a prefix, then every change; a key that changes fast may skip values in between."""
        wanted = self._subjects.every_key(BOARD, prefix)
        async for message in follow(self._broker, self._stream, wanted, self._subjects.live_board):
            yield self._posted(message)

    async def watch(self, key: str) -> AsyncIterator[Posted]:
        """What stands under one key, then every change; what changes fast may skip values in between."""
        wanted = self._subjects.key(BOARD, key)
        async for message in follow(self._broker, self._stream, wanted, self._subjects.live_board):
            yield self._posted(message)

    def _posted(self, message: Message) -> Posted:
        value = None if message.headers.get(OPERATION) in ("DEL", "PURGE") else message.data
        return Posted(key=self._subjects.key_of(BOARD, message.subject), value=value, revision=message.sequence)

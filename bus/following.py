"""Following a stream: everything in order, nothing missed, at once.

The broker repeats what it has stored on core subjects. Such a repetition is only a hint that there is something to
read; what is read comes from the stream, in its order. So a lost hint costs time, never a message.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from bus.broker import Broker, Message, matches
from bus.retrying import surely

POLL_SECONDS = 5.0
"""A hint can be lost; this is how long at most a message then waits."""


async def follow(broker: Broker, stream: str, subject: str, live: str, first: int = 1) -> AsyncIterator[Message]:
    """All messages of a subject from sequence `first` on, for ever."""
    async with broker.listen(live) as hints:
        while True:
            newest = await surely(lambda: broker.last(stream, subject))
            if newest is not None and newest.sequence >= first:
                async for message in broker.read(stream, subject, first):
                    first = message.sequence + 1
                    yield message
            await _hint(hints, subject, first)


async def _hint(hints: "asyncio.Queue[Message | None]", subject: str, first: int) -> None:
    """Return when there may be something to read from `first` on; all hints that wait by then are one."""
    with suppress(TimeoutError):
        async with asyncio.timeout(POLL_SECONDS):
            while not _concerns(await hints.get(), subject, first):
                continue
    while not hints.empty():
        hints.get_nowait()


def _concerns(hint: Message | None, subject: str, first: int) -> bool:
    """Whether a hint speaks of what is followed; None says that hints were missed. It carries the stored subject."""
    return hint is None or (hint.sequence >= first and matches(subject, hint.subject))

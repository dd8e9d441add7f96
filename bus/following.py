"""Following a stream: everything in order, nothing missed, at once.

The broker repeats what it has stored on core subjects. Such a repetition is only a hint that there is something to
read; what is read comes from the stream, in its order. So a lost hint costs time, never a message. Only where all of a
stream is followed and repeated whole, the repetition of the very next message is as good as reading it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from bus.broker import Broker, Message, matches

POLL_SECONDS = 15.0
"""A hint can be lost; this is how long at most a message then waits."""

BURST_SECONDS = 0.01
"""Where something must be read anyway, what follows within this time is read with it, and asked for once."""


async def follow(  # noqa: PLR0913 -- what is followed, by what, from where, and how
    broker: Broker, stream: str, subject: str, live: str, first: int = 1, *, whole: bool = False
) -> AsyncIterator[Message]:
    """All messages of a subject from sequence `first` on, for ever.

    `whole`: the stream has no other subjects, and is repeated with its data. Many who hear of one message then do not
    all have to ask for it.
    """
    async with broker.listen(live) as hints:
        while True:
            async for message in broker.read(stream, subject, first):
                first = message.sequence + 1
                yield message
            while (hint := await _hint(hints, subject, first)) and whole and hint.sequence == first:
                first = hint.sequence + 1
                yield hint
            await asyncio.sleep(BURST_SECONDS)


async def _hint(hints: "asyncio.Queue[Message | None]", subject: str, first: int) -> Message | None:
    """The next hint of something to read from `first` on; None when hints were missed, or may have been."""
    with suppress(TimeoutError):
        async with asyncio.timeout(POLL_SECONDS):
            while not _concerns(hint := await hints.get(), subject, first):
                continue
            return hint
    return None


def _concerns(hint: Message | None, subject: str, first: int) -> bool:
    """Whether a hint speaks of what is followed; None says that hints were missed. It carries the stored subject."""
    return hint is None or (hint.sequence >= first and matches(subject, hint.subject))

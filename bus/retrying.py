"""Trying until the broker has answered: an outage is a pause, a missing stream is not."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bus.errors import ChannelClosedError, NoResponderError, NotAcknowledgedError

FIRST_PAUSE_SECONDS = 0.01
PAUSE_SECONDS_MAX = 0.5
MISSING_SECONDS = 15.0
"""How long nobody may listen on a subject before its stream counts as deleted: longer than a recovery or election."""

T = TypeVar("T")


async def surely(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat `call` until it is acknowledged; it must be safe to repeat. Every other error is the caller's."""
    pause = FIRST_PAUSE_SECONDS
    missing_since: float | None = None
    while True:
        try:
            return await call()
        except NoResponderError as error:
            now = asyncio.get_running_loop().time()
            missing_since = now if missing_since is None else missing_since
            if now - missing_since > MISSING_SECONDS:
                raise ChannelClosedError(error.subject, f"nobody has listened for {MISSING_SECONDS:g} s") from error
        except NotAcknowledgedError:
            missing_since = None
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 -- spreads retries, protects nothing
        pause = min(pause * 2, PAUSE_SECONDS_MAX)

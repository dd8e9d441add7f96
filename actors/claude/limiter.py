"""The limiter: the one throttle of a provider, on the board, so that all processes on all machines heed it."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from itertools import count

import msgspec
import structlog

from actors.runtime.world import World
from actors.thinking.throttle import Throttle, slow_down, take_place
from bus.board import Posted
from protocol.codec import encode

THROTTLES = "throttles"
"""Below this key on the board each provider has one."""

LONG_SECONDS = 5.0
"""A longer wait is told in the log."""

log = structlog.get_logger()

_writes = count(1)
_throttle = msgspec.json.Decoder(Throttle)


def throttle_key(url: str) -> str:
    """Where on the board the throttle of a provider stands."""
    return f"{THROTTLES}.{hashlib.sha256(url.encode()).hexdigest()[:16]}"


class Limiter:
    """Waits until it is a call's turn, and says so to everybody when the provider asks for less."""

    def __init__(self, world: World, url: str) -> None:
        self._world = world
        self._key = throttle_key(url)

    async def wait(self, *, is_first: bool) -> None:
        """Return when a call may begin; `is_first`: it begins a conversation."""
        begins: datetime = await self._change(lambda throttle, now: take_place(throttle, now, is_first=is_first))
        if (seconds := (begins - self._world.now()).total_seconds()) > LONG_SECONDS:
            log.info("provider.waiting", seconds=round(seconds, 1))
        while (left := (begins - self._world.now()).total_seconds()) > 0:
            await self._world.sleep(left)

    async def slow_down(self, retry_after_seconds: float) -> None:
        """The provider has refused a call because there were too many."""
        await self._change(lambda throttle, now: (slow_down(throttle, now, retry_after_seconds), now))
        log.warning("provider.slowed_down", seconds=retry_after_seconds)

    async def _change(self, change: Callable[[Throttle, datetime], tuple[Throttle, datetime]]) -> datetime:
        """Change what stands there, behind whatever others do to it just now; returns what the change says."""
        board = self._world.bus.board
        while True:
            posted = await board.last(self._key)
            throttle = _read(posted)
            changed, when = change(throttle, self._world.now())
            if changed == throttle:
                return when
            writer = f"{self._world.incarnation}/{next(_writes)}"
            changed = msgspec.structs.replace(changed, writer=writer)
            if await board.replace(self._key, encode(changed), posted.revision if posted else 0) is not None:
                return when


def _read(posted: Posted | None) -> Throttle:
    """What is not there, or is none of ours, slows nobody down."""
    try:
        return Throttle() if posted is None or posted.value is None else _throttle.decode(posted.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Throttle()

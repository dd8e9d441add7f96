"""Health: how the APIs are that the company needs, as its monitor posts it on the board.

While one of them is not healthy nothing is dispatched. Where nobody monitors, nothing holds anybody back.
"""

import msgspec

from bus.board import Board, Posted
from protocol.codec import encode
from protocol.messages import Instant

HEALTH = "health"
"""The key on the board."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One API, after its last probe."""

    name: str
    healthy: bool
    since: Instant
    """When it became so."""
    checked_at: Instant
    latency_ms: float
    error: str = ""
    """Why it is not healthy, or by what its last probe failed."""
    successes: int = 0
    """Probes that have succeeded in a row until now."""
    failures: int = 0
    """Probes that have failed in a row until now."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """All APIs, after a round of probes that began `at`."""

    at: Instant
    services: tuple[Service, ...]

    @property
    def healthy(self) -> bool:
        """Whether all of them are."""
        return all(service.healthy for service in self.services)


_health = msgspec.json.Decoder(Health)


class HealthBoard:
    """The health of a project. What lies there and is none counts for nothing."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def get(self) -> Health | None:
        """What was found last; None if nobody monitors."""
        return _read(await self._board.get(HEALTH))

    async def put(self, health: Health) -> None:
        """Post what was found."""
        await self._board.put(HEALTH, encode(health))

    async def take_down(self) -> None:
        """Nobody monitors any longer."""
        await self._board.take_down(HEALTH)

    async def is_healthy(self) -> bool:
        """Whether anything may be dispatched now."""
        return _lets_go(await self.get())

    async def until_healthy(self) -> None:
        """Wait until something may be dispatched, however long it takes."""
        if await self.is_healthy():
            return
        async for posted in self._board.watch(HEALTH):
            if _lets_go(_read(posted)):
                return


def _lets_go(health: Health | None) -> bool:
    return health is None or health.healthy


def _read(posted: Posted | None) -> Health | None:
    """None for what is not there or is not ours."""
    try:
        return None if posted is None or posted.value is None else _health.decode(posted.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

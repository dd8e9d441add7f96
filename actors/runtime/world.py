"""The world as the runtime sees it: clock, randomness, the bus, and the places where a test may crash it."""

import asyncio
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol

from bus.bus import Bus


class World(Protocol):
    """All that the runtime touches besides effects. Production has one implementation, simulation another."""

    bus: Bus
    incarnation: str
    """A fresh name for this process; its records and leases carry it."""

    def now(self) -> datetime:
        """The time of day, for records."""

    def elapsed(self) -> float:
        """Seconds on a clock that also runs while the process or the machine sleeps."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def chance(self) -> float:
        """A random number from 0 to 1, for jitter."""

    async def boundary(self, name: str) -> None:
        """A place between two things that happen; a test crashes or stops the process here."""


class RealWorld:
    """The world outside."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.incarnation = secrets.token_hex(8)

    def now(self) -> datetime:
        """The machine's clock."""
        return datetime.now(UTC)

    def elapsed(self) -> float:
        """CLOCK_BOOTTIME where there is one: the monotonic clock stands still while a laptop is closed."""
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime(clock)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def chance(self) -> float:
        """Good enough to spread retries."""
        return secrets.randbelow(1 << 30) / (1 << 30)

    async def boundary(self, name: str) -> None:
        """Nothing happens here outside of tests."""

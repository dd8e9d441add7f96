"""The limiter: one throttle for all processes, on every kind of broker."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from actors.claude.limiter import Limiter, throttle_key
from actors.runtime.world import RealWorld
from actors.thinking.throttle import FIRST_SPACING_SECONDS, SLOW_SPACING_SECONDS
from tests.contract.world import World

URL = "http://127.0.0.1:1"
NOW = datetime(2026, 11, 19, tzinfo=UTC)


class Watched(RealWorld):
    """A process at one moment, which notes how long it is told to wait instead of waiting."""

    def __init__(self, bus: Any) -> None:
        super().__init__(bus)
        self._now = NOW
        self.waited = 0.0

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.waited += seconds
        self._now += timedelta(seconds=seconds)


async def test_first_calls_of_many_processes_begin_one_after_another(world: World) -> None:
    processes = [Watched(await world.bus()) for _ in range(6)]

    await asyncio.gather(*[Limiter(process, URL).wait(is_first=True) for process in processes])

    assert sorted(process.waited for process in processes) == [n * FIRST_SPACING_SECONDS for n in range(6)]


async def test_what_one_is_told_slows_everybody_down(world: World) -> None:
    one, *others = [Watched(await world.bus()) for _ in range(4)]

    await Limiter(one, URL).slow_down(7.0)
    await asyncio.gather(*[Limiter(other, URL).wait(is_first=False) for other in others])

    assert sorted(other.waited for other in others) == [7.0 + n * SLOW_SPACING_SECONDS for n in range(3)]


async def test_another_provider_is_another_matter(world: World) -> None:
    one, other = Watched(await world.bus()), Watched(await world.bus())

    await Limiter(one, URL).slow_down(7.0)
    await Limiter(other, "http://127.0.0.1:2").wait(is_first=False)

    assert other.waited == 0.0


async def test_what_is_no_throttle_slows_nobody_down(world: World) -> None:
    process = Watched(await world.bus())
    await process.bus.board.put(throttle_key(URL), b"\xff")

    await Limiter(process, URL).wait(is_first=True)

    assert process.waited == 0.0

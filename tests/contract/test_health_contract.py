"""Health on the board: what was found last, and who waits until it is good."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from bus.board import Posted
from bus.bus import Bus
from bus.health import HEALTH, Health, Service
from tests.contract.world import World

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECONDS_MAX = 10.0


def a_service(name: str = "broker", *, healthy: bool = True) -> Service:
    return Service(
        name=name, healthy=healthy, since=AT, checked_at=AT, latency_ms=1.5, error="" if healthy else "overloaded"
    )


def a_health(*services: Service) -> Health:
    return Health(at=AT, services=services or (a_service(),))


WELL = a_health(a_service(), a_service("model"))
ILL = a_health(a_service(), a_service("model", healthy=False))


async def is_waiting(bus: Bus) -> "asyncio.Task[None]":
    """Somebody who waits for good health, and has seen that it is not."""
    waiting = asyncio.create_task(bus.health.until_healthy())
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    return waiting


async def test_all_services_together_are_as_healthy_as_the_worst(world: World) -> None:
    monitor, person = await world.bus(), await world.bus()
    assert await person.health.get() is None

    await monitor.health.put(ILL)

    assert await person.health.get() == ILL
    assert (ILL.healthy, WELL.healthy) == (False, True)
    assert not await person.health.is_healthy()


async def test_nobody_waits_who_need_not(world: World) -> None:
    bus = await world.bus()
    async with asyncio.timeout(SECONDS_MAX):
        await bus.health.until_healthy()  # nobody monitors

        await bus.health.put(WELL)

        await bus.health.until_healthy()


async def test_whoever_waits_goes_on_when_everything_is_healthy_and_not_before(world: World) -> None:
    monitor, actor = await world.bus(), await world.bus()
    await monitor.health.put(ILL)
    waiting = await is_waiting(actor)
    await monitor.health.put(a_health(a_service(healthy=False), a_service("model")))
    assert not waiting.done()

    await monitor.health.put(WELL)

    async with asyncio.timeout(SECONDS_MAX):
        await waiting


async def test_whoever_waits_goes_on_when_nobody_monitors_any_longer(world: World) -> None:
    monitor, actor = await world.bus(), await world.bus()
    await monitor.health.put(ILL)
    waiting = await is_waiting(actor)

    await monitor.health.take_down()

    async with asyncio.timeout(SECONDS_MAX):
        await waiting
    assert await actor.health.get() is None


@pytest.mark.parametrize(
    "noise",
    [b"\xff{", b"{}", msgspec.json.encode({"at": AT, "services": [{"name": "broker", "healthy": False}]}), b"[" * 5000],
    ids=["no JSON", "no health", "no service", "too deep"],
)
async def test_what_is_no_health_counts_for_nothing(world: World, noise: bytes) -> None:
    bus = await world.bus()
    await bus.board.put(HEALTH, noise)
    assert await bus.health.get() is None
    async with asyncio.timeout(SECONDS_MAX):
        await bus.health.until_healthy()

    await bus.health.put(ILL)

    assert await bus.board.get(HEALTH) == Posted(key=HEALTH, value=msgspec.json.encode(ILL), revision=2)
    assert await bus.health.get() == ILL

"""The health monitor, real processes and a real server: an outage, and all who waited for its end."""

import asyncio
import signal
from pathlib import Path

from actors.runtime.together import until_first
from actors.runtime.world import RealWorld
from bus.bus import Bus
from protocol.machine import SUSPEND
from protocol.messages import AnyPayload, HealthChanged
from supervisors.core.health import HealthPolicy
from supervisors.health.monitor import Monitor
from supervisors.health.probes import BROKER, Probe
from supervisors.office import Office
from supervisors.presence import presences, suspensions
from tests.actors.real_company import SECONDS_MAX, RealCompany, Zygote
from tests.nats_server import NatsServer

LEASE_SECONDS = 2
TALKS = 40
CODERS = 3
POLICY = HealthPolicy(interval_seconds=0.5, timeout_seconds=5.0)


async def until_suspended(company: RealCompany, sessions: int) -> None:
    """Everybody waits in SUSPEND, and their presences say so."""
    async with asyncio.timeout(SECONDS_MAX):
        while len(await suspensions(company.bus)) < sessions:
            await asyncio.sleep(0.05)


async def test_who_was_suspended_is_restored_and_who_was_killed_meanwhile_when_it_is_back(
    shared_server: NatsServer, tmp_path: Path
) -> None:
    down = tmp_path / "outage" / "down"
    talks = [f"talk-{number}" for number in range(TALKS)]
    stories = [f"s-{number}" for number in range(CODERS)]
    told: list[AnyPayload] = []

    def changes() -> list[tuple[str, bool]]:
        return [(each.service, each.healthy) for each in told if isinstance(each, HealthChanged)]

    async def is_up(_: Bus) -> None:
        if down.exists():
            raise ConnectionError("overloaded")

    async def outage(company: RealCompany) -> None:
        await company.start("architect", "main")
        await company.start("pm", "main")
        coders = [await company.start("coder", f"coder-{number}") for number in range(CODERS)]
        for talk in talks:
            await company.talk(talk)
        for story in stories:
            await company.order(story)
        await until_suspended(company, TALKS + CODERS)
        coders[0].signal(signal.SIGKILL)
        await coders[0].code
        await company.until(lambda: ("model", False) in changes())
        down.unlink()
        approved = [f"approved {talk}" for talk in talks]
        # The killed one waits for its next process, however long that takes.
        await company.until(lambda: len(company.outside.announcements) == TALKS + CODERS - 1)
        left = [session for session, state in (await company.last_states()).items() if state == SUSPEND]
        assert len(left) == 1
        await company.start("coder", "coder-0")
        everything = sorted([*approved, *(f"merged {story}" for story in stories)])
        await company.until(lambda: company.outside.announcements == everything)
        assert set(await presences(company.bus)) >= {"architect.main", "pm.main"}

    async with (
        Zygote.open() as zygote,
        RealCompany.open(zygote, shared_server.url, "outage", tmp_path / "outage", LEASE_SECONDS) as company,
    ):
        down.touch()
        probes = [BROKER, Probe(name="model", check=is_up)]
        world = RealWorld(company.bus)
        monitor = Monitor(world, Office(world), probes, POLICY, told.append)
        await until_first(outage(company), _watch_once_suspended(monitor, company))
        assert await company.offences() == []

    assert changes() == [("broker", True), ("model", False), ("model", True)]


async def _watch_once_suspended(monitor: Monitor, company: RealCompany) -> None:
    """A monitor that saw the outage from the first would let nobody begin."""
    await until_suspended(company, TALKS + CODERS)
    await monitor.run(lambda: None)

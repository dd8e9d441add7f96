"""The monitor: probes every API again and again, says how they are, and restores whoever waits for them.

What triggers a restore is that somebody is suspended while all is well, and not that something has changed: whoever
was missed is seen in the next round. That one signal is kept, so an actor that is down hears it when it is back.
"""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from actors.evidence import reason_of
from actors.runtime.together import until_first
from actors.runtime.world import RealWorld, World
from bus.bus import Bus
from bus.errors import BusClosedError, BusError
from bus.health import Health, Service
from protocol.messages import AnyPayload, HealthChanged, Restore
from protocol.routing import address
from protocol.subjects import ALL
from supervisors.core.health import HealthPolicy, Outcome, Sighting, is_steady, may_restore, observe, sight
from supervisors.health.beside import beside
from supervisors.health.probes import Probe
from supervisors.office import Office
from supervisors.presence import suspensions

log = structlog.get_logger()

EVERYBODY = address(ALL, ALL)


class Monitor:
    """The health of one company. Only its supervisor runs one."""

    def __init__(
        self,
        world: World,
        office: Office,
        probes: Sequence[Probe],
        policy: HealthPolicy,
        tell: Callable[[AnyPayload], None],
    ) -> None:
        self._world = world
        self._probes = probes
        self._policy = policy
        self._tell = tell
        self._office = office
        self._services: dict[str, Service] = {}
        self._in_hand: set[str] = set()
        self._suspended: dict[str, Sighting] = {}

    async def run(self, ready: Callable[[], None]) -> None:
        """Never returns. Rounds go on whatever the broker and the APIs do; BusClosedError: they cannot any longer."""
        began = self._world.elapsed()
        await self._report(await self.check())
        ready()
        while True:
            await self._world.sleep(max(0.0, began + self._policy.interval_seconds - self._world.elapsed()))
            began = self._world.elapsed()
            await self._report(await self.check())

    async def check(self) -> Health:
        """One round: all probes at once."""
        began = self._world.now()
        outcomes = await asyncio.gather(*[self._probe(probe) for probe in self._probes])
        for probe, outcome in zip(self._probes, outcomes, strict=True):
            self._observe(probe.name, outcome)
        return Health(at=began, services=tuple(self._services.values()))

    # Probing.

    async def _probe(self, probe: Probe) -> Outcome:
        began = self._world.elapsed()
        error: str = await until_first(self._check(probe), self._time_out())
        latency_ms = (self._world.elapsed() - began) * 1000
        return Outcome(at=self._world.now(), latency_ms=round(latency_ms, 3), error=error)

    async def _check(self, probe: Probe) -> str:
        """Why an API is not healthy; nothing if it is."""
        if probe.name in self._in_hand:
            return "its last probe was given up, and has not ended yet"  # one more each round would be ever more
        self._in_hand.add(probe.name)
        try:
            await probe.check(self._world.bus)
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # whatever somebody's probe does
            return reason_of(error) or type(error).__name__
        else:
            return ""
        finally:
            self._in_hand.discard(probe.name)

    async def _time_out(self) -> str:
        await self._world.sleep(self._policy.timeout_seconds)
        return f"no answer within {self._policy.timeout_seconds:g} s"

    def _observe(self, name: str, outcome: Outcome) -> None:
        before = self._services.get(name)
        service = self._services[name] = observe(before, name, outcome, self._policy)
        if before is None or before.healthy != service.healthy:
            log.info("health.changed", service=name, healthy=service.healthy, error=service.error)
            self._tell(HealthChanged(service=name, healthy=service.healthy, error=service.error))

    # What follows.

    async def _report(self, health: Health) -> None:
        """Post what was found, and restore. Without a broker that has to wait for the next round, which knows more."""
        error: str = await until_first(self._post(health), self._time_out())
        if error:
            log.warning("health.unposted", reason=error)

    async def _post(self, health: Health) -> str:
        """Why it could not be posted; nothing if it was."""
        bus = self._world.bus
        try:
            await bus.health.put(health)
            if is_steady(health, self._policy):
                await self._restore(health)
        except BusClosedError:
            raise
        except BusError as error:
            return str(error)
        return ""

    async def _restore(self, health: Health) -> None:
        suspended = await suspensions(self._world.bus)
        self._suspended = sight(self._suspended, suspended, self._world.now())
        newest = max((each.at for each in self._suspended.values()), default=None)
        if may_restore(health, newest, self._policy):
            letter = self._office.letter(Restore(), EVERYBODY, "CONTROL")
            generation = await self._world.bus.control.broadcast(letter)
            log.info("restore.sent", generation=generation, sessions=len(suspended))


async def check_now(bus: Bus, probes: Sequence[Probe], policy: HealthPolicy) -> Health:
    """How the APIs are at this moment, whatever was found before."""
    world = RealWorld(bus)
    async with beside(probes, bus) as runnable:
        return await Monitor(world, Office(world), runnable, policy, lambda _: None).check()

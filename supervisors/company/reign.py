"""A reign: from the settings to a supervisor that runs, and to the moment when nothing of it is left.

The order matters. The machine's lock comes first, then whoever an earlier company has left behind is waited for, then
the broker, the bus, the lease and the tree; and all of it is taken apart in reverse, the broker last.
"""

import asyncio
import resource
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import msgspec
import structlog

from actors.redaction import remember_secrets
from actors.runtime.together import until_first
from actors.runtime.world import RealWorld
from bus import server
from bus.opening import open_bus, server_folder
from bus.settings import Loaded, environment_secrets, settings_secrets
from protocol.subjects import Subjects
from supervisors.company.audience import Audience
from supervisors.company.company import Company, Outcome
from supervisors.company.crown import Crown
from supervisors.company.life import ActorLife, BrokerLife, Life, TaskLife
from supervisors.company.place import Place, find_place
from supervisors.core.health import HealthPolicy
from supervisors.core.patience import Patience
from supervisors.core.planning import plan_of
from supervisors.core.plans import Child, walk
from supervisors.health.beside import beside
from supervisors.health.model import model_probes
from supervisors.health.monitor import Monitor
from supervisors.health.probes import Probe, find_probes
from supervisors.office import Office
from supervisors.processes.nursery import Soil, ZygoteNursery
from supervisors.processes.orders import Order
from supervisors.processes.running import Nursery

log = structlog.get_logger()

LEAVE_SECONDS = 5.0
"""What an actor may need beyond its own limit until it is gone."""
REAP_SECONDS = 5.0
PATIENCE_SECONDS = 1.0
WAITING = "waiting for the actors of an earlier supervisor, which finish what they have in hand"

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Reign:
    """One supervisor of one project on this machine."""

    def __init__(self, loaded: Loaded, environ: Mapping[str, str], audience: Audience) -> None:
        self._loaded = loaded
        self._settings = loaded.settings
        self._environ = environ
        self._audience = audience
        self._place: Place = find_place(loaded, environ)
        self._probes: tuple[Probe, ...] = ()
        self._server: server.RunningServer | None = None
        self._nursery: Nursery
        self._company: Company | None = None
        self._main: asyncio.Task[Any] | None = None
        self._told: list[signal.Signals] = []

    @property
    def told(self) -> signal.Signals | None:
        """The first signal of the machine's that has told it to stop."""
        return self._told[0] if self._told else None

    async def run(self) -> Outcome:
        """Reign until somebody ends it. Raises AlreadyRunningError, DeposedError, BusError and SettingsError."""
        self._probes = find_probes(self._settings.health.probes, model_probes(self._loaded, self._environ))
        self._place.claim()
        _have_room_for_files()
        remember_secrets(environment_secrets(self._environ) | settings_secrets(self._loaded, self._environ))
        loop = asyncio.get_running_loop()
        for number in ENDINGS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background, wants it ignored
                loop.add_signal_handler(number, self._hear, number)
        self._main = asyncio.current_task()
        try:
            lock = await self._wait_for_orphans()
            async with self._broker(), open_bus(self._loaded, self._environ, "supervisor") as bus:
                self._audience.opened(bus)
                async with beside(self._probes, bus) as self._probes:
                    return await self._reign(RealWorld(bus), lock)
        except asyncio.CancelledError:
            if self.told is None:
                raise
            return Outcome()  # told to stop before there was anything to stop

    def _hear(self, number: signal.Signals) -> None:
        self._told.append(number)
        if self._company is None:
            assert self._main is not None
            self._main.cancel()
        elif len(self._told) == 1:
            self._company.stop()
            self._audience.say("stopping: everybody finishes what is in hand; once more ends it at once")
        else:
            self._company.kill()
            self._audience.say("ending at once: what was in hand is done again at the next start, nothing is lost")

    async def _wait_for_orphans(self) -> int:
        lock = self._place.open_actors_lock()
        saying = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._audience.say, WAITING)
        try:
            await self._place.wait_for_orphans(lock, self._orphan_seconds)
        finally:
            saying.cancel()
        return lock

    @property
    def _orphan_seconds(self) -> float:
        return self._settings.actor.stop_seconds + LEAVE_SECONDS

    @asynccontextmanager
    async def _broker(self) -> AsyncIterator[None]:
        """The embedded server, where the project uses it: it is there before the bus is opened, and ends after it."""
        if self._settings.bus.url:
            yield
            return
        starting = asyncio.ensure_future(asyncio.to_thread(self._start_server))
        try:
            await asyncio.shield(starting)
            yield
        except BaseException:
            # A thread cannot be cancelled: what it started meanwhile must be ended all the same.
            while not starting.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([starting])
            if starting.exception() is None and starting.result().started_by_us and self._company is None:
                await asyncio.to_thread(self._stop_server)  # nobody has used it
            raise
        await asyncio.to_thread(self._stop_server)

    def _start_server(self) -> server.RunningServer:
        self._server = server.start_or_adopt(
            server_folder(self._loaded, self._environ),
            Subjects(self._settings.project),
            self._settings.server,
            keep=True,
            message_bytes_max=self._settings.bus.message_bytes_max,
            port=self._server.port if self._server else 0,  # the bus and the actors wait for it there
        )
        return self._server

    def _stop_server(self) -> None:
        server.stop(server_folder(self._loaded, self._environ), self._settings.server.stop_seconds)

    # With the bus.

    async def _reign(self, world: RealWorld, lock: int) -> Outcome:
        crown = Crown(world, self._place)
        await crown.take()
        self._nursery = self._make_nursery(lock)
        try:
            outcome: Outcome = await until_first(self._run_company(world), crown.keep(), self._reap())
        finally:
            await self._nursery.close()
        await until_first(crown.lay_down(), world.sleep(LEAVE_SECONDS))
        return outcome

    async def _run_company(self, world: RealWorld) -> Outcome:
        office = Office(world)
        make_life = partial(self._make_life, world, office)
        company = Company(self._settings, world, office, self._place, make_life, audience=self._audience)
        await company.prepare()  # until here a signal ends everything; from here it ends the company in order
        self._company = company
        if self._told:
            company.stop()
        outcome = await company.run()
        await company.leave()
        return outcome

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(REAP_SECONDS)
            self._nursery.reap()

    # What runs.

    def _make_nursery(self, lock: int) -> Nursery:
        actors = [each for each in walk(plan_of(self._settings)) if isinstance(each, Child) and each.part]
        soil = Soil(
            folder=str(self._loaded.root),
            lock=lock,
            orphan_seconds=self._orphan_seconds,
            processes=self._settings.supervisor.processes,
            modules=tuple(dict.fromkeys(each.part.partition(":")[0] for each in actors)),
        )
        return ZygoteNursery(soil)

    def _make_life(self, world: RealWorld, office: Office, company: Company, child: Child, now: float) -> Life:
        match child.runs:
            case "broker":
                return BrokerLife(self._start_server, lambda: None if company.is_closing else self._stop_server())
            case "health":
                policy = msgspec.convert(self._settings.health, HealthPolicy, from_attributes=True)
                return TaskLife(Monitor(world, office, self._probes, policy, company.tell).run)
            case _:
                return ActorLife(self._nursery, self._order(child), self._patience, now)

    def _order(self, child: Child) -> Order:
        return Order(
            machine=child.runs,
            actor=child.actor,
            part=child.part,
            log=str(self._place.logs / f"{child.name}.log"),
            folder=str(self._loaded.root),
            project=self._settings.project,
            # How to reach the embedded server: to look after it is not an actor's business.
            url=self._server.url if self._server else self._settings.bus.url,
            broker=str(self._server.folder) if self._server else "",
        )

    @property
    def _patience(self) -> Patience:
        chosen = self._settings.supervisor
        return Patience(
            ready_seconds=chosen.ready_seconds,
            hung_seconds=chosen.hung_seconds,
            stop_seconds=self._orphan_seconds,
        )


def _have_room_for_files() -> None:
    """Take as many open files as we may have: each actor costs two of ours, and the usual limit is meant for less."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

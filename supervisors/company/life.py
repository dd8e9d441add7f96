"""Lives: what a child runs, from its start to its end, and what is known when it has ended."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from actors.evidence import evidence_of, reason_of
from bus import server
from bus.errors import PortLostError, ServerError
from bus.server.process import answers, birth, end_process, is_alive, open_process
from supervisors.company.evidence import Said, evidence, reason, tail_of
from supervisors.core.patience import Conduct, Patience, measure, way_of
from supervisors.core.watch import Way
from supervisors.errors import StartError, UnfitError
from supervisors.processes.custody import Exit
from supervisors.processes.exits import Unheard
from supervisors.processes.orders import Order, Resources
from supervisors.processes.running import Nursery, Running

log = structlog.get_logger()


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """How something has ended, with its evidence."""

    way: Way
    code: int = 0
    pid: int = 0
    reason: str = ""
    said: str = ""
    lived_seconds: float = 0.0
    resources: Resources = Resources()


def death_unheard_of(unheard: Unheard) -> Death:
    """How somebody has ended whose supervisor was gone, and who was told to leave by that."""
    way, said = way_of(unheard.code, told=True, killed_for=None), tail_of(Path(unheard.log))
    return Death(
        way=way,
        code=unheard.code,
        pid=unheard.pid,
        reason=reason(way, unheard.code, said, Patience()) or "its supervisor was gone",
        said=evidence(said),
        lived_seconds=unheard.lived_seconds,
        resources=unheard.resources,
    )


class Life(Protocol):
    """One run of a child."""

    pid: int

    async def run(self, ready: Callable[[], None]) -> Death:
        """From its start to its end; `ready` is called when it takes events."""

    def stop(self, *, heeds: bool) -> None:
        """Tell it to end; it `heeds` a signal of the company's that it was sent, so that the machine's can wait."""

    def kill(self) -> None:
        """End it at once."""

    def tick(self, now: float) -> None:
        """Time goes by; `now` counts only seconds in which the supervisor was awake."""


class ActorLife:
    """An actor's process."""

    def __init__(self, nursery: Nursery, order: Order, patience: Patience, now: float) -> None:
        self.pid = 0
        self._nursery = nursery
        self._order = order
        self._patience = patience
        self._said = Said(Path(order.log))
        self._starting: asyncio.Task[Running] | None = None
        self._running: Running | None = None
        self._began = self._now = self._heard = now
        self._pulses = 0
        self._told: float | None = None
        self._is_signalled = self._is_killed = False
        self._killed_for: Way | None = None

    async def run(self, ready: Callable[[], None]) -> Death:
        """Start, wait until it is ready, and until it is gone."""
        self._starting = asyncio.ensure_future(self._nursery.start(self._order))
        try:
            running = self._running = await self._starting
        except UnfitError as error:
            return Death(way="configuration", reason=error.reason)
        except StartError as error:
            return Death(way="never_ready", reason=str(error))
        except asyncio.CancelledError:
            if not self._is_killed:
                raise
            return Death(way="asked", reason="it was not started yet")
        self.pid = running.pid
        if self._is_signalled:
            running.signal(signal.SIGKILL if self._is_killed else signal.SIGTERM)
        was_ready = False
        while not running.is_gone:
            if running.is_ready and not was_ready:
                was_ready = True
                ready()
            await running.changed.wait()
        return self._death(await running.wait())

    def _death(self, exit_: Exit) -> Death:
        way = way_of(exit_.code, told=self._told is not None, killed_for=self._killed_for)
        said = self._said.tail()
        return Death(
            way=way,
            code=exit_.code,
            pid=self.pid,
            reason=reason(way, exit_.code, said, self._patience),
            said=evidence(said),
            lived_seconds=self._now - self._began,
            resources=exit_.resources,
        )

    def stop(self, *, heeds: bool) -> None:
        """Tell it to leave, by the machine's signal now or when it does not heed the company's."""
        if self._told is None:
            self._told = self._now
        if not heeds:
            self._signal()

    def kill(self) -> None:
        """Kill -9: what is in hand is done again by the next process."""
        self._told = self._now if self._told is None else self._told
        self._is_signalled = self._is_killed = True
        if self._running is not None:
            self._running.signal(signal.SIGKILL)
        elif self._starting is not None:
            self._starting.cancel()

    def tick(self, now: float) -> None:
        """See whether it still behaves."""
        self._now = now
        running = self._running
        if running is None:
            if self._told is not None and now - self._told > self._patience.stop_seconds:
                self.kill()
            return
        if running.is_gone:
            return
        if running.pulses != self._pulses:
            self._pulses, self._heard = running.pulses, now
        conduct = Conduct(
            age_seconds=now - self._began,
            is_ready=running.is_ready,
            silent_seconds=now - self._heard,
            told_seconds=None if self._told is None else now - self._told,
            is_signalled=self._is_signalled,
        )
        match measure(conduct, self._patience):
            case "never_ready" | "hung" as way if self._killed_for is None:
                self._killed_for = way
                log.warning("actor.killed", name=self._order.actor, pid=running.pid, way=way)
                running.signal(signal.SIGKILL)
            case "signal":
                self._signal()
            case "kill":
                log.warning("actor.killed", name=self._order.actor, pid=running.pid, way="does not leave")
                running.signal(signal.SIGKILL)

    def _signal(self) -> None:
        self._is_signalled = True
        if self._running is not None:
            self._running.signal(signal.SIGTERM)


BROKER_GREET_SECONDS = 5.0
BROKER_DOUBT_SECONDS = 0.25
"""How often the broker has to greet us, and how soon again when it did not. Its end is seen at once."""
BROKER_SILENT_MAX = 3
"""So many times in a row it may not greet us before it counts as hung."""


class BrokerLife:
    """The embedded server, found or started; it may be older than its supervisor, and outlive it."""

    def __init__(self, start: Callable[[], server.RunningServer], stop: Callable[[], object] | None) -> None:
        self.pid = 0
        self._start = start
        self._stop = stop
        self._told = False
        self._stirred = asyncio.Event()
        self._began = self._now = 0.0

    async def run(self, ready: Callable[[], None]) -> Death:
        """Find or start it, and wait until it is gone."""
        try:
            running = await asyncio.to_thread(self._start)
        except PortLostError as error:
            return Death(way="cut_off", reason=reason_of(error))
        except ServerError as error:
            return Death(way="never_ready", reason=reason_of(error))
        self.pid, born = running.pid, birth(running.pid) or 0
        ready()
        way = await self._until_gone(born, running.port)
        if way == "asked" and self._stop is not None:
            await asyncio.to_thread(self._stop)
        seen = "" if way == "asked" else "it was gone" if way == "crash" else "it did not greet us, so it was killed"
        return Death(way=way, pid=self.pid, reason=seen, lived_seconds=self._now - self._began)

    async def _until_gone(self, born: int, port: int) -> Way:
        silent = 0
        with _watching(self.pid, born, self._stirred.set):
            while not await self._is_told_within(BROKER_DOUBT_SECONDS if silent else BROKER_GREET_SECONDS):
                if not is_alive(self.pid, born):
                    return "crash"
                silent = 0 if await asyncio.to_thread(answers, port) else silent + 1
                if silent >= BROKER_SILENT_MAX:
                    log.warning("broker.killed", pid=self.pid, way="hung")
                    await asyncio.to_thread(end_process, self.pid, born, 0.0)
                    return "hung"
        return "asked"

    async def _is_told_within(self, seconds: float) -> bool:
        """Wait until it was told or is gone, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        return self._told

    def stop(self, *, heeds: bool) -> None:  # noqa: ARG002 -- it hears no company's signal
        """Have it end."""
        self._told = True
        self._stirred.set()

    def kill(self) -> None:
        """As `stop`: what it has acknowledged is on the disk either way."""
        self.stop(heeds=False)

    def tick(self, now: float) -> None:
        """It is looked after by itself; only how long it lives is counted."""
        self._began = self._began or now
        self._now = now


@contextmanager
def _watching(pid: int, born: int, ended: Callable[[], None]) -> Iterator[None]:
    """Call `ended` when that very process is gone, which it may be already."""
    handle = open_process(pid, born)
    if handle is None:
        ended()
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, ended)
    try:
        yield
    finally:
        loop.remove_reader(handle)
        os.close(handle)


class TaskLife:
    """Something that runs in the supervisor's own process."""

    def __init__(self, work: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        self.pid = os.getpid()
        self._work = work
        self._task: asyncio.Future[None] | None = None

    async def run(self, ready: Callable[[], None]) -> Death:
        """Work until told to end, or until it fails."""
        self._task = asyncio.ensure_future(self._work(ready))
        try:
            await self._task
        except asyncio.CancelledError:
            return Death(way="asked")
        except Exception as error:
            return Death(way="crash", reason=reason_of(error), said=evidence_of(error))
        return Death(way="normal")

    def stop(self, *, heeds: bool) -> None:  # noqa: ARG002 -- it hears no company's signal
        """Have it end."""
        if self._task is not None:
            self._task.cancel()

    def kill(self) -> None:
        """As `stop`."""
        self.stop(heeds=False)

    def tick(self, now: float) -> None:
        """It ends by itself, or not at all."""

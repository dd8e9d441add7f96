"""What befalls a company, from a seed: late, lost and cut-off calls, crashes, zombies, outages, the person's brake."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from protocol.messages import Pause, Restart, Resume
from tests.simulation.loop import Process
from tests.simulation.theatre import LEASE_SECONDS, Theatre
from tests.simulation.wire import Network

BAD_SECONDS = 900.0
"""After this nothing more befalls anybody, and everything must come to its end."""


class Fates:
    """Draws everything from one seed; each kind of fate has its own measure in each run."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        draw = self._chance.random
        self._delay_seconds = draw() ** 2 * 0.5
        self._loss = draw() ** 3 * 0.05
        self._duplication = draw() ** 2 * 0.2
        self._killing = draw() ** 2 * 0.01
        self._stopping = draw() ** 2 * 0.004
        self._deposing = draw() * 0.3
        """How often a supervisor is killed where it decides something, which is rare."""
        self.slowness = draw() ** 2 * 60.0
        self.breakage = draw() ** 3 * 0.05
        self._every = {name: 20.0 + draw() * 400.0 for name in ("kill", "cut", "outage", "restart", "broker", "brake")}
        self._networks: dict[str, Network] = {}
        self.touched: set[str] = set()
        """Processes to which something happened that may cost them their leases."""

    def network(self, process: str) -> Network:
        """The network of a new process."""
        made = Network(self._chance, delay_seconds=self._delay_seconds, loss=self._loss, duplication=self._duplication)
        self._networks[process] = made
        return made

    def direct(self, theatre: Theatre, process: Process) -> str:
        """What happens to a process at a boundary."""
        if theatre.loop.time() > BAD_SECONDS:
            return "go"
        killing = self._deposing if process.name.startswith("supervisor.") else self._killing
        drawn = self._chance.random()
        if drawn < killing:
            return "kill"
        if drawn < killing + self._stopping:
            self.touched.add(process.name)
            return "stop"
        return "go"

    def befall(self, theatre: Theatre) -> list[Coroutine[Any, Any, None]]:
        """All that happens by itself."""
        return [
            self._now_and_then("kill", lambda: self._kill(theatre)),
            self._now_and_then("cut", lambda: self._cut(theatre)),
            self._now_and_then("outage", lambda: self._outage(theatre)),
            self._now_and_then("restart", lambda: self._restart(theatre)),
            self._now_and_then("broker", lambda: self._broker(theatre)),
            self._now_and_then("brake", lambda: self._brake(theatre)),
        ]

    async def _now_and_then(self, name: str, happen: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(self._every[name] * (0.5 + self._chance.random()))
            if asyncio.get_running_loop().time() > BAD_SECONDS:
                return
            await happen()

    def _anybody(self, theatre: Theatre) -> Process:
        return theatre.processes[self._chance.choice(sorted(theatre.processes))]

    async def _kill(self, theatre: Theatre) -> None:
        process = self._anybody(theatre)
        if process.is_alive:
            theatre.kill(process)

    async def _cut(self, theatre: Theatre) -> None:
        process = self._anybody(theatre)
        seconds = self._chance.random() ** 2 * 3 * LEASE_SECONDS
        theatre.monitor.say(process.name, f"is cut off for {seconds:.3f} s")
        self.touched.add(process.name)
        self._networks[process.name].cut_until = theatre.loop.time() + seconds

    async def _outage(self, theatre: Theatre) -> None:
        seconds = self._chance.random() ** 3 * 2000.0
        theatre.monitor.say("model", f"is down for {seconds:.3f} s")
        theatre.outside.down_until = theatre.loop.time() + seconds

    async def _restart(self, theatre: Theatre) -> None:
        await theatre.broadcast(Restart(), self._chance.choice(["all.all", "coder.all", "architect.main", "pm.main"]))

    async def _broker(self, theatre: Theatre) -> None:
        theatre.monitor.say("broker", "is killed and forgets its deliveries")
        theatre.server.forget_deliveries()

    async def _brake(self, theatre: Theatre) -> None:
        await theatre.broadcast(Pause())
        await asyncio.sleep(self._chance.random() * 60.0)
        await theatre.broadcast(Resume())

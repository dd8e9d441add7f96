"""A session that only walks: it stays in one state of the architect's machine, and each step leads to the next.

One step is an event, the recorded decision on it, and an effect that does nothing and is finished.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import msgspec
import structlog

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, ignore, stay
from actors.core.effects import CommonEffects, Effect
from actors.core.events import Entered, Event, Finished, Received
from actors.core.results import CommonResults, Result
from actors.core.session import Session
from actors.logs import configure_logs
from actors.runtime.runner import Runner
from actors.runtime.tenure import Tenure
from actors.runtime.world import World
from protocol.machines.architect import ARCHITECT


class Tread(Effect, frozen=True, kw_only=True):
    """Do nothing. It counts as an outside effect, so the runtime guards it like any other."""


class Trodden(Result, frozen=True, kw_only=True):
    """Nothing was done."""


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """What a walking session remembers."""

    state: str = ARCHITECT.initial
    steps: int = 0


Effects = CommonEffects | Tread
Results = CommonResults | Trodden


def decide_walk(walk: Walk, event: Event[Effects, Results]) -> Decision[Walk]:
    """Begin when anything arrives; then one step after the other, for ever."""
    match event:
        case Entered() | Received():
            return stay(walk, Tread())
        case Finished(result=Trodden()):
            return stay(msgspec.structs.replace(walk, steps=walk.steps + 1), Tread())
        case _:
            return ignore(walk)


WALKING: Behaviour[Walk, Effects, Results] = Behaviour(
    machine=ARCHITECT,
    role="architect",
    decide=decide_walk,
    initial=Walk(),
    session_type=Session[Walk, Effects, Results],
    pulls={"request": frozenset({ARCHITECT.initial})},
)


class Walker:
    """One session under the production runner; between measurements it stands still, its effect in hand."""

    def __init__(self, world: World, tenure: Tenure, session: str) -> None:
        self._left = 0
        self._times: list[float] = []
        self._gate = self._arrived = asyncio.get_running_loop().create_future()
        self.runner = Runner(world, WALKING, {Tread: self._tread}, WALKING.begin(session, 0), tenure)
        self.runner.offer(Entered(at=world.now()))
        self._running = asyncio.ensure_future(self.runner.run())
        self._running.add_done_callback(self._broken_off)

    async def walk(self, steps: int) -> None:
        """Take so many steps; returns when the effect after the last of them is in hand."""
        await self._arrived
        self._left = steps
        self._times.clear()
        self._arrived = self._arrived.get_loop().create_future()
        self._gate.set_result(None)
        await self._arrived

    async def latency(self) -> float:
        """Take one step, and say how many seconds it took: from its event to its effect."""
        await self._arrived
        start = perf_counter()
        await self.walk(1)
        return self._times[-1] - start

    async def laps(self, steps: int) -> list[float]:
        """Take so many steps without a pause, and say how many seconds each took: from effect to effect."""
        await self.walk(steps + 1)  # the first one begins with a pause
        return [after - before for before, after in pairwise(self._times)]

    async def end(self) -> None:
        """Stop as a killed process does: with the effect in hand."""
        self._running.remove_done_callback(self._broken_off)
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def _tread(self, _: Tread) -> Trodden:
        self._times.append(perf_counter())
        if not self._left:
            self._gate = self._arrived.get_loop().create_future()
            self._arrived.set_result(None)
            await self._gate
        self._left -= 1
        return Trodden()

    def _broken_off(self, running: "asyncio.Task[Session[Walk, Effects, Results]]") -> None:
        """Whoever waits for the session hears what has become of it."""
        if not self._arrived.done():
            self._arrived.set_exception(running.exception() or AssertionError("a walk has no end"))


@contextmanager
def production_logs(folder: Path) -> Iterator[None]:
    """Log as an actor process does, one JSON line per step, into a file: it is part of what a step costs."""
    before = structlog.get_config()
    with (folder / "actor.log").open("a") as file:
        with redirect_stderr(file):
            configure_logs("info", actor="walker")
        yield
    structlog.contextvars.unbind_contextvars("actor")
    structlog.configure(**before)

"""Durable steps of ours against those of other systems, in interleaved rounds, each side in its own process.

A round has every contestant take the same number of steps, with one session or with many at once; the order turns from
round to round, so that nobody always comes after the same one.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Protocol

import msgspec

from actors.runtime.tenure import Tenure
from actors.runtime.world import RealWorld
from bench.rounds import Comparison
from bench.walking import WALKING, Walker
from bench.world import World

OURS = "ours"
PEERS_PYTHON = Path(sys.prefix) / "peers" / "bin" / "python"
"""Not this interpreter: what the peers bring along (plugins of pytest, for one) has no place beside our tests."""
ANSWER_SECONDS = 120.0
END_SECONDS = 20.0


class Heat(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions take how many steps each, and how often; the first rounds are thrown away."""

    sessions: int
    steps: int
    rounds: int
    warm_up_rounds: int = 2


class Contestant(Protocol):
    """Somebody who takes durable steps."""

    async def seconds(self, sessions: int, steps: int) -> float:
        """How long so many sessions took for so many steps each."""


async def race(contestants: Mapping[str, Contestant], heat: Heat) -> dict[str, Comparison]:
    """By name, ours included: the median second of a step, and the median of ours over theirs, round by round."""
    names = list(contestants)
    rounds: list[dict[str, float]] = []
    for number in range(heat.warm_up_rounds + heat.rounds):
        turn = number % len(names)
        order = names[turn:] + names[:turn]
        rounds.append({name: await contestants[name].seconds(heat.sessions, heat.steps) for name in order})
    measured = rounds[heat.warm_up_rounds :]
    steps = heat.sessions * heat.steps
    return {
        name: Comparison(
            seconds=median(each[name] for each in measured) / steps,
            ratio=median(each[OURS] / each[name] for each in measured),
        )
        for name in names
    }


class Ours:
    """Sessions of the production runner in this process, all on one connection."""

    def __init__(self, world: World) -> None:
        self._world = RealWorld(world.asker)
        self._walkers: list[Walker] = []

    async def seconds(self, sessions: int, steps: int) -> float:
        """All walk at once; those that are not there yet are begun before."""
        while len(self._walkers) < sessions:
            self._walkers.append(await self._begin(f"race-{len(self._walkers)}"))
        start = perf_counter()
        await asyncio.gather(*(walker.walk(steps) for walker in self._walkers[:sessions]))
        return perf_counter() - start

    async def _begin(self, session: str) -> Walker:
        walker = Walker(self._world, await Tenure.begin(self._world, WALKING.role, session, dict), session)
        await walker.walk(1)
        return walker


class Peer:
    """A worker of `bench/peers` and the pipe to it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def seconds(self, sessions: int, steps: int) -> float:
        """Ask it."""
        return await self.ask(f"{sessions} {steps}")

    async def ask(self, question: str) -> float:
        """Ask it for whatever it measures."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{question}\n".encode())
        return float(await self.line())

    async def line(self) -> str:
        """What it says next; RuntimeError if it has died."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), ANSWER_SECONDS)
        if not line:
            raise RuntimeError("a peer ended before its time; what it said stands above")
        return line.decode().strip()


@asynccontextmanager
async def open_peer(script: str, *arguments: str, python: Path = PEERS_PYTHON) -> AsyncIterator[Peer]:
    """Start a worker and wait until it is ready; it is ended when the context is left."""
    path = Path(__file__).parent / "peers" / script
    process = await asyncio.create_subprocess_exec(
        python, path, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        peer = Peer(process)
        assert await peer.line() == "ready"
        yield peer
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

"""A company that runs: started and closed with the `supervisor` command, and looked at over its bus."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from actors.runtime.world import RealWorld
from bench.company.machine import family
from bus.broker import Message
from bus.bus import Bus
from bus.opening import open_bus
from bus.settings import load
from supervisors.core.standing import Standing
from supervisors.office import Office
from supervisors.views.overview import read_standing

PARTS = "bench.company.parts"
SETTINGS = f"""
project = "bench"
state_folder = "../state"
supervisor.ready_seconds = 120
parts = {{ pm = "{PARTS}:PM", architect = "{PARTS}:ARCHITECT", coder = "{PARTS}:CODER" }}
"""

SECONDS_MAX = 60.0
POLL_SECONDS = 0.05

T = TypeVar("T")


class Company:
    """One company, seen by the bench as its supervisor sees it."""

    def __init__(self, bus: Bus, up_seconds: float) -> None:
        self.bus = bus
        self.office = Office(RealWorld(bus))
        self.up_seconds = up_seconds
        """How long it took from the command to the word that everybody is ready."""

    async def standing(self) -> Standing:
        """How its tree stands."""
        standing = await read_standing(self.bus)
        assert standing is not None
        return standing

    async def family(self) -> set[int]:
        """Every process of it, the broker too."""
        return family((await self.standing()).pid)

    async def journal_end(self) -> int:
        """The sequence of the newest record of all."""
        newest = await self.bus.broker.last(self.bus.subjects.stream("JOURNAL"), self.bus.subjects.every("journal"))
        return newest.sequence if newest else 0

    async def records_after(self, sequence: int) -> list[Message]:
        """What the journals have since then, as the broker has stored it."""
        stream, subject = self.bus.subjects.stream("JOURNAL"), self.bus.subjects.every("journal")
        return [message async for message in self.bus.broker.read(stream, subject, sequence + 1)]


@asynccontextmanager
async def open_company(settings: str) -> AsyncIterator[Company]:
    """Start one with `supervisor up --detach`, and leave no process of it behind."""
    with tempfile.TemporaryDirectory(prefix="callboard-bench-") as name:
        folder = Path(name) / "project"
        folder.mkdir()
        (folder / "callboard.toml").write_text(settings)
        try:
            began = time.perf_counter()
            await _supervisor(folder, "up", "--detach")
            up_seconds = time.perf_counter() - began
            async with open_bus(load({}, os.environ, folder), os.environ, "supervisor", prepare=False) as bus:
                yield Company(bus, up_seconds)
        finally:
            await _supervisor(folder, "stop")  # ends whoever is left too, should the supervisor be gone


async def _supervisor(folder: Path, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "supervisors.cli", "--directory", folder, *arguments, stdout=asyncio.subprocess.DEVNULL
    )
    if await process.wait():
        raise RuntimeError(f"`supervisor {' '.join(arguments)}` has failed; what it said stands above")


async def until(look: Callable[[], Awaitable[T | None]], what: str, seconds: float = SECONDS_MAX) -> T:
    """Look again and again until there is something to see; RuntimeError, with what was awaited, if it never is."""
    deadline = time.monotonic() + seconds
    while (found := await look()) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"this has not happened within {seconds:g} s: {what}")
        await asyncio.sleep(POLL_SECONDS)
    return found

"""One run: fill a server once, then measure every scenario under each sync setting on the same data."""

import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from bench.measures import SCENARIOS, SESSIONS, Cell, Comparisons, Scenario
from bench.rounds import Comparison, compare
from bench.server import SYNCS, Sync, nats_server
from bench.world import World, open_world


async def measure() -> Comparisons:
    """All comparisons; takes about a minute."""
    comparisons: dict[Cell, Comparison] = {}
    with tempfile.TemporaryDirectory(prefix="callboard-bench-") as name:
        folder = Path(name)
        talk(f"the server keeps its data in {folder}; with sync always its file system's fsync is measured too")
        await _fill(folder)
        for sync in SYNCS:
            comparisons |= await _measure_sync(folder, sync)
    return comparisons


async def _fill(folder: Path) -> None:
    """Under the default sync, because what is there before the measurement need not survive a power failure."""
    with nats_server(folder, "default") as url:
        async with AsyncExitStack() as stack:
            for world in await _open_worlds(stack, url):
                talk(f"filling {world.sessions} sessions")
                for scenario in SCENARIOS:
                    await scenario.fill(world)


async def _measure_sync(folder: Path, sync: Sync) -> dict[Cell, Comparison]:
    with nats_server(folder, sync) as url:
        async with AsyncExitStack() as stack:
            worlds = await _open_worlds(stack, url)
            found: dict[Cell, Comparison] = {}
            for scenario in SCENARIOS:
                talk(f"measuring {scenario.name}, sync {sync}")
                found |= await _measure_scenario(scenario, sync, worlds)
            return found


async def _measure_scenario(scenario: Scenario, sync: Sync, worlds: list[World]) -> dict[Cell, Comparison]:
    pairs = [await scenario.pair(world) for world in worlds]
    compared = await compare(pairs, scenario.pace)
    cells = (Cell(scenario.name, sync, world.sessions) for world in worlds)
    return dict(zip(cells, compared, strict=True))


async def _open_worlds(stack: AsyncExitStack, url: str) -> list[World]:
    return [await stack.enter_async_context(open_world(url, sessions)) for sessions in SESSIONS]


def talk(text: str) -> None:
    """Say something to the person who waits."""
    print(text, file=sys.stderr, flush=True)

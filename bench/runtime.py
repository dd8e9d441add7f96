"""The runtime's measures: what a durable step costs, how that compares with other systems, and what a resume costs.

Everything runs with sync always: a step counts when it is on the disk.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from bench.measures import Result, judge
from bench.postgres import postgres_server
from bench.race import OURS, PEERS_PYTHON, Contestant, Heat, Ours, open_peer, race
from bench.resume import LENGTHS, resume_pairs
from bench.rounds import Comparison, Pace, compare
from bench.run import talk
from bench.server import nats_server
from bench.simulator import measure_simulator
from bench.step import step_pairs
from bench.walking import production_logs
from bench.world import World, open_world

STEP_PACE = Pace(rounds=150, operations=20)
STEP_TARGET = 1.3
IN_ROW_TARGET = 1.5
"""With the line in the log, which nobody waits for otherwise."""
RESUME_PACE = Pace(rounds=150, operations=4)
RESUME_TARGET = 1.2
"""No dependence would be 1.00. The sync of the claiming record wavers by some hundredths, and reading a journal from
its beginning would be hundreds of times as slow with 10 000 records."""

ALONE = Heat(sessions=1, steps=400, rounds=11)
TOGETHER = Heat(sessions=64, steps=10, rounds=7)
DBOS_ALONE_TARGET = 0.285
"""At least 3.5 times as many steps per second."""
DBOS_TOGETHER_TARGET = 0.2
"""At least 5 times as many."""
BEST_TOGETHER_TARGET = 0.333
"""At least 3 times as many."""
AHEAD = 1.0


async def measure_runtime() -> dict[str, Result]:
    """Durable step and resume, each against something on the same server."""
    async with AsyncExitStack() as stack:
        return await _measure_runtime(await _open(stack, _folder(stack)))


def _folder(stack: AsyncExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callboard-bench-")))


async def _open(stack: AsyncExitStack, folder: Path) -> World:
    url = stack.enter_context(nats_server(folder, "always"))
    stack.enter_context(production_logs(folder))
    return await stack.enter_async_context(open_world(url, 1))


async def _measure_runtime(world: World) -> dict[str, Result]:
    talk("measuring durable_step, sync always")
    step, in_row = await compare(await step_pairs(world), STEP_PACE)
    talk(f"filling sessions of up to {LENGTHS[-1]} records")
    pairs = await resume_pairs(world)
    talk("measuring resume, sync always")
    resumes = zip(LENGTHS[1:], await compare(pairs, RESUME_PACE), strict=True)
    return {
        "durable_step": judge(step, STEP_TARGET),
        "durable_step_in_row": judge(in_row, IN_ROW_TARGET),
        **{f"resume_{length}_records": judge(found, RESUME_TARGET) for length, found in resumes},
    }


async def measure_peers() -> dict[str, Result]:
    """One session, and 64 at once, against other systems; peers that are not there are said and left out."""
    if shutil.which(PEERS_PYTHON) is None:
        talk(f"SKIPPED: no peers in {PEERS_PYTHON.parents[1]}; `make bench` installs them where they can be had")
        return {}
    found: dict[str, Result] = {}
    async with AsyncExitStack() as stack:
        folder = _folder(stack)
        ours = Ours(await _open(stack, folder))
        contestants: dict[str, Contestant] = {OURS: ours, **await _open_peers(stack, folder)}
        for heat in (ALONE, TOGETHER):
            talk(f"measuring {heat.sessions} sessions against {', '.join(list(contestants)[1:])}")
            found |= dict(_judged(await race(contestants, heat), heat))
    return found


async def _open_peers(stack: AsyncExitStack, folder: Path) -> dict[str, Contestant]:
    postgres = stack.enter_context(postgres_server())
    commands = {
        "dbos_sqlite": ("dbos_worker.py", f"sqlite:///{folder}/dbos.sqlite"),
        "dbos_sqlite_wal": ("dbos_worker.py", f"sqlite:///{folder}/dbos-wal.sqlite", "WAL"),
        "langgraph_sqlite": ("langgraph_worker.py", f"{folder}/langgraph.sqlite"),
    }
    if postgres is None:
        talk("SKIPPED: dbos_postgres, because PostgreSQL is not installed")
    else:
        commands["dbos_postgres"] = ("dbos_worker.py", postgres)
    peers: dict[str, Contestant] = {}
    for name, command in commands.items():
        try:
            peers[name] = await stack.enter_async_context(open_peer(*command))
        except RuntimeError as error:
            talk(f"SKIPPED: {name}: {error}")
    return peers


def _judged(found: dict[str, Comparison], heat: Heat) -> Iterator[tuple[str, Result]]:
    for name, each in found.items():
        talk(f"  {name}: {1 / each.seconds:.0f} steps per second")
    ours = found.pop(OURS)
    for name, each in found.items():
        yield _name(heat, name), judge(_beside(ours, each), _target(heat, name))
    if found and heat is TOGETHER:
        best = max(found.values(), key=lambda each: each.ratio)
        yield _name(heat, "best_peer"), judge(_beside(ours, best), BEST_TOGETHER_TARGET)


def _name(heat: Heat, peer: str) -> str:
    return f"steps_{heat.sessions}_sessions_vs_{peer}"


def _beside(ours: Comparison, peer: Comparison) -> Comparison:
    return Comparison(seconds=ours.seconds, ratio=peer.ratio)


def _target(heat: Heat, peer: str) -> float:
    if peer == "dbos_sqlite":
        return DBOS_ALONE_TARGET if heat is ALONE else DBOS_TOGETHER_TARGET
    return AHEAD if heat is ALONE else BEST_TOGETHER_TARGET


def measure_simulation() -> dict[str, Result]:
    """The simulator against its own target; outside of any loop, because it brings its own."""
    talk("measuring the simulator")
    return {"simulator_step": judge(measure_simulator(), 1.0)}

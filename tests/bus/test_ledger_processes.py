"""Sixteen processes and one small ceiling on a real server: together they use all of it and nothing above."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process

import msgspec
import pytest

from bus.bus import Bus
from bus.ledger import Book, Crossed
from tests.bus.ledger_racer import CEILING, CEILINGS
from tests.nats_server import NatsServer

PROCESSES = 16
SECONDS = 50.0


async def start(url: str, project: str, number: int) -> Process:
    words = [sys.executable, "-m", "tests.bus.ledger_racer", url, project, f"p-{number}"]
    return await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)


async def line_of(process: Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()


async def go(process: Process) -> list[Crossed]:
    """Let it run to its end; returns what it was told."""
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    return msgspec.json.decode(await line_of(process), type=list[Crossed])


@pytest.mark.timeout(2 * SECONDS)
async def test_sixteen_processes_use_all_of_a_ceiling_and_nothing_above(
    shared_server: NatsServer, project_bus: Bus
) -> None:
    processes = [await start(shared_server.url, project_bus.subjects.project, n) for n in range(PROCESSES)]
    try:
        async with asyncio.timeout(SECONDS):
            assert {await line_of(process) for process in processes} == {b"ready\n"}
            told = await asyncio.gather(*map(go, processes))
            codes = [await process.wait() for process in processes]
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()

    book, makers = Book(), set()
    async for stored in project_bus.ledger.read_entries():
        assert stored.entry is not None
        change = book.add(stored.entry, stored.sequence)
        makers |= {change.opened.session} if change.opened else set()
        assert book.account("spec", "todo").claimed.microdollars <= CEILING
    assert book.account("spec", "todo").spent == CEILINGS.spec
    assert sorted(each.percent for one in told for each in one) == [80, 95, 100]
    assert codes == [0] * PROCESSES
    assert len(makers) > PROCESSES // 2

"""Sixteen processes and one small ceiling on a real server: together they use all of it and nothing above."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE

import msgspec

from bus.bus import Bus
from bus.ledger import Book, Crossed
from tests.bus.ledger_racer import CEILING, CEILINGS
from tests.nats_server import NatsServer

PROCESSES = 16
SECONDS = 40.0


async def test_sixteen_processes_use_all_of_a_ceiling_and_nothing_above(
    shared_server: NatsServer, project_bus: Bus
) -> None:
    words = [sys.executable, "-m", "tests.bus.ledger_racer"]
    words += [shared_server.url, project_bus.subjects.project, str(PROCESSES)]
    racing = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE, start_new_session=True)
    assert racing.stdin is not None
    assert racing.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            ready = [await racing.stdout.readline() for _ in range(PROCESSES)]
            racing.stdin.close()
            lines = [await racing.stdout.readline() for _ in range(PROCESSES)]
            code = await racing.wait()
    finally:
        if racing.returncode is None:
            os.killpg(racing.pid, signal.SIGKILL)

    book, makers = Book(), set()
    async for stored in project_bus.ledger.read_entries():
        assert stored.entry is not None
        change = book.add(stored.entry, stored.sequence)
        makers |= {change.opened.session} if change.opened else set()
        assert book.account("spec", "todo").claimed.microdollars <= CEILING
    assert book.account("spec", "todo").spent == CEILINGS.spec
    told = [each.percent for line in lines for each in msgspec.json.decode(line, type=list[Crossed])]
    assert sorted(told) == [80, 95, 100]
    assert (ready, code) == ([b"ready\n"] * PROCESSES, 0)
    assert len(makers) > PROCESSES // 2

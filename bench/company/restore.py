"""One broadcast restores all suspended sessions, beside the same broadcast and records of the same size in nats-py.

On both sides a hundred processes with a connection each, on one server with sync always. Ours hear the restore, decide,
and record their return; raw ones hear a word, and publish. The clock begins before the broadcast and stops when the
last record is stored, by the server's own time: nobody looks meanwhile. What a restore sets going again begins later.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import nats
from nats.aio.client import Client
from nats.js.client import JetStreamContext

from actors.runtime.runner import RESTORE_SPREAD_SECONDS
from bench.company.running import SETTINGS, Company, open_company, until
from bench.measures import Result, judge
from bench.rounds import Comparison
from bench.run import talk
from bench.server import nats_server
from bus.broker import Message
from protocol.machine import SUSPEND
from protocol.messages import Restore, Story
from protocol.record import decode_record
from supervisors.health.monitor import EVERYBODY

SESSIONS = 100
ROUNDS = 9
WARM_UP_ROUNDS = 2
TARGET = 3.0

UNWATCHED = "health.interval_seconds = 3600\n"
"""Nobody but us restores anybody."""
CALM_SECONDS = 1.0
RETURN_SECONDS = RESTORE_SPREAD_SECONDS + 1.0
"""Until then nobody looks."""
WORD = "raw.word"
ANSWERS = "raw.answers"
RAW_STREAM = "RAW"


async def measure_restore() -> dict[str, Result]:
    """Both in every round, in turning order."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callboard-bench-")))
        url = stack.enter_context(nats_server(folder, "always"))
        settings = f'{SETTINGS}{UNWATCHED}supervisor.coders = {SESSIONS}\nbus.url = "{url}"\n'
        company = await stack.enter_async_context(open_company(settings))
        ours = Suspended(company)
        await ours.begin()
        raw = await stack.enter_async_context(open_raw(url, company, await ours.record_bytes()))
        talk(f"measuring the restore of {SESSIONS} suspended sessions, sync always")
        rounds = []
        for number in range(WARM_UP_ROUNDS + ROUNDS):
            first, second = (ours, raw) if number % 2 else (raw, ours)
            seconds = {first: await first.seconds(), second: await second.seconds()}
            rounds.append((seconds[ours], seconds[raw]))
    measured = rounds[WARM_UP_ROUNDS:]
    talk(f"  ours {1000 * median(a for a, _ in measured):.0f} ms, raw {1000 * median(b for _, b in measured):.0f} ms")
    figure = Comparison(seconds=median(a for a, _ in measured), ratio=median(a / b for a, b in measured))
    return {f"restore_{SESSIONS}_sessions": judge(figure, TARGET)}


class Suspended:
    """Coders with a story each, and without the API that they need for it."""

    def __init__(self, company: Company) -> None:
        self._company = company
        self._since = 0

    async def begin(self) -> None:
        """Have all of them suspended for the first time."""
        for number in range(SESSIONS):
            story = Story(story=f"s-{number}", spec="spec", run=1, title="", description="", acceptance_criteria=())
            await self._company.bus.work.put(self._company.office.letter(story, "coder.all", "REQUEST"))
        await until(self._all_suspended, f"{SESSIONS} sessions are suspended")

    async def seconds(self) -> float:
        """Restore all of them, and wait until they are suspended again."""
        await asyncio.sleep(CALM_SECONDS)
        self._since = await self._company.journal_end()
        letter = self._company.office.letter(Restore(), EVERYBODY, "CONTROL")
        began = datetime.now(UTC)
        await self._company.bus.control.broadcast(letter)
        await asyncio.sleep(RETURN_SECONDS)
        await until(self._all_suspended, f"{SESSIONS} sessions are suspended again")
        returns = await self._returns()
        assert len(returns) == SESSIONS
        return (max(message.stored_at for message in returns) - began).total_seconds()

    async def record_bytes(self) -> int:
        """How large a record is by which a session returns."""
        await self.seconds()
        return len((await self._returns())[0].data)

    async def _returns(self) -> list[Message]:
        records = await self._company.records_after(self._since)
        return [message for message in records if decode_record(message.data).state_from == SUSPEND]

    async def _all_suspended(self) -> bool | None:
        records = [decode_record(message.data) for message in await self._company.records_after(self._since)]
        suspended = [each for each in records if each.state_to == SUSPEND and each.state_from != SUSPEND]
        return len(suspended) == SESSIONS or None


class Raw:
    """Subscribers that publish when they hear a word."""

    def __init__(self, client: Client, stream: JetStreamContext, company: Company) -> None:
        self._client = client
        self._stream = stream
        self._bus = company.bus

    async def seconds(self) -> float:
        """Say the word, and wait until everybody has answered."""
        await asyncio.sleep(CALM_SECONDS)
        before = (await self._stream.stream_info(RAW_STREAM)).state.last_seq
        began = datetime.now(UTC)
        await self._client.publish(WORD, b"")
        await self._client.flush()
        await asyncio.sleep(CALM_SECONDS)

        async def all_answered() -> list[Message] | None:
            answers = [each async for each in self._bus.broker.read(RAW_STREAM, f"{ANSWERS}.*", before + 1)]
            return answers if len(answers) == SESSIONS else None

        answers = await until(all_answered, f"{SESSIONS} subscribers have answered")
        return (max(message.stored_at for message in answers) - began).total_seconds()


@asynccontextmanager
async def open_raw(url: str, company: Company, size: int) -> AsyncIterator[Raw]:
    """Start the processes, and end them when the context is left."""
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name=RAW_STREAM, subjects=[f"{ANSWERS}.*"], allow_direct=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.company.fan_out", url, str(SESSIONS), WORD, ANSWERS, str(size)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for _ in range(SESSIONS):
            assert await process.stdout.readline() == b"ready\n"
        yield Raw(client, stream, company)
    finally:
        process.stdin.close()
        await process.wait()
        await client.close()

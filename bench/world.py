"""A project with a number of sessions on the broker, and beside it the same thing made with nats-py alone.

Two connections on each side, because the two ends of a conversation are two processes in production.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import nats
from nats.js.api import RetentionPolicy, StorageType, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from bus.bus import Bus
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.topology import apply_topology, plan_topology
from protocol.subjects import Subjects

REPLICAS = 1
IN_FLIGHT_MAX = 128
STRIDE = 7919
"""A prime, so that steps of this length visit every session before any of them twice."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides, open: what asks and what answers, ours and raw."""

    sessions: int
    subjects: Subjects
    asker: Bus
    answerer: Bus
    raw_asker: JetStreamContext
    raw_answerer: JetStreamContext

    @property
    def raw_name(self) -> str:
        """The first token of the raw side's subjects and streams."""
        return f"RAW{self.sessions}"

    def names(self) -> tuple[str, ...]:
        """The sessions."""
        return tuple(f"s-{number}.1" for number in range(self.sessions))

    def names_in_turn(self) -> Iterator[str]:
        """The sessions for ever, scattered over all of them rather than one after its neighbour."""
        number = 0
        while True:
            yield f"s-{number}.1"
            number = (number + STRIDE) % self.sessions

    async def ensure_raw_stream(self, kind: str, retention: RetentionPolicy) -> None:
        """A stream like ours in storage, replicas and retention; republishing and direct reads are ours alone."""
        name = f"{self.raw_name}_{kind.upper()}"
        config = StreamConfig(
            name=name,
            subjects=[f"{self.raw_name}.{kind}.>"],
            storage=StorageType.FILE,
            num_replicas=REPLICAS,
            retention=retention,
        )
        try:
            await self.raw_asker.stream_info(name)
        except NotFoundError:
            await self.raw_asker.add_stream(config)


@asynccontextmanager
async def open_world(url: str, sessions: int) -> AsyncIterator[World]:
    """Connect both sides and make the project's streams if they are not there."""
    async with AsyncExitStack() as stack:
        subjects = Subjects(f"bench{sessions}")
        asker, answerer = [await _open_bus(stack, url, subjects) for _ in range(2)]
        raw_asker, raw_answerer = [await _open_raw(stack, url) for _ in range(2)]
        await apply_topology(asker.broker, plan_topology(subjects, replicas=REPLICAS))
        yield World(
            sessions=sessions,
            subjects=subjects,
            asker=asker,
            answerer=answerer,
            raw_asker=raw_asker,
            raw_answerer=raw_answerer,
        )


async def _open_bus(stack: AsyncExitStack, url: str, subjects: Subjects) -> Bus:
    bus = Bus(JetStreamBroker(await Connection.open(ConnectOptions(url=url))), subjects)
    stack.push_async_callback(bus.close)
    return bus


async def _open_raw(stack: AsyncExitStack, url: str) -> JetStreamContext:
    client = await nats.connect(url)
    stack.push_async_callback(client.close)
    return client.jetstream()


async def all_of(calls: Iterable[Awaitable[object]]) -> None:
    """Run many calls, a limited number at a time; for filling, where order does not matter."""
    limit = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def limited(call: Awaitable[object]) -> None:
        async with limit:
            await call

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(limited(call))

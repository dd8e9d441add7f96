"""The worlds that the contract is held against, and a bus with short times in each."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bus.broker import Broker
from bus.bus import Bus
from bus.errors import BrokerRefusedError, NotAcknowledgedError
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.memory import MemoryBroker, MemoryServer
from bus.topology import apply_topology, plan_topology
from protocol.subjects import Subjects

ACK_WAIT_SECONDS = 1.0
LEASE_SECONDS = 2
CLUSTER_SECONDS = 30.0

Connect = Callable[[], Awaitable[Broker]]


class World:
    """A broker with a project on it; `bus()` is another process's connection."""

    def __init__(self, subjects: Subjects, connect: Connect, replicas: int) -> None:
        self.subjects = subjects
        self.replicas = replicas
        self._connect = connect
        self._open: list[Broker] = []

    async def broker(self) -> Broker:
        broker = await self._connect()
        self._open.append(broker)
        return broker

    async def bus(self, *, lease_seconds: int = LEASE_SECONDS, ack_wait_seconds: float = ACK_WAIT_SECONDS) -> Bus:
        return Bus(
            await self.broker(),
            self.subjects,
            lease_seconds=lease_seconds,
            ack_wait_seconds=ack_wait_seconds,
            held_delay_seconds=0.2,
        )

    async def set_up(self) -> None:
        topology = plan_topology(self.subjects, replicas=self.replicas, ack_wait_seconds=ACK_WAIT_SECONDS)
        broker = await self.broker()
        deadline = asyncio.get_running_loop().time() + CLUSTER_SECONDS
        while True:
            try:
                await apply_topology(broker, topology)
            except (NotAcknowledgedError, BrokerRefusedError):
                # A cluster that has just started has no leader yet.
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.1)
            else:
                return

    async def tear_down(self) -> None:
        for plan in plan_topology(self.subjects, replicas=self.replicas).streams:
            await self._open[0].delete_stream(plan.name)
        for broker in self._open:
            await broker.close()


@asynccontextmanager
async def memory_world(
    subjects: Subjects, *, fence_first: bool, attach: Callable[[MemoryServer], Broker] = MemoryBroker
) -> AsyncIterator[World]:
    server = MemoryServer(fence_first=fence_first)

    async def connect() -> Broker:
        return attach(server)

    async with _prepared(World(subjects, connect, 1)) as world:
        yield world


@asynccontextmanager
async def nats_world(subjects: Subjects, url: str, replicas: int) -> AsyncIterator[World]:
    async def connect() -> Broker:
        return JetStreamBroker(await Connection.open(ConnectOptions(url=url, connect_seconds=10.0)))

    async with _prepared(World(subjects, connect, replicas)) as world:
        yield world


@asynccontextmanager
async def _prepared(world: World) -> AsyncIterator[World]:
    await world.set_up()
    try:
        yield world
    finally:
        await world.tear_down()

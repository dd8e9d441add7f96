"""What the tests of a hurt broker share: connections that end with the test, freezing, and waiting to a deadline."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from bus.bus import Bus
from bus.errors import BusError
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.retrying import surely
from bus.topology import apply_topology, plan_topology
from protocol.subjects import Subjects
from tests.nats_server import NatsServer

DEADLINE_SECONDS = 10.0


@asynccontextmanager
async def connected(url: str, troubles: list[BusError] | None = None, **options: Any) -> AsyncIterator[Connection]:
    """A connection for the length of a test; what belongs to no call is put into `troubles`."""
    tell = (troubles if troubles is not None else []).append
    connection = await Connection.open(ConnectOptions(url=url, **options), tell)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def project(
    url: str, subjects: Subjects, *, publish_seconds: float = 1.0, replicas: int = 1, **times: Any
) -> AsyncIterator[Bus]:
    """A project's bus with its streams in place."""
    async with connected(url, connect_seconds=DEADLINE_SECONDS) as connection:
        broker = JetStreamBroker(connection, publish_seconds)
        wait = {"ack_wait_seconds": times["ack_wait_seconds"]} if "ack_wait_seconds" in times else {}
        await apply_topology(broker, plan_topology(subjects, replicas=replicas, **wait))
        yield Bus(broker, subjects, **times)


async def ask(connection: Connection) -> bytes:
    """Any question that a server with JetStream answers."""
    return (await surely(lambda: connection.request("$JS.API.STREAM.NAMES"))).data


def connection_of(bus: Bus) -> Connection:
    """The connection under a bus."""
    assert isinstance(bus.broker, JetStreamBroker)
    return bus.broker.connection


@contextmanager
def frozen(server: NatsServer) -> Iterator[None]:
    """A server that does nothing, but whose sockets stay open; it goes on afterwards unless it was killed."""
    assert server.process is not None
    process = server.process
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)  # the signal works only after a moment
    try:
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def impostor(greeting: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Something that listens on a port, says one line and keeps what it hears."""
    heard: list[bytes] = []
    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        writer.write(greeting)
        with suppress(ConnectionError):
            while line := await reader.readline():
                heard.append(line)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
        await asyncio.gather(*(task for task in serving if task is not None))


async def restart(server: NatsServer) -> None:
    """Kill -9 and start again, while the loop goes on."""
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def eventually(what: str, holds: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until a condition holds; the failure says for what."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.005)

"""Three NATS nodes from the project's own compose.yaml, and the question whether NATS is usable yet."""

import asyncio
import os
import random
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import nats
from nats.errors import Error as NatsError
from nats.js.api import StreamConfig

from tests.containers.errors import EngineFailureError
from tests.containers.programs import compose_command, finished, last_lines

COMPOSE_FILE = Path(__file__).parents[2] / "compose.yaml"
NODES = ("nats-1", "nats-2", "nats-3")
COMMAND_SECONDS = 45.0
USABLE_SECONDS = 30.0
POLL_SECONDS = 0.1
# Below the range from which the kernel takes ports for outgoing connections: a killed node's port stays free for it.
PORTS = range(20_000, 32_000)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A running three-node cluster; the nodes keep their ports when they are killed and started again."""

    project: str
    image: str
    ports: tuple[int, ...]

    @property
    def urls(self) -> list[str]:
        return [f"nats://127.0.0.1:{port}" for port in self.ports]

    def kill(self, node: str) -> None:
        """kill -9, without a goodbye to the other nodes. The restart policy does not bring it back: `start` does."""
        self.compose("kill", "-s", "SIGKILL", node)

    def start(self, node: str) -> None:
        self.compose("start", node)

    def up(self) -> None:
        self.compose("up", "--detach")

    def down(self) -> None:
        self.compose("kill")  # There is nothing to say goodbye to; this saves the wait for an orderly stop.
        self.compose("down", "--volumes", "--remove-orphans")

    def compose(self, *arguments: str) -> None:
        """Raises EngineFailureError with what Compose said."""
        program = compose_command() or ["docker-compose"]
        command = [*program, "--file", str(COMPOSE_FILE), "--project-name", self.project, *arguments]
        ports = {f"NATS_PORT_{number}": str(port) for number, port in enumerate(self.ports, start=1)}
        environment = {**os.environ, "NATS_IMAGE": self.image, **ports}
        done = finished(command, seconds=COMMAND_SECONDS, environment=environment)
        if done.returncode != 0:
            raise EngineFailureError(command, last_lines(done.stderr))


@contextmanager
def running_cluster(image: str) -> Iterator[Cluster]:
    """A cluster that stores messages on three replicas; containers, network and volumes are removed afterwards."""
    cluster = Cluster(project=f"callboard-test-{secrets.token_hex(4)}", image=image, ports=free_ports(len(NODES)))
    try:
        cluster.up()
        asyncio.run(wait_until_usable(cluster.urls, replicas=len(NODES)))
        yield cluster
    finally:
        cluster.down()


def free_ports(count: int) -> tuple[int, ...]:
    """Different loopback ports that nobody listens on at the moment."""
    found: set[int] = set()
    for port in random.sample(PORTS, k=len(PORTS)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.add(port)
        if len(found) == count:
            return tuple(found)
    raise RuntimeError(f"fewer than {count} free ports between {PORTS.start} and {PORTS.stop}")


async def wait_until_usable(urls: list[str], *, replicas: int) -> None:
    """Return when every URL answers and a stream with that many replicas has stored a message; raises TimeoutError."""
    deadline = time.monotonic() + USABLE_SECONDS
    waiting = list(urls)
    while waiting:
        try:
            await store_one_message(waiting[0], replicas)
            waiting.pop(0)
        except (NatsError, OSError) as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{waiting[0]} stored nothing within {USABLE_SECONDS:.0f} s: {error!r}") from error
            await asyncio.sleep(POLL_SECONDS)


async def store_one_message(url: str, replicas: int) -> None:
    """One attempt, without retries; the stream is removed again."""
    client = await nats.connect(url, allow_reconnect=False, connect_timeout=1, error_cb=ignore_error)
    try:
        stream = client.jetstream(timeout=2)
        name = f"PROBE_{secrets.token_hex(4)}"
        await stream.add_stream(StreamConfig(name=name, subjects=[name], num_replicas=replicas))
        try:
            await stream.publish(name, b"usable?")
        finally:
            await stream.delete_stream(name)
    finally:
        await client.close()


async def ignore_error(error: Exception) -> None:
    """The attempt itself raises; nats-py would print the same error once more."""

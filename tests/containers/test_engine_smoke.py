"""The containers themselves: they store what they acknowledge, on one node and on three, and outlive a node."""

import asyncio
import json
import secrets
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import PubAck, StorageType, StreamConfig
from testcontainers.core.container import DockerContainer

from tests.containers.cluster import NODES, Cluster, wait_until_usable
from tests.containers.conftest import MONITOR_PORT

pytestmark = pytest.mark.containers

ELECTION_SECONDS = 25.0  # An election takes 4 to 9 s; the rest is for a busy machine.


@asynccontextmanager
async def connected(*urls: str) -> AsyncIterator[Client]:
    client = await nats.connect(list(urls), max_reconnect_attempts=-1, reconnect_time_wait=0.2)
    try:
        yield client
    finally:
        await client.close()


async def a_stream(client: Client, *, replicas: int) -> tuple[JetStreamContext, str]:
    """A new stream on disk; its subject has its name."""
    jetstream = client.jetstream(timeout=2)
    name = f"SMOKE_{secrets.token_hex(4)}"
    await jetstream.add_stream(
        StreamConfig(name=name, subjects=[name], num_replicas=replicas, storage=StorageType.FILE)
    )
    return jetstream, name


async def publish_until_acknowledged(jetstream: JetStreamContext, subject: str, message_id: str) -> PubAck:
    """The same message again and again, stored once: a time-out does not say whether it was."""
    deadline = time.monotonic() + ELECTION_SECONDS
    while True:
        try:
            return await jetstream.publish(subject, b"again", timeout=1, headers={"Nats-Msg-Id": message_id})
        except (NatsError, OSError) as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no acknowledgement within {ELECTION_SECONDS:.0f} s of the kill") from error
            await asyncio.sleep(0.1)


async def test_one_node_acknowledges_what_it_stores(nats_url: str) -> None:
    async with connected(nats_url) as client:
        jetstream, name = await a_stream(client, replicas=1)

        acknowledged = await jetstream.publish(name, b"hello")

        assert acknowledged == PubAck(stream=name, seq=1)
        assert (await jetstream.get_msg(name, seq=1)).data == b"hello"


def test_an_acknowledged_message_is_on_the_disk(nats_container: DockerContainer, nats_url: str) -> None:
    port = nats_container.get_exposed_port(MONITOR_PORT)

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/varz", timeout=5) as answer:
        settings = json.load(answer)["jetstream"]["config"]

    assert settings["sync_always"] is True


async def test_three_nodes_acknowledge_what_all_of_them_store(cluster_urls: list[str]) -> None:
    async with connected(cluster_urls[0]) as client:
        jetstream, name = await a_stream(client, replicas=3)

        acknowledged = await jetstream.publish(name, b"hello")

        assert acknowledged == PubAck(stream=name, seq=1)
        assert (await where_it_is_stored(jetstream, name)) == set(NODES)


async def test_three_nodes_take_a_stream_with_one_replica_as_well(cluster_urls: list[str]) -> None:
    async with connected(*cluster_urls) as client:
        jetstream, name = await a_stream(client, replicas=1)

        acknowledged = await jetstream.publish(name, b"hello")

        assert acknowledged == PubAck(stream=name, seq=1)
        assert len(await where_it_is_stored(jetstream, name)) == 1


async def test_a_client_that_knows_one_node_learns_the_others_on_loopback(cluster_urls: list[str]) -> None:
    async with connected(cluster_urls[0]) as client:
        known = {server.geturl() for server in client.servers}

    assert known == set(cluster_urls)


async def test_a_stream_goes_on_without_its_leader_which_comes_back_under_its_address(own_cluster: Cluster) -> None:
    async with connected(*own_cluster.urls) as client:
        jetstream, name = await a_stream(client, replicas=3)
        for number in range(10):
            await jetstream.publish(name, b"before", headers={"Nats-Msg-Id": f"before-{number}"})
        leader = await leader_of(jetstream, name)

        await asyncio.to_thread(own_cluster.kill, leader)
        acknowledged = await publish_until_acknowledged(jetstream, name, "after")

        assert acknowledged.seq == 11
        assert (await jetstream.stream_info(name)).state.messages == 11
        await asyncio.to_thread(own_cluster.start, leader)
        await wait_until_usable(own_cluster.urls, replicas=3)


async def where_it_is_stored(jetstream: JetStreamContext, name: str) -> set[str]:
    cluster = (await jetstream.stream_info(name)).cluster
    assert cluster is not None
    return {str(cluster.leader), *(peer.name or "" for peer in cluster.replicas or [])}


async def leader_of(jetstream: JetStreamContext, name: str) -> str:
    cluster = (await jetstream.stream_info(name)).cluster
    assert cluster is not None
    return str(cluster.leader)

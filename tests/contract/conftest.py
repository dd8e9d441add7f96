"""One contract, every world: memory with both orders of checks, the simulator's wire, one real node, three."""

import random
from collections.abc import AsyncIterator

import pytest

from bus.broker import Broker
from bus.memory import MemoryServer
from protocol.subjects import Subjects
from tests.contract.world import World, memory_world, nats_world
from tests.simulation.wire import Network, Wire

WORLDS = ["memory", "memory-ids-first", "simulated", "nats", "cluster"]


def _late(server: MemoryServer) -> Broker:
    return Wire(server, Network(random.Random(1), delay_seconds=0.01))


@pytest.fixture(params=WORLDS)
async def world(request: pytest.FixtureRequest, subjects: Subjects) -> AsyncIterator[World]:
    """A project on each kind of broker in turn. The servers are started only for the tests that need them."""
    match request.param:
        case "memory":
            context = memory_world(subjects, fence_first=True)
        case "memory-ids-first":
            context = memory_world(subjects, fence_first=False)
        case "simulated":
            context = memory_world(subjects, fence_first=True, attach=_late)
        case "nats":
            context = nats_world(subjects, request.getfixturevalue("shared_server").url, 1)
        case _:
            urls = ",".join(node.url for node in request.getfixturevalue("cluster"))
            context = nats_world(subjects, urls, 3)
    async with context as world:
        yield world

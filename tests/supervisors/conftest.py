"""People with the `supervisor` command, as those with `bus`; what a test puts under a lease stays for its time."""

from collections.abc import AsyncIterator

import pytest

from bus.bus import Bus
from protocol.subjects import Subjects
from tests.bus.conftest import loner, person
from tests.contract.world import nats_world
from tests.nats_server import NatsServer

__all__ = ["loner", "person"]

LEASE_SECONDS = 60


@pytest.fixture
async def project_bus(shared_server: NatsServer, subjects: Subjects) -> AsyncIterator[Bus]:
    """A project on the worker's server, with leases that outlast a slow machine."""
    async with nats_world(subjects, shared_server.url, 1) as world:
        yield await world.bus(lease_seconds=LEASE_SECONDS)

"""People with the `bus` command: one on the worker's server, one with an embedded server of his own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bus.bus import Bus
from protocol.subjects import Subjects
from tests.bus.command import Person
from tests.contract.world import nats_world
from tests.nats_server import NatsServer


@pytest.fixture
async def project_bus(shared_server: NatsServer, subjects: Subjects) -> AsyncIterator[Bus]:
    """A project on the worker's server, for a test to put there what a command should find."""
    async with nats_world(subjects, shared_server.url, 1) as world:
        yield await world.bus()


@pytest.fixture
def person(tmp_path: Path, shared_server: NatsServer, project_bus: Bus) -> Person:
    """Whoever works on that project, through NATS_URL."""
    return Person(tmp_path, shared_server.url, project_bus.subjects.project)


@pytest.fixture
def loner(tmp_path: Path) -> Iterator[Person]:
    """Somebody without any server but the embedded one; no process may be left behind."""
    loner = Person(tmp_path)
    yield loner
    assert loner.servers() == []

"""What the tests of the rehearsal share: a server, a clock that stands still, and the real SDK as its client."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from anthropic import AsyncAnthropic

from actors.rehearsal import Rehearsal
from tests.rehearsal.company import PARTS, Clock, client_of


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def rehearsal(clock: Clock) -> AsyncIterator[Rehearsal]:
    async with Rehearsal(PARTS, clock=clock) as rehearsal:
        yield rehearsal


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., AsyncAnthropic]]:
    """Make a client of a rehearsal; it is closed in the end."""
    async with AsyncExitStack() as stack:

        def make(rehearsal: Rehearsal, key: str = "key", seconds: float = 30.0) -> AsyncAnthropic:
            client = client_of(rehearsal, key, seconds)
            stack.push_async_callback(client.close)
            return client

        yield make


@pytest.fixture
def client(rehearsal: Rehearsal, connect: Callable[..., AsyncAnthropic]) -> AsyncAnthropic:
    return connect(rehearsal)

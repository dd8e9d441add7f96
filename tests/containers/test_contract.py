"""The whole bus contract once more, on containerised NATS: one node and three."""

from collections.abc import AsyncIterator

import pytest

from protocol.subjects import Subjects
from tests.contract import test_journal_contract, test_ledger_contract, test_mail_contract, test_store_contract
from tests.contract.world import World, nats_world

pytestmark = pytest.mark.containers

for _module in (test_journal_contract, test_ledger_contract, test_mail_contract, test_store_contract):
    globals().update({name: test for name, test in vars(_module).items() if name.startswith("test_")})


@pytest.fixture(params=["container", "container-cluster"])
def place(request: pytest.FixtureRequest) -> tuple[str, int]:
    """Where the broker is, and on how many nodes; started only for the tests that need it."""
    if request.param == "container":
        return request.getfixturevalue("nats_url"), 1
    return ",".join(request.getfixturevalue("cluster_urls")), 3


@pytest.fixture
async def world(place: tuple[str, int], subjects: Subjects) -> AsyncIterator[World]:
    """Takes the place of the contract's own worlds."""
    url, replicas = place
    async with nats_world(subjects, url, replicas) as world:
        yield world

"""Probes: where they are found, and what the broker's own one proves."""

import asyncio

import pytest

from bus.topology import BOARD
from protocol.subjects import Subjects
from supervisors.core.health import HealthPolicy
from supervisors.errors import NoProbeError
from supervisors.health.monitor import check_now
from supervisors.health.probes import BROKER, PROBED, Probe, find_probes
from tests.bus.brokers import DEADLINE_SECONDS, frozen, project
from tests.nats_server import NatsServer
from tests.supervisors.probe_samples import FORGE, MODELS

HERE = "tests.supervisors.probe_samples"
POLICY = HealthPolicy(timeout_seconds=0.5)


@pytest.mark.parametrize(
    ("places", "probes"),
    [
        ("", [BROKER]),
        (f"{HERE}:FORGE", [BROKER, FORGE]),
        (f" {HERE}:MODELS ,{HERE}:FORGE,", [BROKER, *MODELS, FORGE]),
    ],
)
def test_the_brokers_own_probe_comes_first_and_then_those_of_the_setting(places: str, probes: list[Probe]) -> None:
    assert find_probes(places) == tuple(probes)


@pytest.mark.parametrize(
    ("places", "reason"),
    [
        ("mine", "mine: write MODULE:NAME, for example my_package.probes:PROBES"),
        ("no_such_module:PROBES", "no_such_module:PROBES: ModuleNotFoundError"),
        (f"{HERE}:FORGE,json:nothing", "json:nothing: AttributeError"),
        ("json:dumps", "is a function, no Probe and no list of them"),
        (f"{HERE}:MIXED", "is a list, no Probe and no list of them"),
        (f"{HERE}:FORGE,{HERE}:FORGE", "two probes are called forge"),
        (f"{HERE}:BROKER", "two probes are called broker"),
    ],
)
def test_a_place_where_there_is_no_probe_says_why(places: str, reason: str) -> None:
    with pytest.raises(NoProbeError, match=reason):
        find_probes(places)


def test_a_probe_has_a_name_that_a_person_can_type() -> None:
    with pytest.raises(ValueError, match="cannot be called 'The model'"):
        Probe(name="The model", check=FORGE.check)


# The broker's own.


async def test_the_brokers_probe_stores_something_and_always_in_the_same_place(
    shared_server: NatsServer, subjects: Subjects
) -> None:
    async with project(shared_server.url, subjects) as bus:
        probes = find_probes(f"{HERE}:FORGE")
        for _ in range(5):
            assert (await check_now(bus, probes, POLICY)).healthy

        health = await check_now(bus, probes, POLICY)

        assert [service.name for service in health.services] == ["broker", "forge"]
        assert 0 < health.services[0].latency_ms < 500
        kept = [message async for message in bus.broker.read(subjects.key_stream(BOARD), subjects.every_key(BOARD))]
        assert [message.subject for message in kept] == [subjects.key(BOARD, PROBED)]


async def test_a_broker_that_does_not_answer_is_not_healthy(own_server: NatsServer, subjects: Subjects) -> None:
    async with project(own_server.url, subjects) as bus:
        with frozen(own_server):
            health = await check_now(bus, [BROKER], POLICY)

        assert (health.healthy, health.services[0].error) == (False, "no answer within 0.5 s")
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not (await check_now(bus, [BROKER], POLICY)).healthy:
                pass


async def test_a_broker_that_answers_and_can_store_nothing_is_not_healthy(
    shared_server: NatsServer, subjects: Subjects
) -> None:
    async with project(shared_server.url, subjects) as bus:
        await bus.broker.delete_stream(subjects.key_stream(BOARD))

        health = await check_now(bus, [BROKER], POLICY)

        assert (health.healthy, health.services[0].error) == (False, "no answer within 0.5 s")

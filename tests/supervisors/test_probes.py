"""Probes: where they are found, and what the broker's own one proves."""

import asyncio
import sys
import threading

import pytest

from actors.runtime.world import RealWorld
from bus.bus import Bus
from bus.topology import BOARD
from protocol.subjects import Subjects
from supervisors.core.health import HealthPolicy
from supervisors.errors import NoProbeError
from supervisors.health.beside import beside
from supervisors.health.monitor import Monitor, check_now
from supervisors.health.probes import BROKER, PROBED, Probe, find_probes
from supervisors.office import Office
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


# Somebody's.


async def test_a_probe_that_blocks_stands_in_nobodys_way_and_counts_as_failed_until_it_has_ended(
    shared_server: NatsServer, subjects: Subjects
) -> None:
    is_up = threading.Event()

    async def blocks(_: Bus) -> None:
        is_up.wait()

    async with (
        project(shared_server.url, subjects) as bus,
        beside([BROKER, Probe(name="model", check=blocks)], bus) as probes,
    ):
        world = RealWorld(bus)
        monitor = Monitor(world, Office(world), probes, POLICY, lambda _: None)
        found = [await monitor.check(), await monitor.check()]
        is_up.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not (await monitor.check()).healthy:
                pass

    assert [[each.healthy for each in health.services] for health in found] == [[True, False], [True, False]]
    assert found[0].services[1].error == "no answer within 0.5 s"
    assert "it must not block" in found[1].services[1].error


async def test_a_probe_has_a_bus_of_its_own_to_use(shared_server: NatsServer, subjects: Subjects) -> None:
    buses = []

    async def stores(bus: Bus) -> None:
        buses.append(bus)
        await bus.board.put(PROBED, b"{}")

    async with project(shared_server.url, subjects) as bus:
        health = await check_now(bus, [Probe(name="model", check=stores)], POLICY)

    assert health.healthy, health
    assert buses != [bus]


async def test_a_probe_that_exits_only_fails(shared_server: NatsServer, subjects: Subjects) -> None:
    async def exits(_: Bus) -> None:
        sys.exit("no such model")

    async with project(shared_server.url, subjects) as bus:
        health = await check_now(bus, [BROKER, Probe(name="model", check=exits)], POLICY)

    assert [(each.healthy, each.error) for each in health.services] == [(True, ""), (False, "no such model")]

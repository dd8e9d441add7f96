"""What others write with the server's own words in it: on a real server, whose words they are."""

import asyncio

import pytest

from bus.broker import SEQUENCE, Message
from bus.bus import Bus
from bus.jetstream.broker import READ_BATCH
from bus.memory import MemoryBroker, MemoryServer
from bus.topology import apply_topology, plan_topology
from protocol.subjects import Subjects
from tests.bus.brokers import connection_of

REPETITION = "Nats-Subject"


async def heard(messages: "asyncio.Queue[Message | None]", count: int) -> list[tuple[str, int, bytes]]:
    """The next messages: subject, sequence and data."""
    async with asyncio.timeout(10):
        found = [await messages.get() for _ in range(count)]
    return [(one.subject, one.sequence, one.data) for one in found if one is not None]


@pytest.mark.parametrize("sequence", ["7", "x", "-1", "9" * 5_000])
async def test_a_message_cannot_pass_for_the_repetition_of_another(project_bus: Bus, sequence: str) -> None:
    subjects = project_bus.subjects
    subject = subjects.request("architect", "main")
    lies = {REPETITION: subjects.control(), SEQUENCE: sequence}
    async with project_bus.broker.listen(subjects.every("request")) as messages:
        await project_bus.broker.publish(subject, b"x", lies)

        assert await heard(messages, 1) == [(subject, 0, b"x")]


async def test_a_repetition_says_where_the_server_has_stored_it_whatever_the_message_says(project_bus: Bus) -> None:
    subjects = project_bus.subjects
    subject = subjects.journal("coder", "s-1.1")
    lies = {REPETITION: subjects.control(), SEQUENCE: "999"}
    async with project_bus.broker.listen(subjects.live("journal")) as messages:
        stored = await project_bus.broker.publish(subject, b"x", lies)

        assert await heard(messages, 1) == [(subject, stored.sequence, b"")]


@pytest.mark.parametrize("sequence", ["x", "9" * 5_000, "\u0663"])
async def test_noise_on_the_subjects_of_repetitions_ends_no_listening(project_bus: Bus, sequence: str) -> None:
    subjects, client = project_bus.subjects, connection_of(project_bus)._client
    live = subjects.live("journal").replace(">", "coder.s-1")
    async with project_bus.broker.listen(subjects.live("journal")) as messages:
        await client.publish(live, b"noise", headers={SEQUENCE: sequence})
        await client.publish(live, b"more")

        assert await heard(messages, 2) == [(live, 0, b"noise"), (live, 0, b"more")]


async def test_one_dead_letter_costs_one_message_and_not_a_batch(project_bus: Bus) -> None:
    client, subject = connection_of(project_bus)._client, project_bus.subjects.dead("coder", "s-1")
    await asyncio.gather(*(project_bus.broker.publish(subject, b"x" * 1_000) for _ in range(READ_BATCH // 4)))
    before = client.stats["in_bytes"]

    letter = await project_bus.dead.get(1)

    assert letter is not None
    assert client.stats["in_bytes"] - before < 5_000


async def test_a_server_in_memory_forgets_ids_with_their_time(subjects: Subjects) -> None:
    server = MemoryServer()
    bus = Bus(MemoryBroker(server), subjects)
    await apply_topology(bus.broker, plan_topology(subjects))
    stream = server.stream(subjects.stream("EVENTS"))
    seconds_max = round(stream.plan.duplicate_window_seconds)

    for second in range(10 * seconds_max):
        stream.note_id(f"m{second}", float(second), second + 1)

    assert list(stream.ids) == [f"m{second}" for second in range(9 * seconds_max - 1, 10 * seconds_max)]

"""The journal: append, fence, read, follow."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bus.broker import EXPECTED_LAST_SUBJECT_SEQUENCE, MESSAGE_ID, Acknowledged, Message
from bus.errors import ChannelClosedError, FencedError, NotAcknowledgedError
from bus.journal import Journal
from protocol.codec import encode
from tests.contract.samples import a_record
from tests.contract.world import World


async def test_appended_records_are_read_back_in_order(world: World) -> None:
    bus = await world.bus()
    first = await bus.journal.append(a_record(1), 0)
    second = await bus.journal.append(a_record(2), first)
    await bus.journal.append(a_record(1, session="s-2.1"), 0)

    entries = [entry async for entry in bus.journal.read("coder", "s-1.1")]
    everything = [entry.record().session async for entry in bus.journal.read()]

    assert [(entry.sequence, entry.record()) for entry in entries] == [(first, a_record(1)), (second, a_record(2))]
    assert everything == ["s-1.1", "s-1.1", "s-2.1"]


async def test_the_last_record_is_found_at_once(world: World) -> None:
    bus = await world.bus()
    assert await bus.journal.last("coder", "s-1.1") is None
    first = await bus.journal.append(a_record(1), 0)
    second = await bus.journal.append(a_record(2), first)

    last = await bus.journal.last("coder", "s-1.1")

    assert last is not None
    assert (last.sequence, last.record(), last.append_id) == (second, a_record(2), "s-1.1/2/one")


async def test_the_last_record_of_all_runs_at_a_story_is_found_at_once(world: World) -> None:
    bus = await world.bus()
    assert await bus.journal.last_run("s-1") is None
    await bus.journal.append(a_record(1, session="s-1.2"), 0)
    newest = await bus.journal.append(a_record(1, session="s-1.1"), 0)
    await bus.journal.append(a_record(1, session="s-10.1"), 0)
    await bus.journal.append(a_record(1, session="s-1"), 0)

    last = await bus.journal.last_run("s-1")

    assert last is not None
    assert (last.sequence, last.record().session) == (newest, "s-1.1")


async def test_a_stranger_is_fenced_and_nothing_is_stored(world: World) -> None:
    owner, zombie = await world.bus(), await world.bus()
    first = await owner.journal.append(a_record(1), 0)
    await owner.journal.append(a_record(2, incarnation="one"), first)

    with pytest.raises(FencedError) as caught:
        await zombie.journal.append(a_record(2, incarnation="zombie"), first)

    assert caught.value.owner == "s-1.1/2/one"
    assert [entry.append_id async for entry in owner.journal.read()] == ["s-1.1/1/one", "s-1.1/2/one"]


async def test_our_own_repeated_append_is_no_fence(world: World) -> None:
    bus = await world.bus()
    first = await bus.journal.append(a_record(1), 0)

    again = await bus.journal.append(a_record(1), 0)

    assert again == first
    assert len([entry async for entry in bus.journal.read()]) == 1


async def test_another_record_under_our_own_append_id_is_a_fence(world: World) -> None:
    """Two hands of one process: whoever is later must not take the other's record for its own."""
    bus, other_hand = await world.bus(), await world.bus()
    first = await bus.journal.append(a_record(1, text="left"), 0)
    second = await bus.journal.append(a_record(2, text="left"), first)

    with pytest.raises(FencedError, match="something else was stored under that id"):
        await other_hand.journal.append(a_record(2, text="right"), first)
    with pytest.raises(FencedError):
        await other_hand.journal.append(a_record(1, text="right"), 0)

    stored = [(entry.sequence, entry.data) async for entry in bus.journal.read()]
    assert stored == [(first, encode(a_record(1, text="left"))), (second, encode(a_record(2, text="left")))]


async def test_an_append_whose_answer_is_lost_is_stored_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = await world.bus()
    publish = bus.broker.publish
    calls = itertools.count()

    async def loses_every_other_answer(
        subject: str, data: bytes, headers: dict[str, str] | None = None
    ) -> Acknowledged:
        answer = await publish(subject, data, headers)
        if next(calls) % 2 == 0:
            raise NotAcknowledgedError(subject, "the answer was lost")
        return answer

    monkeypatch.setattr(bus.broker, "publish", loses_every_other_answer)
    sequence = 0
    for n in range(1, 11):
        sequence = await bus.journal.append(a_record(n), sequence)

    assert [entry.record().n async for entry in bus.journal.read("coder", "s-1.1")] == list(range(1, 11))


async def test_two_incarnations_at_once_exactly_one_goes_on(world: World) -> None:
    buses = [await world.bus() for _ in range(2)]

    async def run(journal: Journal, incarnation: str) -> int:
        sequence = 0
        for n in range(1, 6):
            sequence = await journal.append(a_record(n, incarnation=incarnation), sequence)
        return sequence

    results = await asyncio.gather(
        run(buses[0].journal, "left"), run(buses[1].journal, "right"), return_exceptions=True
    )

    assert sorted(type(result).__name__ for result in results) == ["FencedError", "int"]
    stored = [entry.record().incarnation async for entry in buses[0].journal.read()]
    assert len(stored) == 5
    assert len(set(stored)) == 1


async def test_follow_gives_what_was_there_and_what_comes(world: World) -> None:
    bus, writer = await world.bus(), await world.bus()
    sequence = await writer.journal.append(a_record(1), 0)
    seen: list[int] = []

    async def follow() -> None:
        async for entry in bus.journal.follow("coder", "s-1.1"):
            seen.append(entry.record().n)
            if len(seen) == 20:
                return

    follower = asyncio.create_task(follow())
    for n in range(2, 21):
        sequence = await writer.journal.append(a_record(n), sequence)
    async with asyncio.timeout(20):
        await follower

    assert seen == list(range(1, 21))


async def test_a_follower_of_one_session_is_not_woken_by_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, writer = await world.bus(), await world.bus()
    sequence = await writer.journal.append(a_record(1), 0)
    entries, last, asked = bus.journal.follow("coder", "s-1.1"), bus.broker.last, 0

    async def counts(stream: str, subject: str) -> Message | None:
        nonlocal asked
        asked += 1
        return await last(stream, subject)

    monkeypatch.setattr(bus.broker, "last", counts)
    assert (await anext(entries)).record().n == 1
    following = asyncio.ensure_future(anext(entries))
    for n in range(30):
        await writer.journal.append(a_record(1, session=f"busy-{n}"), 0)
    await writer.journal.append(a_record(2), sequence)
    async with asyncio.timeout(10):
        entry = await following

    assert entry.record().n == 2
    assert asked <= 6, "each record of the others is asked about"


async def test_a_lost_hint_costs_time_and_no_message(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.following.POLL_SECONDS", 0.1)
    bus, writer = await world.bus(), await world.bus()

    @asynccontextmanager
    async def deaf(subject: str) -> "AsyncIterator[asyncio.Queue[Message | None]]":
        yield asyncio.Queue()

    monkeypatch.setattr(bus.broker, "listen", deaf)
    sequence = await writer.journal.append(a_record(1), 0)
    entries = bus.journal.follow("coder", "s-1.1")
    seen = [(await anext(entries)).record().n]
    following = asyncio.ensure_future(anext(entries))
    await writer.journal.append(a_record(2), sequence)
    async with asyncio.timeout(10):
        seen.append((await following).record().n)

    assert seen == [1, 2]


async def test_more_records_than_one_batch_are_read(world: World) -> None:
    bus = await world.bus()
    subject = world.subjects.journal("coder", "s-1.1")
    data = encode(a_record(1, text="x" * 100))
    await asyncio.gather(*(bus.broker.publish(subject, data, {MESSAGE_ID: f"m{n}"}) for n in range(1100)))

    count = len([entry async for entry in bus.journal.read()])

    assert count == 1100


async def test_the_broker_refuses_a_stale_sequence_whatever_the_id(world: World) -> None:
    """What the fence leans on: with a new id, every kind of broker refuses."""
    bus = await world.bus()
    await bus.journal.append(a_record(1), 0)
    stale = {MESSAGE_ID: "other", EXPECTED_LAST_SUBJECT_SEQUENCE: "0"}

    with pytest.raises(Exception, match="wrong last sequence"):
        await bus.broker.publish(world.subjects.journal("coder", "s-1.1"), b"x", stale)


SERVERS_WORDS = [
    *(("Status", code) for code in ("204", "404", "408", "413", "503")),
    *(("Nats-Sequence", value) for value in ("x", "0", "999999")),
    ("Nats-Subject", "callboard.other.control.all.all"),
    ("Nats-Stream", "OTHER"),
    ("Nats-Time-Stamp", "yesterday"),
    ("Nats-Num-Pending", "x"),
]


@pytest.mark.parametrize(("name", "value"), SERVERS_WORDS)
async def test_a_record_with_headers_like_the_servers_own_words_is_data(world: World, name: str, value: str) -> None:
    bus = await world.bus()
    subject = world.subjects.journal("coder", "foul.1")
    stored = await bus.broker.publish(subject, b"", {name: value})
    after = await bus.journal.append(a_record(1), 0)

    async with asyncio.timeout(10):
        entries = [(entry.sequence, entry.subject, entry.data) async for entry in bus.journal.read()]

    assert entries == [
        (stored.sequence, subject, b""),
        (after, world.subjects.journal("coder", "s-1.1"), encode(a_record(1))),
    ]


async def test_one_message_is_got_by_its_sequence(world: World) -> None:
    bus = await world.bus()
    stream, subject = world.subjects.stream("JOURNAL"), world.subjects.journal("coder", "s-1.1")
    stored = await bus.broker.publish(subject, b"x", {"A": "b"})

    message = await bus.broker.get(stream, stored.sequence)

    assert message is not None
    assert (message.subject, message.sequence, message.data, message.headers["A"]) == (subject, 1, b"x", "b")
    assert [await bus.broker.get(stream, number) for number in (-1, 0, 2)] == [None, None, None]
    with pytest.raises(ChannelClosedError):
        await bus.broker.get("NONE", 1)


async def test_every_way_to_a_message_gives_the_same(world: World) -> None:
    bus = await world.bus()
    stream, subject = world.subjects.stream("JOURNAL"), world.subjects.journal("coder", "s-1.1")

    for n in range(1, 21):  # a server's times have more digits than ours, and only some are rounded up
        await bus.broker.publish(subject, b"x", {"A": str(n)})
        last, got = await bus.broker.last(stream, subject), await bus.broker.get(stream, n)
        read = [message async for message in bus.broker.read(stream, subject, n)]

        assert read == [last] == [got]

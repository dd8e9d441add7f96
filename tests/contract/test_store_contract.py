"""Leases, the board, the object store and the topology."""

import asyncio
import base64
import random
from collections.abc import AsyncIterator

import msgspec
import pytest

from bus.board import Posted
from bus.broker import Acknowledged, Message
from bus.bus import Bus
from bus.errors import LeaseLostError, NotAcknowledgedError, ObjectCorruptError, ObjectMissingError
from bus.leases import Holder
from bus.objects import CHUNK_BYTES, object_key
from bus.topology import LEASES, apply_topology, check_topology, plan_topology
from protocol.codec import encode
from tests.contract.world import ACK_WAIT_SECONDS, LEASE_SECONDS, World


def lose_an_answer(bus: Bus, monkeypatch: pytest.MonkeyPatch, outage_seconds: float = 0.0) -> None:
    """Let the next publish be stored without a word of it, and the broker be away for a while."""
    publish, lost = bus.broker.publish, iter([True])

    async def deaf(subject: str, data: bytes, headers: dict[str, str] | None = None) -> Acknowledged:
        answer = await publish(subject, data, headers)
        if next(lost, False):
            await asyncio.sleep(outage_seconds)
            raise NotAcknowledgedError(subject, "the answer was lost")
        return answer

    monkeypatch.setattr(bus.broker, "publish", deaf)


async def test_a_lease_has_one_holder(world: World) -> None:
    left, right = await world.bus(), await world.bus()

    mine = await left.leases.acquire("root", "left")
    theirs = await right.leases.acquire("root", "right")
    again = await left.leases.acquire("root", "left")

    assert mine is not None
    assert theirs is None
    assert again is not None
    assert again.epoch == mine.epoch
    assert again.revision > mine.revision, "a lease that is said to be ours has its whole time before it"


async def test_a_successor_takes_the_lease_of_the_one_it_replaces_and_of_nobody_else(world: World) -> None:
    bus = await world.bus()
    old = await bus.leases.acquire("root", "coder-1/a")
    assert old is not None

    assert await bus.leases.acquire("root", "coder-1/b", instead_of="coder-1/z") is None
    new = await bus.leases.acquire("root", "coder-1/b", instead_of="coder-1/a")

    assert new is not None
    assert new.epoch > old.epoch
    with pytest.raises(LeaseLostError):
        await bus.leases.renew(old)


async def test_a_lease_expires_and_the_next_epoch_is_higher(world: World) -> None:
    bus = await world.bus()
    old = await bus.leases.acquire("root", "left")
    assert old is not None

    async with asyncio.timeout(LEASE_SECONDS + 10):
        while (new := await bus.leases.acquire("root", "right")) is None:
            await asyncio.sleep(0.05)

    assert new.epoch > old.epoch
    with pytest.raises(LeaseLostError):
        await bus.leases.renew(old)


async def test_a_lease_that_a_killed_broker_has_brought_back_is_nobodys(world: World) -> None:
    """It is there without an end. That others write again and again tells how old it is."""
    bus = await world.bus()
    subject = bus.subjects.key(LEASES, "root")
    await bus.broker.publish(subject, encode(Holder(owner="left/gone")))
    assert await bus.leases.acquire("root", "right") is None, "as long as it may be somebody's"

    async with asyncio.timeout(30 * LEASE_SECONDS):
        while (taken := await bus.leases.acquire("root", "right")) is None:
            assert await bus.leases.acquire("other", "living") is not None
            await asyncio.sleep(0.05)

    holder = await bus.leases.holder("root")
    assert (taken.owner, holder.owner if holder else "") == ("right", "right")
    assert {holder.owner async for _, holder in bus.leases.all()} == {"right", "living"}


async def test_a_renewed_lease_outlives_its_time_and_keeps_its_epoch(world: World) -> None:
    bus = await world.bus()
    lease = await bus.leases.acquire("root", "left")
    assert lease is not None
    epoch = lease.epoch

    for _ in range(6):
        await asyncio.sleep(LEASE_SECONDS / 4)
        lease = await bus.leases.renew(lease, {"state": "CODING"})

    assert lease.epoch == epoch
    assert await bus.leases.holder("root") == lease
    assert [(held.key, holder.details) async for held, holder in bus.leases.all()] == [("root", {"state": "CODING"})]


async def test_a_released_lease_is_free_at_once_and_releasing_twice_is_harmless(world: World) -> None:
    bus = await world.bus()
    lease = await bus.leases.acquire("root", "left")
    assert lease is not None
    await bus.leases.release(lease)

    successor = await bus.leases.acquire("root", "right")
    await bus.leases.release(lease)

    assert successor is not None
    assert await bus.leases.holder("root") == successor
    assert successor.epoch > lease.epoch


async def test_what_a_released_lease_leaves_behind_goes_away_with_its_time(world: World) -> None:
    bus = await world.bus()
    lease = await bus.leases.acquire("root", "left")
    assert lease is not None

    await bus.leases.release(lease)

    async with asyncio.timeout(LEASE_SECONDS + 10):
        while await bus.broker.last(world.subjects.key_stream("leases"), world.subjects.key("leases", "root")):
            await asyncio.sleep(0.05)


async def test_many_contenders_one_lease(world: World) -> None:
    buses = [await world.bus() for _ in range(4)]

    leases = await asyncio.gather(*(bus.leases.acquire("root", f"o{n}") for n, bus in enumerate(buses)))

    assert sum(lease is not None for lease in leases) == 1


FOREIGN = [b"not json", b"\xff\xfe", b"{}", b'{"owner":1}', b'{"owner":"x","details":' + b'{"a":' * 10_000]


@pytest.mark.parametrize("value", FOREIGN, ids=range(len(FOREIGN)))
async def test_foreign_bytes_under_a_lease_are_somebodys_and_hide_no_other_lease(world: World, value: bytes) -> None:
    bus = await world.bus()
    await bus.broker.publish(world.subjects.key("leases", "root"), value)
    other = await bus.leases.acquire("other", "left")

    refused = await bus.leases.acquire("root", "left")
    held = [lease async for lease, _ in bus.leases.all()]

    assert refused is None
    assert held == [other]


async def test_whoever_may_replace_any_holder_replaces_foreign_bytes_too(world: World) -> None:
    bus = await world.bus()
    await bus.broker.publish(world.subjects.key("leases", "root"), b"not json")
    holder = await bus.leases.holder("root")
    assert holder is not None

    lease = await bus.leases.acquire("root", "coder-1/b", instead_of=holder.owner)

    assert lease is not None
    assert lease.epoch > holder.epoch


async def test_a_holder_without_a_name_is_not_replaced_by_default(world: World) -> None:
    bus = await world.bus()
    await bus.broker.publish(world.subjects.key("leases", "root"), b'{"owner":""}')

    assert await bus.leases.acquire("root", "left") is None


async def test_the_board_keeps_the_latest(world: World) -> None:
    bus = await world.bus()
    assert await bus.board.get("specs.todo") is None
    await bus.board.put("specs.todo", b"1")
    revision = await bus.board.put("specs.todo", b"2")
    await bus.board.put("stories.s-1", b"x")

    posted = await bus.board.get("specs.todo")

    assert posted is not None
    assert (posted.value, posted.revision) == (b"2", revision)
    assert [(one.key, one.value) async for one in bus.board.all("specs")] == [("specs.todo", b"2")]


async def test_the_board_replaces_only_what_was_expected(world: World) -> None:
    bus = await world.bus()
    first = await bus.board.replace("asks.a-1", b"open", 0)
    assert first is not None

    second = await bus.board.replace("asks.a-1", b"answered", first)
    late = await bus.board.replace("asks.a-1", b"answered otherwise", first)
    fresh = await bus.board.replace("asks.a-1", b"new", 0)

    assert second is not None
    assert late is None
    assert fresh is None


async def test_a_replacement_whose_answer_was_lost_is_known_as_ours(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = await world.bus()
    first = await bus.board.replace("asks.a-1", b"open", 0)
    assert first is not None
    lose_an_answer(bus, monkeypatch)

    second = await bus.board.replace("asks.a-1", b"answered", first)

    assert await bus.board.get("asks.a-1") == Posted(key="asks.a-1", value=b"answered", revision=second or 0)


async def test_what_is_taken_down_is_gone_and_can_be_put_up_again(world: World) -> None:
    bus = await world.bus()
    await bus.board.put("asks.a-1", b"open")
    await bus.board.take_down("asks.a-1")

    gone = await bus.board.get("asks.a-1")
    again = await bus.board.replace("asks.a-1", b"new", 0)

    assert gone is None
    assert again is not None
    assert [one.value async for one in bus.board.all()] == [b"new"]


async def test_only_the_revision_that_was_meant_is_taken_down(world: World) -> None:
    bus = await world.bus()
    first = await bus.board.put("actors.coder.coder-1", b"old")
    second = await bus.board.put("actors.coder.coder-1", b"new")

    await bus.board.take_down("actors.coder.coder-1", first)
    before = await bus.board.get("actors.coder.coder-1")
    await bus.board.take_down("actors.coder.coder-1", second)

    assert before == Posted(key="actors.coder.coder-1", value=b"new", revision=second)
    assert await bus.board.get("actors.coder.coder-1") is None


async def test_the_board_can_be_followed(world: World) -> None:
    bus, writer = await world.bus(), await world.bus()
    await writer.board.put("health.model", b"up")
    seen: list[bytes | None] = []

    async def follow() -> None:
        async for posted in bus.board.follow("health"):
            seen.append(posted.value)
            if len(seen) == 2:
                return

    follower = asyncio.create_task(follow())
    async with asyncio.timeout(20):
        while not seen:
            await asyncio.sleep(0.01)
        await writer.board.put("health.model", b"down")
        await follower

    assert seen == [b"up", b"down"]


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * 1024 * 1024 + 17])
async def test_objects_come_back_byte_for_byte(world: World, size: int) -> None:
    bus, other = await world.bus(), await world.bus()
    data = random.Random(size).randbytes(size)

    key = await bus.objects.put(data)

    assert key == object_key(data)
    assert await other.objects.get(key) == data
    assert await other.objects.put(data) == key


async def test_chunks_fit_a_broker_that_takes_only_small_messages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = await world.bus()
    monkeypatch.setattr(type(bus.broker), "message_bytes_max", property(lambda broker: 4096))
    data = random.Random(1).randbytes(10_000)

    key = await bus.objects.put(data)

    assert await bus.objects.get(key) == data
    stored = bus.broker.read(world.subjects.object_stream("objects"), world.subjects.every_object("objects")[0])
    assert max([len(message.data) async for message in stored]) < 4096


async def test_an_object_is_whole_although_one_of_its_chunks_had_to_be_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = await world.bus()
    data = random.Random(1).randbytes(4 * CHUNK_BYTES)
    publish, failures = bus.broker.publish, iter([False, True])

    async def fails_once(subject: str, data: bytes, headers: dict[str, str] | None = None) -> Acknowledged:
        if next(failures, False):
            raise NotAcknowledgedError(subject, "the broker was away")
        return await publish(subject, data, headers)

    monkeypatch.setattr(bus.broker, "publish", fails_once)
    key = await bus.objects.put(data)

    assert await bus.objects.get(key) == data


async def test_an_object_is_whole_although_an_outage_outlasted_the_brokers_memory_of_ids(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = await world.bus()
    plans = plan_topology(world.subjects, replicas=world.replicas).streams
    plan = next(plan for plan in plans if plan.name == world.subjects.object_stream("objects"))
    await bus.broker.ensure_stream(msgspec.structs.replace(plan, duplicate_window_seconds=0.1))
    data = random.Random(1).randbytes(3 * CHUNK_BYTES)
    lose_an_answer(bus, monkeypatch, outage_seconds=0.5)

    key = await bus.objects.put(data)

    assert await bus.objects.get(key) == data


async def test_a_missing_object_and_a_bad_key_say_so(world: World) -> None:
    bus = await world.bus()

    for key in (object_key(b"never put"), "../../etc/passwd", "*"):
        with pytest.raises(ObjectMissingError):
            await bus.objects.get(key)


async def test_a_tampered_object_is_noticed(world: World) -> None:
    bus = await world.bus()
    key = await bus.objects.put(b"the spec")
    stream = world.subjects.object_stream("objects")
    (chunk,) = [m async for m in bus.broker.read(stream, world.subjects.every_object("objects")[0])]
    await bus.broker.publish(chunk.subject, b" and more")

    with pytest.raises(ObjectCorruptError):
        await bus.objects.get(key)


@pytest.mark.parametrize(
    "description",
    [
        b"garbage",
        b"\xff",
        b"{}",
        b'{"name":"x","bucket":"b","nuid":"*","size":3,"chunks":1,"digest":""}',
        b'{"name":"x","bucket":"b","nuid":"none","size":3,"chunks":1,"digest":"","deleted":true}',
    ],
)
async def test_an_object_with_a_foreign_description_is_corrupt_until_it_is_put_again(
    world: World, description: bytes
) -> None:
    bus = await world.bus()
    key = object_key(b"abc")
    name = base64.urlsafe_b64encode(key.encode()).decode()
    await bus.objects.put(b"def")
    await bus.broker.publish(world.subjects.object_meta("objects", name), description)

    with pytest.raises(ObjectCorruptError):
        await bus.objects.get(key)
    await bus.objects.put(b"abc")

    assert await bus.objects.get(key) == b"abc"


async def test_no_more_of_an_object_is_read_than_its_description_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = await world.bus()
    key = await bus.objects.put(b"the spec")
    stream, chunks = world.subjects.object_stream("objects"), world.subjects.every_object("objects")[0]
    (chunk,) = [message async for message in bus.broker.read(stream, chunks)]
    for _ in range(9):
        await bus.broker.publish(chunk.subject, b" and more")
    taken, read = [], bus.broker.read

    async def counts(stream: str, subject: str, first: int = 1) -> AsyncIterator[Message]:
        async for message in read(stream, subject, first):
            taken.append(message)
            yield message

    monkeypatch.setattr(bus.broker, "read", counts)
    with pytest.raises(ObjectCorruptError):
        await bus.objects.get(key)

    assert len(taken) == 2


async def test_the_topology_is_idempotent_and_migrates(world: World) -> None:
    broker = await world.broker()
    topology = plan_topology(world.subjects, replicas=world.replicas, ack_wait_seconds=ACK_WAIT_SECONDS)
    assert await apply_topology(broker, topology) == ()
    assert await check_topology(broker, topology) == ()
    control = next(plan for plan in topology.streams if plan.name.endswith("_CONTROL"))
    changed = msgspec.structs.replace(
        topology,
        streams=tuple(
            msgspec.structs.replace(plan, bytes_max=10_000_000) if plan == control else plan
            for plan in topology.streams
        ),
        consumers=tuple(msgspec.structs.replace(plan, ack_wait_seconds=7.0) for plan in topology.consumers),
    )

    found = await check_topology(broker, changed)
    touched = await apply_topology(broker, changed)

    assert len(found) == 2
    assert set(touched) == {control.name, topology.consumers[0].name}
    assert await check_topology(broker, changed) == ()


async def test_a_missing_stream_is_reported(world: World) -> None:
    broker = await world.broker()
    topology = plan_topology(world.subjects, replicas=world.replicas, ack_wait_seconds=ACK_WAIT_SECONDS)
    await broker.delete_stream(world.subjects.stream("DEAD"))

    found = await check_topology(broker, topology)

    assert found == (f"stream {world.subjects.stream('DEAD')} is missing",)

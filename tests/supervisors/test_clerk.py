"""The clerk on a broker: what it reads, passes over, waits out and keeps."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from actors.core.events import Received
from actors.runtime.world import RealWorld
from bus.bus import Bus
from bus.mail import Inbox
from bus.settings.model import Supervision
from protocol.codec import encode
from protocol.messages import AnyPayload, Recover, Requeue
from protocol.record import Record
from protocol.subjects import Subjects
from supervisors.clerk.clerk import BOOKMARK, ENTRIES_MAX, ERRANDS, Bookmark, Clerk
from tests.actors.plays import AT, a_story, received
from tests.contract.world import World, memory_world, nats_world
from tests.nats_server import NatsServer

SECONDS_MAX = 20.0
POLICY = Supervision(requeue_seconds=0.01)


@pytest.fixture(params=["memory", "nats"])
async def world(request: pytest.FixtureRequest, subjects: Subjects) -> AsyncIterator[World]:
    context = (
        memory_world(subjects, fence_first=True)
        if request.param == "memory"
        else nats_world(subjects, request.getfixturevalue("shared_server").url, 1)
    )
    async with context as world:
        yield world


class Desk:
    """A clerk at work, and the journals that it reads."""

    def __init__(self, bus: Bus, clerks: Bus) -> None:
        self.bus = bus
        self.told: list[AnyPayload] = []
        self._task = asyncio.create_task(Clerk(RealWorld(clerks), POLICY, self.told.append).run())
        self._sequences: dict[str, int] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, world: World) -> AsyncIterator["Desk"]:
        desk = cls(await world.bus(), await world.bus())
        try:
            yield desk
        finally:
            assert not desk._task.done(), "the clerk has ended"
            desk._task.cancel()
            with suppress(asyncio.CancelledError):
                await desk._task

    async def record(self, session: str, state_to: str, event: Any = None, n: int = 1, **changes: Any) -> None:
        """Append to a coder's journal."""
        facts: dict[str, Any] = {"machine": "coder", "state_from": "CODING", "after": msgspec.Raw(b"{}"), **changes}
        record = Record(
            n=n,
            session=session,
            incarnation="one",
            at=AT,
            event=msgspec.Raw(encode(event or {"event": "entered"})),
            state_to=state_to,
            **facts,
        )
        self._sequences[session] = await self.bus.journal.append(record, self._sequences.get(session, 0))

    async def fail(self, session: str) -> None:
        """A run of a story that ends in ERROR."""
        story, _, run = session.partition(".")
        received_story: Received = received(a_story(story, int(run)), f"main/{run}/0", "work")
        await self.record(session, "SETUP", received_story, state_from="WAITING")
        await self.record(session, "ERROR", n=2)

    async def architect(self) -> Inbox:
        return await self.bus.mail.inbox("request", "architect", "main")


async def next_requeue(inbox: Inbox) -> Requeue:
    async with asyncio.timeout(SECONDS_MAX):
        letter = await inbox.take()
    await letter.acknowledge()
    assert isinstance(letter.envelope.payload, Requeue)
    return letter.envelope.payload


async def until_told(desk: Desk, count: int) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while len(desk.told) < count:
            await asyncio.sleep(0.01)


async def test_a_story_whose_session_came_to_error_is_put_back(world: World) -> None:
    async with Desk.open(world) as desk:
        await desk.fail("s-1.1")

        requeue = await next_requeue(await desk.architect())

        assert (requeue.story, requeue.run, requeue.costs_attempt) == ("s-1", 1, True)
        await until_told(desk, 1)
        assert desk.told == [requeue]
        assert [posted.key async for posted in desk.bus.board.all(ERRANDS)] == []


async def test_a_session_that_rests_in_error_is_recovered(world: World) -> None:
    async with Desk.open(world) as desk:
        after = msgspec.Raw(encode({"since": AT, "failing": {"kind": "bug", "reason": "?"}}))
        await desk.record("main", "ERROR", machine="architect", state_from="REQUEST", after=after)

        await until_told(desk, 1)

        assert desk.told == [Recover(session="main", reason="bug: ?")]
        (signal,) = [signal async for signal in desk.bus.control.read("architect", "main")]
        assert signal.envelope.payload == desk.told[0]


async def test_what_is_no_record_of_its_journal_is_passed_over(world: World) -> None:
    async with Desk.open(world) as desk:
        broker, subjects = desk.bus.broker, world.subjects
        foreign = Record(
            n=1, machine="coder", session="s-8.1", incarnation="one", at=AT, event=msgspec.Raw(b"{}"),
            state_from="CODING", state_to="ERROR", after=msgspec.Raw(b"{}"),
        )  # fmt: skip
        for number, data in enumerate([b"", b"\xff", b"[" * 10_000, b'{"schema": 99}', encode(foreign)]):
            await broker.publish(subjects.journal("coder", f"s-9.{number}"), data)
        await desk.record("s-7.1", "ERROR", machine="director")
        await desk.record("s-6.1", "ERROR", {"event": "received", "message": "no envelope"})
        await desk.fail("s-1.1")

        assert (await next_requeue(await desk.architect())).story == "s-1"


async def test_an_unreadable_beginning_does_not_hide_the_story(world: World) -> None:
    async with Desk.open(world) as desk:
        subject = world.subjects.journal("coder", "s-1.1")
        desk._sequences["s-1.1"] = (await desk.bus.broker.publish(subject, b"from another time")).sequence
        await desk.fail("s-1.1")

        assert (await next_requeue(await desk.architect())).story == "s-1"


async def test_the_bookmark_is_moved_rarely_and_after_each_error(world: World) -> None:
    async with Desk.open(world) as desk:
        for n in range(1, ENTRIES_MAX):
            await desk.record("s-1.1", "CODING", n=n)
        assert await desk.bus.board.get(BOOKMARK) is None
        await desk.fail("s-2.1")
        await next_requeue(await desk.architect())

        posted = await desk.bus.board.get(BOOKMARK)

        assert posted is not None
        assert posted.value is not None
        assert msgspec.json.decode(posted.value, type=Bookmark).sequence == ENTRIES_MAX + 1


async def test_the_next_clerk_goes_on_with_what_stands_on_the_board(world: World) -> None:
    async with Desk.open(world) as first:
        await first.fail("s-1.1")
        await until_told(first, 1)
    bus = await world.bus()
    await bus.board.put(f"{ERRANDS}.coder.s-5.1.9", b"from another time")

    async with Desk.open(world) as second:
        await second.fail("s-2.1")
        await until_told(second, 1)

        assert [told.story for told in second.told if isinstance(told, Requeue)] == ["s-2"]


async def test_an_outage_of_the_broker_is_waited_out(own_server: NatsServer, subjects: Subjects) -> None:
    async with nats_world(subjects, own_server.url, 1) as world, Desk.open(world) as desk:
        inbox = await desk.architect()
        await desk.fail("s-1.1")
        assert (await next_requeue(inbox)).story == "s-1"
        own_server.kill()
        await asyncio.to_thread(own_server.start)
        await desk.fail("s-2.1")

        assert (await next_requeue(inbox)).story == "s-2"

"""After a broker was killed and is back: delivery goes on, leases end when they should, what is gone is told."""

import asyncio
import itertools
from collections.abc import AsyncGenerator

import msgspec
import pytest
from nats.aio.msg import Msg

from bus.broker import TTL, Acknowledged, ConsumerPlan, Message
from bus.bus import Bus
from bus.errors import ChannelClosedError, FencedError, HistoryLostError, LeaseLostError, NotAcknowledgedError
from bus.jetstream.plans import consumer_config
from bus.jetstream.puller import ack_tokens, read_delivery
from protocol.messages import Restore
from protocol.subjects import Subjects
from tests.bus.brokers import connection_of, eventually, frozen, project, restart
from tests.contract.samples import a_record, a_story, an_envelope
from tests.nats_server import NatsServer

DELIVERY_SECONDS = 5.0
"""Far above the second that is aimed at: what is asserted here is that nothing waits out a time-out."""


class Route:
    """One way from a sender to a receiver: `send` a number, and `receive` it."""

    def __init__(self, receiver: Bus, sender: Bus) -> None:
        self.receiver = receiver
        self.sender = sender

    async def open(self) -> None:
        """Begin to receive."""

    async def send(self, n: int) -> None:
        raise NotImplementedError

    async def receive(self) -> int:
        raise NotImplementedError

    async def close(self) -> None:
        """End receiving."""


class MailRoute(Route):
    async def open(self) -> None:
        self.inbox = await self.receiver.mail.inbox("request", "architect", "main")

    async def send(self, n: int) -> None:
        await self.sender.mail.send(an_envelope(identifier=f"s-1.1/{n}/0"))

    async def receive(self) -> int:
        letter = await self.inbox.take()
        await letter.acknowledge()
        return int(letter.envelope.id.split("/")[1])


class WorkRoute(Route):
    async def send(self, n: int) -> None:
        await self.sender.work.put(a_story(f"s-{n}", f"main/{n}/0"))

    async def receive(self) -> int:
        assignment = await self.receiver.work.take("coder-1/a")
        await self.receiver.work.finish(assignment.claim)
        return int(assignment.story.story.removeprefix("s-"))


class FollowRoute(Route):
    """A route whose receiver follows a stream; the number is in each item."""

    async def open(self) -> None:
        self.numbers = self.follow()

    def follow(self) -> AsyncGenerator[int, None]:
        raise NotImplementedError

    async def receive(self) -> int:
        return await anext(self.numbers)

    async def close(self) -> None:
        await self.numbers.aclose()


class JournalRoute(FollowRoute):
    async def follow(self) -> AsyncGenerator[int, None]:
        async for entry in self.receiver.journal.follow("coder"):
            yield entry.record().n

    async def send(self, n: int) -> None:
        await self.sender.journal.append(a_record(n, session=f"s-{n}"), 0)


class BoardRoute(FollowRoute):
    async def follow(self) -> AsyncGenerator[int, None]:
        async for posted in self.receiver.board.follow("health"):
            yield int(posted.value or b"0")

    async def send(self, n: int) -> None:
        await self.sender.board.put("health.model", str(n).encode())


class ControlRoute(FollowRoute):
    async def follow(self) -> AsyncGenerator[int, None]:
        async for signal in self.receiver.control.listen("coder", "coder-1"):
            yield int(signal.envelope.id.split("/")[1])

    async def send(self, n: int) -> None:
        restore = an_envelope(Restore(), identifier=f"p/{n}/0", kind="CONTROL", recipient="all.all")
        await self.sender.control.broadcast(restore)


ROUTES: dict[str, type[Route]] = {
    "mail": MailRoute,
    "work": WorkRoute,
    "journal": JournalRoute,
    "board": BoardRoute,
    "control": ControlRoute,
}


@pytest.mark.parametrize("kind", ROUTES)
async def test_delivery_goes_on_after_a_kill(own_server: NatsServer, subjects: Subjects, kind: str) -> None:
    loop = asyncio.get_running_loop()
    async with project(own_server.url, subjects) as receiver, project(own_server.url, subjects) as sender:
        route = ROUTES[kind](receiver, sender)
        await route.open()
        await route.send(1)
        assert await route.receive() == 1
        receiving = asyncio.create_task(route.receive())

        await restart(own_server)
        ready_at = loop.time()
        async with asyncio.timeout(DELIVERY_SECONDS):
            await route.send(2)
            number = await receiving
        await route.close()
        print(f"{kind}: {loop.time() - ready_at:.3f} s from the server's return to the delivery")

    assert number == 2


async def test_delivery_goes_on_after_a_restart_that_takes_long(own_server: NatsServer, subjects: Subjects) -> None:
    async with project(own_server.url, subjects) as receiver, project(own_server.url, subjects) as sender:
        routes = [route(receiver, sender) for route in ROUTES.values()]
        for route in routes:
            await route.open()
            await route.send(1)
            await route.receive()
        receiving = [asyncio.create_task(route.receive()) for route in routes]

        own_server.stop()  # planned this time
        await eventually("many attempts fail", lambda: connection_of(receiver)._failures.total() > 8)
        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(DELIVERY_SECONDS):
            await asyncio.gather(*(route.send(2) for route in routes))
            numbers = await asyncio.gather(*receiving)
        for route in routes:
            await route.close()

    assert numbers == [2] * len(ROUTES)


async def test_a_letter_that_was_not_acknowledged_comes_again_before_the_next(
    own_server: NatsServer, subjects: Subjects
) -> None:
    ids = [f"s-1.1/{n}/0" for n in range(1, 4)]
    async with project(own_server.url, subjects, ack_wait_seconds=0.5) as bus:
        inbox = await bus.mail.inbox("request", "architect", "main")
        for identifier in ids:
            await bus.mail.send(an_envelope(identifier=identifier))
        first = await inbox.take()

        await restart(own_server)
        received = []
        async with asyncio.timeout(10):
            for _ in ids:
                letter = await inbox.take()
                received.append(letter.envelope.id)
                await letter.acknowledge()

    assert first.envelope.id == ids[0]
    assert received == ids


async def test_an_acknowledgement_that_is_caught_by_a_kill_settles_it_or_it_comes_again(
    own_server: NatsServer, subjects: Subjects
) -> None:
    """A broker that was killed before it noted the delivery never answers an acknowledgement of it."""
    async with project(own_server.url, subjects) as bus:
        inbox = await bus.mail.inbox("request", "architect", "main")
        await bus.mail.send(an_envelope())
        letter = await inbox.take()
        with frozen(own_server):
            acknowledging = asyncio.create_task(letter.acknowledge())
            await asyncio.sleep(0.05)
            own_server.kill()
        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(10):
            await acknowledging
            while await bus.broker.last(subjects.mail_stream("architect"), ">") is not None:
                again = await inbox.take()
                assert again.envelope == letter.envelope
                await again.acknowledge()


async def test_a_long_read_goes_on_where_a_kill_broke_it_off(own_server: NatsServer, subjects: Subjects) -> None:
    read = []
    async with project(own_server.url, subjects, publish_seconds=20.0) as bus:
        data = b"x" * 5_000
        await asyncio.gather(
            *(bus.broker.publish(subjects.journal("coder", "s-1"), data, {"N": str(n)}) for n in range(1500))
        )
        async with asyncio.timeout(20):
            async for entry in bus.journal.read():
                read.append(entry.sequence)
                if len(read) in (100, 700, 1100):
                    await restart(own_server)

    assert read == list(range(1, 1501))


# Leases.


async def test_a_lease_that_was_renewed_many_times_still_expires(own_server: NatsServer, subjects: Subjects) -> None:
    """A renewal by the KV interface would take the time limit away."""
    loop = asyncio.get_running_loop()
    async with project(own_server.url, subjects, lease_seconds=1) as bus:
        lease = await bus.leases.acquire("root", "left")
        assert lease is not None
        for _ in range(6):
            await asyncio.sleep(0.25)
            lease = await bus.leases.renew(lease)
        renewed_at = loop.time()
        written = await bus.broker.last(subjects.key_stream("leases"), subjects.key("leases", "root"))
        async with asyncio.timeout(10):
            while (successor := await bus.leases.acquire("root", "right")) is None:
                await asyncio.sleep(0.02)

        assert loop.time() - renewed_at > 0.8
        assert written is not None
        assert written.headers[TTL] == "1s"
        assert successor.epoch > lease.epoch
        with pytest.raises(LeaseLostError):
            await bus.leases.renew(lease)


async def test_a_lease_survives_a_kill_of_the_broker(own_server: NatsServer, subjects: Subjects) -> None:
    async with project(own_server.url, subjects, lease_seconds=5) as bus:
        lease = await bus.leases.acquire("root", "left")
        assert lease is not None

        await restart(own_server)
        renewed = await bus.leases.renew(lease)

        assert await bus.leases.acquire("root", "right") is None
        assert renewed.epoch == lease.epoch


async def test_a_lease_that_runs_out_while_the_broker_is_away_is_free_afterwards(
    own_server: NatsServer, subjects: Subjects
) -> None:
    async with project(own_server.url, subjects, lease_seconds=1) as bus:
        lease = await bus.leases.acquire("root", "left")
        assert lease is not None
        own_server.kill()
        await asyncio.sleep(1.2)  # the lease's own time, on the wall clock
        await asyncio.to_thread(own_server.start)

        async with asyncio.timeout(5):
            while (successor := await bus.leases.acquire("root", "right")) is None:
                await asyncio.sleep(0.02)
        assert successor.epoch > lease.epoch


# What is gone is told from what is silent.


async def test_a_consumer_that_is_gone_is_told_from_silence_even_if_nobody_pulled(
    shared_server: NatsServer, subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.jetstream.puller.MISSING_SECONDS", 0.2)
    async with project(shared_server.url, subjects) as bus, project(shared_server.url, subjects) as other:
        inbox = await bus.mail.inbox("request", "architect", "main")
        await (await other.mail.inbox("request", "architect", "main")).close()

        with pytest.raises(ChannelClosedError, match="the consumer was deleted"):
            async with asyncio.timeout(5):
                await inbox.take()


async def test_a_stream_that_is_gone_is_told_from_an_outage(
    shared_server: NatsServer, subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.retrying.MISSING_SECONDS", 0.2)
    async with project(shared_server.url, subjects) as bus:
        inbox = await bus.mail.inbox("request", "architect", "main")
        taking = asyncio.create_task(inbox.take())
        await bus.mail.send(an_envelope(identifier="s-1.1/1/0", recipient="pm.main"))  # the server has our pull by now
        await bus.broker.delete_stream(subjects.mail_stream("architect"))
        async with asyncio.timeout(5):
            with pytest.raises(ChannelClosedError):
                await bus.mail.send(an_envelope())
            with pytest.raises(ChannelClosedError):
                await taking


async def test_a_kill_while_somebody_waits_is_no_end_of_a_channel(own_server: NatsServer, subjects: Subjects) -> None:
    async with project(own_server.url, subjects) as bus:
        inbox = await bus.mail.inbox("request", "architect", "main")
        taking = asyncio.create_task(inbox.take())
        for _ in range(5):
            await restart(own_server)
            await eventually("it is back", lambda: connection_of(bus).is_up)
        await bus.mail.send(an_envelope())
        async with asyncio.timeout(5):
            letter = await taking

    assert letter.envelope == an_envelope()


async def test_sessions_that_come_and_go_leave_nothing_in_the_client(
    shared_server: NatsServer, subjects: Subjects
) -> None:
    async with project(shared_server.url, subjects) as bus:
        client = connection_of(bus)._client
        before = len(client._subs)
        for n in range(20):
            inbox = await bus.mail.inbox("reply", "coder", f"s-{n}")
            taking = asyncio.create_task(inbox.take())
            await eventually("it waits", lambda: len(client._subs) > before)
            await inbox.close()
            with pytest.raises(ChannelClosedError):
                await taking

        assert len(client._subs) == before
        assert connection_of(bus)._callers._callers == {}


async def test_a_stream_can_have_more_than_a_thousand_consumers(shared_server: NatsServer, subjects: Subjects) -> None:
    stream = subjects.mail_stream("coder")

    def plan(n: int) -> ConsumerPlan:
        return ConsumerPlan(
            stream=stream, name=f"c-{n}", filter=subjects.reply("coder", f"s-{n}"), ack_wait_seconds=60.0
        )

    async with project(shared_server.url, subjects) as bus:
        ask = connection_of(bus).request
        for n in range(1000):  # in memory, because the number matters here and not the disk
            config = {**consumer_config(plan(n)), "mem_storage": True}
            call = f"$JS.API.CONSUMER.CREATE.{stream}.c-{n}.{plan(n).filter}"
            await ask(call, msgspec.json.encode({"stream_name": stream, "config": config}), seconds=5.0)
        await bus.broker.ensure_consumer(plan(1000))

        assert await bus.broker.differences(plan(1000)) == ()
        await bus.broker.delete_stream(stream)


# Stale reads: what the broker says right after a recovery may be old, what it refuses is not.


def make_stale(bus: Bus, monkeypatch: pytest.MonkeyPatch, old: Message | None, times: int) -> None:
    """Let the next reads of a last message give an old answer."""
    last, left = bus.broker.last, itertools.count(times, -1)

    async def stale(stream: str, subject: str) -> Message | None:
        return old if next(left) > 0 else await last(stream, subject)

    monkeypatch.setattr(bus.broker, "last", stale)


def lose_an_answer(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next publish be stored without a word of it."""
    publish, lost = bus.broker.publish, iter([True])

    async def deaf(subject: str, data: bytes, headers: dict[str, str] | None = None) -> Acknowledged:
        answer = await publish(subject, data, headers)
        if next(lost, False):
            raise NotAcknowledgedError(subject, "the answer was lost")
        return answer

    monkeypatch.setattr(bus.broker, "publish", deaf)


async def test_a_stale_last_record_cannot_lead_to_a_second_history(
    shared_server: NatsServer, subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with project(shared_server.url, subjects) as bus:
        first = await bus.journal.append(a_record(1), 0)
        old = await bus.broker.last(subjects.stream("JOURNAL"), subjects.journal("coder", "s-1.1"))
        await bus.journal.append(a_record(2), first)
        make_stale(bus, monkeypatch, old, 1)

        resumed = await bus.journal.last("coder", "s-1.1")
        assert resumed is not None
        with pytest.raises(FencedError) as caught:
            await bus.journal.append(a_record(2, incarnation="two"), resumed.sequence)

        assert caught.value.owner == "s-1.1/2/one"
        assert [entry.append_id async for entry in bus.journal.read()] == ["s-1.1/1/one", "s-1.1/2/one"]


async def test_a_stale_explanation_of_our_own_append_is_asked_for_again(
    shared_server: NatsServer, subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with project(shared_server.url, subjects) as bus:
        first = await bus.journal.append(a_record(1), 0)
        old = await bus.broker.last(subjects.stream("JOURNAL"), subjects.journal("coder", "s-1.1"))
        lose_an_answer(bus, monkeypatch)
        make_stale(bus, monkeypatch, old, 3)

        second = await bus.journal.append(a_record(2), first)

        assert [(entry.sequence, entry.record().n) async for entry in bus.journal.read()] == [(first, 1), (second, 2)]


async def test_a_history_that_ends_too_early_is_an_error_of_its_own(
    shared_server: NatsServer, subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.fence.DOUBTS_MAX", 3)
    monkeypatch.setattr("bus.fence.DOUBT_SECONDS", 0.01)
    async with project(shared_server.url, subjects) as bus:
        first = await bus.journal.append(a_record(1), 0)

        with pytest.raises(HistoryLostError) as caught:
            await bus.journal.append(a_record(3), first + 1)

    assert (caught.value.expected, caught.value.actual) == (first + 1, first)


@pytest.mark.parametrize("old", ["before it was taken", "before it was renewed"])
async def test_a_stale_read_does_not_take_a_lease_away(
    shared_server: NatsServer, subjects: Subjects, monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    async with project(shared_server.url, subjects) as bus:
        taken = await bus.leases.acquire("root", "left")
        assert taken is not None
        seen = await bus.broker.last(subjects.key_stream("leases"), subjects.key("leases", "root"))
        lose_an_answer(bus, monkeypatch)
        make_stale(bus, monkeypatch, seen if old == "before it was renewed" else None, 2)

        renewed = await bus.leases.renew(taken)
        again = await bus.leases.renew(renewed)

        assert (renewed.epoch, again.epoch) == (taken.epoch, taken.epoch)
        assert taken.revision < renewed.revision < again.revision


async def test_a_stale_read_does_not_let_a_zombie_finish_another_coders_story(
    shared_server: NatsServer, subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with project(shared_server.url, subjects) as lost, project(shared_server.url, subjects) as successor:
        await lost.work.put(a_story())
        zombie = (await lost.work.take("coder-1/a")).claim
        seen = await lost.broker.last(subjects.key_stream("leases"), subjects.key("leases", zombie.lease.key))
        assert await successor.work.claim("s-1", zombie.ack_subject, "coder-2/b", instead_of="coder-1/a")
        make_stale(lost, monkeypatch, seen, 1)

        with pytest.raises(LeaseLostError):
            await lost.work.finish(zombie)

        assert await lost.broker.last(subjects.stream("WORK"), subjects.every("work")) is not None


# Ack subjects.


@pytest.mark.parametrize(
    "ack_subject",
    ["$JS.ACK.MAIL.main.3.17.9.1700000000000000000.4", "$JS.ACK.hub.aBcD.MAIL.main.3.17.9.1700000000000000000.4.x7"],
    ids=["short", "with domain and account"],
)
def test_both_forms_of_an_ack_subject_are_understood(ack_subject: str) -> None:
    message = Msg(_client=None, subject="s", reply=ack_subject, data=b"x")  # type: ignore[arg-type]  # needs none here

    delivery = read_delivery(message)

    assert ack_tokens(ack_subject)[:2] == ["MAIL", "main"]
    assert (delivery.delivered, delivery.sequence, delivery.ack_subject) == (3, 17, ack_subject)

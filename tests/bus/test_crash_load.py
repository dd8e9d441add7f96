"""Brokers killed with kill -9 under load: no false fence, nothing lost, nothing twice, and leases outlive elections."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest

from bus.bus import Bus
from bus.errors import BrokerRefusedError, NoResponderError, NotAcknowledgedError
from bus.journal import Journal
from bus.leases import LEASE_SECONDS, Lease
from bus.retrying import surely
from bus.topology import LEASES
from protocol.marks import Position, was_seen, with_mark
from protocol.subjects import Subjects
from tests.bus.brokers import connection_of, eventually, project, restart
from tests.contract.samples import a_record, an_envelope
from tests.nats_server import NatsServer, start_cluster

SESSIONS = 20
CONNECTIONS = 4
ELECTION_SECONDS = 30.0
"""Far above the 4 to 9 seconds of an election: a busy machine takes its time."""


class Writer:
    """A session that appends one record after another; `acknowledged` has the sequence of each."""

    def __init__(self, journal: Journal, session: str, pause_seconds: float = 0.0) -> None:
        self.session = session
        self.acknowledged: list[int] = []
        self._journal = journal
        self._pause_seconds = pause_seconds

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            record = a_record(len(self.acknowledged) + 1, session=self.session, text="x" * 200)
            last = self.acknowledged[-1] if self.acknowledged else 0
            self.acknowledged.append(await self._journal.append(record, last))
            await asyncio.sleep(self._pause_seconds)


async def stored_by(bus: Bus) -> dict[str, list[tuple[int, int]]]:
    """What the journal holds: sequence and number of every record, by session."""
    found = defaultdict(list)
    async for entry in bus.journal.read("coder"):
        found[entry.record().session].append((entry.sequence, entry.record().n))
    return dict(found)


def written_by(writers: list[Writer]) -> dict[str, list[tuple[int, int]]]:
    """What the journal should hold: what was acknowledged, numbered without a gap."""
    return {one.session: [(sequence, n) for n, sequence in enumerate(one.acknowledged, 1)] for one in writers}


async def progress(writers: list[Writer], records: int, seconds: float) -> None:
    """Wait until every session has written so many more records."""
    before = [len(one.acknowledged) for one in writers]
    await eventually(
        f"every session writes {records} records more",
        lambda: all(len(one.acknowledged) >= old + records for one, old in zip(writers, before, strict=True)),
        seconds,
    )


@asynccontextmanager
async def several(url: str, subjects: Subjects, **options: Any) -> AsyncIterator[list[Bus]]:
    """The same project over several connections, as several processes have it."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(project(url, subjects, **options)) for _ in range(CONNECTIONS)]


async def test_appends_of_many_sessions_survive_kills_of_the_only_broker(
    own_server: NatsServer, subjects: Subjects
) -> None:
    chance, stop = random.Random(7), asyncio.Event()
    async with several(own_server.url, subjects) as buses:
        writers = [Writer(buses[n % CONNECTIONS].journal, f"s-{n}") for n in range(SESSIONS)]
        async with asyncio.TaskGroup() as group:
            for writer in writers:
                group.create_task(writer.run(stop))
            for _ in range(8):
                await progress(writers, 3, 10.0)
                await asyncio.sleep(chance.uniform(0.0, 0.1))  # anywhere in what is going on
                await restart(own_server)
            await progress(writers, 3, 10.0)
            stop.set()

        assert await stored_by(buses[0]) == written_by(writers)


async def test_mail_survives_kills_of_the_only_broker(own_server: NatsServer, subjects: Subjects) -> None:
    """Each letter is handled once and in its sender's order, however often it was sent, delivered or acknowledged."""
    letters, senders = 60, 4
    handled: list[str] = []
    async with several(own_server.url, subjects, ack_wait_seconds=1.0) as buses:
        inbox = await buses[0].mail.inbox("request", "architect", "main")

        async def send(sender: int) -> None:
            for n in range(1, letters + 1):
                await buses[sender].mail.send(an_envelope(identifier=f"s-{sender}/{n}/0"))

        async def receive() -> None:
            marks: dict[str, Position] = {}
            while len(handled) < letters * senders:
                letter = await inbox.take()
                if not was_seen(marks, letter.envelope.id):
                    handled.append(letter.envelope.id)
                    marks = with_mark(marks, letter.envelope.id)
                await letter.acknowledge()

        async with asyncio.TaskGroup() as group:
            receiving = group.create_task(receive())
            for sender in range(senders):
                group.create_task(send(sender))
            while not receiving.done():
                done = len(handled)
                await eventually("mail goes on", lambda: len(handled) >= done + 25 or receiving.done())  # noqa: B023
                if not receiving.done():
                    await restart(own_server)

        for sender in range(senders):
            mine = [identifier for identifier in handled if identifier.startswith(f"s-{sender}/")]
            assert mine == [f"s-{sender}/{n}/0" for n in range(1, letters + 1)]


# Three nodes.


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, NatsServer]]:
    """Three nodes by name, to be killed; a test leaves them running."""
    started = start_cluster(tmp_path_factory.mktemp("killed"))
    yield {f"n{number}": node for number, node in enumerate(started)}
    for node in started:
        node.stop()


@asynccontextmanager
async def replicated(nodes: dict[str, NatsServer], subjects: Subjects) -> AsyncIterator[list[Bus]]:
    """A project with three replicas, over several connections."""
    url = ",".join(node.url for node in nodes.values())
    deadline = asyncio.get_running_loop().time() + ELECTION_SECONDS
    while True:
        try:
            async with project(url, subjects, replicas=3):
                break
        except (NotAcknowledgedError, BrokerRefusedError):
            # A cluster that has just started has no leader yet.
            assert asyncio.get_running_loop().time() < deadline, "the cluster does not become ready"
            await asyncio.sleep(0.1)
    async with several(url, subjects, replicas=3) as buses:
        yield buses


async def describe(bus: Bus, stream: str) -> dict[str, Any]:
    """Who leads a stream and how far its replicas are."""
    answer = await surely(lambda: connection_of(bus).request(f"$JS.API.STREAM.INFO.{stream}"))
    info: dict[str, Any] = msgspec.json.decode(answer.data)
    return dict(info.get("cluster", {}))


async def leader_of(bus: Bus, stream: str) -> str:
    async with asyncio.timeout(ELECTION_SECONDS):
        while not (leader := (await describe(bus, stream)).get("leader")):
            await asyncio.sleep(0.05)
    return str(leader)


async def whole(bus: Bus, stream: str) -> None:
    """Wait until all replicas of a stream are there and up to date, so that one more may be lost."""
    async with asyncio.timeout(ELECTION_SECONDS):
        while True:
            replicas = (await describe(bus, stream)).get("replicas", [])
            if len(replicas) == 2 and all(one["current"] and not one.get("offline") for one in replicas):
                return
            await asyncio.sleep(0.05)


class Holder:
    """Somebody who keeps a lease, and somebody else who wants it."""

    def __init__(self, ours: Bus, theirs: Bus) -> None:
        self.held: list[Lease] = []
        self.taken_away: list[Lease] = []
        self._ours = ours
        self._theirs = theirs

    async def acquire(self) -> None:
        lease = await self._ours.leases.acquire("root", "left")
        assert lease is not None
        self.held.append(lease)

    async def keep(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.held.append(await self._ours.leases.renew(self.held[-1]))
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({stopped}, timeout=LEASE_SECONDS / 4)
            stopped.cancel()

    async def envy(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            lease = await self._theirs.leases.acquire("root", "right")
            if lease is not None:
                self.taken_away.append(lease)
            await asyncio.sleep(0.2)


@pytest.mark.timeout(180)
async def test_appends_and_a_lease_survive_kills_of_their_leaders(
    nodes: dict[str, NatsServer], subjects: Subjects
) -> None:
    journal, leases, stop = subjects.stream("JOURNAL"), subjects.key_stream(LEASES), asyncio.Event()
    async with replicated(nodes, subjects) as buses:
        writers = [Writer(buses[n % CONNECTIONS].journal, f"s-{n}", 0.02) for n in range(8)]
        holder = Holder(buses[0], buses[1])
        await holder.acquire()
        async with asyncio.TaskGroup() as group:
            for running in (*(writer.run(stop) for writer in writers), holder.keep(stop), holder.envy(stop)):
                group.create_task(running)
            for stream in (journal, leases):
                await progress(writers, 3, ELECTION_SECONDS)
                leader = await leader_of(buses[0], stream)
                await asyncio.to_thread(nodes[leader].kill)
                renewals = len(holder.held)
                await progress(writers, 3, ELECTION_SECONDS)
                await eventually("the lease is renewed", lambda: len(holder.held) > renewals, ELECTION_SECONDS)  # noqa: B023
                await asyncio.to_thread(nodes[leader].start)
                await whole(buses[0], journal)
                await whole(buses[0], leases)
            await progress(writers, 3, ELECTION_SECONDS)
            stop.set()

        assert await stored_by(buses[0]) == written_by(writers)
        assert {lease.epoch for lease in holder.held} == {holder.held[0].epoch}
        assert holder.taken_away == []


@pytest.mark.timeout(120)
async def test_a_lost_leader_is_told_from_silence_and_from_a_channel_that_is_gone(
    nodes: dict[str, NatsServer], subjects: Subjects
) -> None:
    stream = subjects.mail_stream("architect")
    async with replicated(nodes, subjects) as (bus, sender, *_):
        inbox = await bus.mail.inbox("request", "architect", "main")
        taking = asyncio.create_task(inbox.take())
        await sender.mail.send(an_envelope(recipient="pm.main"))
        for step in (f"CONSUMER.LEADER.STEPDOWN.{stream}.request-main", f"STREAM.LEADER.STEPDOWN.{stream}"):
            answer = await connection_of(sender).request(f"$JS.API.{step}", seconds=5.0)
            assert b'"error"' not in answer.data
        await sender.mail.send(an_envelope())
        async with asyncio.timeout(ELECTION_SECONDS):
            letter = await taking
            await letter.acknowledge()

    assert letter.envelope == an_envelope()


@pytest.mark.timeout(120)
async def test_a_cluster_without_a_majority_is_an_outage_and_no_end_of_a_channel(
    nodes: dict[str, NatsServer], subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("retrying", "jetstream.puller"):
        monkeypatch.setattr(f"bus.{module}.MISSING_SECONDS", 1.0)
    refusals: list[NotAcknowledgedError] = []
    async with replicated(nodes, subjects) as (bus, *_):
        inbox = await bus.mail.inbox("request", "architect", "main")
        taking = asyncio.create_task(inbox.take())
        for node in list(nodes.values())[1:]:
            await asyncio.to_thread(node.kill)
        waiting = [
            asyncio.create_task(bus.mail.send(an_envelope())),
            asyncio.create_task(bus.journal.append(a_record(1), 0)),
        ]
        while len(refusals) < 5:
            with pytest.raises(NotAcknowledgedError) as caught:
                await bus.broker.publish(subjects.event("coder", "coder-1"), b"x")
            refusals.append(caught.value)
            await asyncio.sleep(0.5)
        assert not any(task.done() for task in (taking, *waiting))

        for node in list(nodes.values())[1:]:
            await asyncio.to_thread(node.start)
        async with asyncio.timeout(ELECTION_SECONDS):
            await asyncio.gather(*waiting)
            letter = await taking

    assert letter.envelope == an_envelope()
    assert not any(isinstance(error, NoResponderError) for error in refusals)

"""What each role may do, tried on a real server: the broker refuses, not the client."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bus.asks import Ask, Asks, ask_id
from bus.board import Board
from bus.broker import ROLLUP, ConsumerPlan
from bus.errors import BrokerRefusedError, BusError, PermissionDeniedError
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.server import RunningServer, credentials, start_or_adopt, stop
from bus.server.permissions import plan_permissions
from bus.settings.model import Server
from bus.topology import BOARD, LEASES, OBJECTS, apply_topology, plan_topology
from protocol.subjects import ROLES, Role, Subjects
from tests.nats_server import binary

SUBJECTS = Subjects("perm")
WORKERS: tuple[Role, ...] = ("pm", "architect", "coder", "web")
OWNERS: tuple[Role, ...] = ("supervisor", "person")
HEARD_SECONDS = 5.0

# Every place where something is stored, and which of the four working roles may write there.
WRITERS: dict[str, set[Role]] = {
    SUBJECTS.request("architect", "main"): {"pm", "coder", "web"},
    SUBJECTS.request("pm", "main"): {"architect", "web"},
    SUBJECTS.request("coder", "coder-1"): {"web"},
    SUBJECTS.request("person", "ada"): {"architect", "web"},
    SUBJECTS.request("supervisor", "main"): {"web"},
    SUBJECTS.spec("pm", "main"): {"web"},
    SUBJECTS.spec("architect", "main"): {"web"},
    SUBJECTS.reply("coder", "s-1.1"): {"architect", "web"},
    SUBJECTS.reply("pm", "main"): {"architect", "web"},
    SUBJECTS.reply("architect", "main"): {"architect", "web"},
    SUBJECTS.reply("person", "ada"): {"pm", "architect", "coder", "web"},
    SUBJECTS.reply("web", "main"): {"pm", "architect", "coder", "web"},
    SUBJECTS.event("pm", "main"): {"pm"},
    SUBJECTS.event("architect", "main"): {"architect"},
    SUBJECTS.event("coder", "coder-1"): {"coder"},
    SUBJECTS.event("web", "main"): {"web"},
    SUBJECTS.event("supervisor", "main"): set(),
    SUBJECTS.journal("pm", "p-1"): {"pm"},
    SUBJECTS.journal("architect", "main"): {"architect"},
    SUBJECTS.journal("architect-classic", "main"): {"architect"},
    SUBJECTS.journal("coder", "s-1.1"): {"coder"},
    SUBJECTS.journal("coder-classic", "s-1.1"): {"coder"},
    SUBJECTS.work("coder", "s-1"): {"architect"},
    SUBJECTS.ledger: {"pm", "architect", "coder"},
    SUBJECTS.control(): {"web"},
    SUBJECTS.control("coder", "coder-1"): {"web"},
    SUBJECTS.dead("pm", "main"): {"pm"},
    SUBJECTS.dead("architect", "main"): {"architect"},
    SUBJECTS.dead("coder", "coder-1"): {"coder"},
    SUBJECTS.dead("web", "main"): {"web"},
    SUBJECTS.key(LEASES, "pm.main"): {"pm"},
    SUBJECTS.key(LEASES, "architect.main"): {"architect"},
    SUBJECTS.key(LEASES, "coder.story.s-1"): {"coder"},
    SUBJECTS.key(LEASES, "web.main"): {"web"},
    SUBJECTS.key(LEASES, "supervisor.main"): set(),
    SUBJECTS.key(BOARD, "asks.coder.s-1.1.4.0"): {"coder"},
    SUBJECTS.key(BOARD, "asks.pm.talk.1.4.0"): {"pm"},
    SUBJECTS.key(BOARD, "answers.coder.s-1.1.4.0"): {"web"},
    SUBJECTS.key(BOARD, "actors.coder.coder-1"): {"coder"},
    SUBJECTS.key(BOARD, "specs.x"): {"architect", "web"},
    SUBJECTS.key(BOARD, "stories.s-1"): {"architect", "web"},
    SUBJECTS.key(BOARD, "ledger.book"): {"pm", "architect", "coder"},
    SUBJECTS.key(BOARD, "throttles.0123456789abcdef"): {"pm", "architect", "coder"},
    SUBJECTS.key(BOARD, "health.anthropic"): set(),
    SUBJECTS.object_chunks(OBJECTS, "n1"): {"pm", "architect", "coder", "web"},
    SUBJECTS.object_meta(OBJECTS, "bjE="): {"pm", "architect", "coder", "web"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One embedded server with the project's streams on it."""
    binary()
    folder = tmp_path_factory.mktemp("permissions") / "server"
    running = start_or_adopt(folder, SUBJECTS, Server(sync="default"), keep=False)
    try:
        asyncio.run(_set_up(running))
        yield running
    finally:
        stop(folder)


async def _set_up(server: RunningServer) -> None:
    async with connected(server, "supervisor") as broker:
        await apply_topology(broker, plan_topology(SUBJECTS))


class Identity(JetStreamBroker):
    """A connection as one role that keeps what the server refuses, also where no call is told of it."""

    def __init__(self, connection: Connection, refused: "asyncio.Queue[BusError]") -> None:
        super().__init__(connection)
        self.refused = refused


@asynccontextmanager
async def connected(server: RunningServer, role: Role) -> AsyncIterator[Identity]:
    """A connection with the identity of a role."""
    refused: asyncio.Queue[BusError] = asyncio.Queue()
    options = ConnectOptions(
        url=server.url, inbox_prefix=SUBJECTS.inbox(role), secrets=credentials(server.folder, role)
    )
    broker = Identity(await Connection.open(options, refused.put_nowait), refused)
    try:
        yield broker
    finally:
        await broker.close()


async def is_refused(broker: Identity, call: Coroutine[object, object, object]) -> bool:
    """Whether the server refuses a call for want of permission, however the client comes to know of that."""
    asked, told = asyncio.ensure_future(call), asyncio.ensure_future(broker.refused.get())
    await asyncio.wait({asked, told}, return_when=asyncio.FIRST_COMPLETED)
    if told.done():
        asked.cancel()
        await asyncio.wait({asked})
        return isinstance(told.result(), PermissionDeniedError)
    told.cancel()
    return isinstance(asked.exception(), PermissionDeniedError)


async def try_to_write(broker: Identity, subject: str) -> bool:
    """Whether the server lets it through, and then that it is stored."""
    if await is_refused(broker, broker.publish(subject, b"{}")):
        return False
    return (await broker.publish(subject, b"{}")).sequence > 0


@pytest.mark.parametrize("role", WORKERS)
async def test_a_working_role_can_write_what_is_its_own_and_nothing_else(server: RunningServer, role: Role) -> None:
    async with connected(server, role) as broker:
        actual = {subject: await try_to_write(broker, subject) for subject in WRITERS}

    assert actual == {subject: role in writers for subject, writers in WRITERS.items()}


@pytest.mark.parametrize("role", OWNERS)
async def test_the_owners_of_the_machine_can_write_everything(server: RunningServer, role: Role) -> None:
    async with connected(server, role) as broker:
        actual = {subject: await try_to_write(broker, subject) for subject in WRITERS}

    assert actual == dict.fromkeys(WRITERS, True)


@pytest.mark.parametrize("role", ROLES)
async def test_every_role_can_read_every_stream_of_the_project(server: RunningServer, role: Role) -> None:
    journal = SUBJECTS.journal("architect", f"read-by-{role}")
    async with connected(server, "supervisor") as owner:
        stored = (await owner.publish(journal, b"record")).sequence

    async with connected(server, role) as broker:
        last = await broker.last(SUBJECTS.stream("JOURNAL"), journal)
        read = [message.sequence async for message in broker.read(SUBJECTS.stream("JOURNAL"), journal)]
        differences = [await broker.differences(plan) for plan in plan_topology(SUBJECTS).streams]

    assert last is not None
    assert (last.sequence, read) == (stored, [stored])
    assert differences == [()] * len(differences)


@pytest.mark.parametrize("role", ROLES)
async def test_every_role_takes_its_own_mail_and_puts_its_consumer_away(server: RunningServer, role: Role) -> None:
    subject = SUBJECTS.request(role, "mail-test")
    plan = ConsumerPlan(
        stream=SUBJECTS.mail_stream(role),
        name=SUBJECTS.mail_consumer("request", "mail-test"),
        filter=subject,
        ack_wait_seconds=60.0,
    )

    async with connected(server, "supervisor") as owner, connected(server, role) as broker:
        await broker.ensure_consumer(plan)
        await owner.publish(subject, b"for you")
        delivery = await broker.pull(plan.stream, plan.name)
        await broker.extend(delivery.ack_subject)
        await broker.acknowledge(delivery.ack_subject)
        left = await owner.last(plan.stream, subject)
        await broker.delete_consumer(plan.stream, plan.name)

    assert (delivery.data, left) == (b"for you", None)


@pytest.mark.parametrize("role", WORKERS)
async def test_no_role_touches_the_mail_of_another(server: RunningServer, role: Role) -> None:
    other: Role = "architect" if role != "architect" else "coder"
    stream = SUBJECTS.mail_stream(other)
    plan = ConsumerPlan(stream=stream, name="thief", filter=SUBJECTS.request(other, "x"), ack_wait_seconds=60.0)

    async with connected(server, role) as broker:
        assert await is_refused(broker, broker.ensure_consumer(plan))
        assert await is_refused(broker, broker.pull(stream, "request-main"))
        assert await is_refused(broker, broker.acknowledge(f"$JS.ACK.{stream}.request-main.1.1.1.1.0"))
        assert await is_refused(broker, broker.delete_consumer(stream, "request-main"))


async def test_a_coder_takes_a_story_off_the_queue_and_an_architect_cannot(server: RunningServer) -> None:
    stream, consumer = SUBJECTS.stream("WORK"), SUBJECTS.work_consumer("coder")
    async with connected(server, "architect") as architect, connected(server, "coder") as coder:
        await coder.connection.wait_until_up()
        await architect.publish(SUBJECTS.work("coder", "story-9"), b"story")
        assert await is_refused(architect, architect.pull(stream, consumer))

        taken = []
        while b"story" not in taken:
            delivery = await coder.pull(stream, consumer)
            await coder.acknowledge(delivery.ack_subject)
            taken.append(delivery.data)

    assert taken[-1] == b"story"


@pytest.mark.parametrize("role", WORKERS)
async def test_no_working_role_takes_anything_out_of_the_ledger(server: RunningServer, role: Role) -> None:
    stream = SUBJECTS.stream("LEDGER")

    async with connected(server, role) as broker:
        assert await is_refused(broker, broker.purge(stream, SUBJECTS.ledger))
        assert await is_refused(broker, broker.delete(stream, 1))
        assert await is_refused(broker, broker.delete_stream(stream))


@pytest.mark.parametrize("role", OWNERS)
async def test_not_even_an_owner_deletes_an_entry_of_the_ledger(server: RunningServer, role: Role) -> None:
    async with connected(server, role) as broker:
        stored = await broker.publish(SUBJECTS.ledger, b"{}")

        with pytest.raises(BrokerRefusedError):
            await broker.delete(SUBJECTS.stream("LEDGER"), stored.sequence)


@pytest.mark.parametrize("role", WORKERS)
async def test_a_working_role_cannot_change_what_is_stored_or_how(server: RunningServer, role: Role) -> None:
    journal = SUBJECTS.stream("JOURNAL")
    changed = plan_topology(SUBJECTS).streams[0]
    spy = ConsumerPlan(stream=journal, name="spy", filter=SUBJECTS.every("journal"), ack_wait_seconds=60.0)

    async with connected(server, role) as broker:
        assert await is_refused(broker, broker.purge(journal, SUBJECTS.every("journal")))
        assert await is_refused(broker, broker.delete(journal, 1))
        assert await is_refused(broker, broker.delete_stream(changed.name))
        assert await is_refused(broker, broker.ensure_consumer(spy))
        assert await is_refused(broker, broker.connection.request(f"$JS.API.STREAM.UPDATE.{journal}", b"{}"))


@pytest.mark.parametrize("role", WORKERS)
async def test_a_working_role_withdraws_its_own_ask_and_no_others(server: RunningServer, role: Role) -> None:
    other = next(each for each in WORKERS if each != role)
    async with connected(server, role) as broker, connected(server, other) as stranger:
        ours, theirs = (Asks(Board(each, SUBJECTS)) for each in (broker, stranger))
        ask = Ask(id=ask_id(role, "s-1.1/4/0"), question="go on?", asked_at=datetime(2026, 1, 2, tzinfo=UTC))
        await ours.put(ask)

        assert await is_refused(stranger, theirs.withdraw(ask.id))
        assert ask in await ours.open()
        await ours.withdraw(ask.id)

        assert ask not in await theirs.open()


@pytest.mark.parametrize("role", WORKERS)
async def test_a_working_role_cannot_empty_a_stream_by_rolling_it_up(server: RunningServer, role: Role) -> None:
    kept = [SUBJECTS.event(role, "x"), SUBJECTS.dead(role, "x"), SUBJECTS.reply("person", "ada")]
    kept += [SUBJECTS.key(LEASES, f"{role}.x"), SUBJECTS.key(BOARD, f"asks.{role}.x")]

    async with connected(server, role) as broker:
        for subject in kept:
            with pytest.raises(BrokerRefusedError, match="rollup not permitted"):
                await broker.publish(subject, b"{}", {ROLLUP: "all"})


@pytest.mark.parametrize("role", ROLES)
async def test_every_role_hears_what_the_broker_repeats(server: RunningServer, role: Role) -> None:
    subject = SUBJECTS.control("coder", f"heard-by-{role}")

    async with (
        connected(server, "supervisor") as owner,
        connected(server, role) as broker,
        broker.listen(SUBJECTS.live("control")) as heard,
    ):
        await owner.publish(subject, b"pause")
        message = await asyncio.wait_for(heard.get(), HEARD_SECONDS)

    assert message is not None
    assert (message.subject, message.data) == (subject, b"pause")


@pytest.mark.parametrize("role", WORKERS)
@pytest.mark.parametrize("subject", ["_INBOX.>", SUBJECTS.inbox("supervisor") + ".>", SUBJECTS.everything, "$JS.>"])
async def test_no_working_role_listens_to_the_answers_of_others(
    server: RunningServer, role: Role, subject: str
) -> None:
    async with connected(server, role) as broker:
        with pytest.raises(PermissionDeniedError) as caught:
            async with broker.listen(subject):
                pytest.fail("the server lets it listen")

    assert caught.value.subject == subject


@pytest.mark.parametrize("role", WORKERS)
def test_permissions_of_a_working_role_name_only_streams_of_its_project(role: Role) -> None:
    streams = {plan.name for plan in plan_topology(SUBJECTS).streams}
    calls = [subject for subject in plan_permissions(role, SUBJECTS).publish if subject.startswith("$JS.")]

    strangers = [call for call in calls if not streams & set(call.split("."))]

    assert len(calls) > len(streams)
    assert strangers == []


@pytest.mark.parametrize("role", ROLES)
def test_two_projects_share_no_permission_but_the_owners_calls_of_the_broker(role: Role) -> None:
    ours, theirs = plan_permissions(role, SUBJECTS), plan_permissions(role, Subjects("other"))

    shared = {*ours.publish, *ours.subscribe} & {*theirs.publish, *theirs.subscribe}

    assert shared == ({"$JS.API.>", "$JS.ACK.>"} if role in OWNERS else set())


async def test_nobody_connects_without_a_key(server: RunningServer) -> None:
    with pytest.raises(BusError, match=r"(?i)authorization"):
        await Connection.open(ConnectOptions(url=server.url, connect_seconds=2.0))


@pytest.fixture(autouse=True)
def no_leftovers(server: RunningServer) -> Iterator[None]:
    """The server that was asked is the one that still runs."""
    yield
    assert Path(f"/proc/{server.pid}").exists()

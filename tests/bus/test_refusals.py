"""Permissions and slow readers: what the broker refuses and what the client drops is reported, with its subject."""

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from bus.errors import (
    BrokerRefusedError,
    BusError,
    ChannelClosedError,
    NotAcknowledgedError,
    PermissionDeniedError,
    SlowConsumerError,
    StorageFullError,
    WrongLastSequenceError,
)
from bus.jetstream import connection as connection_module
from bus.jetstream.answers import ApiError, refusal
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.retrying import surely
from protocol.subjects import Subjects
from tests.bus.brokers import ask, connected, eventually
from tests.nats_server import NatsServer

RESTRICTED = """
authorization { users: [
  { user: clerk, password: pencil, permissions: {
      publish: { allow: ["open.>", "$JS.API.STREAM.NAMES"] }, subscribe: { allow: ["open.>", "_INBOX.>"] } } }
  { user: mute, password: pencil, permissions: { publish: ">", subscribe: { allow: ["open.>"] } } }
] }
"""
CLERK = {"user": "clerk", "password": "pencil"}


@pytest.fixture(scope="module")
def restricted_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server on which little is allowed."""
    server = NatsServer(tmp_path_factory.mktemp("restricted"), RESTRICTED).start()
    yield server
    server.stop()


async def test_a_request_without_permission_fails_at_once_and_names_its_subject(restricted_server: NatsServer) -> None:
    async with connected(restricted_server.url, secrets=CLERK) as connection:
        async with asyncio.timeout(2):
            with pytest.raises(PermissionDeniedError, match="may not publish") as caught:
                await connection.request("$JS.API.STREAM.INFO.SECRET", seconds=60.0)
        await ask(connection)

    assert caught.value.subject == "$JS.API.STREAM.INFO.SECRET"


async def test_a_stored_publish_without_permission_is_not_tried_for_ever(
    restricted_server: NatsServer, subjects: Subjects
) -> None:
    async with connected(restricted_server.url, secrets=CLERK) as connection:
        broker = JetStreamBroker(connection)
        subject = subjects.journal("coder", "s-1")
        with pytest.raises(PermissionDeniedError) as caught:
            await surely(lambda: broker.publish(subject, b"x"))
        with pytest.raises(PermissionDeniedError) as pulling:
            await broker.pull("MAIL", "main")

    assert caught.value.subject == subject
    assert pulling.value.subject == "$JS.API.CONSUMER.MSG.NEXT.MAIL.main"


async def test_a_core_message_without_permission_is_reported_with_its_subject(restricted_server: NatsServer) -> None:
    troubles: list[BusError] = []
    async with connected(restricted_server.url, troubles, secrets=CLERK) as connection:
        await connection.publish("closed.hint", b"x")
        await eventually("the violation is reported", lambda: bool(troubles))

    assert [(type(error), getattr(error, "subject", "")) for error in troubles] == [
        (PermissionDeniedError, "closed.hint")
    ]


async def test_trouble_that_belongs_to_no_call_is_logged_as_an_error(restricted_server: NatsServer) -> None:
    options = ConnectOptions(url=restricted_server.url, secrets=CLERK)
    with capture_logs() as logs:
        connection = await Connection.open(options)
        await connection.publish("closed.hint", b"x")
        await eventually("the violation is logged", lambda: bool(logs))
        await connection.close()

    assert [(line["event"], line["log_level"], line["subject"]) for line in logs] == [
        ("bus.trouble", "error", "closed.hint")
    ]


async def test_listening_without_permission_fails_and_names_its_subject(restricted_server: NatsServer) -> None:
    async with connected(restricted_server.url, secrets=CLERK) as connection:
        with pytest.raises(PermissionDeniedError, match="may not listen") as caught:
            async with JetStreamBroker(connection).listen("closed.UPPER.>"):
                pytest.fail("the server lets it listen")
        async with JetStreamBroker(connection).listen("open.>") as heard:
            await connection.publish("open.word", b"x")
            message = await heard.get()

    assert caught.value.subject == "closed.UPPER.>"
    assert message is not None
    assert message.subject == "open.word"


async def test_an_identity_that_cannot_hear_answers_is_told_so_at_once(restricted_server: NatsServer) -> None:
    options = ConnectOptions(
        url=restricted_server.url, inbox_prefix="_INBOX.mute", secrets={"user": "mute", "password": "pencil"}
    )

    with pytest.raises(PermissionDeniedError, match=r"_INBOX\.mute\..*may not listen"):
        await Connection.open(options)


# What the server's words mean.


@pytest.mark.parametrize(
    ("code", "number", "words", "meaning"),
    [
        (400, 10071, "wrong last sequence: 7", WrongLastSequenceError),
        (400, 10164, "wrong last sequence", NotAcknowledgedError),
        (409, 10158, "duplicate message id is in process", NotAcknowledgedError),
        (429, 10167, "too many requests", NotAcknowledgedError),
        (503, 10008, "JetStream system temporarily unavailable", NotAcknowledgedError),
        (503, 10077, "store is closed", NotAcknowledgedError),
        (503, 10077, "maximum bytes exceeded", StorageFullError),
        (500, 10023, "insufficient resources", StorageFullError),
        (404, 10059, "stream not found", ChannelClosedError),
        (400, 10052, "bad stream configuration", BrokerRefusedError),
    ],
)
def test_what_the_server_says_has_a_type(code: int, number: int, words: str, meaning: type[BusError]) -> None:
    error = refusal("a.subject", ApiError(code=code, err_code=number, description=words))

    assert type(error) is meaning
    assert "a.subject" in str(error)
    assert words in str(error)


# Readers that are too slow.


async def test_a_slow_reader_is_reported_with_its_subject_and_told_that_it_missed_something(
    shared_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "HINTS_PENDING_MAX", 10)
    troubles: list[BusError] = []
    async with (
        connected(shared_server.url, troubles) as connection,
        connected(shared_server.url) as other,
        JetStreamBroker(connection).listen("slow.*") as heard,
    ):
        for n in range(11):
            await other.publish(f"slow.{n}", b"x")
        await eventually("the slow reader is reported", lambda: bool(troubles))
        first = await heard.get()

    assert [str(error) for error in troubles] == ["slow.*: slow consumer, messages were dropped by the client"]
    assert first is None


async def test_a_message_that_nats_py_drops_is_reported_with_its_subject(shared_server: NatsServer) -> None:
    troubles: list[BusError] = []
    async with (
        connected(shared_server.url, troubles) as connection,
        connected(shared_server.url) as other,
        JetStreamBroker(connection).listen("burst") as heard,
    ):
        subscription = list(connection._client._subs.values())[-1]
        vars(subscription._pending_queue)["_maxsize"] = 1
        for _ in range(50):
            await other.publish("burst", b"x")
        await eventually("the drop is reported", lambda: bool(troubles))
        messages = [await heard.get()]
        while messages[-1] is not None:
            messages.append(await heard.get())

    assert isinstance(troubles[0], SlowConsumerError)
    assert troubles[0].subject == "burst"


async def test_a_reader_that_does_not_read_holds_up_nobody(shared_server: NatsServer) -> None:
    async with connected(shared_server.url) as connection, connection.subscribe("flood", len):  # type: ignore[arg-type]  # never read
        for _ in range(5_000):
            await connection.publish("flood", b"x")
        async with asyncio.timeout(5):
            answer = await ask(connection)

    assert answer

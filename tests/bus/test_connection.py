"""The connection against real servers that die, freeze, refuse and lie.

The pitfalls of nats-py 2.16 and nats-server 2.15 by number, and the tests that hold them. C is this file,
F test_refusals.py, A test_authentication.py, R test_restart.py, L test_crash_load.py, P test_permissions.py,
K the contract suite.

 1  a cancelled publish goes on, on Python 3.11      C test_a_cancelled_publish_..., test_a_cancelled_listener_...
 2  a fetch dies with the server, unnoticed          R test_delivery_goes_on_...; C test_nothing_of_nats_...
 3  renewing drops a lease's TTL; expiry markers     R test_a_lease_that_was_renewed_...;
                                                     K test_a_lease_expires_and_the_next_epoch_is_higher
 4  a watch sleeps through a restart                 R test_delivery_goes_on_... (board, journal, control)
 5  deleted consumer and lost leader: only silence   R test_a_consumer_that_is_gone_..., test_a_stream_...;
                                                     L test_a_lost_leader_...; K test_a_deleted_consumer_...
    a permission violation: only a time-out          F test_a_request_without_permission_... and those after it
 6  not acknowledged and stored all the same         C test_what_was_not_acknowledged_..., test_a_send_that_was_...; L
 7  pings, attempts and pauses unfit for us          C test_a_frozen_server_..., test_a_long_outage_...,
                                                     test_pauses_..., test_a_closed_connection_...
 8  `respond` copies headers                         cannot bite: an answer is a message with an id of its own, and
                                                     C test_nothing_of_nats_py_that_bites_is_used
 9  a callback that waits stops all others           F test_a_reader_that_does_not_read_...
10  redelivery breaks order                          R test_a_letter_that_was_not_acknowledged_...
11  stale reads after a recovery                     R test_a_stale_...
12  the delivery limit is reached in silence         K test_a_delivery_limit_leaves_a_dead_letter_...
13  changed settings of a consumer are ignored       K test_the_topology_is_idempotent_and_migrates
    ephemeral consumers die                          cannot bite: ours are durable (`consumer_config`)
14  two forms of ack subjects                        R test_both_forms_of_an_ack_subject_...; P, which pulls and acks
15  half-made packages                               C test_nothing_of_nats_py_that_bites_is_used
16  a killed server forgets deliveries, and then     R test_an_acknowledgement_that_is_caught_by_a_kill_...
    never answers their acknowledgement
17  a cluster's "in process" is no refusal           L test_a_cluster_without_a_majority_...; F test_what_the_server_...
18  a close waits until a frozen server reads        C test_a_frozen_server_with_unread_data_..., test_closing_...
19  a flush that is cancelled ends the reading       C test_a_cancelled_listener_...
20  what the server says arrives in lower case       F test_a_request_without_permission_...
21  TLS that was asked for is not insisted on        A test_a_server_without_tls_...
22  a credentials file without a token is read on    A test_a_file_without_credentials_...
    and on, and the loop stands still
23  a reconnection whose cancellation got lost goes  C test_an_attempt_that_comes_too_late_...
    on beside the next, and its socket is nobody's
"""

import ast
import asyncio
import io
import random
import signal
import socket
import ssl
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlparse

import pytest
import rich
import rich.console
from nats.aio.client import Client, Srv
from structlog.testing import capture_logs

from bus.broker import MESSAGE_ID
from bus.errors import (
    BusClosedError,
    BusError,
    BusUnreachableError,
    NotAcknowledgedError,
)
from bus.jetstream import connection as connection_module
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.client import CarefulClient
from bus.jetstream.connection import PING_SECONDS, PINGS_OUTSTANDING_MAX, Connection, ConnectOptions
from bus.retrying import surely
from bus.settings.errors import SettingsError
from protocol.subjects import Subjects
from tests.bus.brokers import ask, connected, connection_of, eventually, frozen, impostor, project
from tests.contract.samples import a_record, an_envelope
from tests.nats_server import NatsServer, free_port

BUS = Path(connection_module.__file__).parent.parent
MEGABYTE = bytes(1024 * 1024 - 1024)


async def flood(connection: Connection) -> None:
    """Send more than any socket takes when nobody reads."""
    for _ in range(100):
        await connection.publish("nowhere", MEGABYTE)
        await asyncio.sleep(0)  # for the sending


async def echoing(connection: Connection, subject: str) -> None:
    """Answer every question on a subject, for ever."""
    async with connection.subscribe(subject, lambda message: message) as questions:
        while True:
            question = await questions.get()
            if question is not None:
                await connection.publish(question.reply, question.data)


# Cancelling.


async def test_a_cancelled_publish_is_cancelled_however_close_its_answer_is(
    shared_server: NatsServer, subjects: Subjects
) -> None:
    chance = random.Random(11)
    outcomes = []
    async with project(shared_server.url, subjects) as bus:
        for n in range(400):
            call = bus.journal.append(a_record(1, session=f"s-{n}"), 0)
            publishing = asyncio.create_task(call)
            await asyncio.sleep(chance.uniform(0.0, 0.0015))
            if publishing.cancel():
                await asyncio.wait({publishing})
                outcomes.append(publishing.cancelled())
        after = await bus.journal.append(a_record(1, session="after"), 0)

    assert len(outcomes) > 40
    assert all(outcomes)
    assert after > 0


async def test_a_cancelled_listener_is_cancelled_however_close_its_confirmation_is(shared_server: NatsServer) -> None:
    chance = random.Random(12)
    outcomes = []

    async def listen(connection: Connection) -> None:
        async with connection.subscribe("cancelled", lambda message: message) as messages:
            await messages.get()

    async with connected(shared_server.url) as connection:
        for _ in range(300):
            listening = asyncio.create_task(listen(connection))
            await asyncio.sleep(chance.uniform(0.0, 0.0008))
            listening.cancel()
            done, _ = await asyncio.wait({listening}, timeout=1.0)
            outcomes.append(bool(done) and listening.cancelled())
        async with asyncio.timeout(1):  # and the reading of the connection goes on
            await ask(connection)

    assert all(outcomes)


async def test_a_cancelled_attempt_to_connect_leaves_nothing_behind(own_server: NatsServer) -> None:
    with frozen(own_server):
        opening = asyncio.create_task(Connection.open(ConnectOptions(url=own_server.url, connect_seconds=60.0)))
        await asyncio.sleep(0.05)
        opening.cancel()
        await asyncio.wait({opening}, timeout=5.0)

    assert opening.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}


# A broker that dies.


async def test_a_publish_in_flight_is_woken_when_the_broker_dies(own_server: NatsServer, subjects: Subjects) -> None:
    async with project(own_server.url, subjects, publish_seconds=60.0) as bus:
        with frozen(own_server):
            publishing = asyncio.create_task(bus.broker.publish(subjects.journal("coder", "s-1"), b"x"))
            await asyncio.sleep(0.05)
            died_at = asyncio.get_running_loop().time()
            own_server.kill()
            with pytest.raises(NotAcknowledgedError, match="the connection was lost"):
                await publishing

    assert asyncio.get_running_loop().time() - died_at < 2.0


async def test_an_append_in_flight_when_the_broker_dies_is_repeated_and_stored_once(
    own_server: NatsServer, subjects: Subjects
) -> None:
    async with project(own_server.url, subjects, publish_seconds=60.0) as bus:
        with frozen(own_server):
            appending = asyncio.create_task(bus.journal.append(a_record(1), 0))
            await asyncio.sleep(0.05)
            own_server.kill()
        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(5):
            sequence = await appending

        assert [(entry.sequence, entry.record()) async for entry in bus.journal.read()] == [(sequence, a_record(1))]


async def test_a_send_during_an_outage_waits_and_is_stored_once(own_server: NatsServer, subjects: Subjects) -> None:
    async with project(own_server.url, subjects) as bus:
        own_server.kill()
        await eventually("the loss is noticed", lambda: not connection_of(bus).is_up)
        sending = asyncio.create_task(bus.mail.send(an_envelope()))
        await eventually("several attempts fail", lambda: connection_of(bus)._failures.total() >= 3)
        assert not sending.done()

        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(5):
            await sending

        stream = subjects.mail_stream("architect")
        assert len([message async for message in bus.broker.read(stream, ">")]) == 1


async def test_what_was_not_acknowledged_may_be_stored_all_the_same(own_server: NatsServer, subjects: Subjects) -> None:
    """Why everything that is repeated has an id or an expected sequence."""
    subject = subjects.journal("coder", "s-1")
    async with project(own_server.url, subjects, publish_seconds=0.1) as bus:
        with frozen(own_server), pytest.raises(NotAcknowledgedError, match=r"no answer within 0\.1 s"):
            await bus.broker.publish(subject, b"x")

        async with asyncio.timeout(5):
            async for entry in bus.journal.follow("coder", "s-1"):
                assert entry.data == b"x"
                break


async def test_a_send_that_was_repeated_into_a_frozen_broker_arrives_once(
    own_server: NatsServer, subjects: Subjects
) -> None:
    tries = 0
    async with project(own_server.url, subjects, publish_seconds=0.1) as bus:

        async def publish() -> None:
            nonlocal tries
            tries += 1
            await bus.broker.publish(subjects.journal("coder", "s-1"), b"x", {MESSAGE_ID: "one"})

        with frozen(own_server):
            publishing = asyncio.create_task(surely(publish))
            await eventually("it is tried again and again", lambda: tries >= 4)
        async with asyncio.timeout(5):
            await publishing

        assert len([message async for message in bus.broker.read(subjects.stream("JOURNAL"), ">")]) == 1


async def test_a_long_outage_is_ridden_out_and_reported_once(own_server: NatsServer) -> None:
    """nats-py would give up after 60 attempts."""
    async with connected(own_server.url, reconnect_wait_seconds=0.01) as connection:
        with capture_logs() as logs:
            own_server.kill()
            await eventually("many attempts fail", lambda: connection._failures.total() > 70)
            await asyncio.to_thread(own_server.start)
            async with asyncio.timeout(5):
                await ask(connection)

    events = [(line["event"], line["log_level"]) for line in logs if line["event"] != "bus.connection"]
    assert events == [("bus.disconnected", "warning"), ("bus.unreachable", "warning"), ("bus.reconnected", "info")]
    assert {line["url"] for line in logs if line["event"] != "bus.connection"} == {own_server.url}
    assert "Connect call failed" in next(line["reason"] for line in logs if line["event"] == "bus.unreachable")


async def test_pauses_between_attempts_differ_from_one_connection_to_the_next(shared_server: NatsServer) -> None:
    pauses = set()
    for _ in range(5):
        async with connected(shared_server.url, reconnect_wait_seconds=0.2) as connection:
            pauses.add(connection._client.options["reconnect_time_wait"])

    assert len(pauses) == 5
    assert all(0.1 <= pause <= 0.3 for pause in pauses)


# A broker that freezes.


async def test_a_frozen_server_is_noticed_within_seconds_and_work_goes_on_when_it_thaws(
    own_server: NatsServer,
) -> None:
    loop = asyncio.get_running_loop()
    limit = PING_SECONDS * (PINGS_OUTSTANDING_MAX + 1)
    async with connected(own_server.url) as connection:
        with frozen(own_server):
            froze_at = loop.time()
            await eventually("the freeze is noticed", lambda: not connection.is_up, limit + 1.0)
            noticed_seconds = loop.time() - froze_at
        async with asyncio.timeout(5):
            await ask(connection)

    assert PING_SECONDS < noticed_seconds < limit + 1.0


async def test_what_waits_to_be_sent_is_limited_and_the_error_says_so(own_server: NatsServer) -> None:
    limit = 3 * len(MEGABYTE)
    async with connected(own_server.url, buffered_bytes_max=limit) as connection:
        with frozen(own_server):
            with pytest.raises(NotAcknowledgedError, match=f"wait to be sent already, and the limit is {limit}"):
                await flood(connection)
            unsent = connection._client.pending_data_size
        await ask(connection)

    assert len(MEGABYTE) < unsent <= limit


async def test_a_message_larger_than_the_buffer_passes_when_nothing_waits(shared_server: NatsServer) -> None:
    async with connected(shared_server.url, buffered_bytes_max=64 * 1024) as connection:
        echo = asyncio.create_task(echoing(connection, "large"))
        answer = await surely(lambda: connection.request("large", MEGABYTE))
        echo.cancel()

    assert answer.data == MEGABYTE


async def test_nothing_is_buffered_while_the_connection_is_down(own_server: NatsServer) -> None:
    async with connected(own_server.url) as connection:
        own_server.kill()
        await eventually("the loss is noticed", lambda: not connection.is_up)
        publishing = [asyncio.create_task(connection.publish("nowhere", MEGABYTE)) for _ in range(20)]
        await eventually("several attempts fail", lambda: connection._failures.total() >= 3)
        unsent = connection._client.pending_data_size
        await asyncio.to_thread(own_server.start)
        results = await asyncio.gather(*publishing, return_exceptions=True)

    assert unsent == 0
    assert None in results  # the first of them pass at once; the buffer's limit holds for the rest


async def test_a_frozen_server_with_unread_data_is_left_for_another(
    own_server: NatsServer, shared_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A polite close would wait until the frozen one has read everything."""
    monkeypatch.setattr(connection_module, "PING_SECONDS", 0.2)
    async with connected(own_server.url, buffered_bytes_max=2 * len(MEGABYTE)) as connection:
        connection._client.set_server_pool([own_server.url, shared_server.url])
        connection._client.options["connect_timeout"] = 1
        with frozen(own_server):
            with pytest.raises(NotAcknowledgedError):
                await flood(connection)
            await eventually("it goes to the other", lambda: connection._client.stats["reconnects"] == 1, 5.0)
            answer = await ask(connection)

    assert answer


async def test_closing_does_not_wait_for_a_frozen_server(own_server: NatsServer) -> None:
    connection = await Connection.open(ConnectOptions(url=own_server.url, buffered_bytes_max=len(MEGABYTE)))
    with frozen(own_server):
        with pytest.raises(NotAcknowledgedError):
            await flood(connection)
        async with asyncio.timeout(connection_module.CLOSE_SECONDS + 2.0):
            await connection.close()

    assert not connection.is_up


# Closed for good.


async def test_a_closed_connection_says_so_to_everyone_who_asks_or_waits(own_server: NatsServer) -> None:
    connection = await Connection.open(ConnectOptions(url=own_server.url))
    broker = JetStreamBroker(connection)
    own_server.kill()
    await eventually("the loss is noticed", lambda: not connection.is_up)
    waiting = [
        asyncio.create_task(broker.publish("x", b"")),
        asyncio.create_task(broker.pull("MAIL", "main")),
        asyncio.create_task(connection.publish("x", b"")),
    ]
    await asyncio.sleep(0)

    await connection.close()
    waited = await asyncio.gather(*waiting, return_exceptions=True)
    asked = await asyncio.gather(
        broker.publish("x", b""), broker.last("MAIL", "x"), broker.say("x", b""), return_exceptions=True
    )

    assert [str(error) for error in [*waited, *asked]] == ["the connection to NATS is closed: closed by us"] * 6
    with pytest.raises(BusClosedError):
        async with broker.listen("x"):
            pytest.fail("it listens on a closed connection")


async def test_requests_in_flight_fail_when_the_connection_is_closed(own_server: NatsServer) -> None:
    connection = await Connection.open(ConnectOptions(url=own_server.url))
    with frozen(own_server):
        asking = asyncio.create_task(connection.request("x", seconds=60.0))
        await asyncio.sleep(0.05)
        await connection.close()

    with pytest.raises(BusClosedError):
        await asking


async def test_a_connection_that_the_server_ends_for_good_is_an_error_with_the_reason(
    shared_server: NatsServer,
) -> None:
    with capture_logs() as logs:
        async with connected(shared_server.url) as connection:
            connection._client._max_payload = 2 * len(MEGABYTE)  # as after a server's limit was lowered
            with pytest.raises(NotAcknowledgedError, match="the connection was lost"):
                await connection.request("x", MEGABYTE + MEGABYTE)
            with pytest.raises(BusClosedError, match="maximum payload"):
                await connection.request("x")

    assert [line["log_level"] for line in logs if line["event"] == "bus.closed"] == ["error"]
    assert "maximum payload" in next(line["reason"] for line in logs if line["event"] == "bus.closed")


async def test_an_identity_that_is_taken_away_and_given_back_is_reported_and_goes_on(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats", 'authorization { user: "clerk", password: "pencil" }').start()
    try:
        with capture_logs() as logs:
            async with connected(server.url, secrets={"user": "clerk", "password": "pencil"}) as connection:
                _reconfigure(server, "pencil", "chalk")
                await eventually("several attempts fail", lambda: connection._failures.total() >= 3)
                _reconfigure(server, "chalk", "pencil")
                async with asyncio.timeout(5):
                    await ask(connection)
    finally:
        server.stop()

    refused = [line for line in logs if line["event"] == "bus.unreachable"]
    assert [(line["reason"], line["log_level"]) for line in refused] == [("'Authorization Violation'", "warning")]
    assert "check bus.credentials" in refused[0]["advice"]


def _reconfigure(server: NatsServer, old: str, new: str) -> None:
    config = server.folder / "server.conf"
    config.write_text(config.read_text().replace(old, new))
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)


# Never connected.


async def test_a_server_that_is_not_there_is_told_at_once_and_is_an_error_with_url_reason_and_advice() -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    started_at = asyncio.get_running_loop().time()

    with capture_logs() as logs, pytest.raises(BusUnreachableError) as caught:
        await Connection.open(ConnectOptions(url=url, connect_seconds=0.5))

    [said] = logs
    assert (said["event"], said["log_level"], said["url"]) == ("bus.unreachable", "warning", url)
    assert said["detail"] == "no server answers there yet; trying for 0.5 s"
    assert asyncio.get_running_loop().time() - started_at < 1.5
    assert caught.value.url == url
    assert "Connect call failed" in caught.value.reason
    assert str(caught.value).startswith(f"cannot reach NATS at {url}: ")
    assert str(caught.value).endswith("start the server, or set bus.url (NATS_URL) to where it is")


def no_such_host(*_: object, **__: object) -> NoReturn:
    """What the resolver says of a name that nobody has; a network to ask is not to be had everywhere."""
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def test_a_host_that_does_not_exist_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)

    with capture_logs() as logs, pytest.raises(BusUnreachableError) as caught:
        async with asyncio.timeout(2):
            await Connection.open(ConnectOptions(url="nats://nats.example:4222", connect_seconds=60.0))

    assert logs == []  # the error says it all
    assert str(caught.value) == (
        "cannot reach NATS at nats://nats.example:4222: [Errno -2] Name or service not known; "
        "correct the host in bus.url (NATS_URL)"
    )


async def test_one_host_that_does_not_exist_does_not_end_the_waiting_for_the_others(
    own_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, asked = socket.getaddrinfo, []

    def resolve_all_but_one(host: str, *rest: Any, **more: Any) -> object:
        asked.append(host)
        return no_such_host() if host == "nobody" else resolve(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_all_but_one)
    own_server.kill()
    options = ConnectOptions(url=f"nats://nobody:4222,{own_server.url}", connect_seconds=30.0)
    with capture_logs() as logs:
        opening = asyncio.create_task(Connection.open(options))
        await eventually("it is tried again and again", lambda: asked.count("nobody") > 3)

        await asyncio.to_thread(own_server.start)
        connection = await opening

    await connection.close()
    assert [line["event"] for line in logs] == ["bus.unreachable"]


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async with impostor(b"") as (address, _):
        with pytest.raises(BusUnreachableError, match=r"no answer within 0\.3 s"):
            await Connection.open(ConnectOptions(url=f"nats://{address}", connect_seconds=0.3))


async def test_a_server_that_is_no_nats_is_named() -> None:
    async with impostor(b"SSH-2.0-OpenSSH_9.2\r\n") as (address, _):
        with pytest.raises(BusUnreachableError, match=f"{address}.*expecting INFO"):
            await Connection.open(ConnectOptions(url=f"nats://{address}", connect_seconds=0.3))


async def test_the_first_of_several_servers_may_be_away(shared_server: NatsServer) -> None:
    url = f"nats://127.0.0.1:{free_port()}, {shared_server.url}"

    async with connected(url) as connection:
        answer = await ask(connection)

    assert answer


def test_settings_errors_are_errors_of_the_bus() -> None:
    assert issubclass(SettingsError, BusError)


# What must not be used, and what must not be shown.

BITES = {"respond", "fetch", "jetstream", "jsm", "pull_subscribe", "key_value", "object_store", "request_many"}
NOT_READY = ("nats.js", "nats_core", "nats.core", "nats_jetstream", "nats.jetstream")


def test_nothing_of_nats_py_that_bites_is_used() -> None:
    used = set()
    for path in BUS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in BITES:
                used.add(f"{path.name}: {node.func.attr}")
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(NOT_READY):
                used.add(f"{path.name}: {node.module}")
            if isinstance(node, ast.Import):
                used |= {f"{path.name}: {name.name}" for name in node.names if name.name.startswith(NOT_READY)}

    assert used == set()


def test_options_show_neither_login_nor_secrets() -> None:
    options = ConnectOptions(
        url="nats://clerk:pencil@h1:4222,nats://clerk:pencil@h2:4222",
        secrets={"password": "pencil", "token": "pencil", "tls": ssl.create_default_context()},
    )
    printed = io.StringIO()
    rich.console.Console(file=printed).print(options, [options])

    shown = f"{options!r} {options} {[options]} {printed.getvalue()}"

    assert "pencil" not in shown
    assert "clerk" not in shown
    assert "h1:4222" in shown
    assert "h2:4222" in shown


@pytest.mark.parametrize("why", ["another is under way", "the connection was closed"])
async def test_an_attempt_that_comes_too_late_leaves_no_socket(why: str) -> None:
    ended = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        client = CarefulClient(tls_only=False)
        client.options = {"connect_timeout": 2}
        url = urlparse(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        late = client._reconnection_task = asyncio.ensure_future(client._connect_to_server(Srv(url)))
        await asyncio.sleep(0)
        if why == "another is under way":
            client._reconnection_task = asyncio.ensure_future(asyncio.sleep(0))
        else:
            client._status = Client.CLOSED

        await asyncio.wait([late])

        assert late.cancelled()
        async with asyncio.timeout(10.0):
            await ended.wait()

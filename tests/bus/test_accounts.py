"""Where the server's answers may go, tried with the coder's own key on a real server.

The server checks the subject of a publish and not the one that gets the answer, so an answer is what a role would
have the server forge with (docs/adr/0011).
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import msgspec
import pytest

from bus.broker import ConsumerPlan, Message, matches
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.server import RunningServer, credentials, lifecycle, start_or_adopt, stop
from bus.server.accounts import API_INFO, plan_accounts
from bus.server.config import identities_config
from bus.server.permissions import plan_permissions
from bus.settings.model import Server
from bus.topology import OBJECTS, apply_topology, plan_topology
from protocol.codec import encode
from protocol.messages import Envelope, Stop, StoryComplete
from protocol.subjects import ROLES, Role, Subjects
from tests.nats_server import binary

SUBJECTS = Subjects("accounts")
WORKERS: tuple[Role, ...] = ("pm", "architect", "coder", "web")
SETTINGS = Server(sync="default", stop_seconds=5.0)
HEARD_SECONDS = 5.0
AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a server that is stopped afterwards."""
    binary()
    place = tmp_path / "server"
    yield place
    stop(place)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One embedded server with the project's streams on it."""
    binary()
    place = tmp_path_factory.mktemp("accounts") / "server"
    running = start_or_adopt(place, SUBJECTS, SETTINGS, keep=False)
    try:
        asyncio.run(set_up(running))
        yield running
    finally:
        stop(place)


async def set_up(server: RunningServer) -> None:
    async with connected(server, "supervisor") as broker:
        await apply_topology(broker, plan_topology(SUBJECTS))


@asynccontextmanager
async def connected(server: RunningServer, role: Role) -> AsyncIterator[JetStreamBroker]:
    """A connection with the identity of a role."""
    options = ConnectOptions(
        url=server.url, inbox_prefix=SUBJECTS.inbox(role), secrets=credentials(server.folder, role)
    )
    broker = JetStreamBroker(await Connection.open(options))
    try:
        yield broker
    finally:
        await broker.close()


async def have_answered(broker: JetStreamBroker, call: str, data: bytes, reply: str) -> None:
    """Publish with an answer to somewhere else, as no call of ours would; returns when the server has dealt with it."""
    client = broker.connection._client  # an attacker is not bound to our interface
    await client.publish(call, data, reply)
    await client.flush()
    # The server handles the publishes of a connection in order, and a stream or an API call its own in order.
    await broker.connection.request(call, data)


async def stored_in(owner: JetStreamBroker, name: str, subject: str) -> list[Message]:
    return [message async for message in owner.read(SUBJECTS.stream(name), subject)]


# Forging.


STOP = Envelope(
    id="supervisor/1/0",
    kind="CONTROL",
    sender="supervisor.main",
    recipient="all.all",
    payload=Stop(reason="forged"),
    sent_at=AT,
)
MERGE = Envelope(
    id="architect/1/0",
    kind="EVENT",
    sender="architect.main",
    recipient="",
    payload=StoryComplete(story="s", spec="x", commit="deadbeef"),
    sent_at=AT,
)
FORGED = {
    "a stop for everybody": ("CONTROL", SUBJECTS.control(), encode(STOP)),
    "a merge by the architect": ("EVENTS", SUBJECTS.event("architect", "main"), encode(MERGE)),
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("call", ["DIRECT.GET", "STREAM.MSG.GET"])
async def test_a_coder_has_nothing_that_it_stored_read_out_to_a_subject_of_others(
    server: RunningServer, name: str, call: str
) -> None:
    stream, subject, data = FORGED[name]

    async with connected(server, "coder") as coder, connected(server, "supervisor") as owner:
        bait = await coder.publish(SUBJECTS.event("coder", "bait"), data)
        query = msgspec.json.encode({"seq": bait.sequence})
        await have_answered(coder, f"$JS.API.{call}.{SUBJECTS.stream('EVENTS')}", query, subject)
        forged = await stored_in(owner, stream, subject)

    assert forged == []


async def test_a_coder_has_no_acknowledgement_written_into_the_journal_of_another(server: RunningServer) -> None:
    journal = SUBJECTS.journal("architect", "main")

    async with connected(server, "coder") as coder, connected(server, "supervisor") as owner:
        await owner.publish(journal, b"the architect's")
        await have_answered(coder, SUBJECTS.event("coder", "x"), b"hello", journal)
        records = await stored_in(owner, "JOURNAL", journal)

    assert [record.data for record in records] == [b"the architect's"]


async def test_mail_that_a_role_has_pushed_elsewhere_is_taken_for_nothing_else(server: RunningServer) -> None:
    # Who may make a consumer may also say where it delivers to, and the server delivers to whoever listens there.
    stream, mail, control = SUBJECTS.mail_stream("coder"), SUBJECTS.request("coder", "x"), SUBJECTS.control("pm", "x")
    config = {"name": "push", "filter_subject": mail, "deliver_subject": control, "ack_policy": "explicit"}
    request = msgspec.json.encode({"stream_name": stream, "config": config})

    async with (
        connected(server, "coder") as coder,
        connected(server, "supervisor") as owner,
        owner.listen(control) as heard,
    ):
        await owner.publish(mail, b"mail")
        await coder.connection.request(f"$JS.API.CONSUMER.CREATE.{stream}.push.{mail}", request)
        message = await asyncio.wait_for(heard.get(), HEARD_SECONDS)
        stored = await stored_in(owner, "CONTROL", control)
        await coder.delete_consumer(stream, "push")

    assert message is not None
    assert (message.subject, message.data, stored) == (mail, b"mail", [])


@pytest.mark.parametrize("role", WORKERS)
def test_no_account_imports_what_its_role_may_not_say(role: Role) -> None:
    # An answer passes on through the imports of the account, and no permission is checked on that way.
    account = next(account for account in plan_accounts(SUBJECTS).working if account.roles == (role,))
    services = {wanted.subject for wanted in account.imports if wanted.way == "service"}

    assert services - {API_INFO} == set(plan_permissions(role, SUBJECTS).publish)


@pytest.mark.parametrize("role", WORKERS)
def test_no_subject_is_imported_twice(role: Role) -> None:
    # The server would pass it on once for each.
    allowed = [subject for subject in plan_permissions(role, SUBJECTS).publish if not subject.startswith("$JS.ACK")]

    overlapping = [pair for pair in combinations(allowed, 2) if matches(*pair) or matches(*reversed(pair))]

    assert overlapping == []


# What goes through an account as it would without.


@pytest.mark.parametrize("role", WORKERS)
async def test_what_a_role_stores_is_stored_once_and_unchanged(server: RunningServer, role: Role) -> None:
    subject = SUBJECTS.event(role, "unchanged")
    headers = {"Nats-Msg-Id": f"{role}/1/0", "Of-Ours": "kept"}

    async with connected(server, role) as broker, connected(server, "supervisor") as owner:
        first = await broker.publish(subject, b"data", headers)
        again = await broker.publish(subject, b"data", headers)
        stored = await stored_in(owner, "EVENTS", subject)

    assert (again.sequence, again.duplicate) == (first.sequence, True)
    assert [(message.data, message.headers) for message in stored] == [(b"data", headers)]


@pytest.mark.parametrize("role", WORKERS)
async def test_a_role_reads_more_in_one_question_than_fits_in_one_answer(server: RunningServer, role: Role) -> None:
    subject = SUBJECTS.journal("coder", f"long-{role}")

    async with connected(server, role) as broker, connected(server, "supervisor") as owner:
        stored = [(await owner.publish(subject, b"record")).sequence for _ in range(600)]
        read = [message.sequence async for message in broker.read(SUBJECTS.stream("JOURNAL"), subject)]

    assert read == stored


async def test_a_delivery_keeps_its_subject_and_comes_back_when_it_is_given_back(server: RunningServer) -> None:
    subject = SUBJECTS.request("coder", "back")
    plan = ConsumerPlan(
        stream=SUBJECTS.mail_stream("coder"), name="request-back", filter=subject, ack_wait_seconds=60.0
    )

    async with connected(server, "coder") as coder, connected(server, "supervisor") as owner:
        await coder.ensure_consumer(plan)
        await owner.publish(subject, b"mail", {"Of-Ours": "kept"})
        first = await coder.pull(plan.stream, plan.name)
        await coder.give_back(first.ack_subject)
        second = await coder.pull(plan.stream, plan.name)
        await coder.acknowledge(second.ack_subject)

    assert [first.subject, second.subject] == [subject] * 2
    assert [first.delivered, second.delivered] == [1, 2]
    assert second.headers == {"Of-Ours": "kept"}


async def test_an_object_of_one_role_is_read_by_another(server: RunningServer) -> None:
    subject = SUBJECTS.object_chunks(OBJECTS, "n-1")

    async with connected(server, "architect") as architect, connected(server, "coder") as coder:
        await architect.publish(subject, bytes(256 * 1024))
        read = await coder.last(SUBJECTS.object_stream(OBJECTS), subject)

    assert read is not None
    assert read.data == bytes(256 * 1024)


# A server of one's own.


def test_what_the_document_prints_for_a_cluster_is_a_configuration(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    code = (
        (root / "docs" / "threat-model.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    )
    environment = {**os.environ, "PYTHONPATH": str(root)}
    config = tmp_path / "nats.conf"

    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    config.write_bytes(b'jetstream: { store_dir: "data" }\n' + printed.stdout)
    checked = subprocess.run([binary(), "-t", "-c", config], capture_output=True, text=True, check=False)

    assert printed.stderr == b""
    assert b'"CALLBOARD_DEMO_CODER"' in printed.stdout
    assert "is valid" in checked.stdout + checked.stderr
    assert {path.stem for path in (tmp_path / "keys" / "credentials").iterdir()} == set(ROLES)


# Bringing a running server up to date.


async def test_who_is_connected_stays_so_while_the_rules_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_or_adopt(folder, SUBJECTS, SETTINGS, keep=False)
    await set_up(server)
    subject = SUBJECTS.event("coder", "x")

    async with connected(server, "coder") as coder, coder.listen(SUBJECTS.live("event")) as heard:
        before = await coder.publish(subject, b"1")
        with monkeypatch.context() as other:
            other.setattr(lifecycle, "identities_config", without_the_web)
            adopted = start_or_adopt(folder, SUBJECTS, SETTINGS, keep=False)
        after = await coder.publish(subject, b"2")
        read = [message.sequence async for message in coder.read(SUBJECTS.stream("EVENTS"), subject)]
        told = [await asyncio.wait_for(heard.get(), HEARD_SECONDS) for _ in range(2)]

    assert adopted.pid == server.pid
    assert read == [before.sequence, after.sequence]
    assert [message and message.sequence for message in told] == read


def without_the_web(subjects: Subjects, keys: dict[Role, str]) -> bytes:
    """Rules of another version, which knows of no web."""
    text = identities_config(subjects, keys).removeprefix(b"accounts: ")
    accounts = msgspec.json.decode(text, type=dict[str, dict[str, object]])
    accounts["CALLBOARD_WEB"]["users"] = []
    return b"accounts: " + msgspec.json.encode(accounts)


async def test_a_server_of_a_version_without_accounts_is_started_again_with_its_data(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = SUBJECTS.event("coder", "x")
    older = start_as_older_version(folder, monkeypatch, keep=True)
    await set_up(older)

    async with connected(older, "coder") as coder:
        before = await coder.publish(subject, b"before")
        adopted = start_or_adopt(folder, SUBJECTS, SETTINGS, keep=False)
        await coder.connection.wait_until_up()
    async with connected(adopted, "coder") as coder:
        after = await coder.publish(subject, b"after")
        read = [message.sequence async for message in coder.read(SUBJECTS.stream("EVENTS"), subject)]

    assert adopted.pid != older.pid
    assert (adopted.url, adopted.keep) == (older.url, True)
    assert read == [before.sequence, after.sequence] == [1, 2]


async def test_the_data_of_a_version_without_accounts_is_there_after_a_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = start_as_older_version(folder, monkeypatch, keep=False)
    await set_up(older)
    async with connected(older, "coder") as coder:
        await coder.publish(SUBJECTS.event("coder", "x"), b"before")
    stop(folder)

    server = start_or_adopt(folder, SUBJECTS, SETTINGS, keep=False)

    async with connected(server, "coder") as coder:
        stored = await coder.last(SUBJECTS.stream("EVENTS"), SUBJECTS.event("coder", "x"))
    assert stored is not None
    assert stored.data == b"before"


def start_as_older_version(folder: Path, monkeypatch: pytest.MonkeyPatch, *, keep: bool) -> RunningServer:
    with monkeypatch.context() as older:
        older.setattr(lifecycle, "identities_config", without_accounts)
        return start_or_adopt(folder, SUBJECTS, SETTINGS, keep=keep)


def without_accounts(subjects: Subjects, keys: dict[Role, str]) -> bytes:
    """As it was written before there were accounts."""
    users = []
    for role in ROLES:
        allowed = plan_permissions(role, subjects)
        rules = {"publish": {"allow": allowed.publish}, "subscribe": {"allow": allowed.subscribe}}
        users.append({"nkey": keys[role], "permissions": rules})
    return f"authorization: {{ users: {json.dumps(users)} }}\n".encode()

"""Opening the bus by the settings: a broker at a URL, or the project's own embedded server.

An embedded server that nobody asked to keep runs as long as somebody uses it: each user holds a shared lock, and
whoever leaves last stops it. So a single command works without any set-up and leaves no process behind.
"""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from bus import server
from bus.broker import Broker
from bus.bus import Bus
from bus.errors import (
    BrokerRefusedError,
    BusUnreachableError,
    ChannelClosedError,
    NotAcknowledgedError,
)
from bus.jetstream.answers import NOT_A_CLUSTER, TOO_FEW_SERVERS
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.server.files import make_private_folder, open_lock, take_lock, telling_why, try_lock
from bus.server.record import read_record
from bus.settings import (
    Loaded,
    Problem,
    SecretReference,
    SecretUnavailableError,
    SecretValue,
    SettingsError,
    make_state_folder,
    resolve,
    state_folder,
)
from bus.topology import Topology, apply_topology, plan_topology
from protocol.subjects import Role, Subjects

CONNECT_SECONDS = 5.0
PREPARE_SECONDS = 5.0
PREPARE_PAUSE_SECONDS = 0.1
USERS = "users.lock"


def server_folder(loaded: Loaded, environ: Mapping[str, str]) -> Path:
    """Where the embedded server of this project lives; what it is in is made if it is not there."""
    settings = loaded.settings
    folder = state_folder(settings.project, loaded.root, settings.state_folder, environ)
    return make_state_folder(folder, loaded.root) / "broker"


@asynccontextmanager
async def open_bus(
    loaded: Loaded, environ: Mapping[str, str], role: Role, *, prepare: bool = True, migrate: bool = True
) -> AsyncIterator[Bus]:
    """The project's bus with its topology in place, under the identity of `role`.

    Without `migrate` only what is missing is created: whoever just looks, perhaps with other settings or an older
    version, must not change what those who work there have set up. Without `prepare` nothing is: actors may not.
    """
    settings, subjects = loaded.settings, Subjects(loaded.settings.project)
    async with _broker_address(loaded, environ, role) as (url, secrets):
        options = ConnectOptions(
            url=url,
            name=f"callboard {settings.project} {role}",
            role=role,
            inbox_prefix=subjects.inbox(role),
            connect_seconds=CONNECT_SECONDS,
            reconnect_wait_seconds=settings.bus.reconnect_wait_seconds,
            buffered_bytes_max=settings.bus.buffered_bytes_max,
            secrets=secrets,
        )
        broker = JetStreamBroker(await Connection.open(options), settings.bus.publish_seconds)
        bus = Bus(
            broker,
            subjects,
            lease_seconds=settings.bus.lease_seconds,
            ack_wait_seconds=settings.bus.ack_wait_seconds,
        )
        topology = plan_topology(
            subjects, replicas=settings.bus.replicas, ack_wait_seconds=settings.bus.ack_wait_seconds
        )
        try:
            if prepare:
                await _prepare(broker, topology, loaded, url, migrate=migrate)
            yield bus
        finally:
            await bus.close()


async def open_again(bus: Bus) -> Bus:
    """The same bus over a connection of its own, for the loop of another thread; to be closed there."""
    assert isinstance(bus.broker, JetStreamBroker)
    return Bus(await bus.broker.again(), bus.subjects, lease_seconds=bus.leases.seconds)


async def _prepare(broker: Broker, topology: Topology, loaded: Loaded, url: str, *, migrate: bool) -> None:
    """Put the topology in place; a broker that has just started may need a moment, one without JetStream never can.

    Raises SettingsError where the broker cannot keep as many copies as the settings want.
    """
    deadline = time.monotonic() + PREPARE_SECONDS
    while True:
        try:
            await (apply_topology(broker, topology) if migrate else _create_missing(broker, topology))
        except NotAcknowledgedError as error:
            if time.monotonic() > deadline:
                reason = f"its JetStream does not answer ({error.reason})"
                raise BusUnreachableError(url, reason, "enable JetStream there") from error
        except BrokerRefusedError as error:
            if error.code not in TOO_FEW_SERVERS:
                raise
            if error.code == NOT_A_CLUSTER or time.monotonic() > deadline:
                raise _too_few_servers(loaded, url, error.reason) from error
        else:
            return
        await asyncio.sleep(PREPARE_PAUSE_SECONDS)


def _too_few_servers(loaded: Loaded, url: str, reason: str) -> SettingsError:
    key, copies = "bus.replicas", loaded.settings.bus.replicas
    what = f"is {copies}, and NATS at {url} has not as many servers for it ({reason})"
    return SettingsError(
        [Problem(place=loaded.place(key), key=key, what=what, fix=f"set {key} = 1, or use a cluster of {copies}")]
    )


async def _create_missing(broker: Broker, topology: Topology) -> None:
    created = set()
    for plan in topology.streams:
        try:
            await broker.last(plan.name, ">")
        except ChannelClosedError:
            await broker.ensure_stream(plan)
            created.add(plan.name)
    for consumer in topology.consumers:
        if consumer.stream in created:
            await broker.ensure_consumer(consumer)


@asynccontextmanager
async def _broker_address(
    loaded: Loaded, environ: Mapping[str, str], role: Role
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    if loaded.settings.bus.url:
        yield loaded.settings.bus.url, _secrets(loaded, environ)
        return
    using = embedded_server(loaded, environ, keep=False)
    entering = asyncio.ensure_future(asyncio.to_thread(using.__enter__))
    try:
        running = await asyncio.shield(entering)
        yield running.url, server.credentials(running.folder, role)
    finally:
        # A thread cannot be cancelled: what it started meanwhile must be ended all the same.
        await asyncio.wait([entering])
        if entering.exception() is None:
            await asyncio.to_thread(using.__exit__, None, None, None)


@contextmanager
def embedded_server(loaded: Loaded, environ: Mapping[str, str], *, keep: bool) -> Iterator[server.RunningServer]:
    """The project's embedded server, found or started, while the context is open; blocks.

    Whoever leaves last stops it, unless somebody has asked to keep it. Raises ServerError and SettingsError.
    """
    folder, settings = server_folder(loaded, environ), loaded.settings
    with telling_why(folder):
        make_private_folder(folder)
        users = open_lock(folder / USERS)
    try:
        # Taken before the server is looked for, so that nobody stops it between finding and using it.
        # Whoever holds it alone is stopping the server, which does not take long.
        patience_seconds = settings.server.start_seconds + 2 * settings.server.stop_seconds
        take_lock(users, folder / USERS, patience_seconds, shared=True)
        yield server.start_or_adopt(
            folder,
            Subjects(settings.project),
            settings.server,
            keep=keep,
            message_bytes_max=settings.bus.message_bytes_max,
        )
    finally:
        _leave(users, folder, settings.server.stop_seconds)


def _leave(users: int, folder: Path, stop_seconds: float) -> None:
    """Stop the server if nobody else uses it and nobody asked to keep it."""
    try:
        if not try_lock(users):
            return
        record = read_record(folder)
        if record is None or not record.keep:
            server.stop(folder, stop_seconds)
    finally:
        os.close(users)


def _secrets(loaded: Loaded, environ: Mapping[str, str]) -> dict[str, Any]:
    """How we identify ourselves to a broker of the person's; SettingsError if what the settings name is of no use."""
    chosen = loaded.settings.bus
    found: dict[str, Any] = {}
    if chosen.credentials:
        is_seed = Path(chosen.credentials).suffix == ".nk"
        found["nkeys_seed" if is_seed else "user_credentials"] = _readable(
            loaded, "bus.credentials", chosen.credentials
        )
    if chosen.user:
        found["user"] = chosen.user
    if chosen.password is not None:
        found["password"] = _fetch(loaded, environ, "bus.password", chosen.password).reveal()
    if chosen.token is not None:
        found["token"] = _fetch(loaded, environ, "bus.token", chosen.token).reveal()
    if chosen.tls.ca or chosen.tls.cert or chosen.url.startswith("tls://"):
        found["tls"] = _tls(loaded)
        if chosen.tls.hostname:
            found["tls_hostname"] = chosen.tls.hostname
    return found


def _fetch(loaded: Loaded, environ: Mapping[str, str], key: str, secret: SecretReference) -> SecretValue:
    try:
        return resolve(secret, environ, loaded.root)
    except SecretUnavailableError as error:
        raise error.of_setting(loaded.place(key), key) from error


def _tls(loaded: Loaded) -> ssl.SSLContext:
    chosen, key = loaded.settings.bus.tls, "bus.tls.ca"
    try:
        context = ssl.create_default_context(cafile=_readable(loaded, key, chosen.ca) if chosen.ca else None)
        key = "bus.tls.cert"
        if chosen.cert:
            context.load_cert_chain(_readable(loaded, key, chosen.cert), _readable(loaded, "bus.tls.key", chosen.key))
    except ssl.SSLError as error:
        raise _unusable(loaded, key, f"is not what TLS needs ({error.reason or error})") from error
    return context


def _readable(loaded: Loaded, key: str, path: str) -> str:
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise _unusable(loaded, key, f"names {path}, which cannot be read ({error.strerror})") from error
    return path


def _unusable(loaded: Loaded, key: str, what: str) -> SettingsError:
    return SettingsError([Problem(place=loaded.place(key), key=key, what=what, fix="name the right file")])

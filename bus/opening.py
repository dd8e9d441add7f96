"""Opening the bus by the settings: a broker at a URL, or the project's own embedded server.

An embedded server that nobody asked to keep runs as long as somebody uses it: each user holds a shared lock, and
whoever leaves last stops it. So a single command works without any set-up and leaves no process behind.
"""

import asyncio
import fcntl
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bus import server
from bus.bus import Bus
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.settings import Loaded, make_state_folder, resolve, state_folder
from bus.topology import apply_topology, plan_topology
from protocol.subjects import Role, Subjects

CONNECT_SECONDS = 5.0


def server_folder(loaded: Loaded, environ: Mapping[str, str]) -> Path:
    """Where the embedded server of this project lives; made if it is not there."""
    settings = loaded.settings
    folder = state_folder(settings.project, loaded.root, settings.state_folder, environ)
    return make_state_folder(folder, loaded.root) / "broker"


@asynccontextmanager
async def open_bus(loaded: Loaded, environ: Mapping[str, str], role: Role) -> AsyncIterator[Bus]:
    """The project's bus with its topology in place, under the identity of `role`."""
    settings, subjects = loaded.settings, Subjects(loaded.settings.project)
    async with _broker_address(loaded, environ, role, subjects) as (url, secrets):
        options = ConnectOptions(
            url=url,
            name=f"callboard {settings.project} {role}",
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
        try:
            topology = plan_topology(
                subjects, replicas=settings.bus.replicas, ack_wait_seconds=settings.bus.ack_wait_seconds
            )
            await apply_topology(broker, topology)
            yield bus
        finally:
            await bus.close()


@asynccontextmanager
async def _broker_address(
    loaded: Loaded, environ: Mapping[str, str], role: Role, subjects: Subjects
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    if loaded.settings.bus.url:
        yield loaded.settings.bus.url, _secrets(loaded, environ)
        return
    folder = server_folder(loaded, environ)
    folder.mkdir(mode=0o700, exist_ok=True)
    users = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Taken before the server is looked for, so that nobody stops it between finding and using it.
        await asyncio.to_thread(fcntl.flock, users, fcntl.LOCK_SH)
        running = await asyncio.to_thread(server.start_or_adopt, folder, subjects, loaded.settings.server, keep=False)
        yield running.url, server.credentials(folder, role)
    finally:
        await asyncio.to_thread(_leave, folder, users, loaded.settings.server.stop_seconds)


def _leave(folder: Path, users: int, stop_seconds: float) -> None:
    """Stop the server if nobody else uses it and nobody asked to keep it."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        running = server.find_running(folder)
        if running is not None and not running.keep:
            server.stop(folder, stop_seconds)
    finally:
        os.close(users)


def _secrets(loaded: Loaded, environ: Mapping[str, str]) -> dict[str, Any]:
    """How we identify ourselves to a broker of the person's."""
    chosen = loaded.settings.bus
    found: dict[str, Any] = {}
    if chosen.credentials:
        is_seed = Path(chosen.credentials).suffix == ".nk"
        found["nkeys_seed" if is_seed else "user_credentials"] = chosen.credentials
    if chosen.user:
        found["user"] = chosen.user
    if chosen.password is not None:
        found["password"] = resolve(chosen.password, environ, loaded.root).reveal()
    if chosen.token is not None:
        found["token"] = resolve(chosen.token, environ, loaded.root).reveal()
    if chosen.tls.ca or chosen.tls.cert or chosen.url.startswith("tls://"):
        context = ssl.create_default_context(cafile=chosen.tls.ca or None)
        if chosen.tls.cert:
            context.load_cert_chain(chosen.tls.cert, chosen.tls.key)
        found["tls"] = context
        if chosen.tls.hostname:
            found["tls_hostname"] = chosen.tls.hostname
    return found

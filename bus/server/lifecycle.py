"""Starting, finding and stopping the server of a folder.

Two locks keep it to one server a folder. `starting.lock` is held by whoever starts or stops. `running.lock` is
inherited by the server itself, so that no second one opens the same store even if its starter died before it could
write server.json.
"""

import hashlib
import signal
import time
from pathlib import Path

import msgspec
import structlog

from bus.errors import DiskFullError, PortInUseError, PortLostError, ServerError, ServerStartError
from bus.server.binary import find_binary
from bus.server.config import CONFIG, DATA, IDENTITIES, PID, PORT_ANY, free_bytes, identities_config, server_config
from bus.server.files import POLL_SECONDS, locked, make_private_folder, telling_why, write_private
from bus.server.identity import make_identities
from bus.server.process import (
    HOST,
    PortTakenError,
    answers,
    birth,
    end_process,
    is_alive,
    last_lines,
    log_size,
    ports_files,
    read_log,
    signal_process,
    spawn,
    wait_until_listening,
)
from bus.server.record import (
    RECORD,
    Record,
    RunningServer,
    claim_folder,
    find_unrecorded,
    read_last_port,
    read_record,
    write_last_port,
    write_record,
)
from bus.server.store import is_without_accounts, move_to_bus_account
from bus.settings.model import MIB, Server
from protocol.subjects import Subjects

log = structlog.get_logger()

STARTING = "starting.lock"
RUNNING = "running.lock"
FREE_BYTES_MIN = 1 * MIB
"""With less than this not even one message of the largest size could be stored."""
STOP_SECONDS = 10.0
HOLDER_GONE_SECONDS = 1.0


class _Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller asked for."""

    folder: Path
    subjects: Subjects
    settings: Server
    message_bytes_max: int
    keep: bool
    identities: bytes
    port: int
    """The only one that will do; 0: any."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.identities).hexdigest()


def start_or_adopt(  # noqa: PLR0913 -- what a server is made of, and what is wanted of it
    folder: Path, subjects: Subjects, settings: Server, *, keep: bool, message_bytes_max: int = MIB, port: int = 0
) -> RunningServer:
    """The project's server: the one that runs already, brought up to date in its permissions, or a new one.

    `keep` says that it should stay when its starter is done; once said, it holds until the server is stopped.
    Changed settings wait for the next start. A server that has no accounts yet is started again, on its port and with
    its data: its clients come back by themselves. Where there are such clients `port` says where they look for it: it
    is there, or PortLostError. Blocks; raises ServerError and its subclasses.
    """
    folder = folder.absolute()
    with telling_why(folder):
        make_private_folder(folder)
        with locked(folder / STARTING, 2 * settings.start_seconds + settings.stop_seconds):
            claim_folder(folder, subjects.project)
            wish = _Wish(
                folder=folder,
                subjects=subjects,
                settings=settings,
                message_bytes_max=message_bytes_max,
                keep=keep,
                identities=identities_config(subjects, make_identities(folder)),
                port=port,
            )
            record = _settle_existing(folder, settings, may_replace=keep)
            if record is not None and port not in (0, record.port):
                raise PortLostError(port)
            return _start(wish) if record is None else _adopt(wish, record)


def find_running(folder: Path) -> RunningServer | None:
    """The server of `folder` if one runs and answers; changes nothing."""
    folder = folder.absolute()
    record = read_record(folder)
    if record is None or not is_alive(record.pid, record.born) or not record.port or not answers(record.port):
        return None
    return record.running(folder, started_by_us=False)


def stop(folder: Path, stop_seconds: float = STOP_SECONDS) -> bool:
    """Stop the server of `folder`, whoever started it; False if none ran. Its data, keys and port stay."""
    folder = folder.absolute()
    if not folder.is_dir():
        return False
    with telling_why(folder), locked(folder / STARTING, 2 * stop_seconds):
        record = read_record(folder) or find_unrecorded(folder)
        return record is not None and _end(folder, record, stop_seconds)


def _settle_existing(folder: Path, settings: Server, *, may_replace: bool) -> Record | None:
    """The record of a server that answers. Whatever else is left of one is ended and cleared away.

    But not where somebody keeps it, and we do not: that we cannot reach it does not mean that nobody can.
    """
    record = read_record(folder)
    if record is not None and _answers_in_time(record, settings.start_seconds):
        return record
    if record is not None and record.keep and not may_replace and is_alive(record.pid, record.born):
        raise ServerError(f"the embedded server runs as process {record.pid} and does not answer at {record.url}")
    record = record or find_unrecorded(folder)
    if record is not None and _end(folder, record, settings.stop_seconds):
        log.warning("server.replaced", pid=record.pid, reason="it did not answer, or nobody had written it down")
    return None


def _answers_in_time(record: Record, seconds: float) -> bool:
    """Whether a server answers, given time for a busy machine; without a port its starter died before it listened."""
    deadline = time.monotonic() + seconds
    while record.port and is_alive(record.pid, record.born):
        if answers(record.port):
            return True
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return False


def _adopt(wish: _Wish, record: Record) -> RunningServer:
    adopted = msgspec.structs.replace(record, keep=record.keep or wish.keep, identities=wish.digest)
    if adopted.identities != record.identities:
        if is_without_accounts(wish.folder):
            return _start_again(wish, record)
        write_private(wish.folder / IDENTITIES, wish.identities)
        _reload(wish.folder, record, wish.settings.start_seconds)
    if adopted != record:
        write_record(wish.folder, adopted)
    log.info("server.adopted", pid=record.pid, url=record.url)
    return adopted.running(wish.folder, started_by_us=False)


def _start_again(wish: _Wish, record: Record) -> RunningServer:
    """Because a server that runs does not give the streams of one account to another."""
    _end(wish.folder, record, wish.settings.stop_seconds)
    log.warning("server.replaced", pid=record.pid, reason="an older version has started it, without accounts")
    return _start(msgspec.structs.replace(wish, keep=record.keep or wish.keep))


def _reload(folder: Path, record: Record, seconds: float) -> None:
    """Have the server read its permissions again; returns when it says that it has."""
    start, deadline = log_size(folder), time.monotonic() + seconds
    signal_process(record.pid, record.born, signal.SIGHUP)
    said = ""
    while time.monotonic() < deadline and "Failed to reload" not in said:
        said = read_log(folder, start)
        if "Reloaded server configuration" in said:
            log.info("server.reloaded", pid=record.pid)
            return
        time.sleep(POLL_SECONDS)
    raise ServerStartError("it did not take its new permissions", last_lines(said))


def _start(wish: _Wish) -> RunningServer:
    folder, chosen = wish.folder, wish.settings.port
    binary = find_binary(wish.settings.binary)
    if free_bytes(folder) < FREE_BYTES_MIN:
        raise DiskFullError(str(folder))
    make_private_folder(folder / DATA)
    write_private(folder / IDENTITIES, wish.identities)
    last = read_last_port(folder)
    try:
        record = _launch(wish, binary, wish.port or chosen or last)
    except PortTakenError as error:
        if wish.port:
            raise PortLostError(wish.port) from error
        if chosen:
            raise PortInUseError(chosen) from error
        log.warning("server.port_lost", port=last)
        record = _launch(wish, binary, PORT_ANY)
    write_last_port(folder, record.port)
    log.info("server.started", pid=record.pid, url=record.url)
    return record.running(folder, started_by_us=True)


def _launch(wish: _Wish, binary: Path, port: int) -> Record:
    """Run the server until it listens; whatever goes wrong leaves no process behind."""
    folder, seconds = wish.folder, wish.settings.start_seconds
    config = server_config(folder, wish.subjects, wish.settings, port, wish.message_bytes_max)
    write_private(folder / CONFIG, config)
    log_from = log_size(folder)
    with locked(folder / RUNNING, HOLDER_GONE_SECONDS) as lock:
        move_to_bus_account(folder)
        pid = spawn(binary, folder, lock)
    record = Record(pid=pid, born=birth(pid) or 0, keep=wish.keep, identities=wish.digest)
    try:
        write_record(folder, record)
        port = wait_until_listening(folder, pid, record.born, seconds, log_from)
        record = msgspec.structs.replace(record, port=port, url=f"nats://{HOST}:{port}")
        write_record(folder, record)
    except BaseException as error:
        _end(folder, record, wish.settings.stop_seconds)
        if isinstance(error, ServerStartError) and _is_full(folder, read_log(folder, log_from)):
            raise DiskFullError(str(folder)) from error
        raise
    return record


def _is_full(folder: Path, said: str) -> bool:
    return "no space left" in said or free_bytes(folder) == 0


def _end(folder: Path, record: Record, seconds: float) -> bool:
    """End the process if it still runs and remove what it left; True if it ran."""
    ran = is_alive(record.pid, record.born)
    end_process(record.pid, record.born, seconds)
    for path in (*ports_files(folder, record.pid), folder / PID, folder / RECORD):
        path.unlink(missing_ok=True)
    if ran:
        log.info("server.stopped", pid=record.pid)
    return ran

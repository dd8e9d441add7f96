"""The server as a process: started in a session of its own, known by pid and start time, ended by that alone."""

import json
import os
import select
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from bus.errors import ServerError, ServerStartError
from bus.server.config import CONFIG, LOG
from bus.server.files import POLL_SECONDS
from bus.settings import without_secrets

HOST = "127.0.0.1"
ANSWER_SECONDS = 1.0
KILL_SECONDS = 5.0
LOG_TAIL_LINES = 5
_PORT_TAKEN = "address already in use"

_children: dict[int, "subprocess.Popen[bytes]"] = {}
"""Servers that this process started, to be reaped when they have ended."""


class PortTakenError(ServerError):
    """The server found its port in use; whoever chose the port knows what that means."""


def spawn(binary: Path, folder: Path, lock: int) -> int:
    """Start the server and return its pid at once; it inherits `lock` and so holds it for as long as it lives."""
    descriptor = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as log:
        process = subprocess.Popen(  # noqa: S603 -- a binary that was checked
            [binary, "-c", folder / CONFIG],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in its starter's terminal is not meant for it
            pass_fds=(lock,),
            env=without_secrets(os.environ),  # it needs no key, and outlives whoever has one
            umask=0o077,
        )
    _children[process.pid] = process
    return process.pid


def wait_until_listening(folder: Path, pid: int, born: int, seconds: float, log_from: int) -> int:
    """The port on which the server answers; PortTakenError or ServerStartError if it does not come to that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not is_alive(pid, born):
            said = read_log(folder, log_from)
            if _PORT_TAKEN in said:
                raise PortTakenError(_PORT_TAKEN)
            raise ServerStartError("it ended at once", last_lines(said))
        port = _reported_port(folder, pid)
        if port is not None and answers(port):
            return port
        time.sleep(POLL_SECONDS)
    reason = f"not ready within {seconds:g} s; raise server.start_seconds; log: {folder / LOG}"
    raise ServerStartError(reason, last_lines(read_log(folder, log_from)))


def _reported_port(folder: Path, pid: int) -> int | None:
    # The file is there before its content is; those of killed servers stay, under other pids.
    for path in ports_files(folder, pid):
        try:
            urls = json.loads(path.read_bytes())["nats"]
            return int(urls[0].rpartition(":")[2])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None


def ports_files(folder: Path, pid: int) -> list[Path]:
    """Where the server says on which port it listens: one file, named after its binary, once it is there."""
    return list(folder.glob(f"*_{pid}.ports"))


def answers(port: int) -> bool:
    """Whether a NATS server greets us on a loopback port."""
    try:
        with socket.create_connection((HOST, port), ANSWER_SECONDS) as connection:
            connection.settimeout(ANSWER_SECONDS)
            return connection.recv(5) == b"INFO "
    except OSError:
        return False


def birth(pid: int) -> int | None:
    """When a process was started, in ticks since the machine was; None if it is gone or only waits to be reaped."""
    try:
        # The name in parentheses may hold anything, so the fields are counted from its end.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def is_alive(pid: int, born: int) -> bool:
    """Whether that very process runs, and not another that has got its number; reaps it if it was ours."""
    reap(pid)
    return birth(pid) == born


def reap(pid: int) -> None:
    """Take the exit status of a child of ours that has ended; others are their parents' business."""
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        _children.pop(pid, None)


def started_here() -> frozenset[int]:
    """The servers that this process has started, and reaps itself."""
    return frozenset(_children)


def signal_process(pid: int, born: int, number: signal.Signals) -> bool:
    """Send a signal to that very process; False if it is gone."""
    descriptor = open_process(pid, born)
    if descriptor is None:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def end_process(pid: int, born: int, seconds: float) -> None:
    """Ask it to stop, kill it after `seconds`, and return when it is gone; ServerError if even that does not help."""
    descriptor = open_process(pid, born)
    if descriptor is not None:
        try:
            for number, limit in ((signal.SIGTERM, seconds), (signal.SIGKILL, KILL_SECONDS)):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)
                if _ended(descriptor, limit):
                    break
            else:
                raise ServerError(f"process {pid} cannot be killed")
        finally:
            os.close(descriptor)
    reap(pid)


def open_process(pid: int, born: int) -> int | None:
    """A handle that stays with the process, so that its number cannot pass to another between check and signal."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if birth(pid) == born:
        return descriptor
    os.close(descriptor)
    return None


def _ended(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(round(seconds * 1000)))


def log_size(folder: Path) -> int:
    """Where the log ends now."""
    try:
        return (folder / LOG).stat().st_size
    except FileNotFoundError:
        return 0


def read_log(folder: Path, start: int) -> str:
    """What the log holds from `start` on; all of it if the server has begun a new file since."""
    with suppress(OSError):
        data = (folder / LOG).read_bytes()
        return (data[start:] if start <= len(data) else data).decode(errors="replace")
    return ""


def last_lines(text: str) -> str:
    """The end of a log, short enough for a message."""
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])

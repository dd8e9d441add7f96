"""A dockerd for one test run: everything it has is in one temporary folder, and nothing of it stays.

It runs in a process and a mount namespace of its own. Ending the namespace ends containerd, shims and
containers and takes their mounts along, whatever state they are in; the kernel sees to it even when this
process is killed with kill -9.
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.containers.errors import EngineFailureError, NoEngineError
from tests.containers.leftovers import temporary_folder
from tests.containers.programs import finished, last_lines, say

LOCK = "\0callboard-engine"
LOCK_SECONDS = 600.0
READY_SECONDS = 60.0
EMPTY_SECONDS = 30.0
END_SECONDS = 15.0
POLL_SECONDS = 0.1


@contextmanager
def own_daemon() -> Iterator[str]:
    """The address of a fresh daemon, gone again at the end; raises NoEngineError when it does not come up."""
    with only_engine(), temporary_folder() as folder:
        host = f"unix://{folder}/docker.sock"
        process = launch(folder, host)
        try:
            wait_until_ready(process, host, folder / "log")
            yield host
        finally:
            empty(host)
            end(process)


@contextmanager
def only_engine() -> Iterator[None]:
    """Wait for another run's engine to go: two would hand out the same addresses on the default bridge.

    The lock is the name of a socket without a file, so it is free the moment its holder is gone.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    with socket.socket(socket.AF_UNIX) as lock:
        while not taken(lock):
            if time.monotonic() > deadline:
                raise EngineFailureError(["dockerd"], f"another run has kept its engine for {LOCK_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        yield


def taken(lock: socket.socket) -> bool:
    with suppress(OSError):
        lock.bind(LOCK)
        return True
    return False


def launch(folder: Path, host: str) -> subprocess.Popen[bytes]:
    command = [
        *("setpriv", "--pdeathsig", "KILL"),  # Should this process be killed, the namespace goes with it.
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("dockerd", "--host", host, "--pidfile", f"{folder}/docker.pid"),
        *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
        # The machine's firewall and routing stay as they are; published ports are on loopback.
        *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip", "127.0.0.1"),
        # A cgroup parent of our own can be removed afterwards; this driver is the one that takes any name.
        *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{folder.name}"),
    ]
    say("Starting a container engine for this run …")
    with (folder / "log").open("wb") as log:
        # Its own session: a Ctrl-C in the terminal is for the tests, which still need the engine to clean up.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def wait_until_ready(process: subprocess.Popen[bytes], host: str, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not answers(host):
        if process.poll() is not None:
            raise NoEngineError(f"dockerd cannot run here: {last_lines(log.read_text(errors='replace'))}")
        if time.monotonic() > deadline:
            raise NoEngineError(f"dockerd did not answer within {READY_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def answers(host: str) -> bool:
    """Whether a daemon that runs Linux containers is behind this address."""
    command = ["docker", "--host", host, "version", "--format", "{{.Server.Os}}"]
    with suppress(subprocess.TimeoutExpired):
        asked = finished(command, seconds=READY_SECONDS)
        return asked.returncode == 0 and asked.stdout.strip() == "linux"
    return False


def empty(host: str) -> None:
    """Remove containers and networks that an interrupted run left: their bridges are outside the namespaces."""
    docker = ["docker", "--host", host]
    with suppress(subprocess.TimeoutExpired):
        if containers := finished([*docker, "ps", "--all", "--quiet"], seconds=EMPTY_SECONDS).stdout.split():
            finished([*docker, "rm", "--force", *containers], seconds=EMPTY_SECONDS)
        finished([*docker, "network", "prune", "--force"], seconds=EMPTY_SECONDS)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the namespace's parent, by its id. Asking first would gain nothing: all data is about to be thrown away."""
    process.kill()
    process.wait(timeout=END_SECONDS)

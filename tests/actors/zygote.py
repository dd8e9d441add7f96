"""Forks understudies' processes, each in milliseconds, and says how they ended.

Reads one order a line from standard input; for each it forks a child that runs the production process with a world
that kills or stops it at a boundary. Writes `{"order", "pid"}` when it has started one, `{"order", "code"}` when that
has ended; a negative code is the signal that ended it.
"""

import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from actors.logs import configure_logs
from actors.process import run_actor
from actors.runtime.world import RealWorld
from bus.settings import load
from tests.actors.folder import Folder
from tests.actors.understudies.parts import parts


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One process to start. `act` is "", "kill" or "stop", at boundary number `at`."""

    order: int
    machine: str
    actor: str
    project: str
    url: str
    folder: str
    lease_seconds: int
    ack_wait_seconds: float
    act: str = ""
    at: int = 0


class CrashingWorld(RealWorld):
    """The real world, in which the process is killed or stopped at one of its boundaries."""

    def __init__(self, bus: Any, order: Order) -> None:
        super().__init__(bus)
        self._order = order
        self._passed = 0

    async def boundary(self, name: str) -> None:
        """Count, and act when it is time."""
        self._passed += 1
        if self._passed == self._order.at:
            self._act(name)

    def _act(self, name: str) -> None:
        Path(self._order.folder, f"{self._order.act}-{self._order.at}").write_text(name)
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[self._order.act])


def play(order: Order) -> int:
    """Run one process to its end, in the child."""
    environ = {
        "CALLBOARD_BUS_LEASE_SECONDS": str(order.lease_seconds),
        "CALLBOARD_BUS_ACK_WAIT_SECONDS": str(order.ack_wait_seconds),
        "HOME": order.folder,
    }
    loaded = load({"project": order.project, "bus.url": order.url}, environ, Path(order.folder))
    configure_logs("info", actor=order.actor)
    part = parts(Folder(Path(order.folder)))[order.machine]

    def make_world(bus: Any) -> RealWorld:
        return CrashingWorld(bus, order)

    return uvloop.run(run_actor(part, order.actor, loaded, environ, make_world=make_world))


def fork(order: Order) -> int:
    """Start a child; it never comes back from here."""
    pid = os.fork()
    if pid:
        return pid
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(Path(order.folder) / f"{order.actor}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    try:
        code = play(order)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def say(**facts: int) -> None:
    """Tell the test."""
    os.write(1, msgspec.json.encode(facts) + b"\n")


def main() -> None:
    """Take orders until standard input is closed; then end all children."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, int] = {}
    waiting = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            reap(children)
        if 0 in ready:
            chunk = os.read(0, 65536)
            if not chunk:
                break
            *lines, waiting = (waiting + chunk).split(b"\n")
            for line in lines:
                order = msgspec.json.decode(line, type=Order)
                pid = fork(order)
                children[pid] = order.order
                say(order=order.order, pid=pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def reap(children: dict[int, int]) -> None:
    """Say how those ended that have."""
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            say(order=children.pop(pid), code=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()

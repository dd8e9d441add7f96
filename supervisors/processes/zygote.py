"""The zygote: a process that has imported everything and forks actors in milliseconds.

It has no event loop, thread, connection or lock that could cross a fork, and stays what it is: it takes orders by a
socket, forks, reaps and reports. It is subreaper, so all its children but the actors are what ended ones have left
behind: it ends them, and only then reports the actor. When its supervisor is gone, the socket ends; it waits until
nobody of the company is left, whom their tethers have told to leave, kills those that do not, and ends too.
"""

import gc
import importlib
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, NoReturn

import msgspec

from bus.server.process import birth, signal_process
from supervisors.processes.child import be_actor, look_in
from supervisors.processes.exits import Unheard, leave
from supervisors.processes.fitness import connections, unfit_for_fork
from supervisors.processes.fresh import become_fresh
from supervisors.processes.kin import (
    ZYGOTE,
    become_subreaper,
    call_ourselves,
    children,
    company_of,
    is_zygote,
    marked,
)
from supervisors.processes.orders import (
    PACKET_BYTES_MAX,
    Ended,
    Loaded,
    Order,
    Refused,
    Report,
    Started,
    Unfit,
    resources_of,
)

KILL_SECONDS = 5.0
"""How long what was killed may take to be gone; longer, nobody waits for it."""
LOOK_SECONDS = 0.1
"""How often a zygote that has outlived its supervisor looks for those who are no children of its."""


class _Child(NamedTuple):
    order: Order
    began: float


class Zygote:
    """Forks and reaps."""

    def __init__(self, orders: socket.socket, company: str, be: Callable[[Order, int], int]) -> None:
        self._orders = orders
        self._company = company
        self._be = be
        self._children: dict[int, _Child] = {}
        self._ended: list[tuple[int, _Child, Ended]] = []
        self._report_at = 0.0
        self._unkillable: set[int] = set()
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._waking, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        become_subreaper()

    def serve(self) -> None:
        """Follow orders until there is nobody left to give any."""
        self._report(Loaded(pid=os.getpid()))
        while True:
            seconds = max(0.0, self._report_at - time.monotonic()) if self._ended else None
            if self._is_called(seconds):
                packet, tethers = self._hear()
                if not packet:
                    return
                self._follow(msgspec.json.decode(packet, type=Order), tethers[0])

    def outlive(self, seconds: float) -> None:
        """The supervisor is gone: see to it that nobody stays behind, whichever zygote has started them."""
        self._orders.close()
        self._wait(seconds, kill=False)
        self._wait(KILL_SECONDS, kill=True)

    def _wait(self, seconds: float, *, kill: bool) -> None:
        """Until nobody is left, or for so long."""
        deadline = time.monotonic() + seconds
        while (left := self._left()) and (now := time.monotonic()) < deadline:
            for pid in left if kill else ():
                with suppress(OSError):
                    signal_process(pid, birth(pid) or 0, signal.SIGKILL)
            self._sleep(min(LOOK_SECONDS, deadline - now), [])

    def _left(self) -> list[int]:
        """Our own children first, then whoever of the company has lost his parents."""
        self._settle()
        own = children() - self._unkillable
        return sorted(own) or [pid for pid in marked(self._company) if not is_zygote(pid)]

    # Waiting.

    def _is_called(self, seconds: float | None) -> bool:
        """Wait for an order for so long; meanwhile see to those who have ended."""
        ready = self._sleep(seconds, [self._orders.fileno()])
        self._settle()
        return bool(ready)

    def _sleep(self, seconds: float | None, others: list[int]) -> list[int]:
        poll = select.poll()
        for each in (self._woken, *others):
            poll.register(each, select.POLLIN)
        ready = {each for each, _ in poll.poll(None if seconds is None else seconds * 1000)}
        if self._woken in ready:
            os.read(self._woken, PACKET_BYTES_MAX)
        return [each for each in others if each in ready]

    def _hear(self) -> tuple[bytes, list[int]]:
        """The next order; an empty one is the end, which is an error where a killed supervisor left reports unread."""
        try:
            packet, tethers, _, _ = socket.recv_fds(self._orders, PACKET_BYTES_MAX, 1)
        except OSError:
            return b"", []
        return packet, tethers

    # Beginning.

    def _follow(self, order: Order, tether: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            os.close(tether)
            self._report(Refused(number=order.number, reason=str(error)))
            return
        if pid == 0:
            self._begin(order, tether)
        os.close(tether)  # or the line would not end with the process
        self._children[pid] = _Child(order, time.monotonic())
        # Not reaped yet, so the number is still that process's: whoever has the pidfd can mean no other.
        pidfd = os.pidfd_open(pid)
        self._report(Started(number=order.number, pid=pid), pidfd)
        os.close(pidfd)

    def _begin(self, order: Order, tether: int) -> NoReturn:
        """In the child, which never comes back from here."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._orders.close()
            os.close(self._woken)
            os.close(self._waking)
            os.setsid()  # a tool that signals to its whole group reaches no other actor
            become_subreaper()  # so nothing that it has started leaves it before it ends
            call_ourselves(order.actor)
            code = self._be(order, tether)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    # Ending.

    def _settle(self) -> None:
        """Reap; report who has ended once nothing of what they have left behind runs any more."""
        self._reap()
        if not self._ended:
            return
        strangers = children() - self._children.keys() - self._unkillable
        for pid in strangers:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)  # not reaped yet: its number means no other process
        if strangers and time.monotonic() < self._report_at:
            return
        self._unkillable |= strangers
        for pid, child, ended in self._ended:
            if not self._report(msgspec.structs.replace(ended, left=tuple(sorted(strangers)))):
                self._leave(pid, child, ended)
        self._ended.clear()

    def _leave(self, pid: int, child: _Child, ended: Ended) -> None:
        order, lived = child.order, time.monotonic() - child.began
        unheard = Unheard(
            machine=order.machine,
            actor=order.actor,
            log=order.log,
            pid=pid,
            code=ended.code,
            lived_seconds=lived,
            resources=ended.resources,
        )
        leave(self._company, unheard)

    def _reap(self) -> None:
        with suppress(ChildProcessError):  # there are none
            while (found := os.wait4(-1, os.WNOHANG))[0]:
                self._bury(*found)

    def _bury(self, pid: int, status: int, used: resource.struct_rusage) -> None:
        self._unkillable.discard(pid)
        child = self._children.pop(pid, None)
        if child is not None:
            if not self._ended:
                self._report_at = time.monotonic() + KILL_SECONDS
            code = os.waitstatus_to_exitcode(status)
            ended = Ended(number=child.order.number, code=code, resources=resources_of(used))
            self._ended.append((pid, child, ended))

    def _report(self, report: Report, *descriptors: int) -> bool:
        """Whether anybody listens; the end of the socket is seen where it is read."""
        try:
            socket.send_fds(self._orders, [msgspec.json.encode(report)], list(descriptors))
        except OSError:
            return False
        return True


def main() -> None:
    """Entry point: `python -m supervisors.processes.zygote PROCESSES SOCKET LOCK ORPHAN_SECONDS FOLDER [MODULE…]`.

    PROCESSES is how actors are started, fork or exec. SOCKET and LOCK are descriptors; the lock is only held, by
    whoever is started too.
    """
    processes, descriptor, held, seconds, folder, *modules = sys.argv[1:]
    lock = int(held)
    call_ourselves(ZYGOTE)
    for inherited in (int(descriptor), lock):
        os.set_inheritable(inherited, False)  # forked processes have them, what those start has not
    orders = socket.socket(fileno=int(descriptor))
    if processes == "fork" and (reason := _load(folder, modules)):
        socket.send_fds(orders, [msgspec.json.encode(Unfit(reason=reason))], [])
        return
    zygote = Zygote(orders, company_of(lock), be_actor if processes == "fork" else partial(become_fresh, lock=lock))
    zygote.serve()
    zygote.outlive(float(seconds))


def _load(folder: str, modules: list[str]) -> str:
    """Import everything; why nothing can be forked then, if so."""
    look_in(folder)
    before = connections()
    for module in modules:
        with suppress(Exception, SystemExit):  # whoever is to play it says what is wrong with it
            importlib.import_module(module)
        if reason := unfit_for_fork(before):
            return f"importing {module} {reason}"
    gc.collect()
    gc.freeze()  # what is here now is never looked at again, so the pages stay shared
    return ""


if __name__ == "__main__":
    main()

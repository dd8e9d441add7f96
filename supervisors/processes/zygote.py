"""The zygote: a process that has imported everything and forks actors in milliseconds.

It has no event loop, thread, connection or lock that could cross a fork, and stays what it is: it takes orders by a
socket, forks, reaps and reports. When its supervisor is gone, the socket ends; it waits for its children, whom their
tethers have told to leave, kills those that do not, and ends too.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import NoReturn

import msgspec

from supervisors.processes.child import be_actor, look_in
from supervisors.processes.fitness import connections, unfit_for_fork
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


class Zygote:
    """Forks and reaps."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._children: dict[int, int] = {}
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._waking, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Follow orders until there is nobody left to give any."""
        self._report(Loaded(pid=os.getpid()))
        while True:
            ready, _, _ = select.select([self._orders.fileno(), self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, PACKET_BYTES_MAX)
                self._reap()
            if self._orders.fileno() in ready:
                packet, tethers = self._hear()
                if not packet:
                    return
                self._follow(msgspec.json.decode(packet, type=Order), tethers[0])

    def outlive(self, seconds: float) -> None:
        """The supervisor is gone: see to it that nobody stays behind."""
        deadline = time.monotonic() + seconds
        while self._children and time.monotonic() < deadline:
            if select.select([self._woken], [], [], max(0.0, deadline - time.monotonic()))[0]:
                os.read(self._woken, PACKET_BYTES_MAX)
            self._reap()
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def _hear(self) -> tuple[bytes, list[int]]:
        """The next order; an empty one is the end, which is an error where a killed supervisor left reports unread."""
        try:
            packet, tethers, _, _ = socket.recv_fds(self._orders, PACKET_BYTES_MAX, 1)
        except OSError:
            return b"", []
        return packet, tethers

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
        self._children[pid] = order.number
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
            code = be_actor(order, tether)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while self._children:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            number = self._children.pop(pid, None)
            if number is not None:
                self._report(Ended(number=number, code=os.waitstatus_to_exitcode(status), resources=resources_of(used)))

    def _report(self, report: Report, *descriptors: int) -> None:
        try:
            socket.send_fds(self._orders, [msgspec.json.encode(report)], list(descriptors))
        except OSError:
            return  # nobody listens any more; the end of the socket is seen where it is read


def main() -> None:
    """Entry point: `python -m supervisors.processes.zygote SOCKET LOCK ORPHAN_SECONDS FOLDER [MODULE…]`.

    SOCKET and LOCK are descriptors; the lock is only held, by whoever is forked too.
    """
    descriptor, lock, seconds, folder, *modules = sys.argv[1:]
    for inherited in (int(descriptor), int(lock)):
        os.set_inheritable(inherited, False)  # forked processes have them, what those start has not
    orders = socket.socket(fileno=int(descriptor))
    look_in(folder)
    before = connections()
    for module in modules:
        with suppress(Exception, SystemExit):  # whoever is to play it says what is wrong with it
            importlib.import_module(module)
    if reason := unfit_for_fork(before):
        socket.send_fds(orders, [msgspec.json.encode(Unfit(reason=reason))], [])
        return
    gc.collect()
    gc.freeze()  # what is here now is never looked at again, so the pages stay shared
    zygote = Zygote(orders)
    zygote.serve()
    zygote.outlive(float(seconds))


if __name__ == "__main__":
    main()

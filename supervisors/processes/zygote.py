"""The zygote: a process that has imported everything and forks actors in milliseconds.

It has no event loop, thread, connection or lock that could cross a fork, and stays what it is: it takes orders by a
socket, forks, reaps and reports. When its supervisor is gone, the socket ends; it waits for its children, which the
leash has told to leave, kills those that do not, and ends too.

Started with the numbers of two descriptors: the socket and the leash.
"""

import gc
import os
import select
import signal
import socket
import sys
import threading
import time
from typing import NoReturn

import msgspec

from supervisors.processes.child import be_actor
from supervisors.processes.orders import PACKET_BYTES_MAX, Ended, Loaded, Order, Refused, Report, Resources, Started

ORPHAN_SECONDS = 15.0
"""How long the children of a dead supervisor may take to leave: more than an actor's own limit."""

KIB = 1024


class Zygote:
    """Forks and reaps."""

    def __init__(self, orders: socket.socket, leash: int) -> None:
        self._orders = orders
        self._leash = leash
        self._children: dict[int, int] = {}
        self._woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Follow orders until there is nobody left to give any."""
        self._report(Loaded(pid=os.getpid()))
        while True:
            ready, _, _ = select.select([self._orders.fileno(), self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, PACKET_BYTES_MAX)
                self._reap()
            if self._orders.fileno() in ready:
                packet = self._orders.recv(PACKET_BYTES_MAX)
                if not packet:
                    return
                self._follow(msgspec.json.decode(packet, type=Order))

    def outlive(self) -> None:
        """The supervisor is gone: see to it that nobody stays behind."""
        deadline = time.monotonic() + ORPHAN_SECONDS
        while self._children and time.monotonic() < deadline:
            select.select([self._woken], [], [], deadline - time.monotonic())
            self._reap()
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def _follow(self, order: Order) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self._report(Refused(number=order.number, reason=str(error)))
            return
        if pid == 0:
            self._begin(order)
        self._children[pid] = order.number
        # Not reaped yet, so the number is still that process's: whoever has the pidfd can mean no other.
        pidfd = os.pidfd_open(pid)
        self._report(Started(number=order.number, pid=pid), pidfd)
        os.close(pidfd)

    def _begin(self, order: Order) -> NoReturn:
        """In the child, which never comes back from here."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._orders.close()
            code = be_actor(order, self._leash)
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
                resources = Resources(
                    user_seconds=used.ru_utime, system_seconds=used.ru_stime, memory_bytes_max=used.ru_maxrss * KIB
                )
                self._report(Ended(number=number, code=os.waitstatus_to_exitcode(status), resources=resources))

    def _report(self, report: Report, *descriptors: int) -> None:
        try:
            socket.send_fds(self._orders, [msgspec.json.encode(report)], list(descriptors))
        except OSError:
            return  # nobody listens any more; the end of the socket is seen where it is read


def main() -> None:
    """Entry point: `python -m supervisors.processes.zygote SOCKET LEASH`."""
    orders, leash = int(sys.argv[1]), int(sys.argv[2])
    assert threading.active_count() == 1, "a thread does not survive a fork"
    gc.collect()
    gc.freeze()  # what is here now is never looked at again, so the pages stay shared
    zygote = Zygote(socket.socket(fileno=orders), leash)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's: it tells everybody in order
    zygote.serve()
    zygote.outlive()


if __name__ == "__main__":
    main()

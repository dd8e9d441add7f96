"""A process that runs, however it was started: it can be told to leave, killed, heard and waited for."""

import asyncio
import os
import signal
import socket
from typing import Protocol

from actors.runtime.bell import Bell
from actors.tether import READY
from supervisors.errors import StartError
from supervisors.processes.custody import Custody, Exit
from supervisors.processes.orders import PACKET_BYTES_MAX, Order


class Running:
    """One process, held by its pidfd: whatever happens to its number, no other can be meant.

    `tether` is our end of its line. `changed` rings when it is ready or gone.
    """

    def __init__(self, order: Order, pid: int, pidfd: int, tether: socket.socket, custody: Custody) -> None:
        self.order = order
        self.pid = pid
        self.is_ready = False
        self._pulses = 0
        self.changed = Bell()
        self._pidfd = pidfd
        self._tether = tether
        self._custody = custody
        self._ending: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[Exit] = self._loop.create_future()
        self._loop.add_reader(tether.fileno(), self._hear)
        custody.own(pid, self)

    async def wait(self) -> Exit:
        """How it ended, once it is gone, and with it all that it had started."""
        return await asyncio.shield(self._exit)

    @property
    def pulses(self) -> int:
        """How much it has said on its line. Once it is ready nobody is woken by that: it is heard when asked for."""
        if self._tether.fileno() >= 0:
            self._hear()
        return self._pulses

    @property
    def is_gone(self) -> bool:
        """Whether it has ended and was reaped."""
        return self._exit.done()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens if it is gone."""
        if not self.is_gone:
            try:
                signal.pidfd_send_signal(self._pidfd, number)
            except ProcessLookupError:
                return

    def let_go(self) -> None:
        """Cut the tether: the process leaves as if its supervisor were gone."""
        if self._tether.fileno() < 0:
            return
        self._loop.remove_reader(self._tether.fileno())
        self._tether.close()

    def adopt(self) -> None:
        """Whoever started it is gone: reap it ourselves, and end what it leaves behind."""
        if not self.is_gone:
            self._custody.take(self.pid, self._pidfd, self._has_been_reaped)

    def _has_been_reaped(self, exit_: Exit) -> None:
        self._ending = asyncio.ensure_future(self._end(exit_))

    async def _end(self, exit_: Exit) -> None:
        await self._custody.end_strangers()
        self.has_ended(exit_)

    def has_ended(self, exit_: Exit) -> None:
        """For whoever reaps: say how it ended."""
        if not self._exit.done():
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._custody.release(self.pid)
            self.let_go()
            self._exit.set_result(exit_)
            self.changed.ring()

    def _hear(self) -> None:
        """All that it has said by now, at once: after a pause of ours that can be much."""
        while True:
            try:
                word = self._tether.recv(PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                word = b""
            if not word:
                self._loop.remove_reader(self._tether.fileno())
                return
            self._pulses += 1
            if word == READY:
                self.is_ready = True
                self._loop.remove_reader(self._tether.fileno())
                self.changed.ring()


class Nursery(Protocol):
    """Where processes come from."""

    async def start(self, order: Order) -> Running:
        """Start an actor. StartError if the machine cannot."""

    async def close(self) -> None:
        """Let everybody go who is left, wait for them, and end what it keeps for itself."""

    def reap(self) -> None:
        """Take the exit status of children that nobody waits for; to be called again and again."""


def tethers() -> tuple[socket.socket, socket.socket]:
    """The two ends of a line: ours, and the process's. StartError: the machine has none left."""
    try:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise StartError("a process", f"{error.strerror}: raise the limit of open files") from error
    ours.setblocking(False)
    return ours, its

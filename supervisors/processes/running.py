"""A process that runs, however it was started: it can be told to leave, killed, and waited for."""

import asyncio
import os
import signal
from typing import Protocol

import msgspec

from supervisors.processes.orders import Order, Resources

UNKNOWN_CODE = 255
"""Nobody was left to see how it ended."""


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended; a negative code is the signal that ended it."""

    code: int
    resources: Resources = Resources()


class Running:
    """One process, held by its pidfd: whatever happens to its number, no other can be meant."""

    def __init__(self, order: Order, pid: int, pidfd: int) -> None:
        self.order = order
        self.pid = pid
        self._pidfd = pidfd
        self._exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    async def wait(self) -> Exit:
        """How it ended, once it is gone."""
        return await asyncio.shield(self._exit)

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

    def adopt(self) -> None:
        """Whoever started it is gone, and it is our own child now: reap it ourselves."""
        if not self.is_gone:
            asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        try:
            ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        except ChildProcessError:
            ended = None  # reaped by a zygote that did not live to say how it ended
        if ended is None:
            self.has_ended(Exit(code=UNKNOWN_CODE))
        else:
            self.has_ended(Exit(code=ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status))

    def has_ended(self, exit_: Exit) -> None:
        """For whoever reaps: say how it ended."""
        if not self._exit.done():
            os.close(self._pidfd)
            self._exit.set_result(exit_)


class Nursery(Protocol):
    """Where processes come from."""

    async def start(self, order: Order) -> Running:
        """Start an actor. StartError if the machine cannot."""

    async def close(self) -> None:
        """End what it keeps for itself; the processes that it has started are the caller's."""

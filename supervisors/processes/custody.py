"""Custody: who takes the exit status of which child of the supervisor's process.

Every child has one owner. Whom nobody owns was left behind by an actor whose zygote is gone: it is ended where it has
the company's mark. Anything else is only reaped, and not before its owner, if there is one that we do not know, has
had time for it.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

import msgspec
import structlog

from bus.server.process import birth, started_here
from supervisors.processes.kin import children, is_marked
from supervisors.processes.orders import Resources, resources_of

log = structlog.get_logger()

UNKNOWN_CODE = 255
"""Nobody was left to see how it ended."""

KILL_SECONDS = 5.0
"""How long what was killed may take to be gone."""
POLL_SECONDS = 0.005


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended; a negative code is the signal that ended it."""

    code: int
    resources: Resources = Resources()


class Custody:
    """The children of one company's supervisor."""

    def __init__(self, company: str) -> None:
        self._company = company
        self._owners: dict[int, object] = {}
        self._killed: set[int] = set()
        self._ended: set[int] = set()

    def own(self, pid: int, owner: object) -> None:
        """From now on somebody waits for this process."""
        self._owners[pid] = owner

    def release(self, pid: int) -> None:
        """It is gone."""
        self._owners.pop(pid, None)

    @property
    def owners(self) -> list[object]:
        """Everybody who waits for a process."""
        return list(self._owners.values())

    def take(self, pid: int, pidfd: int, ended: Callable[[Exit], None]) -> None:
        """Reap a child as soon as it has ended, and say how it did."""
        loop = asyncio.get_running_loop()

        def reap() -> None:
            loop.remove_reader(pidfd)
            ended(_exit_of(pid))

        loop.add_reader(pidfd, reap)

    async def end_strangers(self) -> None:
        """End what actors have left behind to us; returns when it is gone, or when that takes too long."""
        deadline = asyncio.get_running_loop().time() + KILL_SECONDS
        while self._kill_strangers():
            if asyncio.get_running_loop().time() > deadline:
                log.error("strangers.left", pids=sorted(self._killed), reason="they cannot be killed")
                return
            await asyncio.sleep(POLL_SECONDS)

    def _kill_strangers(self) -> bool:
        """Whether there were any: what they leave behind in their turn becomes our child when they end."""
        for pid in self._strangers():
            if is_marked(pid, self._company):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number means no other process
                self._killed.add(pid)
        were_any = bool(self._killed)
        self._killed = {pid for pid in self._killed if not _is_reaped(pid)}
        return were_any

    def reap(self) -> None:
        """Take the exit status of whoever has ended, has no owner, and had ended at the last call already."""
        ended = {pid for pid in self._strangers() if birth(pid) is None}
        self._ended = {pid for pid in ended if pid not in self._ended or not _is_reaped(pid)}

    def _strangers(self) -> set[int]:
        return children() - self._owners.keys() - started_here()


def _exit_of(pid: int) -> Exit:
    try:
        _, status, used = os.wait4(pid, 0)
    except ChildProcessError:
        return Exit(code=UNKNOWN_CODE)  # reaped by a zygote that did not live to say how it ended
    return Exit(code=os.waitstatus_to_exitcode(status), resources=resources_of(used))


def _is_reaped(pid: int) -> bool:
    """Whether a child has ended; if so it is gone now."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True

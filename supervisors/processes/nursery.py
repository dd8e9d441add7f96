"""Zygotes, as a supervisor sees them: one that forks, and a spare that takes over when that is gone.

The supervisor is subreaper: when a zygote dies, its children become the supervisor's own, and it reaps them itself.
"""

import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from supervisors.errors import StartError
from supervisors.processes.orders import PACKET_BYTES_MAX, Ended, Loaded, Order, Refused, Report, Started, Unfit
from supervisors.processes.running import Exit, Running, tethers

log = structlog.get_logger()

LOAD_SECONDS = 60.0
"""How long a zygote may take to import everything."""

FORK_SECONDS = 10.0
"""How long it may take to fork; one that hangs is killed, and the spare is asked."""

CLOSE_SECONDS = 2.0
"""How much longer than its children it may take to end."""

ORDERS_MAX = 8
"""So many orders may lie with a zygote, which follows one after the other; a socket has no room for hundreds."""

PR_SET_CHILD_SUBREAPER = 36

_report = msgspec.json.Decoder(Report)


class Soil(msgspec.Struct, frozen=True, kw_only=True):
    """What every process of a company grows from."""

    folder: str
    """The project's: parts are looked for there, and in the working folder."""
    lock: int
    """A descriptor that everybody keeps, so that the next supervisor knows whether anybody is left."""
    orphan_seconds: float
    """How long the children of a dead supervisor may take to leave: more than an actor's own limit."""
    modules: tuple[str, ...] = ()
    """What is imported before anybody is forked."""


class ZygoteNursery:
    """Starts actors by forking them."""

    def __init__(self, soil: Soil) -> None:
        self._soil = soil
        self._numbers = 0
        self._active: _Zygote | None = None
        self._spare: asyncio.Task[_Zygote] | None = None
        self._choosing = asyncio.Lock()
        become_subreaper()

    async def start(self, order: Order) -> Running:
        """Fork an actor; if the zygote dies just then, by the spare."""
        while True:
            async with self._choosing:  # or two who start at once would each load one
                zygote = await self._living()
            self._numbers += 1
            try:
                return await zygote.fork(msgspec.structs.replace(order, number=self._numbers))
            except _ZygoteGoneError:
                continue

    async def close(self) -> None:
        """End the zygotes; whom they have forked is let go, and waited for."""
        if self._spare is not None:
            self._spare.cancel()
            with suppress(asyncio.CancelledError, StartError):
                await (await self._spare).close()
        if self._active is not None:
            await self._active.close()

    @property
    def pids(self) -> frozenset[int]:
        """The zygotes' own processes."""
        spare = self._spare.result() if self._spare and self._spare.done() and not self._spare.exception() else None
        return frozenset(zygote.pid for zygote in (self._active, spare) if zygote is not None)

    async def _living(self) -> "_Zygote":
        if self._active is None or self._active.is_gone:
            spare = self._spare or asyncio.ensure_future(_Zygote.load(self._soil))
            self._spare = None
            self._active = await spare
            self._spare = asyncio.ensure_future(_Zygote.load(self._soil))
            self._spare.add_done_callback(_look_at)
        return self._active


def _look_at(spare: "asyncio.Task[_Zygote]") -> None:
    """A spare that cannot load is heard of at once, and not only when it is needed."""
    if not spare.cancelled() and spare.exception() is not None:
        log.error("zygote.spare_failed", reason=str(spare.exception()))


class _ZygoteGoneError(Exception):
    """It died before it followed an order."""


class _Zygote:
    """One zygote."""

    def __init__(self, process: asyncio.subprocess.Process, orders: socket.socket, orphan_seconds: float) -> None:
        self._process = process
        self._orders = orders
        self._orphan_seconds = orphan_seconds
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._room = asyncio.Semaphore(ORDERS_MAX)
        self._starting: dict[int, _Starting] = {}
        self._children: dict[int, Running] = {}
        self.pid = process.pid
        self.is_gone = False
        self._loop.add_reader(orders.fileno(), self._hear)

    @classmethod
    async def load(cls, soil: Soil) -> "_Zygote":
        """Start one; returns when it takes orders."""
        ours, its = tethers()
        try:
            with its:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "supervisors.processes.zygote",
                    *(str(its.fileno()), str(soil.lock), str(soil.orphan_seconds), soil.folder, *soil.modules),
                    pass_fds=(its.fileno(), soil.lock),
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is the supervisor's, who then tells everybody in order
                )
        except BaseException:
            ours.close()
            raise
        zygote = cls(process, ours, soil.orphan_seconds)
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                await zygote._loaded
        except TimeoutError:
            await zygote.close()
            raise StartError("the zygote", f"it has not imported everything within {LOAD_SECONDS:g} s") from None
        except (asyncio.CancelledError, StartError):
            await zygote.close()
            raise
        return zygote

    async def fork(self, order: Order) -> Running:
        """Have an actor forked, when it is its turn."""
        async with self._room:
            return await self._fork(order)

    async def _fork(self, order: Order) -> Running:
        ours, its = tethers()
        with its:
            try:
                socket.send_fds(self._orders, [msgspec.json.encode(order)], [its.fileno()])
            except OSError as error:
                ours.close()
                self._lose()
                raise _ZygoteGoneError from error
        starting = self._starting[order.number] = _Starting(order, ours, self._loop.create_future())
        try:
            async with asyncio.timeout(FORK_SECONDS):
                return await asyncio.shield(starting.running)
        except TimeoutError:
            log.warning("zygote.hung", pid=self.pid)
            self._kill()
            return await starting.running

    async def close(self) -> None:
        """Let it go; returns when it has ended, which it does when its children have."""
        self._hang_up()
        for running in self._children.values():
            running.let_go()
        if not self._children:
            self._kill()
        try:
            async with asyncio.timeout(self._orphan_seconds + CLOSE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            log.warning("zygote.hung", pid=self.pid)
            for running in self._children.values():
                running.signal(signal.SIGKILL)
            self._kill()
            await self._process.wait()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    def _hang_up(self) -> None:
        if self._orders.fileno() >= 0:
            self._loop.remove_reader(self._orders.fileno())
            self._orders.close()

    # What it says.

    def _hear(self) -> None:
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._orders, PACKET_BYTES_MAX, 1)
        except (BlockingIOError, ConnectionResetError):
            return  # reset: it has ended with orders unread; what it had said before comes next, and then the end
        except OSError:
            packet, descriptors = b"", []
        if not packet:
            self._lose()
            return
        match _report.decode(packet):
            case Loaded() | Unfit() if self._loaded.done():
                pass  # it has been given up just now
            case Loaded():
                self._loaded.set_result(None)
            case Unfit(reason=reason):
                self._loaded.set_exception(
                    StartError("the zygote", f'{reason}, which no fork survives: set supervisor.processes = "exec"')
                )
            case Started(number=number, pid=pid):
                self._begin(number, pid, descriptors)
            case Refused(number=number, reason=reason):
                self._starting.pop(number).fail(StartError(f"process {number}", reason))
            case Ended(number=number, code=code, resources=resources):
                if number in self._children:
                    self._children.pop(number).has_ended(Exit(code=code, resources=resources))

    def _begin(self, number: int, pid: int, descriptors: list[int]) -> None:
        """An actor is there. Where we have no room for its pidfd we cannot look after it, and it ends again."""
        starting = self._starting.pop(number)
        try:
            pidfd = descriptors[0] if descriptors else os.pidfd_open(pid)
        except OSError as error:
            os.kill(pid, signal.SIGKILL)
            starting.fail(StartError(f"process {pid}", f"{error.strerror}: raise the limit of open files"))
        else:
            self._children[number] = starting.begin(pid, pidfd)

    def _lose(self) -> None:
        """The zygote is gone: its children are ours now."""
        if self.is_gone:
            return
        self.is_gone = True
        log.warning("zygote.gone", pid=self.pid, children=len(self._children))
        self._hang_up()
        if not self._loaded.done():
            self._loaded.set_exception(StartError("the zygote", "it ended while it was loading"))
        for starting in self._starting.values():
            starting.fail(_ZygoteGoneError())
        for running in self._children.values():
            running.adopt()


class _Starting:
    """A process that is about to be there."""

    def __init__(self, order: Order, tether: socket.socket, running: "asyncio.Future[Running]") -> None:
        self._order = order
        self._tether = tether
        self.running = running

    def begin(self, pid: int, pidfd: int) -> Running:
        """It is there; should nobody wait for it any more, it is let go."""
        process = Running(self._order, pid, pidfd, self._tether)
        if self.running.done():
            process.let_go()
        else:
            self.running.set_result(process)
        return process

    def fail(self, error: Exception) -> None:
        """It will not be there."""
        self._tether.close()
        if not self.running.done():
            self.running.set_exception(error)


def become_subreaper() -> None:
    """Have orphaned descendants become our children, so that nobody's end is missed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def reap_strangers(known: Iterable[int]) -> None:
    """Take the exit status of descendants that became ours and that nobody waits for, such as an actor's tools."""
    familiar = frozenset(known)
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for pid in map(int, children.read_text().split()):
                if pid not in familiar:
                    with suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)

"""Zygotes, as a supervisor sees them: one that forks, and a spare that takes over when that is gone.

The supervisor is subreaper: when a zygote dies, its children become the supervisor's own, and it reaps them itself.
"""

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec
import structlog

from supervisors.errors import StartError, UnfitError
from supervisors.processes.custody import Custody, Exit
from supervisors.processes.kin import MARK, become_subreaper, company_of
from supervisors.processes.orders import PACKET_BYTES_MAX, Ended, Loaded, Order, Refused, Report, Started, Unfit
from supervisors.processes.running import Running, tethers

log = structlog.get_logger()

LOAD_SECONDS = 60.0
"""How long a zygote may take to import everything."""

FORK_SECONDS = 10.0
"""How long it may take to fork; one that hangs is killed, and the spare is asked."""

CLOSE_SECONDS = 2.0
"""How long who was killed may take to be gone, and a zygote without children to end."""

SPARE_SECONDS = 10.0
"""So far apart spares are loaded at least, should each of them die."""

LOSSES_MAX = 3
"""So many zygotes may die or hang of one order; then it is the order's fault, or the machine's."""

REPORT_SECONDS = 10.0
"""How long a zygote may take to say that a child has ended: longer than it may take to end what that leaves behind."""

ORDERS_MAX = 8
"""So many orders may lie with a zygote, which follows one after the other; a socket has no room for hundreds."""

_report = msgspec.json.Decoder(Report)


class Soil(msgspec.Struct, frozen=True, kw_only=True):
    """What every process of a company grows from."""

    folder: str
    """The project's: parts are looked for there, and in the working folder."""
    lock: int
    """A descriptor that everybody keeps, so that the next supervisor knows whether anybody is left."""
    orphan_seconds: float
    """How long the children of a dead supervisor may take to leave: more than an actor's own limit."""
    processes: Literal["fork", "exec"] = "fork"
    """Whether an actor goes on from what its zygote has imported, or begins with a fresh interpreter."""
    modules: tuple[str, ...] = ()
    """What is imported before anybody is forked."""


class ZygoteNursery:
    """Starts actors by having them forked."""

    def __init__(self, soil: Soil) -> None:
        self._soil = soil
        self._numbers = 0
        self._custody = Custody(company_of(soil.lock))
        self._active: _Zygote | None = None
        self._spare: asyncio.Task[_Zygote] | None = None
        self._spared_at = -math.inf
        self._is_closed = False
        self._choosing = asyncio.Lock()
        become_subreaper()

    async def start(self, order: Order) -> Running:
        """Fork an actor; if the zygote dies just then, by the spare. StartError if none survives it."""
        for _ in range(LOSSES_MAX):
            async with self._choosing:  # or two who start at once would each load one
                zygote = await self._living()
            self._numbers += 1
            try:
                return await zygote.fork(msgspec.structs.replace(order, number=self._numbers))
            except _ZygoteGoneError:
                continue
        raise StartError("a process", f"{LOSSES_MAX} zygotes died or hung of it, one after the other")

    async def close(self) -> None:
        """Let everybody go and wait for all of them together, kill who does not leave in time, and end the zygotes."""
        self._is_closed = True
        for running in self._running:
            running.let_go()
        if not await self._are_gone(self._soil.orphan_seconds):
            for running in self._running:
                running.signal(signal.SIGKILL)
            await self._are_gone(CLOSE_SECONDS)
        if self._spare is not None:
            self._spare.cancel()
            with suppress(asyncio.CancelledError, StartError):
                await (await self._spare).close()
        if self._active is not None:
            await self._active.close()
        await self._are_gone(CLOSE_SECONDS)

    def reap(self) -> None:
        """Take the exit status of children that nobody waits for; to be called again and again."""
        self._custody.reap()

    @property
    def _running(self) -> list[Running]:
        return [each for each in self._custody.owners if isinstance(each, Running)]

    @property
    def pids(self) -> frozenset[int]:
        """The zygotes' own processes."""
        return frozenset(zygote.pid for zygote in (self._active, self._loaded_spare) if zygote is not None)

    @property
    def _loaded_spare(self) -> "_Zygote | None":
        is_there = self._spare is not None and self._spare.done() and not self._spare.cancelled()
        return self._spare.result() if self._spare and is_there and not self._spare.exception() else None

    async def _are_gone(self, seconds: float) -> bool:
        """Whether everybody is within so long."""
        waiting = [asyncio.ensure_future(each.wait()) for each in self._running]
        if not waiting:
            return True
        _, late = await asyncio.wait(waiting, timeout=seconds)
        for each in late:
            each.cancel()
        return not late

    async def _living(self) -> "_Zygote":
        if self._active is None or self._active.is_gone:
            has_failed = self._spare is not None and self._spare.done() and self._loaded_spare is None
            spare = asyncio.ensure_future(self._load()) if self._spare is None or has_failed else self._spare
            self._spare = None
            self._active = await spare
            self._stand_by()
        return self._active

    def _stand_by(self) -> None:
        """Have a spare loaded, if there is none."""
        if self._spare is None and not self._is_closed:
            self._spared_at = asyncio.get_running_loop().time()
            self._spare = asyncio.ensure_future(self._load())
            self._spare.add_done_callback(_look_at)

    async def _load(self) -> "_Zygote":
        return await _Zygote.load(self._soil, self._custody, self._replace)

    def _replace(self, gone: "_Zygote") -> None:
        """A zygote has died. Another spare is loaded at once if it was one, but not again and again."""
        if gone is self._loaded_spare:
            self._spare = None
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._spared_at + SPARE_SECONDS), self._stand_by)


def _look_at(spare: "asyncio.Task[_Zygote]") -> None:
    """A spare that cannot load is heard of at once, and not only when it is needed."""
    if not spare.cancelled() and spare.exception() is not None:
        log.error("zygote.spare_failed", reason=str(spare.exception()))


class _ZygoteGoneError(Exception):
    """It died before it followed an order."""


class _Zygote:
    """One zygote. `pidfd` is closed with it; `gone` is called when it has died."""

    def __init__(
        self, pid: int, pidfd: int, orders: socket.socket, custody: Custody, gone: Callable[["_Zygote"], None]
    ) -> None:
        self.pid = pid
        self.is_gone = False
        self._pidfd = pidfd
        self._orders = orders
        self._custody = custody
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._room = asyncio.Semaphore(ORDERS_MAX)
        self._starting: dict[int, _Starting] = {}
        self._children: dict[int, Running] = {}
        self._clearing: asyncio.Task[None] | None = None
        self._loop.add_reader(orders.fileno(), self._hear)
        custody.own(pid, self)
        custody.take(pid, pidfd, self._has_ended)

    @classmethod
    async def load(cls, soil: Soil, custody: Custody, gone: Callable[["_Zygote"], None]) -> "_Zygote":
        """Start one; returns when it takes orders."""
        ours, its = tethers()
        with its:
            try:
                process = _spawn(soil, its)
                pidfd = _hold(process)
            except OSError as error:
                ours.close()
                raise StartError("the zygote", str(error)) from error
        zygote = cls(process.pid, pidfd, ours, custody, gone)
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
        starting = self._starting[order.number] = _Starting(order, ours, self._custody, self._loop.create_future())
        try:
            async with asyncio.timeout(FORK_SECONDS):
                return await asyncio.shield(starting.running)
        except TimeoutError:
            log.warning("zygote.hung", pid=self.pid)
            self._kill()
            return await starting.running
        except asyncio.CancelledError:
            if not starting.running.cancel() and starting.running.exception() is None:
                starting.running.result().let_go()  # it has begun just now
            raise  # whoever begins after all is let go

    async def close(self) -> None:
        """Let it go; returns when it has ended. Whoever of its children should still be there is ours then."""
        if not self._has_loaded:
            self._kill()
        self._part()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.shield(self._ended)
        except TimeoutError:
            log.warning("zygote.hung", pid=self.pid)
            self._kill()
            await self._ended
        if self._clearing is not None:
            await self._clearing

    @property
    def _has_loaded(self) -> bool:
        return self._loaded.done() and not self._loaded.cancelled() and not self._loaded.exception()

    def _kill(self) -> None:
        if not self._ended.done():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _has_ended(self, exit_: Exit) -> None:
        """It is gone, so its children are ours now, and so is what had just been left to it."""
        while self._hear():
            continue
        if not self.is_gone:
            self._lose()
        os.close(self._pidfd)
        self._custody.release(self.pid)
        for running in self._children.values():
            running.adopt()
        self._clearing = asyncio.ensure_future(self._custody.end_strangers())
        self._ended.set_result(exit_)
        self._gone(self)

    def _hang_up(self) -> None:
        if self._orders.fileno() >= 0:
            self._loop.remove_reader(self._orders.fileno())
            self._orders.close()

    # What it says.

    def _hear(self) -> bool:
        """One thing that it says; whether there was any."""
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._orders, PACKET_BYTES_MAX, 1)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True  # it has ended with orders unread; what it had said before comes next, and then the end
        except OSError:
            packet, descriptors = b"", []
        if packet:
            self._heed(packet, descriptors)
        elif not self.is_gone:
            self._lose()
        return bool(packet)

    def _heed(self, packet: bytes, descriptors: list[int]) -> None:
        match _report.decode(packet):
            case Loaded() | Unfit() if self._loaded.done():
                pass  # it has been given up just now
            case Loaded():
                self._loaded.set_result(None)
            case Unfit(reason=reason):
                self._loaded.set_exception(
                    UnfitError("a process", f'{reason}, which no fork survives: set supervisor.processes = "exec"')
                )
            case Started(number=number, pid=pid):
                self._begin(number, pid, descriptors)
            case Refused(number=number, reason=reason):
                self._starting.pop(number).fail(StartError(f"process {number}", reason))
            case Ended(number=number, code=code, resources=resources, left=left):
                if left:
                    log.error("strangers.left", pids=left, reason="they cannot be killed")
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
            self._loop.add_reader(pidfd, self._expect_report, number, pidfd)

    def _expect_report(self, number: int, pidfd: int) -> None:
        """A child has ended, and only the zygote can say how: one that does not is hung, and its children are ours."""
        self._loop.remove_reader(pidfd)
        self._loop.call_later(REPORT_SECONDS, self._miss_report, number)

    def _miss_report(self, number: int) -> None:
        while self._hear():  # it may have been us who stood still
            continue
        if number in self._children and not self._ended.done():
            log.warning("zygote.hung", pid=self.pid)
            self._kill()

    def _lose(self) -> None:
        """Nobody has told it to end, but it does, or has."""
        log.warning("zygote.gone", pid=self.pid, children=len(self._children))
        self._part()
        self._kill()

    def _part(self) -> None:
        """Hear no more of it."""
        self.is_gone = True
        self._hang_up()
        if not self._loaded.done():
            self._loaded.set_exception(StartError("the zygote", "it ended while it was loading"))
        for starting in self._starting.values():
            starting.fail(_ZygoteGoneError())


def _spawn(soil: Soil, its: socket.socket) -> "subprocess.Popen[bytes]":
    """Start its process. At once, because until it is owned it could be taken for a stranger."""
    return subprocess.Popen(  # noqa: S603 -- ourselves
        [
            sys.executable,
            *("-m", "supervisors.processes.zygote", soil.processes, str(its.fileno()), str(soil.lock)),
            *(str(soil.orphan_seconds), soil.folder, *soil.modules),
        ],
        pass_fds=(its.fileno(), soil.lock),
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is the supervisor's, who then tells everybody in order
        env={**os.environ, MARK: company_of(soil.lock)},
    )


def _hold(process: "subprocess.Popen[bytes]") -> int:
    """Its pidfd; from here on it is not Popen's to reap."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        process.kill()
        process.wait()
        raise
    process.returncode = 0
    return pidfd


class _Starting:
    """A process that is about to be there."""

    def __init__(
        self, order: Order, tether: socket.socket, custody: Custody, running: "asyncio.Future[Running]"
    ) -> None:
        self._order = order
        self._tether = tether
        self._custody = custody
        self.running = running

    def begin(self, pid: int, pidfd: int) -> Running:
        """It is there; should nobody wait for it any more, it is let go."""
        process = Running(self._order, pid, pidfd, self._tether, self._custody)
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

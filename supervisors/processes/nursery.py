"""Zygotes, as a supervisor sees them: one that forks, and a spare that takes over when that is gone.

The supervisor is subreaper: when a zygote dies, its children become the supervisor's own, and it reaps them itself.
"""

import asyncio
import ctypes
import os
import socket
import sys
from contextlib import suppress

import msgspec
import structlog

from supervisors.errors import StartError
from supervisors.processes.orders import PACKET_BYTES_MAX, Ended, Loaded, Order, Refused, Report, Started
from supervisors.processes.running import Exit, Running

log = structlog.get_logger()

LOAD_SECONDS = 60.0
"""How long a zygote may take to import everything."""

PR_SET_CHILD_SUBREAPER = 36

_report = msgspec.json.Decoder(Report)


class ZygoteNursery:
    """Starts actors by forking them."""

    def __init__(self) -> None:
        self._numbers = 0
        self._leash, self._hand = os.pipe()  # the hand is never passed on: its end is the supervisor's
        os.set_inheritable(self._leash, True)
        self._active: _Zygote | None = None
        self._spare: asyncio.Task[_Zygote] | None = None
        _become_subreaper()

    async def start(self, order: Order) -> Running:
        """Fork an actor; if the zygote dies just then, by the spare."""
        while True:
            zygote = await self._living()
            self._numbers += 1
            try:
                return await zygote.fork(msgspec.structs.replace(order, number=self._numbers))
            except _ZygoteGoneError:
                continue

    async def close(self) -> None:
        """End the zygotes; whom they have forked is told to leave by the leash, and waited for."""
        os.close(self._hand)
        if self._spare is not None:
            self._spare.cancel()
            with suppress(asyncio.CancelledError, StartError):
                await (await self._spare).close()
        if self._active is not None:
            await self._active.close()
        os.close(self._leash)

    async def _living(self) -> "_Zygote":
        if self._active is None or self._active.is_gone:
            spare = self._spare or asyncio.ensure_future(_Zygote.load(self._leash))
            self._spare = None
            self._active = await spare
            self._spare = asyncio.ensure_future(_Zygote.load(self._leash))
        return self._active


class _ZygoteGoneError(Exception):
    """It died before it followed an order."""


class _Zygote:
    """One zygote."""

    def __init__(self, process: asyncio.subprocess.Process, orders: socket.socket) -> None:
        self._process = process
        self._orders = orders
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._starting: dict[int, tuple[Order, asyncio.Future[Running]]] = {}
        self._children: dict[int, Running] = {}
        self.is_gone = False
        self._loop.add_reader(orders.fileno(), self._hear)

    @classmethod
    async def load(cls, leash: int) -> "_Zygote":
        """Start one; returns when it takes orders."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with its:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "supervisors.processes.zygote",
                str(its.fileno()),
                str(leash),
                pass_fds=(its.fileno(), leash),
                stdin=asyncio.subprocess.DEVNULL,
            )
        zygote = cls(process, ours)
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                await zygote._loaded
        except TimeoutError:
            await zygote.close()
            raise StartError("the zygote", f"it has not imported everything within {LOAD_SECONDS:g} s") from None
        except asyncio.CancelledError:
            await zygote.close()
            raise
        return zygote

    async def fork(self, order: Order) -> Running:
        """Have an actor forked."""
        started: asyncio.Future[Running] = self._loop.create_future()
        self._starting[order.number] = order, started
        try:
            self._orders.send(msgspec.json.encode(order))
        except OSError as error:
            self._starting.pop(order.number, None)
            self._lose()
            raise _ZygoteGoneError from error
        return await started

    async def close(self) -> None:
        """Let it go; returns when it has ended, which it does when its children have."""
        self._hang_up()
        if not self._children:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()

    def _hang_up(self) -> None:
        if self._orders.fileno() >= 0:
            self._loop.remove_reader(self._orders.fileno())
            self._orders.close()

    # What it says.

    def _hear(self) -> None:
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._orders, PACKET_BYTES_MAX, 1)
        except BlockingIOError:
            return
        except OSError:
            packet, descriptors = b"", []
        if not packet:
            self._lose()
            return
        match _report.decode(packet):
            case Loaded():
                self._loaded.set_result(None)
            case Started(number=number, pid=pid):
                order, started = self._starting.pop(number)
                self._children[number] = running = Running(order, pid, descriptors[0])
                if not started.done():
                    started.set_result(running)
            case Refused(number=number, reason=reason):
                order, started = self._starting.pop(number)
                started.set_exception(StartError(order.actor, reason))
            case Ended(number=number, code=code, resources=resources):
                self._children.pop(number).has_ended(Exit(code=code, resources=resources))

    def _lose(self) -> None:
        """The zygote is gone: its children are ours now."""
        if self.is_gone:
            return
        self.is_gone = True
        log.warning("zygote.gone", children=len(self._children))
        self._hang_up()
        if not self._loaded.done():
            self._loaded.set_exception(StartError("the zygote", "it ended while it was loading"))
        for _, started in self._starting.values():
            if not started.done():
                started.set_exception(_ZygoteGoneError())
        for running in self._children.values():
            running.adopt()


def _become_subreaper() -> None:
    """Have orphaned descendants become our children, so that nobody's end is missed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")

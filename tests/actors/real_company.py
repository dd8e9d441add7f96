"""A company of real processes on a real server, as a test starts, kills and watches it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from bus.bus import Bus
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.topology import apply_topology, plan_topology
from protocol.messages import AnyPayload, Envelope, InterviewRequest, Story
from protocol.subjects import Subjects
from protocol.verification import Offence, Transition, verify
from tests.actors.folder import Folder
from tests.actors.zygote import Order

SECONDS_MAX = 30.0
ACK_WAIT_SECONDS = 3.0
ENDED = "the zygote has ended: what it said is on standard error"


class Zygote:
    """Starts processes and hears of their ends."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._orders = 0
        self._has_ended = False
        self._pids: dict[int, asyncio.Future[int]] = {}
        self._codes: dict[int, asyncio.Future[int]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator["Zygote"]:
        """One zygote, and none of its children is left behind."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.actors.zygote", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        zygote = cls(process)
        hearing = asyncio.create_task(zygote._hear())
        try:
            yield zygote
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            await hearing

    async def start(self, **facts: Any) -> "Child":
        """Fork one process."""
        self._orders += 1
        order = Order(order=self._orders, **facts)
        loop = asyncio.get_running_loop()
        self._pids[order.order], self._codes[order.order] = loop.create_future(), loop.create_future()
        assert self._process.stdin is not None
        assert not self._has_ended, ENDED
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        pid = await self._pids[order.order]
        assert pid > 0, ENDED
        return Child(pid, self._codes[order.order])

    async def _hear(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = msgspec.json.decode(line)
            if "pid" in said:
                self._pids[said["order"]].set_result(said["pid"])
            else:
                self._codes[said["order"]].set_result(said["code"])
        self._has_ended = True
        for unheard in (*self._pids.values(), *self._codes.values()):
            if not unheard.done():
                unheard.set_result(-signal.SIGKILL)  # it kills all its children when it ends


class Child:
    """One process."""

    def __init__(self, pid: int, code: "asyncio.Future[int]") -> None:
        self.pid = pid
        self.code = code

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        if not self.code.done():
            with suppress(ProcessLookupError):  # it has ended, and word of it is on its way
                os.kill(self.pid, number)


class RealCompany:
    """One project with its own folder and streams."""

    def __init__(self, zygote: Zygote, url: str, project: str, folder: Path, lease_seconds: int) -> None:
        self._zygote = zygote
        self._url = url
        self._project = project
        self._folder = folder
        self._lease_seconds = lease_seconds
        self._letters = 0
        self.outside = Folder(folder)
        self.children: dict[str, list[Child]] = {}
        self.bus: Bus

    @classmethod
    @asynccontextmanager
    async def open(
        cls, zygote: Zygote, url: str, project: str, folder: Path, lease_seconds: int = 20
    ) -> AsyncIterator["RealCompany"]:
        """Set up, and take down at the end."""
        company = cls(zygote, url, project, folder, lease_seconds)
        broker = JetStreamBroker(await Connection.open(ConnectOptions(url=url, connect_seconds=10.0)))
        subjects = Subjects(project)
        topology = plan_topology(subjects, ack_wait_seconds=ACK_WAIT_SECONDS)
        company.bus = Bus(broker, subjects, lease_seconds=lease_seconds, ack_wait_seconds=ACK_WAIT_SECONDS)
        await apply_topology(broker, topology)
        answering = asyncio.create_task(company._answer_asks())
        try:
            yield company
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            await company.end_all()
            for plan in topology.streams:
                await broker.delete_stream(plan.name)
            await company.bus.close()

    async def start(self, machine: str, actor: str, act: str = "", at: int = 0) -> Child:
        """Start a process of an actor."""
        child = await self._zygote.start(
            machine=machine,
            actor=actor,
            project=self._project,
            url=self._url,
            folder=str(self._folder),
            lease_seconds=self._lease_seconds,
            ack_wait_seconds=ACK_WAIT_SECONDS,
            act=act,
            at=at,
        )
        self.children.setdefault(actor, []).append(child)
        return child

    async def end_all(self) -> None:
        """Kill whoever is left."""
        everybody = [child for children in self.children.values() for child in children]
        for child in everybody:
            child.signal(signal.SIGKILL)
        for child in everybody:
            await child.code

    async def order(self, story: str, run: int = 1) -> None:
        """Put a story on the queue."""
        payload = Story(story=story, spec="spec", run=run, title=story, description="", acceptance_criteria=())
        await self.bus.work.put(self.letter(payload, "coder.all"))

    async def talk(self, interview: str) -> None:
        """Ask the PM for an interview."""
        await self.bus.mail.send(self.letter(InterviewRequest(interview=interview), "pm.main"))

    def letter(self, payload: AnyPayload, recipient: str, kind: Any = "REQUEST") -> Envelope:
        """A message from the office."""
        self._letters += 1
        return Envelope(
            id=f"office/{self._letters}/0",
            kind=kind,
            sender="supervisor.office",
            recipient=recipient,
            payload=payload,
            sent_at=datetime.now(UTC),
        )

    async def until(self, is_so: Callable[[], bool], seconds: float = SECONDS_MAX) -> None:
        """Wait until something outside is so."""
        async with asyncio.timeout(seconds):
            while not is_so():
                await asyncio.sleep(0.01)

    async def last_states(self) -> dict[str, str]:
        """The state of every session."""
        return {each.session: each.state_to for each in await self.transitions()}

    async def offences(self) -> list[Offence]:
        """What `bus verify` would say."""
        return list(verify(await self.transitions()))

    async def transitions(self) -> list[Transition]:
        """All that was recorded."""
        records = [entry.record() async for entry in self.bus.journal.read()]
        return [
            Transition(
                machine=record.machine,
                session=record.session,
                n=record.n,
                state_from=record.state_from,
                state_to=record.state_to,
            )
            for record in records
        ]

    async def _answer_asks(self) -> None:
        while True:
            for ask in await self.bus.asks.open():
                await self.bus.asks.answer(ask.id, "yes", datetime.now(UTC))
            await asyncio.sleep(0.02)

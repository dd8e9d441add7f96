"""One coder that thinks, as a real process on a real server, before a rehearsal of its model."""

import asyncio
import json
import os
import signal
import sysconfig
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from actors.rehearsal.faults import Fault
from actors.rehearsal.parts import Answer, Call, Cue, Part, Returned
from actors.rehearsal.server import Rehearsal
from bus.asks import Ask
from bus.bus import Bus
from protocol.messages import AnyPayload, Envelope, Restore, Story
from protocol.record import Record
from tests.contract.world import nats_world
from tests.thinking.thinker import FILE

ACTOR = str(Path(sysconfig.get_path("scripts")) / "actor")
ROOT = Path(__file__).parents[2]
SECONDS_MAX = 30.0
KEY = "rehearsal-key"

T = TypeVar("T")


def writes(lines: int = 3) -> tuple[Part, ...]:
    """A coder's part: it plans, writes so many lines, looks at what it has written, and is done."""
    return (
        Cue(
            role="coder", turns=0, says=Answer(thinking="How?", calls=(Call("submit_plan", {"text": "line by line"}),))
        ),
        Cue(role="coder", state="CODING", after=Returned(tool="submit_plan"), says=_line(0)),
        *(
            Cue(role="coder", after=Returned(tool="edit", text=rf"(?m)^line {n}$\Z"), says=_line(n + 1))
            for n in range(lines - 1)
        ),
        Cue(
            role="coder", after=Returned(tool="edit"), says=Answer(calls=(Call("read"), Call("read", {"text": "all"})))
        ),
        Cue(role="coder", after=Returned(tool="read"), says=Answer(text="Written.", calls=(Call("done"),))),
    )


def _line(number: int) -> Answer:
    return Answer(thinking="Next.", calls=(Call("edit", {"text": f"line {number}"}),))


class Company:
    """The coder's process, its bus and its model."""

    def __init__(self, folder: Path, bus: Bus, url: str, project: str, rehearsal: Rehearsal) -> None:
        self.folder = folder
        self.bus = bus
        self.rehearsal = rehearsal
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "OUTSIDE": str(folder),
            "CALLBOARD_PROJECT": project,
            "CALLBOARD_BUS_URL": url,
            "CALLBOARD_BUS_LEASE_SECONDS": "2",
            "CALLBOARD_MODEL_BASE_URL": rehearsal.url,
            "CALLBOARD_MODEL_ATTEMPTS_MAX": "2",
            "CALLBOARD_MODEL_STALL_SECONDS": "1",
            "CALLBOARD_ANTHROPIC_API_KEY": KEY,
        }
        self._letters = 0
        self.process: asyncio.subprocess.Process

    async def start(self, **settings: str) -> None:
        """Start a process of the coder."""
        environ = self._environ | {f"CALLBOARD_{name.upper()}": value for name, value in settings.items()}
        with (self.folder / "coder.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(ACTOR, "coder", "--id", "coder-1", "--part", "tests.thinking.thinker:THINKER"),
                cwd=ROOT,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def kill(self) -> None:
        """Kill the process."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def ended(self) -> int:
        """The exit code, once it has one."""
        async with asyncio.timeout(SECONDS_MAX):
            return await self.process.wait()

    async def order(self, story: str = "s-1") -> None:
        """Put a story on the queue."""
        payload = Story(story=story, spec="todo", run=1, title=story, description="", acceptance_criteria=())
        await self.bus.work.put(self._letter(payload, "coder.all"))

    async def restore(self) -> None:
        """The APIs are healthy again."""
        await self.bus.control.broadcast(self._letter(Restore(), "all.all", "CONTROL"))

    def _letter(self, payload: AnyPayload, recipient: str, kind: Any = "REQUEST") -> Envelope:
        self._letters += 1
        return Envelope(
            id=f"office/{self._letters}/0",
            kind=kind,
            sender="supervisor.office",
            recipient=recipient,
            payload=payload,
            sent_at=datetime.now(UTC),
        )

    async def asked(self) -> Ask:
        """What a person is asked."""

        async def look() -> Ask | None:
            return next(iter(await self.bus.asks.open()), None)

        ask: Ask = await self.eventually(look)
        return ask

    async def answer(self, text: str) -> Ask:
        """Answer what is asked."""
        ask = await self.asked()
        await self.bus.asks.answer(ask.id, text, datetime.now(UTC))
        return ask

    async def records(self, session: str = "s-1.1") -> list[Record]:
        """Every step of the session."""
        return [entry.record() async for entry in self.bus.journal.read("coder", session)]

    async def came_to(self, state: str) -> None:
        """Wait until the session is in a state."""

        async def look() -> bool | None:
            records = await self.records()
            return True if records and records[-1].state_to == state else None

        await self.eventually(look)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is so."""

        async def look() -> bool | None:
            return holds() or None

        await self.eventually(look)

    async def eventually(self, look: Callable[[], Any]) -> Any:
        """Wait until there is something to see."""
        async with asyncio.timeout(SECONDS_MAX):
            while (found := await look()) is None:
                assert self.process.returncode is None or self.process.returncode in (0, 4, -9), self.log
                await asyncio.sleep(0.01)
        return found

    def written(self, story: str = "s-1") -> list[str]:
        """The lines that the coder's tools have written."""
        file = self.folder / story / FILE
        return [line.partition(" ")[2] for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def log(self) -> str:
        """All that its processes have logged."""
        return (self.folder / "coder.log").read_text()

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Their lines about one event."""
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]


def answers(records: Sequence[Record]) -> list[dict[str, Any]]:
    """What was recorded of the model's turns."""
    events = [json.loads(bytes(record.event)) for record in records]
    results = [event["result"] for event in events if event["event"] == "finished"]
    return [result for result in results if result["result"] == "model_answered"]


@asynccontextmanager
async def a_company(
    folder: Path, server: str, subjects: Any, parts: Sequence[Part], *faults: Fault
) -> AsyncIterator[Company]:
    """A coder before a rehearsal; nobody is left of them afterwards."""
    async with nats_world(subjects, server, 1) as world, Rehearsal(parts, faults) as rehearsal:
        company = Company(folder, await world.bus(lease_seconds=2), server, subjects.project, rehearsal)
        try:
            yield company
        finally:
            await company.kill()

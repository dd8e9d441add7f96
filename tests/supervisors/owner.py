"""Somebody who has a whole company on an embedded server: by the real command, with a folder of his own for all of it.

Whoever runs for him is known by its environment, so nobody can be left behind unseen.
"""

import asyncio
import fcntl
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from bus.bus import Bus
from bus.opening import open_bus
from bus.settings import load
from protocol.messages import ActorExited, Envelope, Story
from protocol.verification import Offence, Transition, verify
from supervisors.core.standing import ChildStanding, Standing
from supervisors.views.history import events
from supervisors.views.overview import read_standing
from tests.actors.folder import Folder
from tests.bus.command import SUPERVISOR, Done, Person

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 30.0
PIPE_BYTES_MIN = 4096
SETTINGS = """
[parts]
pm = "tests.supervisors.company_parts:PM"
architect = "tests.supervisors.company_parts:ARCHITECT"
coder = "tests.supervisors.company_parts:CODER"

[supervisor]
coders = 1
requeue_seconds = 0.1

[actor]
stop_seconds = 5.0

[health]
probes = "tests.supervisors.company_parts:MODEL"

[tree]
children = [
    { name = "broker", runs = "broker" },
    { name = "health", runs = "health" },
    { name = "agents", children = [
        { name = "pm", runs = "pm" },
        { name = "architect", runs = "architect" },
    ] },
    { name = "coders", runs = "coder" },
]
"""

AT_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"

T = TypeVar("T")


class Owner(Person):
    """The person at the terminal."""

    def __init__(self, home: Path, url: str = "", project: str = "") -> None:
        super().__init__(home, url, project)
        self.outside = Folder(home / "outside")
        self._outside = home / "outside"
        self.environ |= {"OUTSIDE": str(self._outside), "PYTHONPATH": str(ROOT)}
        self.settings(SETTINGS)

    def settings(self, text: str) -> None:
        """Write the project's settings."""
        (self.folder / "callboard.toml").write_text(text)

    def set_model(self, *, is_up: bool = True, thinking_seconds: float = 0.0) -> None:
        """Have the model be there or not, and take its time."""
        (self._outside / "thinking").write_text(str(thinking_seconds))
        if is_up:
            (self._outside / "down").unlink(missing_ok=True)
        else:
            (self._outside / "down").touch()

    def processes(self) -> list[int]:
        """Everybody who runs for this person, commands and servers among them; not who has ended and is unreaped."""
        mark = f"OUTSIDE={self._outside}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environ = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended while we looked, or is another user's
            if mark in environ:
                found.append(int(process.name))
        return sorted(found)

    @asynccontextmanager
    async def company(self, *flags: str) -> AsyncIterator["Office"]:
        """The company runs in the background; whatever the test does to it, `stop` then leaves nobody behind."""
        await self.up(*flags)
        async with self.office() as office:
            yield office
        await self.stop()

    async def up(self, *flags: str) -> Done:
        """Start the company, and wait until it is up."""
        done = await self.supervisor("up", "--detach", *flags)
        assert done.code == 0, done.err
        return done

    async def stop(self) -> Done:
        """Close the company."""
        done = await self.supervisor("stop")
        assert done.code == 0, done.err
        assert self.processes() == []
        return done

    @asynccontextmanager
    async def supervisor_unread(self, *words: str) -> AsyncIterator[Process]:
        """The company in the foreground, whose words nobody reads; there is hardly room for any."""
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES_MIN)
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"\n")
        os.set_blocking(writing, True)
        process = await asyncio.create_subprocess_exec(
            str(SUPERVISOR), "up", *words, cwd=self.folder, env=self.environ, stdout=writing, stderr=writing
        )
        os.close(writing)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            os.close(reading)

    async def until_it_runs(self) -> None:
        """Wait until `status` finds nothing wrong."""

        async def look() -> bool | None:
            return (await self.supervisor("status")).code == 0 or None

        await eventually("the company runs", look)

    @asynccontextmanager
    async def at_terminal(self, *words: str) -> AsyncIterator["Terminal"]:
        """A `supervisor` command in the foreground of a terminal."""
        terminal = Terminal(await self._start([sys.executable, "-c", AT_TERMINAL, str(SUPERVISOR), *words], {}))
        try:
            yield terminal
        finally:
            await terminal.close()

    @asynccontextmanager
    async def office(self) -> AsyncIterator["Office"]:
        """Look at the company and give it work, while its broker runs."""
        loaded = load({}, self.environ, self.folder)
        async with open_bus(loaded, self.environ, "person", migrate=False) as bus:
            yield Office(bus)


class Office:
    """The company, seen through its bus."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    # What there is to see.

    async def standing(self) -> Standing:
        """How its tree stands."""
        return await eventually("a supervisor says how its tree stands", lambda: read_standing(self.bus))

    async def child(self, name: str) -> ChildStanding:
        """How one child stands."""
        return next(each for each in (await self.standing()).children if each.name == name)

    async def pids(self) -> dict[str, int]:
        """Who has which process; nobody has one who is not ready."""
        return {each.name: each.pid for each in (await self.standing()).children if each.phase == "ready"}

    async def again(self, name: str, pid: int) -> int:
        """Wait until a child is ready with another process than that; returns the new one."""

        async def look() -> int | None:
            now = (await self.pids()).get(name)
            return now if now != pid else None

        return await eventually(f"{name} has another process than {pid}", look)

    async def state(self, session: str, machine: str = "coder") -> str:
        """Where a session is; empty if it has not begun."""
        last = await self.bus.journal.last(machine, session)
        return last.record().state_to if last else ""

    async def reaches(self, session: str, state: str, machine: str = "coder") -> None:
        """Wait until a session is in a state."""

        async def look() -> bool | None:
            return (await self.state(session, machine) == state) or None

        await eventually(f"{session} is in {state}", look)

    async def transitions(self) -> list[Transition]:
        """All that sessions have recorded."""
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

    async def offences(self) -> list[Offence]:
        """What `bus verify` would say."""
        return list(verify(await self.transitions()))

    async def exits(self, name: str, count: int = 1) -> list[ActorExited]:
        """What was recorded of a child's ends, once it is so many."""

        async def look() -> list[ActorExited] | None:
            payloads = [envelope.payload async for envelope in events(self.bus)]
            found = [each for each in payloads if isinstance(each, ActorExited) and each.name == name]
            return found if len(found) >= count else None

        return await eventually(f"{name} has ended {count} times", look)

    async def past(self, session: str) -> set[tuple[str, str]]:
        """What has happened to a coder's session: each kind of event, and the effect that it was about."""
        records = [entry.record() async for entry in self.bus.journal.read("coder", session)]
        facts = [msgspec.json.decode(record.event) for record in records]
        return {(fact["event"], fact.get("effect", "")) for fact in facts}

    async def coder_of(self, story: str) -> str:
        """Who has a story in hand; empty if nobody has."""
        holder = await self.bus.leases.holder(self.bus.work.lease_key(story))
        return holder.owner.partition("/")[0] if holder else ""

    async def has(self, coder: str, story: str, seconds: float) -> None:
        """Wait until somebody has a story in hand."""

        async def look() -> bool | None:
            return (await self.coder_of(story) == coder) or None

        await eventually(f"{coder} has {story}", look, seconds)

    # What a person does.

    async def order(self, story: str) -> None:
        """Put a story on the queue."""
        payload = Story(story=story, spec="spec", run=1, title=story, description="", acceptance_criteria=())
        await self.bus.work.put(
            Envelope(
                id=f"office/{story.rpartition('-')[2]}/0",
                kind="REQUEST",
                sender="person.person",
                recipient="coder.all",
                payload=payload,
                sent_at=datetime.now(UTC),
            )
        )

    async def asked(self, session: str) -> str:
        """Wait until a session asks the person; returns the ask's id."""

        async def look() -> str | None:
            return next((ask.id for ask in await self.bus.asks.open() if session in ask.id), None)

        return await eventually(f"{session} asks something", look)

    async def answer(self, session: str, text: str) -> None:
        """Answer what a session asks."""
        await self.bus.asks.answer(await self.asked(session), text, datetime.now(UTC))


class Terminal:
    """A command at a terminal: what it shows, and what is typed."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._reading = asyncio.ensure_future(self._read())
        self.shown = ""

    async def until_shown(self, text: str) -> None:
        """Wait until something was shown."""
        await until(f"the terminal shows {text!r}", lambda: text in self.shown)

    def type(self, keys: bytes) -> None:
        """Type something."""
        assert self._process.stdin is not None
        self._process.stdin.write(keys)

    async def ended(self) -> int:
        """The exit code of what ran there."""
        async with asyncio.timeout(SECONDS_MAX):
            await self._reading
            return await self._process.wait()

    async def close(self) -> None:
        """Close the window."""
        if self._process.returncode is None:
            self._process.kill()
        await self._reading
        await self._process.communicate()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while chunk := await self._process.stdout.read(4096):
            self.shown += chunk.decode(errors="replace")


async def eventually(what: str, look: Callable[[], Awaitable[T | None]], seconds: float = SECONDS_MAX) -> T:
    """Look again and again until there is something to see; the failure says what was awaited."""
    deadline = asyncio.get_running_loop().time() + seconds
    while (found := await look()) is None:
        assert asyncio.get_running_loop().time() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)
    return found


async def until(what: str, holds: Callable[[], bool], seconds: float = SECONDS_MAX) -> None:
    """The same for what can be seen at once."""

    async def look() -> bool | None:
        return holds() or None

    await eventually(what, look, seconds)


def end_all(pids: list[int]) -> None:
    """Kill whoever a test has left behind."""
    for pid in pids:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue

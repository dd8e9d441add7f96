"""The `actor` command: a real process by hand, how it ends, and what it logs."""

import asyncio
import json
import os
import signal
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from actors.exits import ActorExit
from bus.bus import Bus
from protocol.messages import Envelope, Restart, Story
from protocol.subjects import Subjects
from tests.actors.folder import Folder
from tests.contract.world import nats_world
from tests.nats_server import NatsServer

ACTOR = str(Path(sysconfig.get_path("scripts")) / "actor")
PLANTED = "sk-planted-0123456789-abcdefghijk"
SECONDS_MAX = 30.0
PROMPTLY_SECONDS_MAX = 4.0
"""Less than anything that a process waits for: the broker, or what it has in hand."""
PARTS = "tests.actors.command_parts"
AWKWARD = "tests.actors.awkward_parts"
CODER = ("coder", "--id", "coder-1", "--part", f"{PARTS}:CODER")
SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, ActorExit.TERMINATED), (signal.SIGINT, ActorExit.INTERRUPTED)]
)
ROOT = Path(__file__).parents[2]


class Office:
    """A project on the worker's server, and actors that are started by hand."""

    def __init__(self, bus: Bus, url: str, folder: Path) -> None:
        self.bus = bus
        self.outside = Folder(folder)
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "OUTSIDE": str(folder),
            "NATS_URL": url,
            "ANTHROPIC_API_KEY": PLANTED,
            "CALLBOARD_PROJECT": bus.subjects.project,
        }

    async def start(self, *arguments: str, **environ: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            ACTOR, *arguments, env={**self._environ, **environ}, cwd=ROOT, stderr=asyncio.subprocess.PIPE
        )

    async def order(self) -> None:
        story = Story(story="s-1", spec="spec", run=1, title="t", description="", acceptance_criteria=())
        await self.bus.work.put(letter(story, "coder.all", "REQUEST"))

    async def answer(self, text: str) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while not (asks := await self.bus.asks.open()):
                await asyncio.sleep(0.01)
        await self.bus.asks.answer(asks[0].id, text, datetime.now(UTC))

    async def state(self, wanted: str) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            async for entry in self.bus.journal.follow("coder", "s-1.1"):
                if entry.record().state_to == wanted:
                    return


def letter(payload: Any, recipient: str, kind: Any) -> Envelope:
    return Envelope(
        id="office/1/0",
        kind=kind,
        sender="supervisor.office",
        recipient=recipient,
        payload=payload,
        sent_at=datetime.now(UTC),
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int, list[Any]]:
    """How it ended, and what it logged."""
    async with asyncio.timeout(SECONDS_MAX):
        _, said = await process.communicate()
    assert process.returncode is not None
    return process.returncode, [json.loads(line) for line in said.decode().splitlines() if line.startswith("{")]


async def said(process: asyncio.subprocess.Process, event: str) -> None:
    """Wait until it has logged an event."""
    assert process.stderr is not None
    async with asyncio.timeout(SECONDS_MAX):
        async for line in process.stderr:
            if line.startswith(b"{") and json.loads(line)["event"] == event:
                return
    raise AssertionError(f"it has ended without {event}")


async def ended_promptly(process: asyncio.subprocess.Process) -> tuple[int, list[str]]:
    """How it ended, and the events that it logged until then; that it says nothing else is part of the promise."""
    async with asyncio.timeout(PROMPTLY_SECONDS_MAX):
        _, rest = await process.communicate()
    assert process.returncode is not None
    return process.returncode, [json.loads(line)["event"] for line in rest.splitlines()]


@pytest.fixture
async def office(shared_server: NatsServer, subjects: Subjects, tmp_path: Path) -> AsyncIterator[Office]:
    async with nats_world(subjects, shared_server.url, 1) as world:
        yield Office(await world.bus(), shared_server.url, tmp_path)


@asynccontextmanager
async def architect(office: Office) -> AsyncIterator[None]:
    process = await office.start("architect", "--id", "main", "--part", f"{PARTS}:ARCHITECT")
    try:
        yield
    finally:
        process.terminate()
        assert (await ended(process))[0] == ActorExit.TERMINATED


async def test_a_story_is_played_to_its_end_and_every_event_is_logged_once(office: Office) -> None:
    await office.order()
    async with architect(office):
        process = await office.start("coder", "--id", "coder-1", "--part", f"{PARTS}:CODER")
        await office.answer("yes")
        code, log = await ended(process)

    assert code == ActorExit.DONE
    assert office.outside.announcements == ["merged s-1"]
    handled = [line for line in log if line["event"] == "event.handled"]
    assert [line["n"] for line in handled] == list(range(1, 18))
    assert all(line["actor"] == "coder-1" and (line["session"], line["story"]) == ("s-1.1", "s-1") for line in handled)
    assert handled[0]["message"] == "office/1/0"
    assert handled[-1]["state_to"] == "DONE"


async def test_a_session_that_comes_to_error_is_another_exit_code(office: Office) -> None:
    await office.order()
    process = await office.start("coder", "--id", "coder-1", "--part", f"{PARTS}:CODER")
    await office.answer("no")

    assert (await ended(process))[0] == ActorExit.ERROR


async def test_a_planted_secret_is_neither_logged_nor_recorded(office: Office) -> None:
    await office.order()
    process = await office.start("coder", "--id", "coder-1", "--part", f"{PARTS}:LEAKY")
    async with asyncio.timeout(SECONDS_MAX):
        _, said = await process.communicate()

    assert process.returncode == ActorExit.ERROR
    assert b"model.called" in said
    assert PLANTED.encode() not in said
    records = b"".join([entry.data async for entry in office.bus.journal.read()])
    assert b"the key [secret] is wrong" in records
    assert PLANTED.encode() not in records


@pytest.mark.parametrize("reference", ["env:WORD", "file:{folder}/word"])
async def test_a_secret_of_the_settings_is_neither_logged_nor_recorded(
    office: Office, tmp_path: Path, reference: str
) -> None:
    secret = 'planted "word" \\ of\nBjörn'
    word = tmp_path / "word"
    word.write_text(secret)
    word.chmod(0o600)
    (tmp_path / "callboard.toml").write_text(f'[bus]\nuser = "bob"\npassword = "{reference.format(folder=tmp_path)}"\n')
    await office.order()
    part = ("coder", "--id", "coder-1", "--part", f"{AWKWARD}:TALKATIVE", "--directory", str(tmp_path))
    process = await office.start(*part, WORD=secret, SAYS=secret)
    async with asyncio.timeout(SECONDS_MAX):
        _, said = await process.communicate()

    assert process.returncode == ActorExit.ERROR
    assert b"library.logged" in said
    assert b"Task exception was never retrieved" in said
    assert b"planted" not in said
    records = b"".join([entry.data async for entry in office.bus.journal.read()])
    assert b"ValueError" in records
    assert b"planted" not in records


@SIGNALS
async def test_a_signal_ends_it_and_the_next_goes_on(office: Office, number: signal.Signals, code: ActorExit) -> None:
    await office.order()
    process = await office.start("coder", "--id", "coder-1", "--part", f"{PARTS}:CODER")
    await office.state("PLANNING")
    process.send_signal(number)
    assert (await ended(process))[0] == code

    async with architect(office):
        process = await office.start("coder", "--id", "coder-1", "--part", f"{PARTS}:CODER")
        await office.answer("yes")
        assert (await ended(process))[0] == ActorExit.DONE


@SIGNALS
async def test_a_second_signal_ends_it_at_once(office: Office, number: signal.Signals, code: ActorExit) -> None:
    await office.order()
    process = await office.start("coder", "--id", "coder-1", "--part", f"{AWKWARD}:SLOW")
    await said(process, "model.called")
    process.send_signal(number)
    await said(process, "actor.leaving")
    process.send_signal(number)

    assert await ended_promptly(process) == (code, ["actor.ended"])


async def test_the_first_signal_says_how_it_ended(office: Office) -> None:
    await office.order()
    process = await office.start("coder", "--id", "coder-1", "--part", f"{AWKWARD}:SLOW")
    await said(process, "model.called")
    process.send_signal(signal.SIGTERM)
    await said(process, "actor.leaving")
    process.send_signal(signal.SIGINT)

    assert await ended_promptly(process) == (ActorExit.TERMINATED, ["actor.ended"])


async def test_what_does_not_let_itself_be_cancelled_does_not_keep_the_process(office: Office) -> None:
    await office.order()
    process = await office.start("coder", "--id", "coder-1", "--part", f"{AWKWARD}:STUBBORN")
    await said(process, "model.called")
    process.send_signal(signal.SIGTERM)
    await said(process, "actor.leaving")
    process.send_signal(signal.SIGTERM)
    await said(process, "model.held_on")

    code, events = await ended_promptly(process)

    assert code == ActorExit.TERMINATED
    assert events[-1] == "actor.broken_off"


@SIGNALS
async def test_a_signal_is_heeded_while_nobody_answers_at_the_broker(
    office: Office, number: signal.Signals, code: ActorExit
) -> None:
    process = await office.start(*CODER, NATS_URL="nats://127.0.0.1:9")
    await said(process, "bus.unreachable")
    process.send_signal(number)

    assert await ended_promptly(process) == (code, ["actor.leaving", "actor.ended"])


async def test_a_signal_is_heeded_while_the_broker_says_nothing(office: Office) -> None:
    called = asyncio.Event()

    async def keep_quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(keep_quiet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        process = await office.start(*CODER, NATS_URL=f"nats://127.0.0.1:{port}")
        async with asyncio.timeout(SECONDS_MAX):
            await called.wait()
        process.send_signal(signal.SIGTERM)

        assert await ended_promptly(process) == (ActorExit.TERMINATED, ["actor.leaving", "actor.ended"])


@SIGNALS
async def test_a_signal_is_heeded_before_anything_has_begun(
    office: Office, number: signal.Signals, code: ActorExit
) -> None:
    process = await office.start(
        "coder", "--id", "coder-1", "--part", "tests.actors.impatient_parts:CODER", TOLD_BY=number.name
    )

    assert await ended_promptly(process) == (code, [])


async def test_how_long_it_waits_in_suspend_is_a_setting(office: Office, tmp_path: Path) -> None:
    (tmp_path / "down").touch()
    await office.order()
    process = await office.start(*CODER, CALLBOARD_ACTOR_SUSPEND_SECONDS="0.2")

    code, lines = await ended(process)

    assert code == ActorExit.ERROR
    assert "suspend_timeout" in [line.get("cause") for line in lines]


async def test_a_control_signal_ends_it_as_well(office: Office) -> None:
    await office.order()
    process = await office.start("coder", "--id", "coder-1", "--part", f"{PARTS}:CODER")
    await office.state("PLANNING")
    await office.bus.control.broadcast(letter(Restart(), "coder.coder-1", "CONTROL"))

    assert (await ended(process))[0] == ActorExit.LEFT


async def test_what_does_not_let_itself_be_cancelled_holds_no_process_for_ever(office: Office) -> None:
    await office.order()
    process = await office.start(
        "coder", "--id", "coder-1", "--part", f"{AWKWARD}:STUBBORN", CALLBOARD_ACTOR_STOP_SECONDS="0.2"
    )
    await office.state("PLANNING")
    await office.bus.control.broadcast(letter(Restart(), "coder.coder-1", "CONTROL"))

    code, lines = await ended(process)

    assert code == ActorExit.LEFT
    assert "actor.broken_off" in [line["event"] for line in lines]


async def test_a_second_process_of_the_same_name_takes_over_at_once(office: Office) -> None:
    await office.order()
    older = await office.start("coder", "--id", "coder-1", "--part", f"{PARTS}:CODER", CALLBOARD_BUS_LEASE_SECONDS="4")
    await office.state("PLANNING")
    async with architect(office):
        newer = await office.start(
            "coder", "--id", "coder-1", "--part", f"{PARTS}:CODER", CALLBOARD_BUS_LEASE_SECONDS="4"
        )
        assert (await ended(older))[0] == ActorExit.FENCED
        await office.answer("yes")
        assert (await ended(newer))[0] == ActorExit.DONE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("coder",), "Missing option '--id'"),
        (("producer", "--id", "x"), "there is no machine producer"),
        (("coder", "--id", "x"), "name one as MODULE:NAME, with --part"),
        (("coder", "--id", "X y", "--part", f"{PARTS}:CODER"), "--id: 'X y'"),
        (("coder", "--id", "x", "--part", f"{PARTS}:ARCHITECT"), "plays architect, not coder"),
        (("coder", "--id", "x", "--part", "tests.nowhere:CODER"), "No module named"),
    ],
)
async def test_a_wrong_command_line_says_what_is_wrong(office: Office, arguments: tuple[str, ...], said: str) -> None:
    process = await office.start(*arguments)
    _, output = await process.communicate()

    assert process.returncode == ActorExit.CONFIGURATION
    assert said in output.decode()


async def test_wrong_settings_and_an_unreachable_broker_have_codes_of_their_own(office: Office) -> None:
    part = ("coder", "--id", "x", "--part", f"{PARTS}:CODER")
    wrong = await office.start(*part, CALLBOARD_BUS_REPLICAS="2")
    unreachable = await office.start(*part, NATS_URL="nats://127.0.0.1:9")

    assert (await ended(wrong))[0] == ActorExit.CONFIGURATION
    assert (await ended(unreachable))[0] == ActorExit.UNREACHABLE

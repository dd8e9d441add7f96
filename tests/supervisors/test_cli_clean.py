"""`supervisor clean`: what companies have left behind goes, what anybody uses and what is recorded stays."""

import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bus.bus import Bus
from bus.leases import Lease
from protocol.codec import encode
from tests.bus.command import Person
from tests.contract.samples import a_story
from tests.supervisors.scenery import a_child, be_there, open_company, playing, step

HOLD = "import sys, time; print('here', flush=True); time.sleep(600)"

LOOKING = "looking at what is there, and which leases somebody still renews\n"


def quick(person: Person) -> Person:
    """With short leases, so that it is soon plain who renews one."""
    person.environ["CALLBOARD_BUS_LEASE_SECONDS"] = "2"
    return person


async def state_of(person: Person) -> Path:
    """The state folder of the person's project, made by a command."""
    await person.supervisor("logs")
    (state,) = (person.state / "callboard").iterdir()
    return state


@asynccontextmanager
async def renewing(bus: Bus, lease: Lease) -> AsyncIterator[None]:
    """Keep a lease as a living actor does."""

    async def renew() -> None:
        held = lease
        while True:
            held = await bus.leases.renew(held)
            await asyncio.sleep(0.1)

    keeping = asyncio.create_task(renew())
    try:
        yield
        assert not keeping.done(), keeping.exception()
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_nothing_to_remove_is_said_so(person: Person) -> None:
    done = await quick(person).supervisor("clean")

    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"{LOOKING}there is nothing to remove in project ")


async def test_it_shows_and_asks_and_removes_only_when_it_may(person: Person, project_bus: Bus) -> None:
    logs = await state_of(quick(person)) / "logs"
    logs.mkdir()
    for name in ("coder-1.log", "supervisor.log", "coder-77.log", "coder-77.log.1", "notes.txt"):
        (logs / name).write_text("x\n")
    await be_there(project_bus, "coder.coder-1", playing("s-1.1", "CODING"))
    await project_bus.board.put("actors.pm.elsewhere.talk", b"{}")
    await project_bus.board.put("actors.pm.main.talk", b"{}")
    await step(project_bus, "s-1.1", "WAITING", "CODING", n=1)

    asked = await person.supervisor("clean")
    shown = await person.supervisor("clean", "--json")
    before = sorted(path.name for path in logs.iterdir())
    done = await person.supervisor("clean", "--yes")

    assert (asked.code, len(asked.out.splitlines())) == (2, 4)
    assert "say --yes" in asked.err
    assert (shown.code, shown.data["removed"]) == (0, [])
    assert sorted(each["kind"] for each in shown.data["found"]) == ["entry", "lease", "log", "log"]
    assert before == ["coder-1.log", "coder-77.log", "coder-77.log.1", "notes.txt", "supervisor.log"]
    assert (done.code, done.err) == (0, f"{LOOKING}removed 4 of 4\n")
    assert sorted(path.name for path in logs.iterdir()) == ["coder-1.log", "notes.txt", "supervisor.log"]
    assert [posted.key async for posted in project_bus.board.all("actors")] == ["actors.pm.main.talk"]
    assert [lease async for lease, _ in project_bus.leases.all()] == []
    assert len([entry async for entry in project_bus.journal.read()]) == 1


async def test_who_lives_keeps_its_lease_and_its_entry_also_in_no_tree(person: Person, project_bus: Bus) -> None:
    lease = await be_there(project_bus, "coder.by-hand", playing("s-1.1", "CODING"))
    await project_bus.board.put("actors.coder.by-hand", b"{}")

    async with renewing(project_bus, lease):
        done = await quick(person).supervisor("clean", "--yes")

    assert (done.code, done.out) == (0, "")
    assert await project_bus.leases.holder("coder.actor.by-hand") is not None


async def test_what_a_running_company_uses_stays_without_being_waited_for(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("coder-1"), a_child("coder-9"))
    await be_there(project_bus, "coder.coder-9")
    await project_bus.leases.acquire("coder.story.s-1", "coder-9/test")
    await project_bus.board.put("actors.coder.coder-9", b"{}")
    logs = await state_of(quick(person)) / "logs"
    logs.mkdir()
    (logs / "coder-9.log").write_text("x\n")

    done = await person.supervisor("clean", "--yes")

    assert (done.code, done.out) == (0, "")
    assert (logs / "coder-9.log").exists()


async def test_the_story_of_a_coder_in_no_tree_goes_back_to_the_queue(person: Person, project_bus: Bus) -> None:
    await project_bus.work.put(a_story())
    taken = await project_bus.work.take("coder-77/test")
    hosted = {"session": "s-1.1", "story": "s-1", "ack_subject": taken.claim.ack_subject}
    await project_bus.board.put("actors.coder.coder-77", encode(hosted))

    done = await quick(person).supervisor("clean", "--yes")
    again = await asyncio.wait_for(project_bus.work.take("coder-1/test"), 10)

    assert done.code == 0
    assert "entry of coder.coder-77 on the board, with session s-1.1" in done.out
    assert again.story.story == "s-1"


async def test_an_orphan_is_ended_and_a_process_of_a_living_supervisor_is_not(person: Person) -> None:
    supervisor = await state_of(quick(person)) / "supervisor"
    supervisor.mkdir(mode=0o700)
    lock = os.open(supervisor / "actors.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)
    orphan = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, pass_fds=(lock,), stdout=asyncio.subprocess.PIPE
    )
    os.close(lock)
    try:
        assert orphan.stdout is not None
        await orphan.stdout.readline()
        shown = await person.supervisor("clean", "--json")
        done = await person.supervisor("clean", "--yes")
        code = await asyncio.wait_for(orphan.wait(), 10)
    finally:
        if orphan.returncode is None:
            orphan.kill()
            await orphan.wait()

    assert [(each["kind"], each["pid"]) for each in shown.data["found"]] == [("process", orphan.pid)]
    assert (done.code, code) == (0, -signal.SIGTERM)

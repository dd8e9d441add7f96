"""`supervisor restart`, `scale`, `pause` and `resume`: the signal that is sent, and what is waited for and told.

A company of the test's own hears the signals; that a real one does what they say is proved elsewhere.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bus.bus import Bus
from bus.control import Signal
from protocol.codec import encode
from protocol.messages import Pause, Restart, Resume, Scale
from tests.bus.command import Person
from tests.supervisors.scenery import a_beat, a_child, a_standing, be_there, open_company, playing, post, step

SOON = {"CALLBOARD_ACTOR_STOP_SECONDS": "0.1", "CALLBOARD_SUPERVISOR_READY_SECONDS": "0.1"}


@asynccontextmanager
async def hearing(bus: Bus, role: str, actor: str, react: Callable[[Signal], Awaitable[None]]) -> AsyncIterator[None]:
    """React to what is signalled to an actor while the context is open."""

    async def hear() -> None:
        async for signal in bus.control.listen(role, actor):  # type: ignore[arg-type]  # a test knows its roles
            await react(signal)

    listening = asyncio.create_task(hear())
    try:
        yield
        assert not listening.done(), listening.exception()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_a_restart_waits_for_the_next_process_and_says_where_it_goes_on(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("coder-1", pid=41), a_child("coder-2", pid=42))
    await step(project_bus, "s-1.1", "WAITING", "CODING", n=1)
    await be_there(project_bus, "coder.coder-1", playing("s-1.1", "CODING"))

    async def restart(signal: Signal) -> None:
        assert isinstance(signal.envelope.payload, Restart)
        assert signal.envelope.sender == "person.person"
        await post(project_bus, a_standing(a_child("coder-1", pid=0, phase="down"), a_child("coder-2", pid=42)))
        await post(project_bus, a_standing(a_child("coder-1", pid=51, phase="starting"), a_child("coder-2", pid=42)))
        await post(project_bus, a_standing(a_child("coder-1", pid=51, starts=1), a_child("coder-2", pid=42)))

    async with hearing(project_bus, "coder", "coder-1", restart):
        done = await person.supervisor("restart", "coder-1")

    assert (done.code, done.out) == (0, "coder-1: process 41 → 51, goes on with s-1.1 in CODING\n")
    assert done.err == "told coder.coder-1 to begin anew\n"


async def test_a_role_is_restarted_as_a_whole(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("coder-1", pid=41), a_child("coder-2", pid=42), a_child("health"))

    async def restart(_: Signal) -> None:
        await post(project_bus, a_standing(a_child("coder-1", pid=51, starts=1), a_child("coder-2", pid=52, starts=1)))

    async with hearing(project_bus, "coder", "all", restart):
        done = await person.supervisor("restart", "coder", "--json")

    assert done.code == 0
    assert [(each["name"], each["pid_before"], each["pid"]) for each in done.data] == [
        ("coder-1", 41, 51),
        ("coder-2", 42, 52),
    ]


async def test_who_does_not_come_back_in_time_is_said_so(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("coder-1", pid=41))

    done = await person.supervisor("restart", "coder-1", environ=SOON)

    assert (done.code, done.out) == (1, "")
    said = "supervisor: coder-1 has no new process: not ready within 5.2 s; `supervisor why coder-1` says more\n"
    assert done.err.endswith(said)


async def test_an_unknown_name_is_an_error_that_lists_the_names(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("health"), a_child("coder-1"))

    unknown = await person.supervisor("restart", "codr")

    assert (
        unknown.err
        == "supervisor: nobody in the tree and no role is called 'codr'; there is health, coder-1, coders, coder\n"
    )
    assert unknown.code == 1
    assert await project_bus.control.generation() == 0


async def test_scaling_tells_who_was_started_and_who_handed_what_over(person: Person, project_bus: Bus) -> None:
    coders = [a_child("coder-1", pid=41), a_child("coder-2", pid=42)]
    await open_company(project_bus, *coders)
    await step(project_bus, "s-2.1", "WAITING", "CODING", n=1)
    await be_there(project_bus, "coder.coder-2", playing("s-2.1", "CODING"))
    sizes = []

    async def scale(signal: Signal) -> None:
        payload = signal.envelope.payload
        assert isinstance(payload, Scale)
        sizes.append((payload.role, payload.size))
        wanted = [a_child(f"coder-{number}", pid=40 + number) for number in range(1, payload.size + 1)]
        await post(project_bus, a_standing(*coders, *wanted[2:], a_child("coder-9", phase="stopping")))
        await post(project_bus, a_standing(*wanted))

    async with hearing(project_bus, "supervisor", "main", scale):
        more = await person.supervisor("scale", "coder=3")
        fewer = await person.supervisor("scale", "coder=1", "--json")
        nobody = await person.supervisor("scale", "coder=0")

    assert (more.code, more.out) == (0, "coder-3 was started\ncoder: 3\n")
    assert (fewer.data["ended"], fewer.data["handed_over"]) == (["coder-2", "coder-3"], {"coder-2": ["s-2.1"]})
    assert (nobody.code, nobody.out) == (0, "coder-1 has ended\ncoder: 0\n")
    assert sizes == [("coder", 3), ("coder", 1), ("coder", 0)]


async def test_a_size_that_is_not_reached_in_time_is_said_so(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("coder-1", pid=41))

    done = await person.supervisor("scale", "coder=2", environ=SOON)

    assert (done.code, done.out) == (1, "")
    assert "there are not 2 of coder after 5.2 s; `supervisor tree` shows how far it has come" in done.err


async def test_pause_and_resume_say_who_has_heard(person: Person, project_bus: Bus) -> None:
    lease = await be_there(project_bus, "coder.coder-1")
    reasons = []

    async def brake(signal: Signal) -> None:
        nonlocal lease
        payload = signal.envelope.payload
        assert isinstance(payload, Pause | Resume)
        reasons.append(getattr(payload, "reason", None))
        beat = a_beat("coder.coder-1", paused=isinstance(payload, Pause))
        lease = await project_bus.leases.renew(lease, beat)

    async with hearing(project_bus, "coder", "coder-1", brake):
        paused = await person.supervisor("pause", "--reason", "broken build")
        resumed = await person.supervisor("resume", "--json")

    assert (paused.code, paused.out, paused.err) == (0, "coder.coder-1 is paused\n", "")
    assert (resumed.code, resumed.data) == (0, {"heard": ["coder.coder-1"], "silent": []})
    assert reasons == ["broken build", None]


async def test_who_says_nothing_in_time_is_named(person: Person, project_bus: Bus) -> None:
    await be_there(project_bus, "coder.coder-1")

    done = await person.supervisor("pause", environ={"CALLBOARD_BUS_LEASE_SECONDS": "2"})

    assert (done.code, done.out) == (1, "")
    assert done.err == "supervisor: coder.coder-1 has not said yet that it is paused; the signal is kept for it\n"


async def test_a_pause_with_nobody_there_is_kept_for_whoever_comes(person: Person, project_bus: Bus) -> None:
    done = await person.supervisor("pause")

    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("is there now: whoever comes is paused\n")
    signals = [signal.envelope.payload async for signal in project_bus.control.read("pm", "main")]
    assert encode(signals) == encode([Pause()])

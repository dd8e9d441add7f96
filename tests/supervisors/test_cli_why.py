"""`supervisor why`: by whichever name, what somebody waits for, what comes next, and what went wrong before."""

import pytest

from bus.asks import Ask
from bus.bus import Bus
from protocol.machines.coder import CODER
from protocol.messages import Restore
from supervisors.cli.company import signal
from tests.bus.command import Person
from tests.supervisors.scenery import (
    AT,
    a_child,
    an_exit,
    be_there,
    open_company,
    playing,
    post_health,
    step,
    suspend,
    tell,
)


@pytest.fixture
async def suspended(project_bus: Bus) -> None:
    """A coder whose session is in SUSPEND."""
    await open_company(project_bus, a_child("coder-1", pid=42))
    await suspend(project_bus)
    await be_there(project_bus, "coder.coder-1", playing("s-1.1", "SUSPEND"))
    await post_health(project_bus, healthy=False, error="529 overloaded")


@pytest.mark.parametrize("name", ["coder-1", "coder.coder-1", "s-1.1", "s-1"])
async def test_a_suspended_session_is_explained_by_whichever_name(person: Person, suspended: None, name: str) -> None:
    done = await person.supervisor("why", name)

    lines = [line.strip() for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert (
        lines[0]
        .removeprefix(f"{name}: ")
        .startswith("coder-1 is ready (coder, pid 42, since 2026-01-02T03:04:05Z); session s-1.1")
    )
    assert lines[1:5] == [
        "suspended for want of model since 2026-01-02T03:04:05Z",
        "goes back to CODING when all APIs are healthy (model is not healthy: 529 overloaded); "
        "ERROR at 2026-01-02T03:19:05Z",
        "last transitions:",
        "1  2026-01-02T03:04:05Z  WAITING → SETUP  entered",
    ]
    assert lines[6].split() == ["3", "2026-01-02T03:04:05Z", "CODING", "→", "SUSPEND", "entered"]


async def test_an_actor_with_several_sessions_does_not_wait_for_work(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("pm", actor="pm.main"))
    await be_there(project_bus, "pm.main", playing("todo", "SUBMITTING"), playing("t1", "INTERVIEW"))

    done = await person.supervisor("why", "pm")

    assert "has 2 sessions: `supervisor why SESSION` says more of each" in done.out
    assert "waits for work" not in done.out


async def test_of_a_story_the_newest_run_is_explained_with_its_error_and_evidence(
    person: Person, project_bus: Bus
) -> None:
    await open_company(project_bus)
    await step(project_bus, "s-1.1", "WAITING", "DONE", n=1)
    failing = {"failing": {"kind": "effect", "reason": "git: no space", "evidence": "line one\n\x1b[2Jline two"}}
    first = await step(project_bus, "s-1.2", "WAITING", "SETUP", n=1)
    await step(project_bus, "s-1.2", "SETUP", "ERROR", n=2, after=failing, expected=first)

    done, as_data = await person.supervisor("why", "s-1"), await person.supervisor("why", "s-1", "--json")

    assert done.code == 0
    assert "session s-1.2 is in ERROR" in done.out
    assert "came to ERROR, and all that was to be done about it is done" in done.out
    assert "last error, 2026-01-02T03:04:05Z: effect: git: no space\n    line one\n    \\x1b[2Jline two\n" in done.out
    assert as_data.data["session"]["session"] == "s-1.2"
    assert as_data.data["past"]["fault"]["cause"]["kind"] == "effect"


async def test_how_the_last_processes_ended_is_told_with_evidence_the_newest_first(
    person: Person, project_bus: Bus
) -> None:
    child = a_child("coder-1", phase="down", failures=5, next_start=AT, last_way="crash", last_reason="killed")
    await open_company(project_bus, child)
    await tell(project_bus, an_exit("coder-2"), 1)
    for number in range(2, 7):
        await tell(
            project_bus, an_exit("coder-1", pid=number, said="Traceback\nKeyError: 'x'", lived_seconds=3.2), number
        )

    done = await person.supervisor("why", "coder-1")

    lines = [line.strip() for line in done.out.splitlines()]
    assert "left alone until 2026-01-02T03:04:05Z, then started again" in lines
    exits = [line for line in lines if "ended by SIGKILL (crash)" in line]
    assert [line.partition("process ")[2].split()[0] for line in exits] == ["6", "5", "4"]
    assert "KeyError: 'x'" in lines


async def test_an_ask_of_the_session_is_what_it_waits_for(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("coder-1"))
    memory = {"open": {"s-1.1/1/0": {"effect": "ask_person"}}}
    await step(project_bus, "s-1.1", "WAITING", "PLANNING", n=1, after=memory)
    await be_there(project_bus, "coder.coder-1", playing("s-1.1", "PLANNING"), paused=True)
    await project_bus.asks.put(Ask(id="coder.s-1.1.1.0", question="go on?", asked_at=AT, choices=("yes", "no")))
    await project_bus.asks.put(Ask(id="coder.s-1.10.1.0", question="another's?", asked_at=AT))

    done = await person.supervisor("why", "s-1.1")

    lines = [line.strip() for line in done.out.splitlines()]
    assert lines[1:4] == [
        "waits for your answer: go on? (yes | no): `bus answer coder.s-1.1.1.0 …`",
        "paused by a person: `supervisor resume` lets it go on",
        "in hand: ask_person",
    ]
    assert f"then PLAN_REVIEW: {CODER.edges['PLANNING']['PLAN_REVIEW']}" in lines
    assert "another's?" not in done.out


async def test_a_supervisor_and_a_process_that_is_over_are_explained(person: Person, project_bus: Bus) -> None:
    web = a_child("web", phase="over", last_way="configuration", last_reason="bus.url is wrong")
    await open_company(project_bus, web)

    pool, over = await person.supervisor("why", "coders"), await person.supervisor("why", "web")

    assert "bears 3 failures more within 60 s before it gives up" in pool.out
    assert "mend its configuration, then `supervisor restart web`" in over.out


async def test_what_nobody_is_called_is_an_error_that_lists_the_names(person: Person, suspended: None) -> None:
    done = await person.supervisor("why", "coder-7\x1b")

    assert (done.code, done.out) == (1, "")
    assert "is called 'coder-7\\x1b'; there is company, coders, coder-1, coder.coder-1, s-1.1" in done.err


async def test_what_a_stranger_signals_or_tells_does_not_disturb(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("coder-1"))
    await signal(project_bus, Restore(), "all.all")
    events = project_bus.subjects.event("supervisor", "main")
    await project_bus.broker.publish(events, b"no envelope")

    assert (await person.supervisor("why", "coder-1")).code == 0

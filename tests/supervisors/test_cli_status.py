"""`supervisor status` and `supervisor tree`: what a person sees, and which exit code a script gets."""

import msgspec

from actors.thinking.effects import Purpose
from actors.thinking.troubles import question_about
from bus.asks import Ask
from bus.bus import Bus
from protocol.codec import encode
from supervisors.core.standing import STANDING
from tests.bus.command import Person
from tests.supervisors.scenery import (
    AT,
    SUPERVISORS,
    a_child,
    be_there,
    open_company,
    playing,
    post_health,
    step,
    suspend,
)


def cells(out: str, name: str) -> list[str]:
    """The line of the table that begins with a name, in words."""
    return next(line.split() for line in out.splitlines() if line.startswith(f"{name} "))


async def test_a_company_that_does_not_run_is_shown_with_what_the_bus_knows(person: Person, project_bus: Bus) -> None:
    await step(project_bus, "s-1.1", "WAITING", "SETUP", n=1, after={"since": AT})
    hosted = {"session": "s-1.1", "story": "s-1", "ack_subject": "$JS.ACK.x"}
    await project_bus.board.put("actors.coder.coder-1", encode(hosted))
    await project_bus.asks.put(Ask(id="pm.main.7.0", question="which one?", asked_at=AT, choices=("a", "b")))

    done, as_data = await person.supervisor("status"), await person.supervisor("status", "--json")

    assert (done.code, as_data.code, done.err) == (1, 1, "")
    assert done.out.startswith(f"company {project_bus.subjects.project} does not run: `supervisor up` starts it\n")
    assert cells(done.out, "coder.coder-1")[:4] == ["coder.coder-1", "SETUP", "s-1.1", "2026-01-02T03:04:05Z"]
    assert "no process has it now" in done.out
    assert "  pm.main.7.0: which one? (a | b)" in done.out.splitlines()
    assert as_data.data["actors"][0]["work"][0]["session"] == "s-1.1"
    assert as_data.data["asks"][0]["id"] == "pm.main.7.0"


async def test_all_is_well(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("health"), a_child("coder-1", pid=42, failures=2))
    await be_there(project_bus, "coder.coder-1", playing("s-1.1", "CODING", in_hand=("think",)))
    await post_health(project_bus, healthy=True)

    done = await person.supervisor("status")

    assert (done.code, done.err) == (0, "")
    assert "runs since 2026-01-02T03:04:05Z" in done.out.splitlines()[0]
    assert cells(done.out, "model") == ["model", "healthy", "2026-01-02T03:04:05Z", "2", "good", "12.0", "ms"]
    assert cells(done.out, "health") == ["health", "ready", "-", "2026-01-02T03:04:05Z"]
    when = "2026-01-02T03:04:05Z"
    assert cells(done.out, "coder-1") == ["coder-1", "CODING", "s-1.1", when, "think;", "2", "failures"]


async def test_an_actor_without_work_and_one_that_is_paused_or_in_no_tree_are_shown_so(
    person: Person, project_bus: Bus
) -> None:
    down = a_child("coder-2", phase="down", next_start=AT, last_reason="killed by SIGKILL")
    await open_company(project_bus, a_child("coder-1"), down)
    await be_there(project_bus, "coder.coder-1", paused=True)
    await be_there(project_bus, "coder.by-hand")

    done = await person.supervisor("status")

    assert cells(done.out, "coder-1") == ["coder-1", "WAITING", "-", "2026-01-02T03:04:05Z", "paused"]
    assert "down" in cells(done.out, "coder-2")
    assert "left alone until 2026-01-02T03:04:05Z (killed by SIGKILL)" in done.out
    assert cells(done.out, "coder.by-hand")[-3:] == ["in", "no", "tree"]


async def test_somebody_suspended_goes_before_an_open_ask(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus, a_child("coder-1"))
    await suspend(project_bus)
    await be_there(project_bus, "coder.coder-1", playing("s-1.1", "SUSPEND"))
    await project_bus.asks.put(Ask(id="pm.main.7.0", question="which one?", asked_at=AT))

    done = await person.supervisor("status")

    assert done.code == 4
    assert "from CODING, for want of model, ERROR at 2026-01-02T03:19:05Z" in done.out


async def test_an_api_that_is_not_healthy_has_the_same_exit_code(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus)
    await post_health(project_bus, healthy=False, error="529 overloaded")

    done = await person.supervisor("status")

    assert done.code == 4
    when = "2026-01-02T03:04:05Z"
    words = ["model", "NOT", "HEALTHY", when, "4", "failed", "12.0", "ms", "529", "overloaded"]
    assert cells(done.out, "model") == words
    assert cells(done.out, "broker") == ["broker", "healthy", when, "3", "good", "0.4", "ms"]


async def test_an_open_ask_needs_a_person(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus)
    await project_bus.asks.put(Ask(id="pm.main.7.0", question="which one?", asked_at=AT))

    assert (await person.supervisor("status")).code == 5


async def test_a_budget_that_is_used_up_goes_before_other_asks(person: Person, project_bus: Bus) -> None:
    await open_company(project_bus)
    await project_bus.asks.put(Ask(id="pm.main.7.0", question="which one?", asked_at=AT))
    question = question_about("DayBudgetError", "100 $ are spent", "", Purpose(role="coder", state="CODING"))
    assert question is not None
    ask = Ask(id="coder.s-1.1.4.0", question=question.text, choices=tuple(question.choices), asked_at=AT)
    await project_bus.asks.put(ask)

    assert (await person.supervisor("status")).code == 6


async def test_a_root_that_gave_up_needs_a_person(person: Person, project_bus: Bus) -> None:
    root = msgspec.structs.replace(SUPERVISORS[0], phase="over")
    await open_company(project_bus, supervisors=(root,), closing=True)

    done = await person.supervisor("status")

    assert done.code == 5
    assert "has given up" in done.out


async def test_a_supervisor_that_was_killed_does_not_run_although_its_lease_still_lasts(
    person: Person, project_bus: Bus
) -> None:
    await open_company(project_bus, pid=2**22 + 1)

    done = await person.supervisor("status")

    assert done.code == 1
    assert "does not run (process 4194305 on" in done.out


async def test_whatever_strangers_have_written_breaks_nothing_and_moves_no_cursor(
    person: Person, project_bus: Bus
) -> None:
    await open_company(project_bus, a_child("coder-1", phase="over", last_reason="\x1b[2Jevil\nline"))
    await project_bus.board.put("health", b'{"at": "no time"}')
    await project_bus.board.put("actors.coder.coder-9", b"\xff\x00")
    await project_bus.board.put("actors.nobody", b"{}")
    await project_bus.leases.acquire("coder.actor.coder-1", "x", {"machine": 7})
    await project_bus.asks.put(Ask(id="pm.main.7.0", question="\x1b]0;title\x07 [bold]sure[/bold]?", asked_at=AT))

    done = await person.supervisor("status")
    await project_bus.board.put(STANDING, b"[" * 10_000)
    strange = await person.supervisor("status", "--json")

    assert done.code == 5
    assert "\x1b" not in done.out
    assert "\\x1b[2Jevil\\nline" in done.out
    assert "[bold]sure[/bold]?" in done.out
    assert strange.data["standing"] is None


async def test_the_tree_is_shown_with_phases_processes_restarts_and_budgets(person: Person, project_bus: Bus) -> None:
    coder = a_child("coder-1", pid=42, failures=1)
    web = a_child("web", phase="over", restart="transient", last_reason="exit code 3")
    await open_company(project_bus, a_child("health"), coder, web)

    done, as_data = await person.supervisor("tree"), await person.supervisor("tree", "--json")

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "company  ready  one_for_one, 0 of 5 failures in 60 s",
        "  health  ready  since 2026-01-02T03:04:05Z",
        "  web  over  since 2026-01-02T03:04:05Z, transient, is not started again by itself (exit code 3)",
        "  coders  ready  one_for_one, 2 of 5 failures in 60 s",
        "    coder-1  ready  coder, pid 42, since 2026-01-02T03:04:05Z, 1 failure",
    ]
    assert [child["name"] for child in as_data.data["children"]] == ["health", "coder-1", "web"]

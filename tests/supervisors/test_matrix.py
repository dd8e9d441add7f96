"""OTP's matrix with real processes: who is started again, who goes with whom, and what uses up a budget.

Every test has a company of its own on the worker's server; everything in it is real but for how patient it is.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from actors.exits import ActorExit
from bus.asks import Ask
from bus.bus import Bus
from bus.errors import StorageFullError
from bus.server.process import birth
from bus.settings.tree import Group, Member, TreeText
from protocol.messages import ActorExited, SupervisorGaveUp
from protocol.messages import Restart as RestartSignal
from protocol.subjects import Subjects
from supervisors.cli.company import signal as send_signal
from supervisors.company.company import Outcome
from supervisors.core.patience import Patience
from supervisors.core.plans import Restart, Strategy
from supervisors.core.standing import STANDING, ChildStanding, Standing
from supervisors.core.watch import Way
from supervisors.views.overview import read_standing
from tests.contract.world import nats_world
from tests.nats_server import NatsServer
from tests.supervisors import puppets
from tests.supervisors.owner import until
from tests.supervisors.puppet_company import LATECOMER, PuppetCompany, a_bystander, a_puppet, child_of, is_settled

TICK_SECONDS = 0.1
HANGS = Patience(hung_seconds=2.5)
"""There is a second between two signs of life."""
IS_LATE = Patience(ready_seconds=1.5)
IS_DEAF = Patience(stop_seconds=1.0)

End = Callable[[PuppetCompany, str], object]


def said(word: puppets.Word) -> End:
    """It does so itself when a word is said."""
    return lambda company, name: company.say(name, word)


def killed(company: PuppetCompany, name: str) -> int:
    """Somebody kills it; gives the number that it had."""
    pid = company.child(name).pid
    os.kill(pid, signal.SIGKILL)
    return pid


ENDS: dict[str, tuple[End, Way]] = {
    "normal": (said("done"), "normal"),
    "error": (said("error"), "error"),
    "crash": (said("crash"), "crash"),
    "killed": (killed, "crash"),
    "hung": (said("hang"), "hung"),
}
LATE: Way = "never_ready"
"""The sixth: it is told to begin anew, and its next process does not become ready."""

STARTED_AGAIN: dict[Restart, set[str]] = {
    "permanent": {*ENDS, LATE},
    "transient": {*ENDS, LATE} - {"normal"},
    "temporary": set(),
}
CONCERNED: dict[Strategy, tuple[str, ...]] = {
    "one_for_one": (),
    "one_for_all": ("before", "after"),
    "rest_for_one": ("after",),
}
COUNTED = {"crash", "killed", "hung", LATE}


@pytest.fixture
async def bus(
    shared_server: NatsServer, subjects: Subjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bus]:
    monkeypatch.setattr("supervisors.company.company.TICK_SECONDS", TICK_SECONDS)
    monkeypatch.setenv("OUTSIDE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    async with nats_world(subjects, shared_server.url, 1) as world:
        yield await world.bus(lease_seconds=60, ack_wait_seconds=60.0)


@pytest.fixture
def make(bus: Bus, shared_server: NatsServer, tmp_path: Path) -> Callable[..., PuppetCompany]:
    """A company of such members."""

    def make(*members: Member, patience: Patience = Patience(), **root: object) -> PuppetCompany:  # noqa: B008
        tree = TreeText(children=members, **{"in_order": False, **root})  # type: ignore[arg-type]  # a test's own
        return PuppetCompany(bus, shared_server.url, tmp_path, tree, patience)

    return make


# The matrix. In each group the one in the middle ends.


def a_group(way: str, restart: Restart, strategy: Strategy) -> Group:
    victim = f"{way}_victim"
    return Group(
        name=way,
        strategy=strategy,
        children=(
            a_bystander(f"{way}_before", restart),
            a_bystander(victim, restart, LATECOMER) if way == LATE else a_puppet(victim, restart),
            a_bystander(f"{way}_after", restart),
        ),
    )


def expected(way: str, restart: Restart, strategy: Strategy) -> dict[str, str]:
    """What OTP would do."""
    is_back = way in STARTED_AGAIN[restart]
    concerned = CONCERNED[strategy] if is_back else ()
    return {
        "before": "started again" if "before" in concerned else "left alone",
        "victim": "started again" if is_back else "over",
        "after": "started again" if "after" in concerned else "left alone",
    }


def fate(before: ChildStanding, after: ChildStanding) -> str:
    if after.phase == "over":
        return "over"
    return "left alone" if before.pid == after.pid else "started again"


@pytest.mark.parametrize("restart", get_args(Restart))
@pytest.mark.parametrize("strategy", get_args(Strategy))
async def test_who_is_started_again_is_as_in_otp(
    make: Callable[..., PuppetCompany], tmp_path: Path, restart: Restart, strategy: Strategy
) -> None:
    ways = (*ENDS, LATE)
    async with make(*(a_group(way, restart, strategy) for way in ways)).running() as company:
        company.patience = {"hung_victim": HANGS}
        await company.order(len(ENDS))
        before = await company.until_settled()
        for way, (end, _) in ENDS.items():
            end(company, f"{way}_victim")
        company.patience = {"never_ready_victim": IS_LATE}
        (tmp_path / puppets.LATE).touch()
        await send_signal(company.bus, RestartSignal(reason="it is to be late"), "architect.never_ready_victim")

        after = await company.until("everybody has ended as told, and all is settled", lambda now: has_all(now, ways))

    got = {
        way: {
            role: fate(child_of(before, f"{way}_{role}"), child_of(after, f"{way}_{role}"))
            for role in ("before", "victim", "after")
        }
        for way in ways
    }
    assert got == {way: expected(way, restart, strategy) for way in ways}
    failures = {each.name: each.failures for each in after.supervisors if each.parent}
    assert failures == {way: int(way in COUNTED & STARTED_AGAIN[restart]) for way in ways}


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def has_all(standing: Standing, ways: tuple[str, ...]) -> bool:
    wanted = {way: end for way, (_, end) in ENDS.items()} | {LATE: LATE}
    last = {way: child_of(standing, f"{way}_victim").last_way for way in ways}
    return is_settled(standing) and last == wanted


# What else can happen between a supervisor and whom it watches.


async def test_a_temporary_child_only_ends_where_others_are_started_again_with_it(
    make: Callable[..., PuppetCompany],
) -> None:
    members = (a_bystander("first"), a_bystander("second", "temporary"), a_bystander("third"))
    async with make(*members, strategy="one_for_all").running() as company:
        before = await company.until_settled()
        after = await company.until_again("third", killed(company, "third"))

    fates = [fate(child_of(before, name), child_of(after, name)) for name in ("first", "second", "third")]
    assert fates == ["started again", "over", "started again"]


async def test_over_its_budget_a_supervisor_ends_all_of_its_own_and_its_parent_decides(
    make: Callable[..., PuppetCompany],
) -> None:
    group = Group(name="group", failures_max=0, children=(a_bystander("weak"), a_bystander("sibling")))
    async with make(group, a_bystander("other"), failures_max=1).running() as company:
        before = await company.until_settled()
        after = await company.until_again("weak", killed(company, "weak"))
        killed(company, "weak")
        await company.until("it has given up", lambda now: now.gave_up)
        company.company.stop()
        outcome = await company.ended
        given_up = [each for each in await company.recorded() if isinstance(each, SupervisorGaveUp)]

    fates = [fate(child_of(before, name), child_of(after, name)) for name in ("weak", "sibling", "other")]
    assert fates == ["started again", "started again", "left alone"]
    assert counted(after) == (1, {"weak": (2, 1), "sibling": (2, 0), "other": (1, 0)})
    assert outcome == Outcome(gave_up=True)
    assert given_up == [
        SupervisorGaveUp(name="group", failures=1, reason="weak: killed by SIGKILL"),
        SupervisorGaveUp(name="group", failures=1, reason="weak: killed by SIGKILL"),
        SupervisorGaveUp(name="company", failures=2, reason="weak: killed by SIGKILL"),
    ]


async def test_whoever_is_asked_what_now_finds_the_tree_as_it_is(
    make: Callable[..., PuppetCompany], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The board is as slow as it likes."""
    async with make(a_bystander("weak"), failures_max=0).running() as company:
        await company.until_settled()
        put = company.bus.board.put

        async def put_slowly(key: str, value: bytes) -> int:
            await asyncio.sleep(TICK_SECONDS if key == STANDING else 0.0)
            return await put(key, value)

        monkeypatch.setattr(company.bus.board, "put", put_slowly)
        killed(company, "weak")
        ask = await company.asked()
        standing = await read_standing(company.bus)

    assert ask.choices == ("start again", "stop")
    assert standing is not None
    assert (standing.gave_up, child_of(standing, "weak").pid) == (True, 0)


async def test_what_a_killed_supervisor_has_asked_nobody_is_asked_any_more(
    make: Callable[..., PuppetCompany],
) -> None:
    company = make(a_bystander("one"))
    for identifier in ("supervisor.0123456789abcdef.gave-up-1", "supervisor.recycling.7", "architect.main.7.1"):
        await company.bus.asks.put(Ask(id=identifier, question="What now?", asked_at=datetime.now(UTC)))
    async with company.running():
        await company.until_settled()
        asks = await company.bus.asks.open()

    assert {ask.id for ask in asks} == {"supervisor.recycling.7", "architect.main.7.1"}


async def test_a_person_is_asked_as_soon_as_there_is_room_for_the_question(
    make: Callable[..., PuppetCompany], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisors.company.company.AGAIN_SECONDS", TICK_SECONDS)
    async with make(a_bystander("weak"), failures_max=0).running() as company:
        await company.until_settled()
        put, refusals = company.bus.asks.put, iter([True, True])

        async def put_once_there_is_room(ask: Ask) -> None:
            if next(refusals, False):
                raise StorageFullError(ask.id, "no space left")
            await put(ask)

        monkeypatch.setattr(company.bus.asks, "put", put_once_there_is_room)
        killed(company, "weak")
        ask = await company.asked()

    assert ask.id.endswith("-1")


@pytest.mark.parametrize("recipient", ["architect.weak", "architect.all", "supervisor.other"])
async def test_a_company_that_has_given_up_begins_anew_when_anybody_is_to(
    make: Callable[..., PuppetCompany], recipient: str
) -> None:
    async with make(a_bystander("weak"), a_bystander("other"), failures_max=0).running() as company:
        before = await company.until_settled()
        killed(company, "weak")
        await company.asked()
        await send_signal(company.bus, RestartSignal(reason="a person asked for it"), recipient)
        after = await company.until("all begin anew", lambda now: not now.gave_up and is_settled(now))
        await company.until_nobody_is_asked()
        killed(company, "weak")
        again = await company.asked()

    assert [fate(child_of(before, name), child_of(after, name)) for name in ("weak", "other")] == 2 * ["started again"]
    assert counted(after) == (0, {"weak": (2, 1), "other": (2, 0)})
    assert again.id.endswith("-2")


async def test_a_company_that_is_closed_while_a_child_is_left_alone_does_not_start_it(
    make: Callable[..., PuppetCompany],
) -> None:
    async with make(a_bystander("weak"), a_bystander("other"), pause_seconds=600.0).running() as company:
        await company.until_settled()
        await company.until_again("weak", killed(company, "weak"))
        killed(company, "weak")
        await company.until("it is left alone", lambda now: child_of(now, "weak").next_start is not None)
        company.company.stop()
        outcome = await company.ended

    assert outcome == Outcome()
    assert (company.child("weak").phase, company.child("weak").starts) == ("down", 2)


async def test_a_company_that_is_closed_while_a_child_begins_ends_it_like_the_others(
    make: Callable[..., PuppetCompany], tmp_path: Path
) -> None:
    late = a_bystander("late", part=LATECOMER)
    async with make(late, a_bystander("other"), patience=IS_DEAF).running() as company:
        await company.until_settled()
        (tmp_path / puppets.LATE).touch()
        killed(company, "late")
        await company.until("it is late", lambda _: not (tmp_path / puppets.LATE).exists())
        company.company.stop()
        outcome = await company.ended

    assert outcome == Outcome()
    assert company.child("late").last_way == "asked"


async def test_a_child_that_does_not_leave_is_killed_when_its_time_is_up(make: Callable[..., PuppetCompany]) -> None:
    """Its loop stands still, so it hears neither the company's signal nor the machine's."""
    async with make(a_puppet("deaf"), a_bystander("other"), patience=IS_DEAF).running() as company:
        await company.order(1)
        await company.until_settled()
        unheard = company.say("deaf", "hang")
        await company.until("it hangs", lambda _: not unheard.exists())
        company.company.stop()
        outcome = await company.ended
        ends = {each.name: each.code for each in await company.recorded() if isinstance(each, ActorExited)}

    assert outcome == Outcome()
    assert ends == {"deaf": -signal.SIGKILL, "other": ActorExit.LEFT}


async def test_a_wrong_configuration_is_said_once_and_nothing_is_tried_again(
    make: Callable[..., PuppetCompany],
) -> None:
    async with make(a_bystander("wrong", part="nowhere:NOBODY"), a_bystander("right")).running() as company:
        now = await company.until_settled()
        company.company.stop()
        await company.ended
        ends = [each for each in await company.recorded() if isinstance(each, ActorExited) and each.name == "wrong"]

    assert child_of(now, "wrong").phase == "over"
    assert counted(now) == (0, {"wrong": (1, 0), "right": (1, 0)})
    assert [(each.way, each.code) for each in ends] == [("configuration", ActorExit.CONFIGURATION)]
    assert "nowhere:NOBODY" in ends[0].reason


async def test_where_nobody_can_be_started_the_company_ends_and_says_why(make: Callable[..., PuppetCompany]) -> None:
    wrong = [a_bystander(name, part="nowhere:NOBODY") for name in ("one", "two")]
    async with make(*wrong).running() as company:
        outcome = await company.ended

    assert [reason.partition(": ")[0] for reason in outcome.misconfigured] == ["one, two"]


@pytest.mark.parametrize("word", ["crash", "done"])
@pytest.mark.parametrize("is_adopted", [False, True])
async def test_a_tool_goes_on_as_long_as_its_actor_lives_and_is_gone_before_the_next_one_begins(
    make: Callable[..., PuppetCompany], tmp_path: Path, word: puppets.Word, *, is_adopted: bool
) -> None:
    async with make(a_puppet("user"), a_bystander("other")).running() as company:
        await company.order(1)
        await company.until_settled()
        company.say("user", "use a tool")
        await until("a tool runs", (tmp_path / puppets.TOOL).exists)
        tool = int((tmp_path / puppets.TOOL).read_text())
        if is_adopted:
            os.kill(parent_of(company.child("user").pid), signal.SIGKILL)
            await until("it is adopted", lambda: parent_of(company.child("user").pid) == os.getpid())
        await company.until_again("other", killed(company, "other"))
        went_on = birth(tool) is not None
        pid = company.child("user").pid
        company.say("user", word)
        await company.until("it has another process", lambda now: child_of(now, "user").pid not in (0, pid))
        is_left = birth(tool) is not None

    assert (went_on, is_left) == (True, False)


async def test_nothing_that_actors_have_started_is_left_when_the_company_is_closed(
    make: Callable[..., PuppetCompany], tmp_path: Path
) -> None:
    async with make(a_puppet("user")).running() as company:
        await company.order(1)
        await company.until_settled()
        company.say("user", "use a tool")
        await until("a tool runs", (tmp_path / puppets.TOOL).exists)
        company.company.stop()
        await company.ended

    assert birth(int((tmp_path / puppets.TOOL).read_text())) is None


def counted(standing: Standing) -> tuple[int, dict[str, tuple[int, int]]]:
    """The failures that count against a budget now, and how often each child was started and has failed."""
    children = {each.name: (each.starts, each.failures) for each in standing.children}
    return sum(each.failures for each in standing.supervisors), children

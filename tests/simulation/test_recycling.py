"""What becomes of sessions that came to ERROR or are stuck, and of those whose supervisor is killed over it."""

import asyncio
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from actors.core.effects import Effect
from actors.errors import EffectError
from bus.errors import UnknownAskError
from protocol.messages import Cancel, Pause, Recover, Requeue, Resume, SessionStuck, Story
from supervisors.clerk.clerk import ERRANDS
from supervisors.clerk.handover import find_left, hand_over
from supervisors.core.recycling import RECOVERIES_MAX
from tests.actors.understudies.effects import Think
from tests.simulation.evening import HOUR, after, come_to, events, last, on_stage, states
from tests.simulation.loop import Process
from tests.simulation.theatre import SUBJECTS, Theatre

COMPANY = ("architect.main", "coder.coder-1", "coder.coder-2", "pm.main", "supervisor.main")
MINUTE = 60.0


def refuse(theatre: Theatre, session: str, times: int = 1) -> None:
    """Have the model refuse a session's next calls for good."""
    genuine, refusals = theatre.outside.touch, iter(range(times))

    def touch(effect: Effect, incarnation: str) -> None:
        genuine(effect, incarnation)
        is_its = isinstance(effect, Think) and effect.id.partition("/")[0] == session
        if is_its and next(refusals, None) is not None:
            raise EffectError("the model refuses")

    theatre.outside.touch = touch  # type: ignore[method-assign]  # one more link in the chain


def runs(theatre: Theatre, story: str = "s-1") -> list[Story]:
    """Every run of a story that a coder has begun."""
    names = sorted(name for name in theatre.monitor.records if name.startswith(f"{story}."))
    letters = [events(theatre, name, "received")[0]["message"]["payload"] for name in names]
    return [msgspec.convert(letter, Story) for letter in letters]


def told(theatre: Theatre, kind: type[Any]) -> list[Any]:
    return [payload for payload in theatre.heard if isinstance(payload, kind)]


async def asked(theatre: Theatre, beginning: str, seconds: float = HOUR) -> str:
    """The id of an open ask, once there is one."""
    deadline = theatre.loop.time() + seconds
    while theatre.loop.time() < deadline:
        for ask in await theatre.office.asks.open():
            if ask.id.startswith(beginning):
                return ask.id
        await asyncio.sleep(1)
    raise AssertionError(f"nobody has asked {beginning}: {[ask.id for ask in await theatre.office.asks.open()]}")


async def errands(theatre: Theatre) -> list[str]:
    return [posted.key async for posted in theatre.office.board.all(ERRANDS)]


# Stories.


def test_a_story_that_has_failed_comes_again_after_a_pause_with_what_is_known_of_it() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.have_done(theatre.answer_asks())
        refuse(theatre, "s-1.1")
        await theatre.order("s-1")
        await come_to(theatre, "DONE", "s-1.2")
        assert await errands(theatre) == []

    theatre = on_stage(play, *COMPANY)
    first, second = runs(theatre)
    (earlier,) = second.earlier
    assert (first.attempt, second.attempt) == (1, 2)
    assert (earlier.session, earlier.cause) == ("s-1.1", "effect")
    assert "the model refuses" in earlier.diagnosis
    pause = theatre.monitor.records["s-1.2"][0].at - last(theatre).at
    assert 10 <= pause.total_seconds() < 12
    assert [told.run for told in told(theatre, Requeue)] == [1]


def test_a_story_that_fails_again_and_again_waits_longer_each_time_and_then_for_the_person() -> None:
    async def play(theatre: Theatre) -> None:
        for run in range(1, 5):
            refuse(theatre, f"s-1.{run}")
        await theatre.order("s-1")
        await come_to(theatre, "ERROR", "s-1.3")
        ask = await asked(theatre, "supervisor.requeue.s-1.3")
        await asyncio.sleep(24 * HOUR)
        assert "s-1.4" not in theatre.monitor.records
        await theatre.office.asks.answer(ask, "try again", theatre.now())
        await come_to(theatre, "ERROR", "s-1.4", MINUTE)
        await theatre.office.asks.answer(await asked(theatre, "supervisor.requeue.s-1.4"), "give up", theatre.now())
        await come_to(theatre, "DONE", "main", MINUTE)
        await asyncio.sleep(HOUR)
        assert "s-1.5" not in theatre.monitor.records
        assert await errands(theatre) == []

    theatre = on_stage(play, *COMPANY)
    assert [story.attempt for story in runs(theatre)] == [1, 2, 3, 4]
    assert [told.decision for told in told(theatre, Requeue)] == ["", "", "try again", "give up"]
    begun = [theatre.monitor.records[f"s-1.{run}"][0].at for run in (1, 2, 3)]
    assert (begun[2] - begun[1]).total_seconds() - (begun[1] - begun[0]).total_seconds() == pytest.approx(10, abs=1)


def test_fifteen_minutes_of_outage_lead_to_error_and_the_story_goes_on_with_its_work_when_all_is_well() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 20.0
        theatre.have_done(theatre.answer_asks())
        await theatre.order("s-1")
        await come_to(theatre, "CODING")
        theatre.outside.down_until = 10 * HOUR
        await come_to(theatre, "ERROR")
        await asyncio.sleep(5 * MINUTE)
        assert "s-1.2" not in theatre.monitor.records
        theatre.outside.down_until = 0.0
        await come_to(theatre, "DONE", "s-1.2", 10 * MINUTE)

    theatre = on_stage(play, *COMPANY)
    assert after(last(theatre))["failing"]["kind"] == "suspend_timeout"
    second = runs(theatre)[1]
    assert (second.attempt, [earlier.session for earlier in second.earlier]) == (1, ["s-1.1"])


def test_an_outage_of_six_hours_burns_no_attempt_and_then_everybody_goes_on() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 100.0
        theatre.have_done(theatre.answer_asks())
        for story in ("s-1", "s-2", "s-3"):
            await theatre.order(story)
        await come_to(theatre, "REQUEST", "main")
        await theatre.talk("talk-1")
        theatre.outside.down_until = theatre.loop.time() + 6 * HOUR
        for session in ("main", "talk-1"):
            await come_to(theatre, "SUSPEND", session)
        await asyncio.sleep(6 * HOUR)
        assert await theatre.until(lambda: len(theatre.outside.announcements) == 4, HOUR)
        assert await errands(theatre) == []

    theatre = on_stage(play, *COMPANY)
    assert sorted(theatre.outside.announcements.values()) == [
        "approved talk-1", "merged s-1", "merged s-2", "merged s-3"
    ]  # fmt: skip
    assert [state for state in states(theatre, "main") if state == "ERROR"] == ["ERROR"]
    assert [state for state in states(theatre, "talk-1") if state == "ERROR"] == ["ERROR"]
    for story in ("s-1", "s-2", "s-3"):
        assert {run.attempt for run in runs(theatre, story)} == {1}
        assert len(runs(theatre, story)) <= 2


def test_a_story_that_was_cancelled_does_not_come_again() -> None:
    async def play(theatre: Theatre) -> None:
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        await theatre.broadcast(Cancel(story="s-1"))
        await come_to(theatre, "ERROR")
        await asyncio.sleep(HOUR)
        assert "s-1.2" not in theatre.monitor.records

    assert told(on_stage(play, *COMPANY), Requeue) == []


# Sessions that rest in ERROR.


def test_an_architect_is_recovered_at_once_and_its_queue_is_intact() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.have_done(theatre.answer_asks())
        refuse(theatre, "main")
        await theatre.order("s-1")
        await theatre.order("s-2")
        await come_to(theatre, "DONE", "s-1.1")
        await come_to(theatre, "DONE", "s-2.1")

    theatre = on_stage(play, *COMPANY)
    visited = states(theatre, "main")
    assert visited[visited.index("ERROR") + 1] == "WAITING"
    (signal,) = [event["signal"]["payload"] for event in events(theatre, "main", "signalled")]
    assert signal["payload"] == "recover"
    assert [told.session for told in told(theatre, Recover)] == ["main"]


def test_one_that_fails_again_and_again_is_left_alone_for_longer_and_then_a_person_is_asked() -> None:
    async def play(theatre: Theatre) -> None:
        refuse(theatre, "talk-1", times=RECOVERIES_MAX + 1)
        await theatre.talk("talk-1")
        ask = await asked(theatre, "supervisor.recover.pm.talk-1")
        assert states(theatre, "talk-1").count("ERROR") == RECOVERIES_MAX + 1
        await asyncio.sleep(2 * HOUR)
        assert last(theatre, "talk-1").state_to == "ERROR"
        await theatre.office.asks.answer(ask, "recover", theatre.now())
        await come_to(theatre, "DONE", "talk-1", MINUTE)

    theatre = on_stage(play, *COMPANY)
    errors = [
        record.at for record in theatre.monitor.records["talk-1"] if record.state_to != record.state_from == "ERROR"
    ]
    pauses = [round((later - earlier).total_seconds(), -1) for earlier, later in pairwise(errors)]
    assert pauses[: RECOVERIES_MAX - 1] == [10, 20, 40, 80]
    assert len(told(theatre, Recover)) == RECOVERIES_MAX + 1


def test_one_that_leaves_error_without_the_person_is_no_longer_asked_about() -> None:
    async def play(theatre: Theatre) -> None:
        refuse(theatre, "talk-1", times=RECOVERIES_MAX + 1)
        await theatre.talk("talk-1")
        ask = await asked(theatre, "supervisor.recover.pm.talk-1")
        await theatre.broadcast(Recover(session="talk-1"), "pm.all")
        await come_to(theatre, "DONE", "talk-1", MINUTE)
        await asyncio.sleep(MINUTE)
        with pytest.raises(UnknownAskError):
            await theatre.office.asks.get(ask)
        assert await errands(theatre) == []

    on_stage(play, *COMPANY)


# Sessions that are stuck.


def test_a_session_without_progress_is_reported_once_then_recycled_and_its_story_comes_again() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.have_done(theatre.answer_asks())
        theatre.outside.slowness = 20.0
        await theatre.order("s-1")
        await come_to(theatre, "CODING")
        theatre.outside.slowness = 1e9
        await asyncio.sleep(25 * MINUTE)
        assert told(theatre, SessionStuck) == []
        await asyncio.sleep(6 * MINUTE)
        assert [stuck.session for stuck in told(theatre, SessionStuck)] == ["s-1.1"]
        theatre.kill(theatre.processes["supervisor.main"])
        theatre.outside.slowness = 0.0
        await come_to(theatre, "ERROR", seconds=15 * MINUTE)
        await come_to(theatre, "DONE", "s-1.2")

    theatre = on_stage(play, *COMPANY)
    assert after(last(theatre))["failing"]["kind"] == "stuck"
    assert len(told(theatre, SessionStuck)) == 1
    assert [run.attempt for run in runs(theatre)] == [1, 2]


def test_nobody_is_stuck_who_waits_for_a_person_or_is_held_by_the_brake() -> None:
    async def play(theatre: Theatre) -> None:
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        await asyncio.sleep(2 * HOUR)
        theatre.outside.slowness = 10 * MINUTE
        theatre.have_done(theatre.answer_asks())
        await come_to(theatre, "CODING")
        await theatre.broadcast(Pause())
        await asyncio.sleep(2 * HOUR)
        await theatre.broadcast(Resume())
        await come_to(theatre, "DONE", seconds=3 * HOUR)

    assert told(on_stage(play, *COMPANY), SessionStuck) == []


# The supervisor itself.


class Script:
    """What happens to the supervisor at its boundary number so-and-so."""

    def __init__(self, at: int, what: str) -> None:
        self._at = at
        self._what = what
        self.passed = 0

    def __call__(self, process: Process, _: str) -> str:
        if not process.name.startswith("supervisor."):
            return "go"
        self.passed += 1
        return self._what if self.passed == self._at else "go"


def failing_company(script: Script) -> Theatre:
    """A story that fails three times, and an architect and an interview that fail as well."""

    async def play(theatre: Theatre) -> None:
        theatre.director = script
        theatre.have_done(theatre.answer_asks())
        for session in ("s-1.1", "s-1.2", "s-1.3", "main", "talk-1"):
            refuse(theatre, session)
        await theatre.order("s-1")
        await theatre.talk("talk-1")
        await come_to(theatre, "DONE", "s-1.4")
        await come_to(theatre, "DONE", "talk-1")
        await asyncio.sleep(5 * MINUTE)
        assert await errands(theatre) == []
        assert await theatre.office.asks.open() == []

    return on_stage(play, *COMPANY)


def outcome(theatre: Theatre) -> Any:
    return (
        sorted(theatre.outside.announcements.values()),
        [(run.run, run.attempt, len(run.earlier)) for run in runs(theatre)],
        {session: states(theatre, session) for session in theatre.monitor.records if session != "main"},
        states(theatre, "main").count("ERROR"),
    )


UNDISTURBED = failing_company(whole := Script(0, "go"))


@pytest.mark.parametrize("what", ["kill", "stop"])
def test_a_supervisor_that_is_killed_or_sleeps_anywhere_loses_and_doubles_nothing(what: str) -> None:
    assert whole.passed >= 20
    for at in range(1, whole.passed + 1):
        theatre = failing_company(Script(at, what))

        assert outcome(theatre) == outcome(UNDISTURBED), f"{what} at {at}"
        assert sum(name.startswith("supervisor") for name in theatre.disturbed) == 1


def test_what_came_to_error_while_there_was_no_supervisor_is_seen_to_by_the_next() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.have_done(theatre.answer_asks())
        refuse(theatre, "s-1.1")
        refuse(theatre, "talk-1")
        await theatre.order("s-1")
        await theatre.talk("talk-1")
        await come_to(theatre, "ERROR")
        await come_to(theatre, "ERROR", "talk-1")
        await asyncio.sleep(HOUR)
        theatre.start("supervisor.main")
        await come_to(theatre, "DONE", "s-1.2", MINUTE)
        await come_to(theatre, "DONE", "talk-1", MINUTE)

    on_stage(play, *COMPANY[:-1])


def test_a_bookmark_that_is_lost_repeats_nothing() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.have_done(theatre.answer_asks())
        refuse(theatre, "s-1.1")
        refuse(theatre, "talk-1")
        await theatre.order("s-1")
        await theatre.talk("talk-1")
        await come_to(theatre, "DONE", "s-1.2")
        await come_to(theatre, "DONE", "talk-1")
        records = len(theatre.monitor.records["main"])
        await theatre.office.board.put("supervisor.clerk", b"no bookmark")
        theatre.kill(theatre.processes["supervisor.main"])
        await asyncio.sleep(10 * MINUTE)
        assert await errands(theatre) == []
        assert len(theatre.monitor.records["main"]) == records

    theatre = on_stage(play, *COMPANY)
    assert states(theatre, "talk-1").count("ERROR") == 1


def test_a_stream_that_is_gone_holds_the_clerk_up_and_does_not_end_it() -> None:
    async def play(theatre: Theatre) -> None:
        refuse(theatre, "s-1.1")
        stream = SUBJECTS.mail_stream("architect")
        plan = theatre.server.streams[stream].plan
        theatre.have_done(theatre.answer_asks())
        await theatre.order("s-1")
        await theatre.office.broker.delete_stream(stream)
        await come_to(theatre, "ERROR")
        await asyncio.sleep(5 * MINUTE)
        assert len(await errands(theatre)) == 1
        await theatre.office.broker.ensure_stream(plan)
        theatre.start("architect.main")
        await come_to(theatre, "DONE", "s-1.2", 5 * MINUTE)
        assert theatre.started["supervisor.main"] == 1

    on_stage(play, "coder.coder-1", "supervisor.main")


# A coder that is gone for good.


async def give_back(theatre: Theatre, coder: str) -> str:
    left = await find_left(theatre.office, "coder", coder)
    return "" if left is None else await hand_over(theatre.office, left, "supervisor/x")


def test_the_story_of_a_coder_that_is_gone_for_good_goes_on_with_another_at_once() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 10.0
        theatre.have_done(theatre.answer_asks())
        await theatre.order("s-1")
        await come_to(theatre, "CODING")
        theatre.restarts = False
        theatre.kill(theatre.processes["coder.coder-1"])
        theatre.start("coder.coder-2")
        assert await give_back(theatre, "coder-1") == "s-1"
        assert await give_back(theatre, "coder-1") == ""
        assert await theatre.until(lambda: last(theatre).incarnation == "coder.coder-2-1", 5)
        await come_to(theatre, "DONE")

    on_stage(play, "architect.main", "coder.coder-1")


def test_a_story_that_somebody_else_has_is_not_handed_over() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 1000.0
        theatre.have_done(theatre.answer_asks())
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        hosted = await theatre.office.board.get("actors.coder.coder-1")
        assert hosted is not None
        assert hosted.value is not None
        await theatre.office.board.put("actors.coder.coder-9", hosted.value)
        assert await give_back(theatre, "coder-9") == ""
        assert await give_back(theatre, "coder-8") == ""
        assert await theatre.office.board.get("actors.coder.coder-9") is None
        await asyncio.sleep(MINUTE)
        assert {record.incarnation for record in theatre.monitor.records["s-1.1"]} == {"coder.coder-1-1"}

    on_stage(play, "architect.main", "coder.coder-1")

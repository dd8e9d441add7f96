"""What a process does with its sessions: suspend and restore, pause, leave, take over, and fail."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from actors.hosting.heartbeat import Heartbeat
from actors.runtime import runner as runner_module
from actors.runtime.records import session_of as session_of_record
from bus.broker import DUPLICATE_WINDOW_SECONDS
from bus.leases import Holder
from protocol.messages import InterviewMessage, Pause, Restore, Resume, Stop, Story
from protocol.record import Record
from tests.simulation.loop import VirtualLoop, run_virtual
from tests.simulation.theatre import SUBJECTS, Theatre

HOUR = 3600.0

Play = Callable[[Theatre], Awaitable[Any]]


def on_stage(play: Play, *actors: str) -> Theatre:
    """Play something with these actors on a virtual clock; nothing may violate what always holds."""

    async def main(loop: VirtualLoop) -> Theatre:
        theatre = Theatre(loop)
        await theatre.open(*(actors or ("architect.main", "coder.coder-1")))
        await play(theatre)
        theatre.monitor.check_histories()
        assert theatre.monitor.violations == []
        return theatre

    theatre: Theatre = run_virtual(main)
    return theatre


def states(theatre: Theatre, session: str = "s-1.1") -> list[str]:
    """The states that a session came to."""
    records = theatre.monitor.records.get(session, [])
    return [record.state_to for record in records if record.state_to != record.state_from]


def last(theatre: Theatre, session: str = "s-1.1") -> Record:
    return theatre.monitor.records[session][-1]


def after(record: Record) -> Any:
    """The session as a record has it."""
    return msgspec.json.decode(record.after)


async def come_to(theatre: Theatre, state: str, session: str = "s-1.1", seconds: float = HOUR) -> None:
    def is_there() -> bool:
        return session in theatre.monitor.records and last(theatre, session).state_to == state

    assert await theatre.until(is_there, seconds), states(theatre, session)


async def suspended(theatre: Theatre) -> None:
    """A coder whose plan waits for the model."""
    theatre.outside.down_until = 10 * HOUR
    await theatre.order("s-1")
    await come_to(theatre, "SUSPEND")


# SUSPEND.


def test_a_restore_brings_a_session_back_to_exactly_where_it_was() -> None:
    async def play(theatre: Theatre) -> None:
        await suspended(theatre)
        theatre.outside.down_until = 0.0
        theatre.loop.create_task(theatre.answer_asks())
        await theatre.broadcast(Restore())
        await come_to(theatre, "DONE")

    theatre = on_stage(play)
    assert states(theatre)[:4] == ["SETUP", "PLANNING", "SUSPEND", "PLANNING"]
    assert [pay.effect for pay in theatre.outside.payments].count("s-1.1/2/0") == 1


def test_a_restore_that_was_sent_while_the_actor_was_down_is_honoured_when_it_comes_back() -> None:
    async def play(theatre: Theatre) -> None:
        await suspended(theatre)
        theatre.restarts = False
        theatre.kill(theatre.processes["coder.coder-1"])
        theatre.outside.down_until = 0.0
        await theatre.broadcast(Restore())
        await asyncio.sleep(60)
        theatre.start("coder.coder-1")
        await come_to(theatre, "PLANNING")

    on_stage(play)


def test_a_restore_of_before_the_outage_changes_nothing_however_often_the_actor_restarts() -> None:
    async def play(theatre: Theatre) -> None:
        await theatre.broadcast(Restore())
        await asyncio.sleep(1)
        await suspended(theatre)
        theatre.kill(theatre.processes["coder.coder-1"])
        await asyncio.sleep(60)
        assert last(theatre).state_to == "SUSPEND"

    on_stage(play)


def test_fifteen_minutes_without_a_restore_are_an_error_even_across_a_restart() -> None:
    async def play(theatre: Theatre) -> None:
        await suspended(theatre)
        began = theatre.loop.time()
        await asyncio.sleep(600)
        theatre.kill(theatre.processes["coder.coder-1"])
        await come_to(theatre, "ERROR")
        assert 899 < theatre.loop.time() - began < 902

    theatre = on_stage(play)
    assert after(last(theatre))["failing"]["kind"] == "suspend_timeout"


def test_what_happens_in_suspend_is_kept_across_a_restart() -> None:
    async def play(theatre: Theatre) -> None:
        await suspended(theatre)
        answering = theatre.loop.create_task(theatre.answer_asks())
        await asyncio.sleep(30)
        theatre.kill(theatre.processes["coder.coder-1"])
        await asyncio.sleep(30)
        theatre.outside.down_until = 0.0
        await theatre.broadcast(Restore())
        await come_to(theatre, "DONE")
        answering.cancel()

    on_stage(play)


def test_the_company_closes_a_suspended_session_ends_and_the_others_go_on_at_the_next_start() -> None:
    async def play(theatre: Theatre) -> None:
        await suspended(theatre)
        await theatre.talk("talk-1")
        await come_to(theatre, "SUSPEND", "talk-1")
        await theatre.broadcast(Stop(reason="good night"), "coder.all")
        await come_to(theatre, "ERROR")
        assert last(theatre, "talk-1").state_to == "SUSPEND"

    theatre = on_stage(play, "architect.main", "coder.coder-1", "pm.main")
    assert after(last(theatre))["failing"]["kind"] == "shutdown"


# The person's brake.


def test_a_pause_holds_everything_across_restarts_until_it_is_resumed() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.loop.create_task(theatre.answer_asks())
        theatre.outside.slowness = 20.0
        await theatre.order("s-1")
        await theatre.order("s-2")
        await come_to(theatre, "PLANNING")
        await theatre.broadcast(Pause())
        await asyncio.sleep(60)
        paid, where = len(theatre.outside.payments), last(theatre).state_to
        theatre.kill(theatre.processes["coder.coder-1"])
        theatre.kill(theatre.processes["architect.main"])
        await asyncio.sleep(600)
        assert (len(theatre.outside.payments), last(theatre).state_to) == (paid, where)
        assert "s-2.1" not in theatre.monitor.records
        await theatre.broadcast(Resume())
        await come_to(theatre, "DONE")
        await come_to(theatre, "DONE", "s-2.1")

    on_stage(play)


# Leaving.


def test_a_process_that_is_told_to_leave_records_what_is_in_hand_and_the_next_goes_on() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 5.0
        theatre.loop.create_task(theatre.answer_asks())
        await theatre.order("s-1")
        await come_to(theatre, "CODING")
        process = theatre.processes["coder.coder-1"]
        theatre.told[process.name].set_result(None)
        await theatre.until(lambda: (process.name, "left") in theatre.endings, 11)
        theatre.outside.slowness = 0.0
        await come_to(theatre, "DONE")
        effects = [pay.effect for pay in theatre.outside.payments]
        assert len(effects) == len(set(effects))

    on_stage(play)


def test_what_takes_too_long_is_abandoned_and_run_again() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 5000.0
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        process = theatre.processes["coder.coder-1"]
        began = theatre.loop.time()
        theatre.told[process.name].set_result(None)
        theatre.outside.slowness = 0.0
        assert await theatre.until(lambda: (process.name, "left") in theatre.endings, 60)
        assert theatre.loop.time() - began < 12
        theatre.loop.create_task(theatre.answer_asks())
        await come_to(theatre, "DONE")

    theatre = on_stage(play)
    assert any(b'"repeats":["s-1.1/2/0"]' in bytes(record.event) for record in theatre.monitor.records["s-1.1"])


# Two at once.


def test_of_two_processes_with_one_name_exactly_one_goes_on() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 5.0
        theatre.loop.create_task(theatre.answer_asks())
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        older = theatre.processes["coder.coder-1"]
        theatre.start("coder.coder-1")
        await come_to(theatre, "DONE")
        assert await theatre.until(lambda: (older.name, "lost") in theatre.endings, 60)

    theatre = on_stage(play)
    assert len(theatre.outside.announcements) == 1


def test_a_lost_machines_story_goes_on_with_another_coder_from_the_same_step() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.loop.create_task(theatre.answer_asks())
        theatre.outside.slowness = 10.0
        await theatre.order("s-1")
        await come_to(theatre, "CODING")
        theatre.restarts = False
        theatre.kill(theatre.processes["coder.coder-1"])
        theatre.start("coder.coder-2")
        await come_to(theatre, "DONE")

    theatre = on_stage(play)
    assert {record.incarnation for record in theatre.monitor.records["s-1.1"]} == {"coder.coder-1-1", "coder.coder-2-1"}


def test_a_story_that_comes_again_after_its_end_is_not_done_again() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.loop.create_task(theatre.answer_asks())
        story = Story(story="s-1", spec="spec", run=1, title="t", description="", acceptance_criteria=())
        letter = theatre.letter(story, "coder.all", "REQUEST")
        await theatre.office.work.put(letter)
        await come_to(theatre, "DONE")
        await asyncio.sleep(2 * DUPLICATE_WINDOW_SECONDS)
        paid = len(theatre.outside.payments)
        await theatre.office.work.put(letter)
        assert await theatre.until(lambda: not theatre.server.streams[SUBJECTS.stream("WORK")].messages, 60)
        assert len(theatre.outside.payments) == paid

    theatre = on_stage(play)
    assert len(theatre.outside.announcements) == 1


# Failing.


def test_a_closed_channel_is_an_error_by_the_machines_own_edge() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 50.0
        theatre.loop.create_task(theatre.answer_asks())
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        stream, name = SUBJECTS.mail_stream("coder"), SUBJECTS.mail_consumer("reply", "s-1.1")
        await theatre.office.broker.delete_consumer(stream, name)
        await come_to(theatre, "ERROR")

    theatre = on_stage(play)
    assert after(last(theatre))["failing"]["kind"] == "channel_closed"
    assert states(theatre)[-2:] == ["PLAN_REVIEW", "ERROR"]


def test_a_record_that_cannot_be_read_is_an_ask_and_no_crash_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, refusals = session_of_record, iter([True, True])

    def session_of(behaviour: Any, entry: Any) -> Any:
        if next(refusals, False):
            entry = msgspec.structs.replace(entry, data=b'{"n": "from another time"}')
        return genuine(behaviour, entry)

    async def play(theatre: Theatre) -> None:
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        await asyncio.sleep(1)
        monkeypatch.setattr(runner_module, "session_of", session_of)
        theatre.kill(theatre.processes["coder.coder-1"])
        for attempt in (1, 2):
            await asyncio.sleep(600)
            (ask,) = [ask for ask in await theatre.office.asks.open() if "unreadable" in ask.id]
            assert ask.id.endswith(f".{attempt}")
            assert "s-1.1" in ask.question
            await theatre.office.asks.answer(ask.id, "try again", theatre.now())
        theatre.loop.create_task(theatre.answer_asks())
        await come_to(theatre, "DONE")
        assert theatre.started["coder.coder-1"] <= 3

    on_stage(play)


def test_mail_that_belongs_to_no_session_is_dead_and_the_next_is_taken() -> None:
    async def play(theatre: Theatre) -> None:
        noise = InterviewMessage(interview="talk-1", text="hello?")
        await theatre.office.mail.send(theatre.letter(noise, "pm.main", "REQUEST"))
        await theatre.talk("no such name!")
        await theatre.talk("talk-1")
        await come_to(theatre, "DONE", "talk-1")
        await theatre.talk("talk-1")
        await asyncio.sleep(5)
        reasons = [letter.reason async for letter in theatre.office.dead.all()]
        assert reasons == [
            "it belongs to no session that there could be",
            "it belongs to no session that there could be",
            "session talk-1 is over",
        ]

    on_stage(play, "architect.main", "pm.main")


# Seen from outside.


def test_the_heartbeat_says_who_does_what_since_when() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 500.0
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        await asyncio.sleep(30)
        beats = {lease.key: beat_of(holder) async for lease, holder in theatre.office.leases.all("coder")}
        beat = beats["coder.actor.coder-1"]
        (playing,) = beat.sessions
        assert (beat.machine, beat.state, beat.ready) == ("coder", "PLANNING", True)
        assert (playing.session, playing.state, playing.last_event) == ("s-1.1", "PLANNING", "Finished")
        assert playing.since == playing.last_event_at == last(theatre).at
        idle = beats["coder.actor.coder-2"]
        assert (idle.state, idle.sessions, idle.ready) == ("WAITING", (), True)

    on_stage(play, "architect.main", "coder.coder-1", "coder.coder-2")


def beat_of(holder: Holder) -> Heartbeat | Any:
    return msgspec.convert(holder.details, Heartbeat) if holder.details else None

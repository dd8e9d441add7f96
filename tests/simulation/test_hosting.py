"""What a process does with its sessions: suspend and restore, pause, leave, take over; and what others see of it."""

import asyncio
import random
from typing import Any

from actors.hosting.host import RELEASE_SECONDS, STOP_SECONDS
from bus.broker import DUPLICATE_WINDOW_SECONDS
from bus.health import Health, Service
from protocol.messages import (
    Cancel,
    Pause,
    Restore,
    Resume,
    Stop,
    Story,
)
from tests.simulation.evening import HOUR, after, beat_of, come_to, events, last, on_stage, states, suspended
from tests.simulation.loop import Process
from tests.simulation.theatre import LEASE_SECONDS, SUBJECTS, Theatre
from tests.simulation.wire import Network

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


def test_a_signal_that_comes_while_older_ones_are_read_is_heard_after_them() -> None:
    async def play(theatre: Theatre) -> None:
        await suspended(theatre)
        theatre.restarts = False
        theatre.kill(theatre.processes["coder.coder-1"])
        theatre.outside.down_until = 0.0
        await theatre.broadcast(Restore())
        theatre.make_network = lambda _: Network(random.Random(1), delay_seconds=1.0)
        theatre.start("coder.coder-1")
        told: list[int] = []
        while last(theatre).state_to == "SUSPEND":
            told.append(await theatre.broadcast(Cancel(story="another")))
            await asyncio.sleep(0.2)
        assert told

    theatre = on_stage(play)
    heard = [event["generation"] for event in events(theatre, "s-1.1", "signalled")]
    assert heard == sorted(heard)
    assert states(theatre)[2:4] == ["SUSPEND", "PLANNING"]


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


# The gate: while an API is not healthy, no story is begun.


def a_health(theatre: Theatre, *, healthy: bool) -> Health:
    now = theatre.now()
    return Health(at=now, services=(Service(name="model", healthy=healthy, since=now, checked_at=now, latency_ms=1.0),))


def test_no_story_is_taken_while_an_api_is_not_healthy() -> None:
    async def play(theatre: Theatre) -> None:
        await theatre.office.health.put(a_health(theatre, healthy=False))
        theatre.start("coder.coder-1")
        theatre.start("coder.coder-2")
        theatre.loop.create_task(theatre.answer_asks())
        await theatre.order("s-1")
        await asyncio.sleep(HOUR)
        assert "s-1.1" not in theatre.monitor.records
        await theatre.office.health.put(a_health(theatre, healthy=True))
        await come_to(theatre, "DONE", seconds=60)

    on_stage(play, "architect.main")


def test_a_story_that_is_pulled_just_as_an_api_fails_is_handed_back() -> None:
    async def play(theatre: Theatre) -> None:
        await asyncio.sleep(60)  # both wait at the queue
        await theatre.office.health.put(a_health(theatre, healthy=False))
        theatre.loop.create_task(theatre.answer_asks())
        await theatre.order("s-1")
        await asyncio.sleep(60)
        assert not [lease async for lease, _ in theatre.office.leases.all("coder.story")]
        await asyncio.sleep(HOUR)
        assert "s-1.1" not in theatre.monitor.records
        theatre.start("coder.coder-3")
        await theatre.office.health.take_down()
        await come_to(theatre, "DONE", seconds=60)

    theatre = on_stage(play, "architect.main", "coder.coder-1", "coder.coder-2")
    assert len(theatre.outside.announcements) == 1


def test_a_session_in_hand_goes_on_while_an_api_is_not_healthy_and_the_next_story_waits() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 20.0
        theatre.loop.create_task(theatre.answer_asks())
        await theatre.order("s-1")
        await theatre.order("s-2")
        await come_to(theatre, "PLANNING")
        await theatre.office.health.put(a_health(theatre, healthy=False))
        theatre.kill(theatre.processes["coder.coder-1"])
        await come_to(theatre, "DONE")
        await asyncio.sleep(HOUR)
        assert "s-2.1" not in theatre.monitor.records
        await theatre.office.health.put(a_health(theatre, healthy=True))
        await come_to(theatre, "DONE", "s-2.1")

    on_stage(play)


# Leaving.


def test_a_process_that_waits_at_the_gate_goes_at_once_when_it_is_told_to_leave() -> None:
    async def play(theatre: Theatre) -> None:
        await theatre.office.health.put(a_health(theatre, healthy=False))
        process = theatre.start("coder.coder-1")
        await asyncio.sleep(60)
        began = theatre.loop.time()
        theatre.told[process.name].set_result(None)
        assert await theatre.until(lambda: (process.name, "left") in theatre.endings, 60)
        assert theatre.loop.time() - began < 1

    on_stage(play, "architect.main")


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


def test_a_process_that_is_told_to_leave_goes_though_the_broker_is_out_of_reach() -> None:
    async def play(theatre: Theatre) -> None:
        networks: dict[str, Network] = {}
        theatre.make_network = lambda name: networks.setdefault(name, Network())
        theatre.restarts = False
        theatre.outside.slowness = 5000.0
        working = theatre.start("coder.coder-1")
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        networks[working.name].cut_until = 10 * HOUR
        networks["coder.coder-2-1"] = cut_off = Network()
        cut_off.cut_until = 10 * HOUR
        starting = theatre.start("coder.coder-2")
        await asyncio.sleep(5)
        began = theatre.loop.time()
        for process in (working, starting):
            theatre.told[process.name].set_result(None)
        both = {(working.name, "left"), (starting.name, "left")}
        assert await theatre.until(lambda: both <= set(theatre.endings), 60)
        assert theatre.loop.time() - began < STOP_SECONDS + RELEASE_SECONDS + 1

    on_stage(play, "architect.main")


def test_a_process_that_is_told_to_leave_as_it_takes_a_story_leaves_it_to_the_next() -> None:
    async def play(theatre: Theatre) -> None:
        process = theatre.processes["coder.coder-1"]

        def direct(present: Any, boundary: str) -> str:
            if present is process and boundary == "board.before" and not theatre.told[process.name].done():
                theatre.told[process.name].set_result(None)
            return "go"

        theatre.director = direct
        theatre.loop.create_task(theatre.answer_asks())
        await theatre.order("s-1")
        await come_to(theatre, "DONE", seconds=30)
        assert (process.name, "left") in theatre.endings

    on_stage(play)


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


def test_what_a_zombie_records_first_of_a_session_is_not_lost_to_its_successor() -> None:
    stops = iter(["stop"])

    def direct(process: Process, boundary: str) -> str:
        return next(stops, "go") if (process.name, boundary) == ("pm.main-1", "append.before") else "go"

    async def play(theatre: Theatre) -> None:
        theatre.director = direct
        await theatre.talk("talk-1")
        assert await theatre.until(lambda: bool(theatre.stopped), 10)
        await theatre.broadcast(Pause())  # so that the successor, which knows of the session, does not take the letter
        assert await theatre.until(lambda: ("pm.main-1", "lost") in theatre.endings, 4 * LEASE_SECONDS)
        await theatre.broadcast(Resume())
        await come_to(theatre, "DONE", "talk-1")
        assert "pm.main-1" not in {payment.incarnation for payment in theatre.outside.payments}

    on_stage(play, "architect.main", "pm.main")


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

"""What a process does with its sessions: suspend and restore, pause, leave, take over, and fail."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from actors.core.decision import Decision, stay
from actors.core.effects import Effect, Send
from actors.core.events import Finished
from actors.errors import EffectError
from actors.hosting.heartbeat import Heartbeat
from actors.hosting.host import RELEASE_SECONDS, STOP_SECONDS
from actors.runtime import runner as runner_module
from actors.runtime.drafts import SESSION_LETTERS
from actors.runtime.records import resumable as genuine_resumable
from bus.broker import DUPLICATE_WINDOW_SECONDS
from bus.control import Control
from bus.errors import PermissionDeniedError
from bus.leases import Holder
from protocol.messages import (
    Answer,
    Cancel,
    InterviewMessage,
    InterviewRequest,
    Pause,
    Question,
    Restore,
    Resume,
    Stop,
    Story,
)
from protocol.record import Record
from tests.actors.understudies import coder as coder_module
from tests.actors.understudies import outside as outside_module
from tests.actors.understudies.coder import Coder
from tests.actors.understudies.effects import Think
from tests.simulation.loop import Process, VirtualLoop, run_virtual
from tests.simulation.theatre import LEASE_SECONDS, SUBJECTS, Stage, Theatre
from tests.simulation.wire import Network, Wire

HOUR = 3600.0
TRACE_LINES = 40
"""Printed for whoever looks at a test that fails."""

Play = Callable[[Theatre], Awaitable[Any]]


def on_stage(play: Play, *actors: str) -> Theatre:
    """Play something with these actors on a virtual clock; nothing may violate what always holds."""

    async def main(loop: VirtualLoop) -> Theatre:
        theatre = Theatre(loop)
        await theatre.open(*(actors or ("architect.main", "coder.coder-1")))
        try:
            await play(theatre)
        finally:
            print("\n".join(theatre.monitor.trace[-TRACE_LINES:]))
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


def events(theatre: Theatre, session: str, kind: str) -> list[Any]:
    """What a session has recorded of one kind."""
    decoded = [msgspec.json.decode(record.event) for record in theatre.monitor.records[session]]
    return [event for event in decoded if event["event"] == kind]


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
    refusals = iter([True, True])

    def resumable(behaviour: Any, entry: Any, seal: Any) -> Any:
        if next(refusals, False):
            entry = msgspec.structs.replace(entry, data=b'{"n": "from another time"}')
        return genuine_resumable(behaviour, entry, seal)

    async def play(theatre: Theatre) -> None:
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        await asyncio.sleep(1)
        monkeypatch.setattr(runner_module, "resumable", resumable)
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


def test_an_unreadable_session_holds_up_no_other_and_its_mail_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    unreadable = {"talk-1"}

    def resumable(behaviour: Any, entry: Any, seal: Any) -> Any:
        if entry.subject.rpartition(".")[2] in unreadable:
            entry = msgspec.structs.replace(entry, data=b"{}")
        return genuine_resumable(behaviour, entry, seal)

    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 100.0
        await theatre.talk("talk-1")
        await come_to(theatre, "INTERVIEWING", "talk-1")
        monkeypatch.setattr(runner_module, "resumable", resumable)
        theatre.kill(theatre.processes["pm.main"])
        await asyncio.sleep(30)
        theatre.outside.slowness = 0.0
        await theatre.talk("talk-1")
        await theatre.talk("talk-2")
        await come_to(theatre, "DONE", "talk-2")
        (beat,) = [beat_of(holder) async for lease, holder in theatre.office.leases.all("pm")]
        assert beat.unreadable == ("talk-1",)
        (letter,) = [letter async for letter in theatre.office.dead.all()]
        assert "talk-1 cannot be read" in letter.reason
        unreadable.clear()
        (ask,) = await theatre.office.asks.open()
        await theatre.office.asks.answer(ask.id, "try again", theatre.now())
        await theatre.upload("talk-1")
        await come_to(theatre, "WAITING", "talk-1")
        await theatre.office.dead.replay(letter)
        await come_to(theatre, "DONE", "talk-1")

    theatre = on_stage(play, "architect.main", "pm.main")
    assert "office/2/0" in [event["message"]["id"] for event in events(theatre, "talk-1", "received")]


def test_a_letter_that_a_person_sends_again_is_taken_though_later_ones_were() -> None:
    async def play(theatre: Theatre) -> None:
        early, late = (theatre.letter(InterviewRequest(interview="talk-1"), "pm.main", "REQUEST") for _ in range(2))
        theatre.outside.slowness = 100.0
        await theatre.office.mail.send(late)
        await come_to(theatre, "INTERVIEWING", "talk-1")
        subject = SUBJECTS.request("pm", "main")
        headers = {"Nats-Msg-Id": f"replay/7/{early.id}"}
        await theatre.office.broker.publish(subject, msgspec.json.encode(early), headers)
        await asyncio.sleep(5)
        assert [event["message"]["id"] for event in events(theatre, "talk-1", "received")] == [late.id, early.id]

    on_stage(play, "architect.main", "pm.main")


def test_a_signal_that_is_stored_while_a_session_is_taken_up_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = Control.read
    reads = iter(range(100))

    async def read(self: Any, role: Any, identifier: str, after: int = 0) -> Any:
        async for signal in genuine(self, role, identifier, after):
            yield signal
        if identifier == "coder-1" and next(reads) == 1:
            await theatres[0].broadcast(Cancel(story="s-1"))
            await asyncio.sleep(1)

    theatres: list[Theatre] = []

    async def play(theatre: Theatre) -> None:
        theatres.append(theatre)
        monkeypatch.setattr(Control, "read", read)
        theatre.kill(theatre.processes["coder.coder-1"])
        theatre.outside.slowness = 1000.0
        await theatre.order("s-1")
        await come_to(theatre, "ERROR", seconds=60)

    on_stage(play)


def test_a_brake_that_comes_on_while_nothing_comes_holds_what_comes_then() -> None:
    async def play(theatre: Theatre) -> None:
        await asyncio.sleep(5)
        await theatre.broadcast(Pause(), "coder.coder-1")
        await theatre.broadcast(Pause(), "pm.main")
        await asyncio.sleep(5)
        theatre.outside.slowness = 1000.0
        await theatre.order("s-1")
        await theatre.talk("talk-1")
        await come_to(theatre, "PLANNING", seconds=60)
        assert {record.incarnation for record in theatre.monitor.records["s-1.1"]} == {"coder.coder-2-1"}
        assert "talk-1" not in theatre.monitor.records
        await theatre.broadcast(Resume(), "pm.main")
        await come_to(theatre, "INTERVIEWING", "talk-1", 60)

    on_stage(play, "architect.main", "coder.coder-1", "coder.coder-2", "pm.main")


def test_letters_that_find_no_room_in_suspend_wait_where_they_are() -> None:
    async def play(theatre: Theatre) -> None:
        await suspended(theatre)
        large = "x" * (theatre.office.post.letter_bytes_max * 3 // 4)
        for number in range(4):
            answer = theatre.letter(Answer(answer=f"{number}{large}"), "coder.s-1.1", "RESPONSE")
            await theatre.office.mail.send(answer)
        await asyncio.sleep(600)
        assert last(theatre).state_to == "SUSPEND"

    theatre = on_stage(play)
    assert len(events(theatre, "s-1.1", "received")) == 2


def test_a_stream_that_is_gone_is_a_closed_channel_and_no_crash_loop() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.loop.create_task(theatre.answer_asks())
        theatre.outside.slowness = 50.0
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        await theatre.office.broker.delete_stream(SUBJECTS.mail_stream("architect"))
        await come_to(theatre, "ERROR")
        await theatre.office.broker.delete_stream(SUBJECTS.mail_stream("coder"))
        await come_to(theatre, "ERROR", "s-1.2")

    theatre = on_stage(play, "coder.coder-1")
    assert [after(last(theatre, name))["failing"]["kind"] for name in ("s-1.1", "s-1.2")] == ["channel_closed"] * 2


@pytest.mark.parametrize("odd", [{"error": "overloaded"}, 7, None])
def test_an_error_whose_reason_is_no_text_is_heard_all_the_same(monkeypatch: pytest.MonkeyPatch, odd: Any) -> None:
    def breaks(self: Any) -> bool:
        raise EffectError(odd, odd)

    async def play(theatre: Theatre) -> None:
        monkeypatch.setattr(Stage, "breaks", breaks)
        await theatre.order("s-1")
        await come_to(theatre, "ERROR", seconds=60)

    theatre = on_stage(play)
    assert str(odd) in after(last(theatre))["failing"]["reason"]


def test_an_executor_that_ends_the_process_ends_its_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(self: Any) -> bool:
        raise SystemExit(3)

    async def play(theatre: Theatre) -> None:
        monkeypatch.setattr(Stage, "breaks", breaks)
        await theatre.order("s-1")
        await come_to(theatre, "ERROR", seconds=60)

    theatre = on_stage(play)
    assert after(last(theatre))["failing"]["reason"].startswith("SystemExit")


def test_a_letter_whose_session_cannot_be_found_is_dead() -> None:
    def lose(envelope: Any) -> str | None:
        raise KeyError(envelope.id)

    async def play(theatre: Theatre) -> None:
        theatre.parts["pm"] = msgspec.structs.replace(theatre.parts["pm"], route=lose)
        theatre.kill(theatre.processes["pm.main"])
        await asyncio.sleep(1)
        await theatre.talk("talk-1")
        await asyncio.sleep(5)
        assert ["KeyError" in letter.reason async for letter in theatre.office.dead.all()] == [True]

    on_stage(play, "architect.main", "pm.main")


def test_what_an_executor_returns_that_is_no_result_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(theatre: Theatre) -> None:
        monkeypatch.setattr(outside_module, "Thought", lambda text: text)
        await theatre.order("s-1")
        await come_to(theatre, "ERROR", seconds=60)

    theatre = on_stage(play)
    assert "no Result" in after(last(theatre))["failing"]["reason"]


def test_a_session_just_under_its_share_can_still_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(theatre: Theatre) -> None:
        theatre.loop.create_task(theatre.answer_asks())
        theatre.restarts = False
        share = int(SESSION_LETTERS * theatre.office.post.letter_bytes_max)

        def coding(coder: Coder, event: Any) -> Decision[Coder]:
            if isinstance(event, Finished):
                raise KeyError("a bug of ours" * 1000)
            return stay(msgspec.structs.replace(coder, head="x" * (share - 1500)), Think(prompt="?"))

        monkeypatch.setitem(coder_module.STATES, "CODING", coding)
        await theatre.order("s-1")
        await come_to(theatre, "ERROR")

    theatre = on_stage(play)
    assert [ending for _, ending in theatre.endings] == ["error"]


@pytest.mark.parametrize(
    "story",
    [
        Story(story="s-1", spec="s", run=10**70, title="", description="", acceptance_criteria=()),
        Story(story=".".join(["x" * 60] * 5), spec="s", run=1, title="", description="", acceptance_criteria=()),
    ],
)
def test_a_story_whose_session_could_have_no_name_is_dead(story: Story) -> None:
    async def play(theatre: Theatre) -> None:
        subject = SUBJECTS.work("coder", "odd")
        await theatre.office.broker.publish(
            subject, msgspec.json.encode(theatre.letter(story, "coder.all", "REQUEST")), {"Nats-Msg-Id": "office/9/9"}
        )
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING", seconds=60)
        assert len([letter async for letter in theatre.office.dead.all()]) == 1

    on_stage(play)


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"session": "s-1.1", "story": "no name!", "ack_subject": "$JS.ACK.x"}',
        b'{"session": "s-1.1", "story": "s-1", "ack_subject": "callboard.theatre.control.all.all"}',
    ],
)
def test_strange_words_on_the_board_cost_an_actor_nothing(data: bytes) -> None:
    async def play(theatre: Theatre) -> None:
        await theatre.office.board.put("actors.coder.coder-1", data)
        await theatre.office.board.put("actors.pm.main.NoName", data)
        theatre.loop.create_task(theatre.answer_asks())
        await theatre.order("s-1")
        await theatre.talk("talk-1")
        await come_to(theatre, "DONE")
        await come_to(theatre, "DONE", "talk-1")

    on_stage(play, "architect.main", "coder.coder-1", "pm.main")


def test_two_kinds_of_mail_that_open_one_session_at_once_are_both_recorded() -> None:
    async def play(theatre: Theatre) -> None:
        await theatre.upload("talk-1")
        await theatre.talk("talk-1")
        await come_to(theatre, "DONE", "talk-1")

    theatre = on_stage(play, "architect.main", "pm.main")
    taken = [after_event["message"]["id"] for after_event in events(theatre, "talk-1", "received")]
    assert {"office/1/0", "office/2/0"} <= set(taken)


HUGE = "x" * (1 << 20)


class Unnamed(Effect, frozen=True, kw_only=True):
    """An effect that is not among the coder's."""


def speaks_to_nobody(coder: Coder, _event: Any) -> Decision[Coder]:
    return stay(coder, Send(to="nobody at all", message=Question(story="s-1", question="?")))


def says_too_much(coder: Coder, _event: Any) -> Decision[Coder]:
    return stay(coder, Send(to="architect.main", message=Question(story="s-1", question=HUGE)))


def orders_what_has_no_name(coder: Coder, _event: Any) -> Decision[Coder]:
    story = Story(story="no name!", spec="s", run=1, title="t", description="", acceptance_criteria=())
    return stay(coder, Send(to="coder.all", message=story))


def remembers_too_much(coder: Coder, _event: Any) -> Decision[Coder]:
    return stay(msgspec.structs.replace(coder, head=HUGE))


def remembers_half_a_character(coder: Coder, _event: Any) -> Decision[Coder]:
    return stay(msgspec.structs.replace(coder, head="\ud800"))


def remembers_what_is_of_another_type(coder: Coder, _event: Any) -> Decision[Coder]:
    return stay(msgspec.structs.replace(coder, lines="many"))


def wants_what_its_session_does_not_name(coder: Coder, _event: Any) -> Decision[Coder]:
    return stay(coder, Unnamed())


def ends_the_process(coder: Coder, _event: Any) -> Decision[Coder]:
    raise SystemExit(3)


def says_nothing(_coder: Coder, _event: Any) -> Decision[Coder]:
    return None  # type: ignore[return-value]  # as somebody forgets to


@pytest.mark.parametrize(
    "unfit",
    [
        speaks_to_nobody,
        says_too_much,
        orders_what_has_no_name,
        remembers_too_much,
        remembers_half_a_character,
        remembers_what_is_of_another_type,
        wants_what_its_session_does_not_name,
        ends_the_process,
        says_nothing,
    ],
)
def test_a_step_that_cannot_be_sent_or_recorded_is_an_error_of_the_session_and_no_crash_loop(
    monkeypatch: pytest.MonkeyPatch, unfit: Any
) -> None:
    async def play(theatre: Theatre) -> None:
        theatre.loop.create_task(theatre.answer_asks())
        theatre.restarts = False
        monkeypatch.setitem(coder_module.STATES, "CODING", unfit)
        await theatre.order("s-1")
        await come_to(theatre, "ERROR")

    theatre = on_stage(play)
    assert after(last(theatre))["failing"]["kind"] == "bug"
    assert [ending for _, ending in theatre.endings] == ["error"]


def test_a_result_that_no_record_can_hold_is_a_failed_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(theatre: Theatre) -> None:
        theatre.loop.create_task(theatre.answer_asks())
        theatre.restarts = False
        monkeypatch.setattr(Stage, "write", lambda *_: "x" * theatre.office.broker.message_bytes_max)
        await theatre.order("s-1")
        await come_to(theatre, "ERROR")

    theatre = on_stage(play)
    failing = after(last(theatre))["failing"]
    assert (failing["kind"], failing["reason"].partition(":")[0]) == ("effect", "RecordTooLargeError")


def test_a_letter_that_the_broker_refuses_does_not_leave_its_sender_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = Wire.publish

    async def publish(self: Any, subject: str, data: bytes, headers: Any = None) -> Any:
        if ".request.architect." in subject:
            raise PermissionDeniedError(subject, "not yours")
        return await genuine(self, subject, data, headers)

    async def play(theatre: Theatre) -> None:
        theatre.loop.create_task(theatre.answer_asks())
        monkeypatch.setattr(Wire, "publish", publish)
        await theatre.order("s-1")
        await come_to(theatre, "ERROR")

    theatre = on_stage(play)
    assert after(last(theatre))["failing"]["kind"] == "channel_closed"


def test_an_ask_that_is_given_up_is_taken_back_also_when_its_process_dies_just_then() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.slowness = 1000.0
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        assert await theatre.until(lambda: bool(theatre.outside.payments), 60)
        assert [ask.id for ask in await theatre.office.asks.open()] == ["coder.s-1.1.2.1"]
        theatre.director = kill_once_after_the_cancel(theatre)
        await theatre.broadcast(Cancel(story="s-1"))
        await come_to(theatre, "ERROR")
        assert await theatre.until(lambda: theatre.started["coder.coder-1"] > 2, 60)
        assert "coder.s-1.1.2.1" not in [ask.id for ask in await theatre.office.asks.open()]

    on_stage(play)


def kill_once_after_the_cancel(theatre: Theatre) -> Any:
    """Kill the coder between the record that gives its ask up and everything that follows from it."""
    killed: list[str] = []

    def direct(process: Any, _boundary: str) -> str:
        is_given_up = any(b"withdraw_ask" in bytes(effect) for effect in last(theatre).effects)
        if is_given_up and process.name == "coder.coder-1-1" and not killed:
            killed.append(process.name)
            return "kill"
        return "go"

    return direct


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

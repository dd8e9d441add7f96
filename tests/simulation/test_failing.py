"""What goes wrong in a session or comes to it from outside: it fails by itself, and no process crashes for ever."""

import asyncio
from typing import Any

import msgspec
import pytest

from actors.core.decision import Decision, stay
from actors.core.effects import Effect, Send
from actors.core.events import Finished
from actors.errors import EffectError
from actors.runtime import runner as runner_module
from actors.runtime.drafts import SESSION_LETTERS
from actors.runtime.records import resumable as genuine_resumable
from bus.control import Control
from bus.errors import PermissionDeniedError
from protocol.messages import (
    Answer,
    Cancel,
    InterviewMessage,
    InterviewRequest,
    Pause,
    Question,
    Resume,
    Story,
)
from tests.actors.understudies import coder as coder_module
from tests.actors.understudies import outside as outside_module
from tests.actors.understudies.coder import Coder
from tests.actors.understudies.effects import Think
from tests.simulation.evening import after, beat_of, come_to, events, last, on_stage, states, suspended
from tests.simulation.theatre import SUBJECTS, Stage, Theatre
from tests.simulation.wire import Wire


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
        await theatre.order("s-1", run=2)
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

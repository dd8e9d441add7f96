"""One step, pure: what is recorded, what follows, what is deferred, how a session suspends, fails and resumes."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from actors.core.behaviour import SUSPEND_SECONDS, Behaviour
from actors.core.decision import Decision, defer, fail, go, stay
from actors.core.effects import AskPerson, Timer, WithdrawAsk
from actors.core.events import ChannelClosed, Entered, Failed, Finished, Signalled
from actors.core.failures import Broken, Cancelled, Cause, Unavailable
from actors.core.results import AskWithdrawn, PersonAnswered, TimerRang
from actors.core.step import advance, next_event
from protocol.codec import encode
from protocol.machines import MACHINES
from protocol.messages import ApprovalRequest, ApprovalResult, Cancel, Recover, Recycle, Restore, Stop
from tests.actors.plays import AT, Play, a_story, at, received, signalled
from tests.actors.understudies.architect import ARCHITECT
from tests.actors.understudies.coder import CODER, Coder
from tests.actors.understudies.effects import Announce, Prepare, Prepared, Think, Thought, Write, Written

APPROVED = ApprovalResult(type="plan", status="APPROVED")
DOWN = Unavailable(service="model", reason="overloaded")


def in_planning(behaviour: Behaviour[Any, Any, Any] = CODER) -> Play:
    play = Play(behaviour)
    play.happen(received(a_story(), inbox="work"))
    play.finish(Prepare, Prepared(head="base"))
    return play


def in_plan_review() -> Play:
    play = in_planning()
    play.finish(AskPerson, PersonAnswered(answer="yes"))
    play.finish(Think, Thought(text="a plan"))
    return play


def test_an_event_takes_an_edge_and_the_entered_state_begins_its_work() -> None:
    play = Play(CODER)

    step = play.happen(received(a_story(), inbox="work"))

    assert step is not None
    assert (step.state_from, step.session.state) == ("WAITING", "SETUP")
    assert step.effects == (Prepare(id="s-1.1/1/0", story="s-1"),)
    assert step.session.open == {"s-1.1/1/0": Prepare(id="s-1.1/1/0", story="s-1")}
    assert step.runs == step.effects


def test_a_message_that_was_taken_is_refused_however_late() -> None:
    play = Play(CODER)
    play.happen(received(a_story(), "main/7/1", inbox="work"))

    assert play.happen(received(a_story(), "main/7/1", inbox="work")) is None
    assert play.happen(received(a_story(), "main/7/0", inbox="work")) is None
    assert len(play.steps) == 1


def test_marks_of_one_inbox_say_nothing_of_another() -> None:
    play = in_plan_review()
    play.happen(received(ApprovalRequest(approval_type="plan", content=""), "main/9/0", inbox="request"))

    play.happen(received(APPROVED, "main/8/0", inbox="reply"))

    assert play.session.state == "CODING"


def test_a_result_of_an_effect_that_is_not_open_changes_nothing() -> None:
    play = in_planning()
    think = play.open(Think)
    play.finish(AskPerson, PersonAnswered(answer="yes"))
    play.finish(Think, Thought(text="a plan"))
    before = play.session

    repeated = play.happen(received(a_story(), inbox="work"))

    assert repeated is None
    assert think.id not in before.open
    assert play.session == before


def test_the_effect_that_an_event_answers_is_passed_along_and_not_recorded() -> None:
    seen: list[Any] = []

    def decide(model: Coder, event: Any) -> Decision[Coder]:
        seen.append(event)
        return CODER.decide(model, event)

    play = Play(msgspec.structs.replace(CODER, decide=decide))
    play.happen(received(a_story(), inbox="work"))
    step = play.finish(Prepare, Prepared(head="base"))

    assert step is not None
    assert seen[2].of == Prepare(id="s-1.1/1/0", story="s-1")
    assert b'"of":null' in encode(step.event)


def test_two_effects_run_at_once_and_an_early_result_waits_for_its_turn() -> None:
    play = in_planning()
    assert {type(effect) for effect in play.session.open.values()} == {Think, AskPerson}

    early = play.finish(Think, Thought(text="a plan"))
    assert early is not None
    assert len(early.session.deferred) == 1
    assert play.session.state == "PLANNING"

    play.finish(AskPerson, PersonAnswered(answer="yes"))

    assert play.session.state == "PLAN_REVIEW"
    assert play.session.deferred == ()


def test_a_state_that_is_left_at_once_has_a_record_of_its_own() -> None:
    play = Play(ARCHITECT, "main")

    play.happen(received(ApprovalRequest(approval_type="plan", content="x"), "s-1.1/5/0", inbox="request"))

    assert play.states == ["SETUP", "REQUEST"]
    assert [step.session.n for step in play.steps] == [1, 2]


def test_a_message_says_what_led_to_it_and_whom_it_answers() -> None:
    play = Play(ARCHITECT, "main")
    play.happen(received(ApprovalRequest(approval_type="plan", content="x"), "s-1.1/5/0", inbox="request"))

    step = play.finish(Think, Thought(text="fine"))

    assert step is not None
    (send,) = step.effects
    assert (send.id, send.kind, send.answers) == ("main/3/0", "RESPONSE", "s-1.1/5/0")
    assert step.runs == ()
    assert step.session.open == {}


def test_a_timer_has_an_absolute_time() -> None:
    play = in_plan_review()
    play.happen(received(APPROVED))
    for number in range(2):
        play.finish(Think, Thought(text=f"line {number}"))
        play.finish(Write, Written(head=f"head {number}"))

    assert play.open(Timer).due == AT + timedelta(seconds=0.02)


def test_a_story_is_played_from_arrival_to_announcement() -> None:
    play = in_plan_review()
    play.happen(received(APPROVED, "main/1/0"))
    for number in range(2):
        play.finish(Think, Thought(text=f"line {number}"))
        play.finish(Write, Written(head=f"head {number}"))
    play.finish(Timer, TimerRang())
    play.finish(Think, Thought(text="a fix"))
    play.finish(Write, Written(head="head 3"))
    play.finish(Timer, TimerRang())
    play.happen(received(ApprovalResult(type="code", status="NEEDS_CHANGES"), "main/2/0"))

    assert play.states == [
        "SETUP", "PLANNING", "PLAN_REVIEW", "CODING", "TESTING", "CODING", "TESTING", "CODE_REVIEW", "CODING",
    ]  # fmt: skip


# Failing.


def test_an_exception_in_decide_is_a_bug_that_is_recorded_and_leads_to_error() -> None:
    def decide(model: Coder, event: Any) -> Decision[Coder]:
        if model.state == "PLANNING" and type(event).__name__ == "Finished":
            raise KeyError("nobody thought of that")
        return CODER.decide(model, event)

    play = Play(msgspec.structs.replace(CODER, decide=decide))
    play.happen(received(a_story(), inbox="work"))
    play.finish(Prepare, Prepared(head="base"))
    play.finish(Think, Thought(text="a plan"))

    assert play.states == ["SETUP", "PLANNING", "PLAN_REVIEW", "ERROR"]
    assert play.session.failing is not None
    assert (play.session.failing.kind, play.session.failing.reason) == ("bug", "KeyError: 'nobody thought of that'")
    assert "Traceback" in play.session.failing.evidence
    assert play.steps[-2].effects == (WithdrawAsk(id="s-1.1/3/0", ask="s-1.1/2/1"),)
    assert list(play.session.open) == ["s-1.1/3/0"]


def test_a_state_that_no_edge_leads_to_is_a_bug_and_nothing_of_it_has_happened() -> None:
    def decide(model: Coder, event: Any) -> Decision[Coder]:
        return go(msgspec.structs.replace(model, head="wrong"), "DONE", Announce(line="too early"))

    play = Play(msgspec.structs.replace(CODER, decide=decide))
    play.happen(received(a_story(), inbox="work"))

    assert play.states == ["ERROR"]
    assert play.session.failing is not None
    assert "WAITING → DONE is not an edge" in play.session.failing.reason
    assert play.session.model.head == ""
    assert all(step.effects == () for step in play.steps)


def test_a_stay_that_changes_the_state_is_a_bug() -> None:
    def decide(model: Coder, event: Any) -> Decision[Coder]:
        return stay(msgspec.structs.replace(model, state="SETUP"))

    play = Play(msgspec.structs.replace(CODER, decide=decide))
    play.happen(received(a_story(), inbox="work"))

    assert play.session.state == "ERROR"


@pytest.mark.parametrize("name", MACHINES)
def test_a_failure_takes_the_machines_own_way_from_every_state_with_the_same_cause(name: str) -> None:
    machine = MACHINES[name]
    cause = Cause(kind="abandoned", reason="enough")
    behaviour: Behaviour[Coder, Any, Any] = msgspec.structs.replace(
        CODER, machine=machine, decide=lambda model, event: fail(model, cause, Announce(line="no"))
    )
    for state in machine.states:
        play = Play(behaviour)
        play.session = msgspec.structs.replace(play.session, model=Coder(state=state))
        play.happen(received(a_story(), inbox="work"))

        path = machine.path_to_error(state)
        assert play.states == list(path or ())
        assert play.session.failing == (cause if path or state == "ERROR" else None)
        assert [step.cause for step in play.steps] == [cause] * len(play.steps)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [(Broken(error="ValueError", reason="no"), "effect"), (Cancelled(reason="by the person"), "cancelled")],
)
def test_a_failure_that_nobody_handles_leads_to_error(failure: Any, kind: str) -> None:
    play = in_planning()

    play.break_down(Think, failure)

    assert play.session.state == "ERROR"
    assert play.session.failing is not None
    assert play.session.failing.kind == kind


def test_only_failures_that_are_the_storys_cost_an_attempt() -> None:
    kinds = {
        kind: Cause(kind=kind, reason="").costs_attempt for kind in ("bug", "effect", "abandoned", "budget", "stuck")
    }
    free = {
        kind: Cause(kind=kind, reason="").costs_attempt
        for kind in ("suspend_timeout", "shutdown", "cancelled", "configuration")
    }

    assert all(kinds.values())
    assert not any(free.values())


# SUSPEND.


def test_an_unavailable_service_suspends_and_a_restore_brings_it_back_exactly() -> None:
    play = in_planning()
    think, before = play.open(Think), play.session

    play.break_down(Think, DOWN, generation=3)
    assert play.session.state == "SUSPEND"
    assert play.open(Timer).due == AT + timedelta(seconds=SUSPEND_SECONDS)

    step = play.happen(signalled(Restore(), 4))
    assert step is not None
    assert step.runs == (think,)
    restored = msgspec.structs.replace(play.session, n=before.n, heard=before.heard, since=before.since)
    assert restored == before


@pytest.mark.parametrize("generation", [1, 3])
def test_a_restore_of_a_generation_that_has_passed_changes_nothing(generation: int) -> None:
    play = in_planning()
    play.break_down(Think, DOWN, generation=3)

    assert play.happen(signalled(Restore(), generation)) is None
    assert play.session.state == "SUSPEND"


def test_a_restore_for_a_session_that_is_not_suspended_is_no_step() -> None:
    play = in_planning()
    before = play.session

    assert play.happen(signalled(Restore(), 9)) is None
    assert play.session == before


def test_everything_but_control_is_deferred_in_suspend_and_taken_afterwards() -> None:
    play = in_planning()
    play.break_down(Think, DOWN)
    play.finish(AskPerson, PersonAnswered(answer="yes"))
    play.happen(received(APPROVED, "main/5/0"))
    assert play.session.state == "SUSPEND"
    assert len(play.session.deferred) == 2

    play.happen(signalled(Restore(), 1))
    assert play.session.state == "PLANNING"
    assert play.session.model.asked
    play.finish(Think, Thought(text="a plan"))

    assert play.session.state == "CODING", "the approval that came in SUSPEND was kept"


def test_a_second_effect_that_fails_in_suspend_waits_with_the_first() -> None:
    def decide(model: Coder, event: Any) -> Decision[Coder]:
        if type(event).__name__ == "Entered" and model.state == "SETUP":
            return stay(model, Think(prompt="a"), Think(prompt="b"))
        return CODER.decide(model, event)

    play = Play(msgspec.structs.replace(CODER, decide=decide))
    play.happen(received(a_story(), inbox="work"))
    first, second = play.session.open.values()
    play.happen(_failed(first.id))
    play.happen(_failed(second.id))

    step = play.happen(signalled(Restore(), 1))

    assert step is not None
    assert step.runs == (first, second)
    assert play.states == ["SETUP", "SUSPEND", "SETUP"]


def _failed(effect: str) -> Any:
    return Failed(at=AT, effect=effect, failure=DOWN)


def test_a_suspension_that_lasts_too_long_is_an_error_that_costs_no_attempt() -> None:
    play = in_planning()
    play.break_down(Think, DOWN)

    play.finish(Timer, TimerRang())

    assert play.states[-2:] == ["SUSPEND", "ERROR"]
    assert play.session.failing is not None
    assert (play.session.failing.kind, play.session.failing.costs_attempt) == ("suspend_timeout", False)
    assert play.session.suspension is None
    assert list(map(type, play.session.open.values())) == [WithdrawAsk]


def test_a_cancel_reaches_a_suspended_session() -> None:
    play = in_planning()
    play.break_down(Think, DOWN)

    play.happen(signalled(Cancel(story="another"), 1))
    assert play.session.state == "SUSPEND"
    play.happen(signalled(Cancel(story="s-1"), 2))

    assert play.states[-2:] == ["SUSPEND", "ERROR"]


def test_a_brake_over_the_end_of_a_suspension_does_not_lose_it() -> None:
    play = in_planning()
    play.break_down(Think, DOWN)
    rang: Finished[Any, Any] = Finished(at=AT, effect=play.open(Timer).id, result=TimerRang())
    kept = advance(CODER, play.session, rang, paused=True)
    assert kept is not None

    assert next_event(CODER, kept.session, AT) == rang
    restored = advance(CODER, kept.session, signalled(Restore(), 9))
    assert restored is not None
    assert (restored.session.state, restored.session.deferred) == ("PLANNING", ())


def test_that_a_state_was_entered_means_nothing_once_it_is_left() -> None:
    def decide(model: Coder, event: Any) -> Decision[Coder]:
        match model.state, event:
            case "SETUP", Entered():
                return go(model, "PLANNING")
            case _, Signalled():
                return fail(model, Cause(kind="cancelled", reason="enough"))
            case _:
                return CODER.decide(model, event)

    behaviour = msgspec.structs.replace(CODER, decide=decide)
    session = behaviour.begin("s-1.1", 0)
    entered = advance(behaviour, session, received(a_story(), inbox="work"))
    assert entered is not None
    assert [type(each.event) for each in entered.session.deferred] == [Entered]

    failed = advance(behaviour, entered.session, signalled(Cancel(), 7))

    assert failed is not None
    assert failed.session.deferred == ()


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e18])
def test_a_timer_that_no_clock_shows_is_a_bug(seconds: float) -> None:
    def decide(model: Coder, event: Any) -> Decision[Coder]:
        if isinstance(event, Finished) and isinstance(event.result, Prepared):
            return stay(model, Timer(name="never", seconds=seconds))
        return CODER.decide(model, event)

    play = in_planning(msgspec.structs.replace(CODER, decide=decide))

    assert play.session.failing is not None
    assert (play.session.state, play.session.failing.kind) == ("ERROR", "bug")


def test_a_restore_runs_again_what_is_still_wanted_of_what_waited() -> None:
    def decide(model: Coder, event: Any) -> Decision[Coder]:
        if isinstance(event, Signalled):
            return stay(model, cancel=("think",))
        return CODER.decide(model, event)

    play = in_planning(msgspec.structs.replace(CODER, decide=decide))
    play.break_down(Think, DOWN)
    play.happen(signalled(Cancel(), 7))

    step = play.happen(signalled(Restore(), 8))

    assert step is not None
    assert (play.session.state, step.runs) == ("PLANNING", ())


def test_an_ask_that_is_given_up_is_taken_back_and_the_decider_does_not_hear_of_it() -> None:
    heard: list[Any] = []

    def decide(model: Coder, event: Any) -> Decision[Coder]:
        heard.append(event)
        return stay(model, cancel=("ask_person",)) if isinstance(event, Signalled) else CODER.decide(model, event)

    play = in_planning(msgspec.structs.replace(CODER, decide=decide))
    asked = play.open(AskPerson).id
    play.happen(signalled(Cancel(), 7))
    assert play.open(WithdrawAsk).ask == asked
    told = len(heard)

    play.finish(WithdrawAsk, AskWithdrawn())

    assert len(heard) == told
    assert list(map(type, play.session.open.values())) == [Think]


def test_an_unavailable_service_where_there_is_no_suspend_is_a_failure_like_any_other() -> None:
    play = Play(CODER)
    play.session = msgspec.structs.replace(
        play.session, model=Coder(state="DONE"), open={"x": Announce(id="x", line="")}
    )

    play.happen(_failed("x"))

    assert play.session.state == "DONE"
    assert play.session.open == {}


def test_a_shutdown_ends_a_suspended_session_and_leaves_all_others_where_they_are() -> None:
    suspended, at_work = in_planning(), in_planning()
    suspended.break_down(Think, DOWN)
    suspended.happen(signalled(Stop(), 1))
    at_work.happen(signalled(Stop(), 1))

    assert suspended.states[-2:] == ["SUSPEND", "ERROR"]
    assert suspended.session.failing is not None
    assert (suspended.session.failing.kind, suspended.session.failing.costs_attempt) == ("shutdown", False)
    assert at_work.session.state == "PLANNING"


# The person's brake, and closed channels.


def test_a_paused_session_records_what_happens_and_takes_it_when_the_brake_is_off() -> None:
    play = in_planning()
    play.finish(AskPerson, PersonAnswered(answer="yes"))
    thought: Finished[Any, Any] = Finished(at=AT, effect=play.open(Think).id, result=Thought(text="a plan"))

    step = advance(CODER, play.session, thought, paused=True)

    assert step is not None
    assert step.session.state == "PLANNING"
    assert step.session.open == {}, "the thought is recorded and will not be paid for again"
    assert next_event(CODER, step.session, AT) == thought
    resumed = advance(CODER, step.session, thought)
    assert resumed is not None
    assert resumed.session.state == "PLAN_REVIEW"


def test_what_was_kept_happens_when_it_is_taken_so_no_record_is_older_than_the_one_before() -> None:
    play = in_planning()
    play.finish(AskPerson, PersonAnswered(answer="yes"))
    thought: Finished[Any, Any] = Finished(at=at(60), effect=play.open(Think).id, result=Thought(text="a plan"))
    kept = advance(CODER, play.session, thought, paused=True)
    assert kept is not None

    taken = next_event(CODER, kept.session, at(7200))
    assert taken is not None
    step = advance(CODER, kept.session, taken)

    assert step is not None
    assert (step.event.at, step.session.since, step.session.deferred) == (at(7200), at(7200), ())


def test_a_failure_in_a_paused_session_is_taken_when_the_brake_is_off() -> None:
    play = in_planning()
    failed: Failed[Any] = Failed(at=AT, effect=play.open(Think).id, failure=Broken(error="E", reason="refused"))
    paused = advance(CODER, play.session, failed, paused=True)
    assert paused is not None
    play.session = paused.session

    play.happen(signalled(Cancel(story="another"), 1))

    assert play.session.state == "ERROR"


def test_a_closed_channel_that_nobody_handles_leads_to_error() -> None:
    play = in_plan_review()

    play.happen(ChannelClosed(at=AT, inbox="reply", reason="the consumer was deleted"))

    assert play.session.state == "ERROR"
    assert play.session.failing == Cause(kind="channel_closed", reason="reply: the consumer was deleted")


def test_a_machine_that_has_a_way_out_of_error_may_take_it_at_once() -> None:
    def decide(model: Coder, event: Any) -> Decision[Coder]:
        if model.state == "ERROR":
            return go(model, "WAITING")
        return fail(model, Cause(kind="abandoned", reason="no"))

    play = Play(msgspec.structs.replace(CODER, machine=MACHINES["architect"], decide=decide))
    play.session = msgspec.structs.replace(play.session, model=Coder(state="DISPATCHING"))
    step = play._take(ChannelClosed(at=AT, inbox="reply", reason="gone"))
    while step is not None and (own := next_event(play.behaviour, play.session, AT)) is not None:
        step = play._take(own)
        if play.session.state == "WAITING":
            break

    assert play.states == ["MONITORING", "ERROR", "WAITING"]
    assert play.session.failing is None


# The supervisor's decisions.


def at_rest_in_error() -> Play:
    def decide(model: Coder, event: Any) -> Decision[Coder]:
        return stay(model, Think(prompt="again")) if isinstance(event, Entered) else defer(model)

    play = Play(msgspec.structs.replace(CODER, machine=MACHINES["architect"], decide=decide), "main")
    play.session = msgspec.structs.replace(play.session, model=Coder(state="REQUEST"))
    play.happen(signalled(Recycle(session="main", record=0, reason="no record for an hour"), 1))
    return play


def test_a_session_that_is_recycled_takes_its_way_to_error_whatever_it_has_in_hand() -> None:
    play = in_planning()

    play.happen(signalled(Recycle(session="s-1.1", record=play.session.n, reason="no record for an hour"), 1))

    assert play.states[-2:] == ["PLAN_REVIEW", "ERROR"]
    assert play.session.failing == Cause(kind="stuck", reason="no record for an hour")
    assert play.session.failing.costs_attempt


def test_a_session_that_rests_in_error_recovers_by_a_recorded_decision_and_begins_the_work_of_waiting() -> None:
    play = at_rest_in_error()
    assert play.states == ["ERROR"]

    play.happen(signalled(Recover(session="main"), 2))

    assert play.states == ["ERROR", "WAITING"]
    assert (play.session.failing, play.session.heard) == (None, 2)
    assert Think in {type(effect) for effect in play.steps[-1].effects}


def test_a_decision_that_comes_too_late_is_only_recorded() -> None:
    play = at_rest_in_error()

    step = play.happen(signalled(Recycle(session="main", record=play.session.n), 2))

    assert step is not None
    assert (play.session.state, play.session.heard, step.effects) == ("ERROR", 2, ())


def test_a_session_that_has_moved_since_is_not_recycled() -> None:
    play = in_planning()

    play.happen(signalled(Recycle(session="s-1.1", record=play.session.n - 1), 1))

    assert (play.session.state, play.session.heard) == ("PLANNING", 1)


@pytest.mark.parametrize("decision", [Recover(session="other"), Recycle(session="other", record=1)])
def test_a_decision_on_another_session_is_no_step(decision: Any) -> None:
    play = at_rest_in_error()

    assert play.happen(signalled(decision, 2)) is None


def test_a_session_whose_error_is_its_end_does_not_recover() -> None:
    play = in_planning()
    play.happen(signalled(Recycle(session="s-1.1", record=play.session.n), 1))

    play.happen(signalled(Recover(session="s-1.1"), 2))

    assert play.session.state == "ERROR"


# Records.


def test_control_that_is_ignored_is_heard_once() -> None:
    play = in_planning()

    assert play.happen(signalled(Stop(), 5)) is not None
    assert play.happen(signalled(Stop(), 5)) is None
    assert play.session.heard == 5


def test_a_session_reads_back_from_every_step_of_its_history() -> None:
    play = in_planning()
    play.break_down(Think, DOWN)
    play.finish(AskPerson, PersonAnswered(answer="yes"))
    play.happen(signalled(Restore(), 1))
    play.finish(Think, Thought(text="a plan"))
    play.happen(signalled(Cancel(story="s-1"), 2))

    for step in play.steps:
        assert msgspec.json.decode(encode(step.session), type=CODER.session_type) == step.session


def test_replaying_the_recorded_events_gives_the_recorded_sessions() -> None:
    played = in_planning()
    played.break_down(Think, DOWN)
    played.finish(AskPerson, PersonAnswered(answer="yes"))
    played.happen(signalled(Restore(), 1))
    played.finish(Think, Thought(text="a plan"))

    again = Play(CODER)
    for step in played.steps:
        again._take(step.event)

    assert again.steps == played.steps

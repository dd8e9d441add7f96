"""From the record of an ERROR to what is to be done about it."""

from datetime import timedelta
from typing import Any, get_args

import msgspec
import pytest

from actors.core.failures import FREE_KINDS, Cause, CauseKind
from actors.core.session import Session
from bus.settings.model import Supervision
from protocol.codec import encode
from protocol.machine import ERROR
from protocol.machines import MACHINES
from protocol.messages import EarlierRun, Recover, Requeue
from protocol.record import Record
from supervisors.core.recycling import (
    GIVE_UP,
    PAUSE_SECONDS_MAX,
    RECOVER,
    RECOVERIES_MAX,
    TRY_AGAIN,
    Errand,
    Fall,
    fall_of,
    recover_letter,
    recovery_errand,
    requeue_letter,
    rests,
    story_errand,
    story_of,
)
from tests.actors.plays import AT, a_story, received
from tests.actors.understudies.architect import Architect

POLICY = Supervision(attempts_max=3, requeue_seconds=10.0)
KINDS: tuple[CauseKind, ...] = get_args(CauseKind)


def fall(kind: CauseKind = "effect", machine: str = "coder", session: str = "s-1.1", reason: str = "no") -> Fall:
    return Fall(machine=machine, session=session, record=7, at=AT, cause=Cause(kind=kind, reason=reason, evidence="x"))


def of_story(kind: CauseKind = "effect", attempt: int = 1) -> Errand | None:
    return story_errand(fall(kind), msgspec.structs.replace(a_story(), attempt=attempt), POLICY)


def of_session(kind: CauseKind = "effect", earlier: int = 0) -> Errand:
    return recovery_errand(fall(kind, "architect", "main"), earlier, POLICY)


def record(after: Any, state_from: str = "CODING", state_to: str = ERROR, **changes: Any) -> Record:
    facts = {"n": 7, "machine": "coder", "session": "s-1.1", "event": msgspec.Raw(b"{}"), **changes}
    return Record(
        incarnation="one", at=AT, state_from=state_from, state_to=state_to, after=msgspec.Raw(encode(after)), **facts
    )


def seconds(errand: Errand) -> float:
    return (errand.due - AT).total_seconds()


# Records.


def test_a_fall_is_read_from_the_record_that_came_to_error() -> None:
    cause = Cause(kind="budget", reason="too much", evidence="the bill")
    session: Session[Any, Any, Any] = Session(id="s-1.1", model=Architect(state=ERROR), failing=cause)

    assert fall_of(record(session)) == Fall(machine="coder", session="s-1.1", record=7, at=AT, cause=cause)


@pytest.mark.parametrize(
    "other",
    [
        record({}, state_to="TESTING"),
        record({}, state_from=ERROR),
        record({}, state_from=ERROR, state_to="WAITING", machine="pm"),
        record({}, machine="director"),
    ],
)
def test_no_other_record_is_a_fall(other: Record) -> None:
    assert fall_of(other) is None


@pytest.mark.parametrize("after", [{}, {"failing": None}, {"failing": {"kind": "boredom", "reason": "?"}}, 7])
def test_a_cause_that_nobody_knows_is_unexpected_and_costs_an_attempt(after: Any) -> None:
    found = fall_of(record(after))

    assert found is not None
    assert (found.cause.kind, found.cause.costs_attempt) == ("unexpected", True)


@pytest.mark.parametrize("machine", MACHINES)
def test_error_ends_the_session_of_a_coder_and_of_nobody_else(machine: str) -> None:
    assert fall(machine=machine).ends_session == machine.startswith("coder")


def test_a_story_is_found_in_what_was_received_and_nowhere_else() -> None:
    story, other = received(a_story()), received(Recover(session="s-1.1"))

    assert story_of(record({}, event=msgspec.Raw(encode(story)))) == a_story()
    assert story_of(record({}, event=msgspec.Raw(encode(other)))) is None
    assert story_of(record({}, event=msgspec.Raw(b'{"event":"entered","at":"2026-01-01T00:00:00Z"}'))) is None
    assert story_of(record({}, event=msgspec.Raw(b'{"event":"received","message":{}}'))) is None


# Stories.


@pytest.mark.parametrize("kind", KINDS)
def test_every_cause_but_a_cancel_puts_the_story_back_and_costs_an_attempt_where_it_says_so(kind: CauseKind) -> None:
    errand = of_story(kind)

    if kind == "cancelled":
        assert errand is None
        return
    assert errand is not None
    assert errand.requeue == Requeue(
        story="s-1",
        run=1,
        cause=kind,
        costs_attempt=kind not in FREE_KINDS,
        earlier=EarlierRun(session="s-1.1", cause=kind, diagnosis="no\nx"),
    )
    assert seconds(errand) == (0 if kind in FREE_KINDS else 10)
    assert (errand.ask is not None) == (kind == "configuration")


@pytest.mark.parametrize(
    ("attempt", "pause"), [(1, 10), (2, 20), (5, 160), (7, PAUSE_SECONDS_MAX), (2**62, PAUSE_SECONDS_MAX)]
)
def test_each_attempt_waits_twice_as_long_as_the_one_before(attempt: int, pause: float) -> None:
    policy = msgspec.structs.replace(POLICY, attempts_max=2**63)

    errand = story_errand(fall(), msgspec.structs.replace(a_story(), attempt=attempt), policy)

    assert errand is not None
    assert seconds(errand) == pause


def test_after_the_last_attempt_a_person_is_asked_at_once() -> None:
    errand = of_story("budget", attempt=3)

    assert errand is not None
    assert errand.ask is not None
    assert (seconds(errand), errand.ask.choices, errand.ask.context) == (0, (TRY_AGAIN, GIVE_UP), "x")
    assert errand.ask.question == "Story s-1 has failed 3 times, now by budget: no"


@pytest.mark.parametrize("kind", ["suspend_timeout", "shutdown"])
def test_an_outage_never_asks_anybody_however_many_attempts_there_were(kind: CauseKind) -> None:
    errand = of_story(kind, attempt=99)

    assert errand is not None
    assert (errand.ask, seconds(errand)) == (None, 0)


def test_what_has_to_be_mended_is_asked_first() -> None:
    errand = of_story("configuration")

    assert errand is not None
    assert errand.ask is not None
    assert errand.ask.question.endswith("Mend it, then answer.")


def test_a_session_without_a_story_leaves_nothing_to_put_back() -> None:
    assert story_errand(fall(), None, POLICY) is None


def test_the_letter_to_the_architect_is_the_same_however_often_it_is_written() -> None:
    errand = of_story(attempt=3)
    assert errand is not None

    letter = requeue_letter(errand, TRY_AGAIN)

    assert letter == requeue_letter(msgspec.json.decode(encode(errand), type=Errand), TRY_AGAIN)
    assert (letter.id, letter.recipient, letter.sent_at) == ("requeue.s-1.1/1/0", "architect.main", errand.due)
    assert isinstance(letter.payload, Requeue)
    assert letter.payload.decision == TRY_AGAIN


def test_a_diagnosis_has_a_limit() -> None:
    endless = fall(reason="x" * 100_000)

    errand = story_errand(endless, a_story(), POLICY)

    assert errand is not None
    assert len(encode(errand)) < 8000


# Sessions that are recovered.


@pytest.mark.parametrize(("earlier", "pause"), [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80)])
def test_a_session_is_recovered_at_once_and_then_after_growing_pauses(earlier: int, pause: float) -> None:
    errand = of_session(earlier=earlier)

    assert (errand.ask, errand.requeue, seconds(errand)) == (None, None, pause)


def test_after_too_many_errors_within_an_hour_a_person_is_asked() -> None:
    errand = of_session(earlier=RECOVERIES_MAX)

    assert errand.ask is not None
    assert (errand.ask.choices, seconds(errand)) == ((RECOVER,), 0)
    assert errand.ask.question == "architect main came to ERROR 6 times within an hour, now by effect: no"


@pytest.mark.parametrize("kind", ["suspend_timeout", "shutdown", "cancelled"])
def test_what_is_no_failure_of_the_session_makes_it_wait_for_nothing(kind: CauseKind) -> None:
    errand = of_session(kind, earlier=99)

    assert (errand.ask, seconds(errand)) == (None, 0)


def test_a_session_that_has_to_be_mended_first_is_asked_about() -> None:
    assert of_session("configuration").ask is not None


def test_the_recovery_is_for_that_session_and_for_that_fall() -> None:
    letter = recover_letter(of_session())

    assert (letter.id, letter.kind, letter.recipient) == ("recover.architect.main/7/0", "CONTROL", "architect.all")
    assert letter.payload == Recover(session="main", reason="effect: no")


def test_a_session_rests_until_it_goes_on_even_if_it_falls_again() -> None:
    errand = of_session()

    assert rests(record({"since": AT}), errand)
    assert rests(record({"since": AT}, state_from=ERROR), errand)
    assert rests(record(7), errand), "what cannot be read says nothing to the contrary"
    assert not rests(record({"since": AT}, state_from=ERROR, state_to="WAITING"), errand)
    assert not rests(record({"since": AT + timedelta(seconds=1)}), errand)


def test_each_fall_has_an_errand_and_an_ask_of_its_own() -> None:
    one = of_session(earlier=RECOVERIES_MAX)
    other = recovery_errand(msgspec.structs.replace(fall(machine="pm", session="main"), record=8), 5, POLICY)

    assert one.ask is not None
    assert other.ask is not None
    assert one.name != other.name
    assert one.ask.id != other.ask.id

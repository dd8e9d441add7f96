"""What becomes of a session that came to ERROR: from its record, and its story, to what is to be done about it.

Where ERROR ends a session, its story is put back on the queue; where it leads on, the session is recovered. Both may
have to wait for a time or for a person. Whatever is to be done follows from the record alone: found twice, it is the
same twice, under the same ids.
"""

from datetime import timedelta

import msgspec

from actors.core.events import Received
from actors.core.failures import Cause
from actors.evidence import as_evidence, as_reason
from bus.asks import Ask
from bus.settings.model import Supervision
from protocol.machine import ERROR
from protocol.machines import MACHINES
from protocol.marks import message_id
from protocol.messages import EarlierRun, Envelope, Instant, Recover, Requeue, Story
from protocol.record import Record
from protocol.routing import address
from protocol.subjects import ALL
from supervisors.office import SUPERVISOR

PAUSE_SECONDS_MAX = 600.0
"""The longest pause before a story comes again, or a session is recovered."""

RECOVERIES_SECONDS = 3600.0
RECOVERIES_MAX = 5
"""A session that comes to ERROR more often within this time is recovered only when a person says so."""

TRY_AGAIN, GIVE_UP, RECOVER = "try again", "give up", "recover"

ARCHITECT = address("architect", "main")

_DOUBLINGS_MAX = 16


class Fall(msgspec.Struct, frozen=True, kw_only=True):
    """A session came to ERROR by its record number so-and-so."""

    machine: str
    session: str
    record: int
    at: Instant
    cause: Cause

    @property
    def ends_session(self) -> bool:
        """Whether its machine ends there; else it rests until it is recovered."""
        return ERROR in MACHINES[self.machine].terminal


class Errand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be done about a fall, not before `due`, and where there is an ask, when that is answered."""

    machine: str
    session: str
    record: int
    at: Instant
    due: Instant
    reason: str = ""
    ask: Ask | None = None
    requeue: Requeue | None = None
    """The word to the architect; without one the session is to be recovered."""

    @property
    def name(self) -> str:
        """Each fall has its own."""
        return f"{self.machine}.{self.session}.{self.record}"


class _After(msgspec.Struct, frozen=True):
    failing: Cause | None = None


class _Since(msgspec.Struct, frozen=True):
    since: Instant | None = None


_after = msgspec.json.Decoder(_After)
_since = msgspec.json.Decoder(_Since)
_received = msgspec.json.Decoder(Received)
_UNKNOWN = Cause(kind="unexpected", reason="its record does not say why in words that this version knows")


def fall_of(record: Record) -> Fall | None:
    """What a record says of a session that came to ERROR; None for every other record, and where it only stays."""
    if record.state_to != ERROR or record.state_from == ERROR or record.machine not in MACHINES:
        return None
    return Fall(
        machine=record.machine, session=record.session, record=record.n, at=record.at, cause=_cause(record.after)
    )


def _cause(after: msgspec.Raw) -> Cause:
    try:
        return _after.decode(after).failing or _UNKNOWN
    except msgspec.DecodeError:
        return _UNKNOWN


# A story.


def story_of(record: Record) -> Story | None:
    """The story that a session took by this record, if it did."""
    try:
        payload = _received.decode(record.event).message.payload
    except (msgspec.DecodeError, RecursionError):
        return None
    return payload if isinstance(payload, Story) else None


def story_errand(fall: Fall, story: Story | None, policy: Supervision) -> Errand | None:
    """What becomes of the story of a session that is over; None where there is nothing to put back."""
    cause = fall.cause
    if story is None or cause.kind == "cancelled":
        return None
    is_last = cause.costs_attempt and story.attempt >= policy.attempts_max
    ask = _ask_about_story(fall, story) if is_last or cause.kind == "configuration" else None
    is_delayed = cause.costs_attempt and ask is None
    return Errand(
        machine=fall.machine,
        session=fall.session,
        record=fall.record,
        at=fall.at,
        due=_later(fall, _pause(policy, story.attempt) if is_delayed else 0.0),
        ask=ask,
        requeue=Requeue(
            story=story.story,
            run=story.run,
            cause=cause.kind,
            costs_attempt=cause.costs_attempt,
            earlier=EarlierRun(session=fall.session, cause=cause.kind, diagnosis=_diagnosis(cause)),
        ),
    )


def _ask_about_story(fall: Fall, story: Story) -> Ask:
    cause = fall.cause
    question = (
        f"Story {story.story} cannot go on before something is mended: {as_reason(cause.reason)} Mend it, then answer."
        if cause.kind == "configuration"
        else f"Story {story.story} has failed {story.attempt} times, now by {cause.kind}: {as_reason(cause.reason)}"
    )
    return Ask(
        id=f"supervisor.requeue.{fall.session}",
        question=question,
        context=as_evidence(cause.evidence),
        choices=(TRY_AGAIN, GIVE_UP),
        asked_at=fall.at,
    )


def requeue_letter(errand: Errand, answer: str) -> Envelope:
    """What the architect is told once it is time; `answer` is the person's, where there was an ask."""
    assert errand.requeue is not None
    return Envelope(
        id=message_id(f"requeue.{errand.session}", 1, 0),
        kind="REQUEST",
        sender=SUPERVISOR,
        recipient=ARCHITECT,
        payload=msgspec.structs.replace(errand.requeue, decision=as_reason(answer)),
        sent_at=errand.due,
    )


# A session that is recovered.


def recovery_errand(fall: Fall, earlier: int, policy: Supervision) -> Errand:
    """How a session that rests in ERROR goes on; `earlier` is how often it has failed of late, before this time."""
    cause = fall.cause
    is_asked = cause.kind == "configuration" or (cause.costs_attempt and earlier >= RECOVERIES_MAX)
    is_delayed = cause.costs_attempt and earlier > 0 and not is_asked
    return Errand(
        machine=fall.machine,
        session=fall.session,
        record=fall.record,
        at=fall.at,
        due=_later(fall, _pause(policy, earlier) if is_delayed else 0.0),
        reason=f"{cause.kind}: {as_reason(cause.reason)}",
        ask=_ask_about_session(fall, earlier) if is_asked else None,
    )


def _ask_about_session(fall: Fall, earlier: int) -> Ask:
    cause = fall.cause
    often = f" {earlier + 1} times within an hour, now" if earlier >= RECOVERIES_MAX else ""
    return Ask(
        id=f"supervisor.recover.{fall.machine}.{fall.session}.{fall.record}",
        question=f"{fall.machine} {fall.session} came to ERROR{often} by {cause.kind}: {as_reason(cause.reason)}",
        context=as_evidence(cause.evidence),
        choices=(RECOVER,),
        asked_at=fall.at,
    )


def rests(record: Record, errand: Errand) -> bool:
    """Whether a session, by its last record, still is where it fell: not once it went on, and perhaps fell again."""
    if record.state_to != ERROR:
        return False
    try:
        return _since.decode(record.after).since == errand.at
    except msgspec.DecodeError:
        return True


def recover_letter(errand: Errand) -> Envelope:
    """The decision, for the session itself."""
    return Envelope(
        id=message_id(f"recover.{errand.machine}.{errand.session}", errand.record, 0),
        kind="CONTROL",
        sender=SUPERVISOR,
        recipient=address(role_of(errand.machine), ALL),
        payload=Recover(session=errand.session, reason=errand.reason),
        sent_at=errand.due,
    )


def role_of(machine: str) -> str:
    """Whose machine it is: both editions of an agent have one role."""
    return machine.partition("-")[0]


# Both.


def _diagnosis(cause: Cause) -> str:
    return "\n".join(filter(None, (as_reason(cause.reason), as_evidence(cause.evidence))))


def _pause(policy: Supervision, failures: int) -> float:
    """Twice as long after each failure."""
    doublings = min(max(failures, 1) - 1, _DOUBLINGS_MAX)
    return min(policy.requeue_seconds * 2.0**doublings, PAUSE_SECONDS_MAX)


def _later(fall: Fall, seconds: float) -> Instant:
    return fall.at + timedelta(seconds=seconds)

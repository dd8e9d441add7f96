"""Drafts: a step with its record and its letters, made ready before anything of it is stored.

What cannot be recorded or sent would be so again in every process that goes on with the session. So it is found here,
and the session takes the way to ERROR instead, from what it was before. That fits, because each part of a record has
a share of what the broker takes, and only a step to ERROR may go beyond: what is left beside the shares is for it.
"""

from typing import Any, NamedTuple

from actors.core.behaviour import Behaviour
from actors.core.events import Failed, Finished
from actors.core.failures import Broken
from actors.core.session import Session
from actors.core.step import Step, advance, bug, refuse
from actors.errors import RecordTooLargeError
from actors.evidence import reason_of
from actors.runtime.records import letters_of, read_session, record_of
from actors.runtime.world import World
from bus.post import Sealed
from protocol.codec import encode
from protocol.record import Record

EVENT_LETTERS = 1.25
SESSION_LETTERS = 2.0
EFFECTS_LETTERS = 1.25
"""The shares of a record's parts, in letters of the largest size; what is left of five is for everything around."""

AnyBehaviour = Behaviour[Any, Any, Any]
AnySession = Session[Any, Any, Any]
AnyStep = Step[Any, Any, Any]


class Draft(NamedTuple):
    """A step that can be recorded and sent as it is."""

    step: AnyStep
    record: Record
    letters: list[Sealed]


def draft_of(world: World, behaviour: AnyBehaviour, before: AnySession, step: AnyStep, *, paused: bool) -> Draft:
    """The draft of a step; where there can be none, of the step that its failure leads to."""
    try:
        return _draft(world, behaviour, step)
    except Exception as error:
        if isinstance(step.event, Finished) and not _can_be_recorded(world, step.event):
            failure = Broken(error=type(error).__name__, reason=reason_of(error))
            failed = Failed[Any](at=step.event.at, effect=step.event.effect, failure=failure)
            instead = advance(behaviour, before, failed, paused=paused)
            assert instead is not None
            return draft_of(world, behaviour, before, instead, paused=paused)
        return _draft_of_refusal(world, behaviour, before, step, error)


def _draft_of_refusal(
    world: World, behaviour: AnyBehaviour, before: AnySession, step: AnyStep, error: Exception
) -> Draft:
    try:
        return _draft(world, behaviour, refuse(behaviour, before, step.event, bug(error)))
    except Exception:
        # What ERROR itself wants done is not possible either; or the session was just under its share.
        bare = refuse(behaviour, before, step.event, bug(error), bare=True)
        return Draft(bare, record_of(behaviour, bare, world.incarnation), [])


def _draft(world: World, behaviour: AnyBehaviour, step: AnyStep) -> Draft:
    record = record_of(behaviour, step, world.incarnation)
    letter = world.bus.post.letter_bytes_max
    _check_share("event", _size(record.event), EVENT_LETTERS * letter)
    _check_share("session", session_bytes(record), SESSION_LETTERS * letter)
    _check_share("effects", sum(map(_size, record.effects)), EFFECTS_LETTERS * letter)
    read_session(behaviour, record)  # a field of another type than it says is written, and never read again
    return Draft(step, record, letters_of(behaviour, step, world.bus.post.seal))


def session_bytes(record: Record) -> int:
    """How large the session in a record is."""
    return _size(record.after)


def has_room_for_a_letter(world: World, session_size: int) -> bool:
    """Whether a session of that size can keep one more letter."""
    return session_size <= (SESSION_LETTERS - EVENT_LETTERS) * world.bus.post.letter_bytes_max


def _can_be_recorded(world: World, event: Finished[Any, Any]) -> bool:
    try:
        _check_share("event", len(encode(event)), EVENT_LETTERS * world.bus.post.letter_bytes_max)
    except (RecordTooLargeError, TypeError, ValueError):
        return False
    return True


def _size(part: Any) -> int:
    return memoryview(part).nbytes


def _check_share(part: str, size: int, limit: float) -> None:
    if size > limit:
        raise RecordTooLargeError(part, size, int(limit))

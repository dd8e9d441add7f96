"""Steps to records and back."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Model
from actors.core.effects import Effect, Send
from actors.core.session import Session
from actors.core.step import Step
from actors.errors import UnreadableSessionError
from bus.errors import MessageTooLargeError
from bus.journal import Entry
from bus.post import Sealed
from protocol.codec import encode
from protocol.errors import ProtocolError
from protocol.messages import Envelope
from protocol.record import Record
from protocol.routing import address

M = TypeVar("M", bound=Model)
E = TypeVar("E", bound=Effect)
R = TypeVar("R")


class _AnyEffect(msgspec.Struct, frozen=True, kw_only=True):
    effect: str


_any_effect = msgspec.json.Decoder(_AnyEffect)
_send = msgspec.json.Decoder(Send)


Seal = Callable[[Envelope], Sealed]


class Resumable(NamedTuple, Generic[M, E, R]):
    """A session as it was after its last record, and the letters of that record, which may not have been sent."""

    session: Session[M, E, R]
    letters: list[Sealed]


def record_of(behaviour: Behaviour[M, E, R], step: Step[M, E, R], incarnation: str) -> Record:
    """The record of a step."""
    return Record(
        n=step.session.n,
        machine=behaviour.machine.name,
        session=step.session.id,
        incarnation=incarnation,
        at=step.event.at,
        event=msgspec.Raw(encode(step.event)),
        state_from=step.state_from,
        state_to=step.session.state,
        after=msgspec.Raw(encode(step.session)),
        effects=tuple(msgspec.Raw(encode(effect)) for effect in step.effects),
    )


def resumable(behaviour: Behaviour[M, E, R], entry: Entry, seal: Seal) -> Resumable[M, E, R]:
    """What a record says, whatever code wrote it; UnreadableSessionError if this code cannot read all of it."""
    try:
        record = entry.record()
        session = read_session(behaviour, record)
        _check(behaviour, record, session)
        sends = [_send.decode(each) for each in record.effects if _any_effect.decode(each).effect == "send"]
        return Resumable(session, [seal(_letter(behaviour, session.id, send, record.at)) for send in sends])
    except (ProtocolError, MessageTooLargeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableSessionError(entry.subject, entry.sequence, str(error)) from error


def read_session(behaviour: Behaviour[M, E, R], record: Record) -> Session[M, E, R]:
    """The session in a record; msgspec's DecodeError if it is none of this behaviour."""
    session: Session[M, E, R] = _decoder(behaviour.session_type).decode(record.after)
    return session


@lru_cache
def _decoder(session_type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(session_type)


def _check(behaviour: Behaviour[M, E, R], record: Record, session: Session[M, E, R]) -> None:
    """A record can be whole and yet be none of this session's."""
    if (session.n, session.id, session.state) != (record.n, record.session, record.state_to):
        inside = f"{session.id}/{session.n} {session.state}"
        raise msgspec.ValidationError(f"the session in it is at {inside}, which the record is not")
    if record.machine != behaviour.machine.name or not behaviour.machine.knows(session.state):
        raise msgspec.ValidationError(f"{behaviour.machine.name} has no state {session.state} of {record.machine}")


def letters_of(behaviour: Behaviour[M, E, R], step: Step[M, E, R], seal: Seal) -> list[Sealed]:
    """The letters of a step: the same bytes however often they are sent."""
    session, at = step.session.id, step.event.at
    return [seal(_letter(behaviour, session, each, at)) for each in step.effects if isinstance(each, Send)]


def _letter(behaviour: Behaviour[M, E, R], session: str, send: Send, at: datetime) -> Envelope:
    return Envelope(
        id=send.id,
        kind=send.kind,
        sender=address(behaviour.role, session),
        recipient=send.to,
        payload=send.message,
        sent_at=at,
        session=session,
        correlation_id=send.answers,
        cause_id=send.cause,
    )

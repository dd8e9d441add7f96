"""Steps to records and back."""

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Model
from actors.core.effects import Effect, Send
from actors.core.session import Session
from actors.core.step import Step
from actors.errors import UnreadableSessionError
from bus.journal import Entry
from protocol.codec import encode
from protocol.errors import MalformedMessageError, UnsupportedSchemaError
from protocol.messages import Envelope
from protocol.record import Record
from protocol.routing import address

M = TypeVar("M", bound=Model)
E = TypeVar("E", bound=Effect)
R = TypeVar("R")


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


def session_of(behaviour: Behaviour[M, E, R], entry: Entry) -> tuple[Session[M, E, R], Record]:
    """The session as it was after a record, whatever code wrote it; UnreadableSessionError if it cannot be read."""
    try:
        record = entry.record()
        session: Session[M, E, R] = msgspec.json.decode(record.after, type=behaviour.session_type)
    except (MalformedMessageError, UnsupportedSchemaError, msgspec.DecodeError) as error:
        raise UnreadableSessionError(entry.subject, entry.sequence, str(error)) from error
    return session, record


def sends_of(record: Record) -> list[Send]:
    """The messages of a record, to be repeated after a crash."""
    tags: list[dict[str, Any]] = [msgspec.json.decode(effect) for effect in record.effects]
    return [
        msgspec.json.decode(effect, type=Send)
        for effect, plain in zip(record.effects, tags, strict=True)
        if plain.get("effect") == "send"
    ]


def envelope_of(role: str, session: str, send: Send, at: datetime) -> Envelope:
    """A message of a session: the same bytes however often it is sent."""
    return Envelope(
        id=send.id,
        kind=send.kind,
        sender=address(role, session),
        recipient=send.to,
        payload=send.message,
        sent_at=at,
        session=session,
        correlation_id=send.answers,
        cause_id=send.cause,
    )

"""Values that the contract tests send and record."""

from datetime import UTC, datetime

import msgspec

from protocol.messages import AnyPayload, Envelope, Kind, Question, Story
from protocol.record import Record

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_record(n: int = 1, incarnation: str = "one", session: str = "s-1.1", text: str = "") -> Record:
    return Record(
        n=n,
        machine="coder",
        session=session,
        incarnation=incarnation,
        at=NOW,
        event=msgspec.Raw(msgspec.json.encode({"event": "timer", "text": text})),
        state_from="WAITING",
        state_to="SETUP",
        after=msgspec.Raw(b"{}"),
    )


def an_envelope(
    payload: AnyPayload | None = None,
    *,
    identifier: str = "s-1.1/1/0",
    kind: Kind = "REQUEST",
    sender: str = "coder.coder-1",
    recipient: str = "architect.main",
    correlation_id: str = "",
) -> Envelope:
    return Envelope(
        id=identifier,
        kind=kind,
        sender=sender,
        recipient=recipient,
        payload=payload or Question(story="s-1", question="why?"),
        sent_at=NOW,
        correlation_id=correlation_id,
    )


def a_story(story: str = "s-1", identifier: str = "main/1/0") -> Envelope:
    payload = Story(
        story=story, spec="todo", run=1, title="Add", description="Add it", acceptance_criteria=("it adds",)
    )
    return an_envelope(payload, identifier=identifier, sender="architect.main", recipient="coder.all")

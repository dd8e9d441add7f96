"""What tests of the runtime say to a session, and a session driven without any runtime."""

from datetime import UTC, datetime, timedelta
from typing import Any

from actors.core.behaviour import Behaviour
from actors.core.events import Failed, Finished, Received, Signalled
from actors.core.failures import AnyFailure
from actors.core.results import Result
from actors.core.session import Session
from actors.core.step import Step, advance, is_repeated, next_event
from protocol.messages import AnyPayload, Envelope, Kind, Story

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def envelope(
    payload: AnyPayload, identifier: str = "main/1/0", kind: Kind = "REQUEST", to: str = "coder.s-1.1"
) -> Envelope:
    return Envelope(id=identifier, kind=kind, sender="architect.main", recipient=to, payload=payload, sent_at=AT)


def received(payload: AnyPayload, identifier: str = "main/1/0", inbox: str = "reply") -> Received:
    return Received(at=AT, message=envelope(payload, identifier), inbox=inbox)


def signalled(payload: AnyPayload, generation: int) -> Signalled:
    return Signalled(
        at=AT, generation=generation, signal=envelope(payload, f"supervisor/{generation}/0", "CONTROL", "all.all")
    )


def a_story(story: str = "s-1", run: int = 1) -> Story:
    return Story(story=story, spec="todo", run=run, title="t", description="d", acceptance_criteria=("it works",))


class Play:
    """A session on its own, with the steps it has taken."""

    def __init__(self, behaviour: Behaviour[Any, Any, Any], session: str = "s-1.1") -> None:
        self.behaviour = behaviour
        self.session: Session[Any, Any, Any] = behaviour.begin(session, 0)
        self.steps: list[Step[Any, Any, Any]] = []

    @property
    def states(self) -> list[str]:
        """Every state that was come to, in order."""
        return [step.session.state for step in self.steps if step.session.state != step.state_from]

    def happen(self, event: Any) -> Step[Any, Any, Any] | None:
        """Take an event and whatever the session then presents to itself; gives the event's own step."""
        if is_repeated(self.session, event):
            return None
        step = self._take(event)
        while (own := next_event(self.behaviour, self.session, AT)) is not None:
            self._take(own)
        return step

    def finish(self, kind: type[Any], result: Result) -> Step[Any, Any, Any] | None:
        """The open effect of that kind has its result."""
        return self.happen(Finished(at=AT, effect=self.open(kind).id, result=result))

    def break_down(self, kind: type[Any], failure: AnyFailure, generation: int = 0) -> Step[Any, Any, Any] | None:
        return self.happen(Failed(at=AT, effect=self.open(kind).id, failure=failure, generation=generation))

    def open(self, kind: type[Any]) -> Any:
        (effect,) = [each for each in self.session.open.values() if isinstance(each, kind)]
        return effect

    def _take(self, event: Any) -> Step[Any, Any, Any] | None:
        step = advance(self.behaviour, self.session, event)
        if step is not None:
            self.steps.append(step)
            self.session = step.session
        return step

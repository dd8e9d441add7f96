"""An architect: one request after the other, and a story that has failed comes again as its next run."""

from typing import Any

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, defer, go, ignore, stay
from actors.core.effects import Send
from actors.core.events import Entered, Finished, Received, Signalled
from actors.core.session import Session
from protocol.machines.architect import ARCHITECT as ARCHITECT_MACHINE
from protocol.messages import (
    AnyPayload,
    ApprovalRequest,
    ApprovalResult,
    Envelope,
    Merged,
    MergeRequest,
    MergeResult,
    Requeue,
    Story,
)
from tests.actors.understudies.effects import Effects, Happening, Results, Think, Thought

EARLIER_MAX = 5
"""So many earlier runs a story brings along."""


class Architect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the architect remembers: the request in hand, and the last run of each story that came again."""

    state: str = "WAITING"
    request: Envelope | None = None
    answered: int = 0
    stories: dict[str, Story] = {}


NEXT = {"WAITING": "SETUP", "SETUP": "REQUEST"}
"""Where a state leads at once, while there is a request in hand."""

TAKES = {"WAITING": "SETUP", "MONITORING": "REQUEST", "DONE": "WAITING"}
"""The states in which requests are taken, and where each leads."""


def decide_architect(architect: Architect, event: Happening) -> Decision[Architect]:
    """One request after the other: think, answer, wait for the next. Once recovered it takes up the same again."""
    match architect.state, event:
        case ("WAITING" | "SETUP") as state, Entered() if architect.request is not None:
            return go(architect, NEXT[state])
        case ("WAITING" | "MONITORING" | "DONE") as state, Received(
            message=Envelope(payload=ApprovalRequest() | MergeRequest() | Requeue()) as request
        ):
            return go(msgspec.structs.replace(architect, request=request), TAKES[state])
        case "REQUEST", Entered() | Finished(result=Thought()):
            return _deal_with(_in_hand(architect), architect, event)
        case "DISPATCHING", Entered():
            return _dispatch(architect)
        case _, Signalled() | Entered():
            return ignore(architect)
        case _:
            return defer(architect)


def _deal_with(request: Envelope, architect: Architect, event: Happening) -> Decision[Architect]:
    if isinstance(request.payload, Requeue):
        return go(architect, "DISPATCHING")
    if isinstance(event, Entered):
        return stay(architect, Think(prompt="judge"))
    return go(_rested(architect), "WAITING", _answer(request))


def _in_hand(architect: Architect) -> Envelope:
    assert architect.request is not None
    return architect.request


def _rested(architect: Architect, **changes: Any) -> Architect:
    return msgspec.structs.replace(architect, request=None, answered=architect.answered + 1, **changes)


def _answer(request: Envelope) -> Send:
    result: AnyPayload
    match request.payload:
        case ApprovalRequest(approval_type=kind):
            result = ApprovalResult(type=kind, status="APPROVED")
        case MergeRequest() as merge:
            result = MergeResult(story=merge.story, outcome=Merged(commit=merge.commit))
        case _:
            raise AssertionError(request.payload)
    return Send(to=request.sender, message=result, kind="RESPONSE", answers=request.id)


def _dispatch(architect: Architect) -> Decision[Architect]:
    """Put the next run on the queue, or leave it where the person has given the story up."""
    requeue = _in_hand(architect).payload
    assert isinstance(requeue, Requeue)
    if requeue.decision == "give up":
        return go(_rested(architect), "DONE")
    story = _next_run(architect.stories.get(requeue.story) or _first_run(requeue.story), requeue)
    stories = {**architect.stories, story.story: story}
    return go(_rested(architect, stories=stories), "MONITORING", Send(to="coder.all", message=story))


def _first_run(story: str) -> Story:
    return Story(story=story, spec="spec", run=1, title=story, description="", acceptance_criteria=())


def _next_run(story: Story, requeue: Requeue) -> Story:
    earlier = (*story.earlier, requeue.earlier) if requeue.earlier else story.earlier
    return msgspec.structs.replace(
        story,
        run=requeue.run + 1,
        attempt=story.attempt + requeue.costs_attempt,
        earlier=earlier[-EARLIER_MAX:],
    )


ARCHITECT: Behaviour[Architect, Any, Any] = Behaviour(
    machine=ARCHITECT_MACHINE,
    role="architect",
    decide=decide_architect,
    initial=Architect(),
    session_type=Session[Architect, Effects, Results],
    pulls={"request": frozenset(TAKES)},
)

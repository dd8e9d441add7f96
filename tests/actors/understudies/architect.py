"""An architect: one request after the other."""

from typing import Any

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, defer, go, ignore, stay
from actors.core.effects import Send
from actors.core.events import Entered, Finished, Received, Signalled
from actors.core.session import Session
from protocol.machines.architect import ARCHITECT as ARCHITECT_MACHINE
from protocol.messages import AnyPayload, ApprovalRequest, ApprovalResult, Envelope, Merged, MergeRequest, MergeResult
from tests.actors.understudies.effects import Effects, Happening, Results, Think, Thought


class Architect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the architect remembers: the request in hand."""

    state: str = "WAITING"
    request: Envelope | None = None
    answered: int = 0


NEXT = {"ERROR": "WAITING", "WAITING": "SETUP", "SETUP": "REQUEST"}
"""Where a state leads at once, while there is a request in hand."""


def decide_architect(architect: Architect, event: Happening) -> Decision[Architect]:
    """One request after the other: think, answer, wait for the next. After an ERROR it takes up the same again."""
    match architect.state, event:
        case ("ERROR" | "WAITING" | "SETUP") as state, Entered() if architect.request is not None:
            return go(architect, NEXT[state])
        case "WAITING", Received(message=Envelope(payload=ApprovalRequest() | MergeRequest()) as request):
            return go(msgspec.structs.replace(architect, request=request), "SETUP")
        case "REQUEST", Entered():
            return stay(architect, Think(prompt="judge"))
        case "REQUEST", Finished(result=Thought()):
            assert architect.request is not None
            rested = msgspec.structs.replace(architect, request=None, answered=architect.answered + 1)
            return go(rested, "WAITING", _answer(architect.request))
        case _, Signalled() | Entered():
            return ignore(architect)
        case _:
            return defer(architect)


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


ARCHITECT: Behaviour[Architect, Any, Any] = Behaviour(
    machine=ARCHITECT_MACHINE,
    role="architect",
    decide=decide_architect,
    initial=Architect(),
    session_type=Session[Architect, Effects, Results],
    pulls={"request": frozenset({"WAITING"})},
)

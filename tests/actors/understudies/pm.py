"""A PM: an interview that becomes a spec, or one that is uploaded; it is over when the architect approves of it."""

from collections.abc import Callable
from typing import Any

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, defer, go, ignore, stay
from actors.core.effects import Send
from actors.core.events import Entered, Finished, Received, Signalled
from actors.core.session import Session
from protocol.machines.pm import PM as PM_MACHINE
from protocol.messages import ApprovalRequest, ApprovalResult, Envelope, InterviewRequest, SpecUpload
from tests.actors.understudies.effects import (
    THE_ARCHITECT,
    Announce,
    Announced,
    Effects,
    Happening,
    Results,
    Think,
    Thought,
)


class Pm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the PM remembers of one interview."""

    state: str = "WAITING"
    interview: str = ""
    submitted: bool = False


def decide_pm(pm: Pm, event: Happening) -> Decision[Pm]:
    """Talk, draft, submit, and leave when the architect is content.

    A finished spec needs no talk. Whichever of request and upload comes second waits, and means nothing in the end.
    """
    if isinstance(event, Signalled) or (isinstance(event, Finished) and isinstance(event.result, Announced)):
        return ignore(pm)
    return STATES[pm.state](pm, event)


def _waiting(pm: Pm, event: Happening) -> Decision[Pm]:
    match event:
        case Entered() if pm.interview and not pm.submitted:
            return go(pm, "INTERVIEWING")
        case Received(message=Envelope(payload=InterviewRequest() | SpecUpload() as wish)):
            return ignore(pm) if pm.submitted else _begin(pm, wish)
        case Received(message=Envelope(payload=ApprovalResult(status="APPROVED"))):
            return go(pm, "DONE", Announce(line=f"approved {pm.interview}"))
        case Received(message=Envelope(payload=ApprovalResult())):
            return go(pm, "INTERVIEWING")
        case _:
            return defer(pm)


def _begin(pm: Pm, wish: InterviewRequest | SpecUpload) -> Decision[Pm]:
    match wish:
        case InterviewRequest(interview=interview):
            return go(msgspec.structs.replace(pm, interview=interview), "INTERVIEWING")
        case SpecUpload(spec=interview):
            return go(msgspec.structs.replace(pm, interview=interview), "SUBMITTING")


def _interviewing(pm: Pm, event: Happening) -> Decision[Pm]:
    match event:
        case Entered():
            return stay(pm, Think(prompt="ask"))
        case Finished(result=Thought()):
            return go(pm, "DRAFTING")
        case _:
            return defer(pm)


def _drafting(pm: Pm, event: Happening) -> Decision[Pm]:
    match event:
        case Entered():
            return stay(pm, Think(prompt="draft"))
        case Finished(result=Thought()):
            return go(pm, "SUBMITTING")
        case _:
            return defer(pm)


def _submitting(pm: Pm, event: Happening) -> Decision[Pm]:
    match event:
        case Entered():
            request = ApprovalRequest(approval_type="spec", content=pm.interview)
            submitted = msgspec.structs.replace(pm, submitted=True)
            return go(submitted, "WAITING", Send(to=THE_ARCHITECT, message=request))
        case _:
            return defer(pm)


def _error(pm: Pm, event: Happening) -> Decision[Pm]:
    """Until the supervisor recovers it, everything is kept."""
    return ignore(pm) if isinstance(event, Entered) else defer(pm)


def _over(pm: Pm, _: Happening) -> Decision[Pm]:
    return ignore(pm)


STATES: dict[str, Callable[[Pm, Happening], Decision[Pm]]] = {
    "WAITING": _waiting,
    "INTERVIEWING": _interviewing,
    "DRAFTING": _drafting,
    "SUBMITTING": _submitting,
    "DONE": _over,
    "ERROR": _error,
}

PM: Behaviour[Pm, Any, Any] = Behaviour(
    machine=PM_MACHINE,
    role="pm",
    decide=decide_pm,
    initial=Pm(),
    session_type=Session[Pm, Effects, Results],
    pulls={"request": frozenset({"WAITING"}), "spec": frozenset({"WAITING"})},
)

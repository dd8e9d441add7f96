"""Understudies: a coder and an architect that play their machines without a model or a repository.

Between them they have every kind of effect: sends, timers, an ask to a person, and outside effects that cost
something (Think), change a tree (Write) and must happen once (Announce).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, defer, fail, go, ignore, stay
from actors.core.effects import AskPerson, Effect, Send, Timer
from actors.core.events import Entered, Event, Finished, Received, Signalled
from actors.core.failures import Cause
from actors.core.results import PersonAnswered, Result, TimerRang
from actors.core.session import Session
from protocol.machines.architect import ARCHITECT as ARCHITECT_MACHINE
from protocol.machines.coder import CODER as CODER_MACHINE
from protocol.messages import (
    AnyPayload,
    ApprovalRequest,
    ApprovalResult,
    Cancel,
    Envelope,
    Merged,
    MergeRequest,
    MergeResult,
    Story,
)

THE_ARCHITECT = "architect.main"


class Prepare(Effect, frozen=True, kw_only=True):
    """Make a workspace."""

    story: str


class Think(Effect, frozen=True, kw_only=True):
    """Ask the model; every call is paid for."""

    prompt: str


class Write(Effect, frozen=True, kw_only=True):
    """Add a line to the tree at `base`."""

    base: str
    line: str


class Announce(Effect, frozen=True, kw_only=True):
    """Tell the world, once."""

    line: str


class Prepared(Result, frozen=True, kw_only=True):
    """The workspace is at `head`."""

    head: str


class Thought(Result, frozen=True, kw_only=True):
    """What the model said."""

    text: str


class Written(Result, frozen=True, kw_only=True):
    """The tree is at `head`."""

    head: str


class Announced(Result, frozen=True, kw_only=True):
    """The world knows."""


Effects = Send | Timer | AskPerson | Prepare | Think | Write | Announce
Results = TimerRang | PersonAnswered | Prepared | Thought | Written | Announced
Happening = Event[Effects, Results]


class Coder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the coder remembers."""

    state: str = "WAITING"
    story: str = ""
    head: str = ""
    lines: int = 0
    wanted: int = 2
    tested: int = 0
    asked: bool = False


def decide_coder(coder: Coder, event: Happening) -> Decision[Coder]:
    """A story from its arrival to its announcement, with a plan that is reviewed and a test that fails once."""
    match event:
        case Signalled(signal=Envelope(payload=Cancel(story=story))) if story == coder.story:
            return fail(coder, Cause(kind="cancelled", reason=f"story {story}"))
        case Signalled() | Finished(result=Announced()):
            return ignore(coder)
        case _:
            return STATES[coder.state](coder, event)


def _waiting(coder: Coder, event: Happening) -> Decision[Coder]:
    match event:
        case Received(message=Envelope(payload=Story(story=name))):
            return go(msgspec.structs.replace(coder, story=name), "SETUP")
        case _:
            return defer(coder)


def _setup(coder: Coder, event: Happening) -> Decision[Coder]:
    match event:
        case Entered():
            return stay(coder, Prepare(story=coder.story))
        case Finished(result=Prepared(head=head)):
            return go(msgspec.structs.replace(coder, head=head), "PLANNING")
        case _:
            return defer(coder)


def _planning(coder: Coder, event: Happening) -> Decision[Coder]:
    match event:
        case Entered():
            return stay(coder, Think(prompt="plan"), AskPerson(question="go on?", choices=("yes", "no")))
        case Finished(result=PersonAnswered(answer="yes")):
            return stay(msgspec.structs.replace(coder, asked=True))
        case Finished(result=PersonAnswered(answer=answer)):
            return fail(coder, _abandoned(answer))
        case Finished(result=Thought()) if coder.asked:
            return go(coder, "PLAN_REVIEW")
        case _:
            return defer(coder)


def _plan_review(coder: Coder, event: Happening) -> Decision[Coder]:
    match event:
        case Entered():
            return stay(coder, _request(ApprovalRequest(approval_type="plan", content="a plan")))
        case Received(message=Envelope(payload=ApprovalResult(status="APPROVED"))):
            return go(coder, "CODING")
        case Received(message=Envelope(payload=ApprovalResult(status="NEEDS_CHANGES"))):
            return go(coder, "PLANNING")
        case Received(message=Envelope(payload=ApprovalResult(feedback=feedback))):
            return fail(coder, _abandoned(feedback))
        case _:
            return defer(coder)


def _coding(coder: Coder, event: Happening) -> Decision[Coder]:
    match event:
        case Entered():
            return stay(coder, Think(prompt=f"line {coder.lines}"))
        case Finished(result=Thought(text=text)):
            return stay(coder, Write(base=coder.head, line=text))
        case Finished(result=Written(head=head)):
            further = msgspec.structs.replace(coder, head=head, lines=coder.lines + 1)
            is_enough = further.lines >= coder.wanted
            return go(further, "TESTING") if is_enough else stay(further, Think(prompt=f"line {further.lines}"))
        case _:
            return defer(coder)


def _testing(coder: Coder, event: Happening) -> Decision[Coder]:
    match event:
        case Entered():
            return stay(coder, Timer(name="tests", seconds=0.02))
        case Finished(result=TimerRang()) if not coder.tested:
            return go(msgspec.structs.replace(coder, tested=1, wanted=coder.wanted + 1), "CODING")
        case Finished(result=TimerRang()):
            return go(coder, "CODE_REVIEW")
        case _:
            return defer(coder)


def _code_review(coder: Coder, event: Happening) -> Decision[Coder]:
    match event:
        case Entered():
            return stay(coder, _request(ApprovalRequest(approval_type="code", content=coder.head)))
        case Received(message=Envelope(payload=ApprovalResult(status="APPROVED"))):
            return go(coder, "AWAIT_MERGE")
        case Received(message=Envelope(payload=ApprovalResult(status="NEEDS_CHANGES"))):
            return go(msgspec.structs.replace(coder, wanted=coder.wanted + 1), "CODING")
        case Received(message=Envelope(payload=ApprovalResult(feedback=feedback))):
            return fail(coder, _abandoned(feedback))
        case _:
            return defer(coder)


def _await_merge(coder: Coder, event: Happening) -> Decision[Coder]:
    match event:
        case Entered():
            return stay(coder, _request(MergeRequest(story=coder.story, branch=coder.story, commit=coder.head)))
        case Received(message=Envelope(payload=MergeResult(outcome=Merged()))):
            return go(coder, "DONE", Announce(line=f"merged {coder.story}"))
        case _:
            return defer(coder)


def _over(coder: Coder, event: Happening) -> Decision[Coder]:
    return ignore(coder)


STATES: dict[str, Callable[[Coder, Happening], Decision[Coder]]] = {
    "WAITING": _waiting,
    "SETUP": _setup,
    "PLANNING": _planning,
    "PLAN_REVIEW": _plan_review,
    "CODING": _coding,
    "TESTING": _testing,
    "CODE_REVIEW": _code_review,
    "AWAIT_MERGE": _await_merge,
    "DONE": _over,
    "ERROR": _over,
}


def _request(message: AnyPayload) -> Send:
    return Send(to=THE_ARCHITECT, message=message)


def _abandoned(reason: str) -> Cause:
    return Cause(kind="abandoned", reason=reason)


class Architect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the architect remembers: the request in hand."""

    state: str = "WAITING"
    request: Envelope | None = None
    answered: int = 0


def decide_architect(architect: Architect, event: Happening) -> Decision[Architect]:
    """One request after the other: think, answer, wait for the next."""
    match architect.state, event:
        case "WAITING", Received(message=Envelope(payload=ApprovalRequest() | MergeRequest()) as request):
            return go(msgspec.structs.replace(architect, request=request), "SETUP")
        case "SETUP", Entered():
            return go(architect, "REQUEST")
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


CODER: Behaviour[Coder, Any, Any] = Behaviour(
    machine=CODER_MACHINE,
    role="coder",
    decide=decide_coder,
    initial=Coder(),
    session_type=Session[Coder, Effects, Results],
    pulls={},
)

ARCHITECT: Behaviour[Architect, Any, Any] = Behaviour(
    machine=ARCHITECT_MACHINE,
    role="architect",
    decide=decide_architect,
    initial=Architect(),
    session_type=Session[Architect, Effects, Results],
    pulls={"request": frozenset({"WAITING"})},
)

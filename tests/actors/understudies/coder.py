"""A coder: one story from its arrival to its announcement."""

from collections.abc import Callable
from typing import Any

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, defer, fail, go, ignore, stay
from actors.core.effects import AskPerson, Send, Timer
from actors.core.events import Entered, Finished, Received, Signalled
from actors.core.failures import Cause
from actors.core.results import PersonAnswered, TimerRang
from actors.core.session import Session
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
from tests.actors.understudies.effects import (
    THE_ARCHITECT,
    Announce,
    Announced,
    Effects,
    Happening,
    Prepare,
    Prepared,
    Results,
    Think,
    Thought,
    Write,
    Written,
)


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


CODER: Behaviour[Coder, Any, Any] = Behaviour(
    machine=CODER_MACHINE,
    role="coder",
    decide=decide_coder,
    initial=Coder(),
    session_type=Session[Coder, Effects, Results],
    pulls={},
)

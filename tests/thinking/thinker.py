"""A coder that thinks, small: it plans and edits one file with the model, and everything else is waved through.

What its tools do is real: the lines of a file in a folder of its own, each written once however often it is tried.
"""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from actors.claude.equipment import thinking
from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, defer, fail, go, ignore, stay
from actors.core.effects import AskPerson, CommonEffects
from actors.core.events import Entered, Event, Finished, Received, Signalled
from actors.core.failures import Cause
from actors.core.results import CommonResults, PersonAnswered
from actors.core.session import Session
from actors.hosting.part import Part
from actors.runtime.executors import Executors
from actors.runtime.world import World
from actors.thinking.conversation import render_tools
from actors.thinking.effects import Opening, Purpose, RunTool, ThinkingEffects, ThinkingResults, ToolRan
from actors.thinking.loop import (
    Ended,
    Exhausted,
    Loop,
    Move,
    Outgrown,
    Rules,
    Stopped,
    Working,
    begin,
    begin_anew,
    go_on,
    take,
)
from protocol.machines.coder import CODER as CODER_MACHINE
from protocol.messages import Envelope, Story

Effects = CommonEffects | ThinkingEffects
Results = CommonResults | ThinkingResults
Happening = Event[Effects, Results]

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
OPENING = Opening(
    system=("You are a coder who writes one file. " * 80,),
    tools=render_tools((name, f"To {name}.", SCHEMA) for name in ("submit_plan", "edit", "read", "done")),
)
PLANNING = Rules(ends_with=("submit_plan",), tools=("read",), reading=("read",), turns_max=10)
CODING = Rules(ends_with=("done",), tools=("read", "edit"), reading=("read",), turns_max=20)
BUDGET = "The budget of this story is used up. How does it go on?"
FILE = "written.txt"


class Thinker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What it remembers."""

    state: str = "WAITING"
    story: str = ""
    spec: str = ""
    loop: Loop | None = None
    findings: str = ""


def decide(thinker: Thinker, event: Happening) -> Decision[Thinker]:  # noqa: PLR0911 -- one for each thing
    """One story, from its arrival to the end."""
    match thinker.state, event:
        case _, Signalled():
            return ignore(thinker)
        case "WAITING", Received(message=Envelope(payload=Story(story=story, spec=spec))):
            return go(msgspec.structs.replace(thinker, story=story, spec=spec), "SETUP")
        case "SETUP", Entered():
            return go(thinker, "PLANNING")
        case "PLANNING" | "CODING", Entered():
            return _moved(thinker, _begin(thinker))
        case "PLANNING" | "CODING", _:
            assert thinker.loop is not None
            rules = PLANNING if thinker.state == "PLANNING" else CODING
            move = take(thinker.loop, rules, event)
            return defer(thinker) if move is None else _moved(thinker, move)
        case "BUDGET_REVIEW", Entered():
            return stay(thinker, AskPerson(question=BUDGET, context=thinker.findings, choices=("CONTINUE", "ABANDON")))
        case "BUDGET_REVIEW", Finished(result=PersonAnswered(answer="CONTINUE")):
            return go(thinker, "CODING")
        case "BUDGET_REVIEW", Finished(result=PersonAnswered(answer=answer)):
            return fail(thinker, Cause(kind="abandoned", reason=answer))
        case state, Entered():
            return go(thinker, NEXT[state]) if state in NEXT else stay(thinker)
        case _:
            return defer(thinker)


NEXT = {"PLAN_REVIEW": "CODING", "TESTING": "CODE_REVIEW", "CODE_REVIEW": "AWAIT_MERGE", "AWAIT_MERGE": "DONE"}


def _begin(thinker: Thinker) -> Move:
    purpose = Purpose(role="coder", state=thinker.state, story=thinker.story, spec=thinker.spec)
    if thinker.loop is None:
        return begin(purpose, OPENING, "Plan what to write.")
    return go_on(thinker.loop, purpose, thinker.findings or "Now write it.")


def _moved(thinker: Thinker, move: Move) -> Decision[Thinker]:
    after = msgspec.structs.replace(thinker, loop=move.loop)
    match move.standing:
        case Working():
            return stay(after, *move.effects)
        case Ended():
            return go(after, "PLAN_REVIEW" if thinker.state == "PLANNING" else "TESTING")
        case Exhausted(kind, reason) if thinker.state == "CODING":
            return go(msgspec.structs.replace(after, findings=f"{kind}: {reason}"), "BUDGET_REVIEW")
        case Exhausted(kind, reason):
            return fail(after, Cause(kind="budget", reason=f"{kind}: {reason}"))
        case Outgrown(reason):
            return _moved(after, begin_anew(move.loop, OPENING, reason, f"So far: {thinker.findings}"))
        case Stopped(cause):
            return fail(after, cause)


def hands(_: World) -> Executors:
    """Its tools."""
    folder = Path(os.environ["OUTSIDE"])

    async def run(effect: RunTool) -> ToolRan:
        written = folder / effect.purpose.story / FILE
        written.parent.mkdir(exist_ok=True)
        lines = written.read_text().splitlines() if written.exists() else []
        if effect.call.name == "edit" and not any(line.startswith(f"{effect.id} ") for line in lines):
            lines.append(f"{effect.id} {json.loads(effect.call.input)['text']}")
            written.write_text("\n".join(lines) + "\n")
        said = [line.partition(" ")[2] for line in lines]
        return ToolRan(output="\n".join(said), tree=f"{len(said)}")

    return {RunTool: run}


THINKER = Part(
    behaviour=Behaviour(
        machine=CODER_MACHINE,
        role="coder",
        decide=decide,
        initial=Thinker(),
        session_type=Session[Thinker, Effects, Results],
        pulls={},
    ),
    hosting="each",
    executors=hands,
    equipment=partial(thinking, "coder"),
)

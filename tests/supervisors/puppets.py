"""Puppets: parts on the real runtime that end, crash, hang or are late when a test says so.

A test says so by files in the folder that OUTSIDE names: a word to a process in a file with its number, and that the
next latecomer is late by a file called `late`. A puppet is a coder, and listens once it has a story.
"""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, defer, fail, go, ignore, stay
from actors.core.effects import CommonEffects, Effect
from actors.core.events import Entered, Event, Finished, Received, Signalled
from actors.core.failures import Cause
from actors.core.results import CommonResults, Result
from actors.core.session import Session
from actors.exits import ActorExit
from actors.hosting.part import Part
from actors.runtime.executors import Executors
from actors.runtime.world import World
from protocol.machines.coder import CODER as CODER_MACHINE
from protocol.messages import Envelope, Story
from tests.actors.understudies.architect import ARCHITECT

Word = Literal["done", "error", "crash", "hang", "use a tool"]

FOR_EVER_SECONDS = 600.0
"""Longer than any test: whoever stands still for so long is to be killed by its supervisor."""
LATE = "late"
TOOL = "tool"


class Listen(Effect, frozen=True, kw_only=True):
    """Wait for a word."""


class Heard(Result, frozen=True, kw_only=True):
    """The word, where it leads to an end of the session."""

    word: Word


Effects = CommonEffects | Listen
Results = CommonResults | Heard


class Puppet(msgspec.Struct, frozen=True, kw_only=True):
    """It has nothing to remember."""

    state: str = "WAITING"


def decide(puppet: Puppet, event: Event[Effects, Results]) -> Decision[Puppet]:  # noqa: PLR0911 -- a row for each
    """Listen in SETUP; the shortest ways to DONE and ERROR lead from there."""
    match puppet.state, event:
        case _, Signalled():
            return ignore(puppet)
        case "WAITING", Received(message=Envelope(payload=Story())):
            return go(puppet, "SETUP")
        case "SETUP", Entered():
            return stay(puppet, Listen())
        case "SETUP", Finished(result=Heard(word="error")):
            return fail(puppet, Cause(kind="abandoned", reason="the test said so"))
        case "SETUP", Finished(result=Heard()):
            return go(puppet, "PLANNING")
        case "PLANNING", Entered():
            return go(puppet, "PLAN_REVIEW")
        case "PLAN_REVIEW", Entered():
            return go(puppet, "DONE")
        case (("DONE" | "ERROR"), _):
            return ignore(puppet)
        case _:
            return defer(puppet)


def executors(_: World) -> Executors:
    """It only listens."""
    return {Listen: listen}


def no_executors(_: World) -> Executors:
    """It never has anything to do."""
    return {}


def executors_of_latecomer(_: World) -> Executors:
    """Made before a process is ready, so who is late is late here."""
    late = _folder() / LATE
    if late.exists():
        late.unlink()
        time.sleep(FOR_EVER_SECONDS)
    return {}


async def listen(_: Listen) -> Heard:
    """Do what is said, or have it decided."""
    while True:
        match word := await _word():
            case "crash":
                os._exit(ActorExit.CRASHED)
            case "hang":
                time.sleep(FOR_EVER_SECONDS)  # noqa: ASYNC251 -- it is the loop that is to stand still
            case "use a tool":
                _use_a_tool()
            case _:
                return Heard(word=word)


async def _word() -> Any:
    said = _folder() / str(os.getpid())
    while not said.exists():
        await asyncio.sleep(0.02)
    word = said.read_text()
    said.unlink()
    return word


def _use_a_tool() -> None:
    """One that hides as well as it can: in a session of its own, and left to itself by whoever has started it."""
    command = f"sleep {FOR_EVER_SECONDS} & echo $! > {TOOL}.unfinished; mv {TOOL}.unfinished {TOOL}"
    subprocess.run(["sh", "-c", command], cwd=_folder(), start_new_session=True, check=True)


def _folder() -> Path:
    return Path(os.environ["OUTSIDE"])


def say(folder: Path, pid: int, word: Word) -> Path:
    """Tell a process, all at once; the file is gone when it has heard."""
    unfinished = folder / f"{pid}.unfinished"
    unfinished.write_text(word)
    return unfinished.rename(folder / str(pid))


PUPPET = Part(
    behaviour=Behaviour(
        machine=CODER_MACHINE,
        role="coder",
        decide=decide,
        initial=Puppet(),
        session_type=Session[Puppet, Effects, Results],
        pulls={},
    ),
    hosting="each",
    executors=executors,
)
IDLE = Part(behaviour=ARCHITECT, hosting="one", executors=no_executors)
LATECOMER = Part(behaviour=ARCHITECT, hosting="one", executors=executors_of_latecomer)
"""Of these nobody asks anything, so they do nothing."""

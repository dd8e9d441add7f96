"""A whole part, small: a PM that asks a person about a spec and greets whoever wrote it.

actor pm --id main --part examples.greeter:GREETER
bus publish spec.md
bus asks
"""

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, defer, fail, go, ignore, stay
from actors.core.effects import AskPerson, CommonEffects, Effect
from actors.core.events import Entered, Event, Finished, Received, Signalled
from actors.core.failures import Cause
from actors.core.results import CommonResults, PersonAnswered, Result
from actors.core.session import Session
from actors.hosting.part import Part
from actors.runtime.executors import Executors
from actors.runtime.world import World
from protocol.machines.pm import PM
from protocol.messages import Envelope, SpecUpload

# What it has done, and what comes of it: frozen structs, tagged by their names.


class Greet(Effect, frozen=True, kw_only=True):
    """Say hello, out there."""

    whom: str


class Greeted(Result, frozen=True, kw_only=True):
    """It was said."""

    text: str


Effects = CommonEffects | Greet
Results = CommonResults | Greeted


# What it remembers, and what it decides. No clock, no input, no output: the same event gives the same decision.


class Greeter(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the machine, and all that has to survive a crash."""

    state: str = "WAITING"
    spec: str = ""


def decide(  # noqa: PLR0911 -- one for each thing that can happen
    greeter: Greeter, event: Event[Effects, Results]
) -> Decision[Greeter]:
    """Only edges of the machine can be taken: `bus machines pm` shows them."""
    match greeter.state, event:
        case _, Signalled():
            return ignore(greeter)
        case "WAITING", Received(message=Envelope(payload=SpecUpload(spec=spec))):
            return go(msgspec.structs.replace(greeter, spec=spec), "SUBMITTING")
        case "SUBMITTING", Entered():
            return stay(greeter, AskPerson(question=f"Greet the author of {greeter.spec}?", choices=("yes", "no")))
        case "SUBMITTING", Finished(result=PersonAnswered(answer="yes")):
            return stay(greeter, Greet(whom=greeter.spec))
        case "SUBMITTING", Finished(result=PersonAnswered()):
            return fail(greeter, Cause(kind="abandoned", reason="the person said no"))
        case "SUBMITTING", Finished(result=Greeted()):
            return go(greeter, "WAITING")
        case "ERROR", Entered():
            return go(greeter, "WAITING")
        case _:
            return defer(greeter)


# Who performs the effects, made once per process.


def executors(_world: World) -> Executors:
    """By the effect's type. One may be run again after a crash, under the same id."""

    async def greet(effect: Greet) -> Greeted:
        return Greeted(text=f"hello {effect.whom}")

    return {Greet: greet}


def route(envelope: Envelope) -> str | None:
    """Whose session a message belongs to: one for each spec."""
    return envelope.payload.spec if isinstance(envelope.payload, SpecUpload) else None


GREETER = Part(
    behaviour=Behaviour(
        machine=PM,
        role="pm",
        decide=decide,
        initial=Greeter(),
        session_type=Session[Greeter, Effects, Results],
        pulls={"spec": frozenset({"WAITING"})},
    ),
    hosting="many",
    executors=executors,
    route=route,
)

"""Who plays in the companies that are measured: parts with what agents will import, and with nothing to do.

The architect stands still until it gets a message, and then walks for ever. A coder waits for a story, and then for an
API that is never there. The PM does nothing at all.
"""

import anthropic  # noqa: F401 -- as agents do
import mcp  # type: ignore[import-not-found]  # noqa: F401 -- in the peers' environment; an agent will have it
import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, defer, go, ignore, stay
from actors.core.events import Entered, Event, Received
from actors.core.session import Session
from actors.errors import ServiceUnavailableError
from actors.hosting.part import Part
from actors.runtime.executors import Executors
from actors.runtime.world import World
from bench.walking import WALKING, Effects, Results, Tread, Trodden
from protocol.machines.coder import CODER as CODER_MACHINE
from protocol.machines.pm import PM as PM_MACHINE

STEP_SECONDS = 0.1


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody remembers who has nothing to do."""

    state: str = "WAITING"


def decide_coder(coder: Memory, event: Event[Effects, Results]) -> Decision[Memory]:
    """Take a story, and need an API for it."""
    match event:
        case Received():
            return go(coder, "SETUP")
        case Entered():
            return stay(coder, Tread())
        case _:
            return ignore(coder)


def decide_pm(pm: Memory, _: Event[Effects, Results]) -> Decision[Memory]:
    """Nothing."""
    return defer(pm)


def walk(world: World) -> Executors:
    """A process takes its first step at once, and rests before each further one."""
    rests = False

    async def tread(_: Tread) -> Trodden:
        nonlocal rests
        if rests:
            await world.sleep(STEP_SECONDS)
        rests = True
        return Trodden()

    return {Tread: tread}


def wait(_: World) -> Executors:
    """The API is never there."""

    async def tread(_: Tread) -> Trodden:
        raise ServiceUnavailableError("model", "it is out of reach for as long as this is measured")

    return {Tread: tread}


ARCHITECT = Part(behaviour=WALKING, hosting="one", executors=walk)
CODER = Part(
    behaviour=Behaviour(
        machine=CODER_MACHINE,
        role="coder",
        decide=decide_coder,
        initial=Memory(),
        session_type=Session[Memory, Effects, Results],
        pulls={},
    ),
    hosting="each",
    executors=wait,
)
PM = Part(
    behaviour=Behaviour(
        machine=PM_MACHINE,
        role="pm",
        decide=decide_pm,
        initial=Memory(),
        session_type=Session[Memory, Effects, Results],
        pulls={"request": frozenset({"WAITING"})},
    ),
    hosting="many",
    executors=wait,
    route=lambda _: None,
)

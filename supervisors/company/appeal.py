"""The appeal: when the root of the tree has given up, a person is asked what now."""

from contextlib import suppress

from actors.runtime.world import World
from bus.asks import Ask
from bus.bus import Bus
from bus.errors import StorageFullError
from supervisors.core.standing import GAVE_UP

START_AGAIN = "start again"
STOP = "stop"

_PREFIX = "supervisor."


def an_ask(world: World, number: int) -> Ask:
    """The question, the `number`th of this supervisor: one that was answered stays so, whoever asks it again."""
    return Ask(
        id=f"{_PREFIX}{world.incarnation}.{GAVE_UP}-{number}",
        question="The company has stopped, because its processes failed again and again. Start it again?",
        context="`supervisor why` with the name of a process says how it has failed.",
        choices=(START_AGAIN, STOP),
        asked_at=world.now(),
    )


async def withdraw_earlier(bus: Bus) -> None:
    """Take back what killed supervisors have asked and nobody waits for any more; on a full disk it stays open."""
    for ask in await bus.asks.open():
        if ask.id.startswith(_PREFIX) and f".{GAVE_UP}-" in ask.id:
            with suppress(StorageFullError):
                await bus.asks.withdraw(ask.id)

"""The appeal: when the root of the tree has given up, a person is asked what now."""

from actors.runtime.world import World
from bus.asks import Ask
from supervisors.core.standing import GAVE_UP

START_AGAIN = "start again"
STOP = "stop"


def an_ask(world: World, number: int) -> Ask:
    """The question, the `number`th of this supervisor: one that was answered stays so, whoever asks it again."""
    return Ask(
        id=f"supervisor.{world.incarnation}.{GAVE_UP}-{number}",
        question="The company has stopped, because its processes failed again and again. Start it again?",
        context="`supervisor why` with the name of a process says how it has failed.",
        choices=(START_AGAIN, STOP),
        asked_at=world.now(),
    )

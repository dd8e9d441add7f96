"""A part: a behaviour with all that a process needs to play it."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from actors.core.behaviour import Behaviour
from actors.runtime.executors import Executors
from actors.runtime.world import World
from bus.settings import Loaded
from protocol.messages import Envelope

Hosting = Literal["one", "each", "many"]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What `actor` plays.

    `hosting`: one session for ever, under the actor's own name (architect); one for each story, after which the
    process ends (coder); or many at once (PM), each named by `route` from the message that belongs to it.
    """

    behaviour: Behaviour[Any, Any, Any]
    hosting: Hosting
    executors: Callable[[World], Executors]
    """Made once per process. Timer and AskPerson are there already."""
    equipment: Callable[[World, Loaded, Mapping[str, str]], Executors] | None = None
    """The same for what the settings and the environment say how to reach: the model, for example."""
    route: Callable[[Envelope], str | None] | None = None
    """Whose session a message belongs to; None: to none that could be."""

    def __post_init__(self) -> None:
        """What would only be found when it is too late, or never."""
        behaviour = self.behaviour
        if self.hosting not in get_args(Hosting):
            raise ValueError(f"hosting is {self.hosting!r}: one of {', '.join(get_args(Hosting))}")
        if self.hosting == "many" and self.route is None:
            raise ValueError("a part that hosts many sessions needs a route, which tells whose a message is")
        if behaviour.role != behaviour.machine.name.partition("-")[0]:
            raise ValueError(f"the role of {behaviour.machine.name} is not {behaviour.role}")
        initial: object = behaviour.initial
        if not isinstance(initial, msgspec.Struct) or not behaviour.machine.knows(getattr(initial, "state", "")):
            raise ValueError(f"initial is no struct with a state of {behaviour.machine.name}")

"""A part: a behaviour with all that a process needs to play it."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from actors.core.behaviour import Behaviour
from actors.runtime.executors import Executors
from actors.runtime.world import World
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
    route: Callable[[Envelope], str | None] | None = None
    """Whose session a message belongs to; None: to none that could be."""

"""What understudies have done, and what comes of it."""

from actors.core.effects import CommonEffects, Effect
from actors.core.events import Event
from actors.core.results import CommonResults, Result

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


Effects = CommonEffects | Prepare | Think | Write | Announce
Results = CommonResults | Prepared | Thought | Written | Announced
Happening = Event[Effects, Results]

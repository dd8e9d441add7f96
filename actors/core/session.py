"""A session as it is after a decision: all that a resume needs, whatever code goes on with it."""

from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from actors.core.decision import Model
from actors.core.events import Event
from actors.core.failures import Cause
from protocol.marks import Position

M = TypeVar("M", bound=Model)
E = TypeVar("E")
R = TypeVar("R")


class Suspension(msgspec.Struct, frozen=True, kw_only=True):
    """Where SUSPEND was entered from, for want of which service, and what has to run again."""

    suspended_from: str
    service: str
    generation: int
    """Restores up to this one were known when the effect that failed was started."""
    timer: str
    parked: tuple[str, ...]


class Deferred(msgspec.Struct, Generic[E, R], frozen=True, kw_only=True):
    """An event that waits for a state that takes it, and the effect that it answers."""

    event: Event[E, R]
    effect: E | None = None


class Session(msgspec.Struct, Generic[M, E, R], frozen=True, kw_only=True, omit_defaults=True):
    """One run of a machine. `open` holds the effects in hand by id: a resume runs them again."""

    id: str
    model: M
    n: int = 0
    open: dict[str, E] = {}
    deferred: tuple[Deferred[E, R], ...] = ()
    marks: dict[str, dict[str, Position]] = {}
    heard: int = 0
    since: datetime | None = None
    """When the session came to its state."""
    suspension: Suspension | None = None
    failing: Cause | None = None

    @property
    def state(self) -> str:
        """The state of the machine."""
        return self.model.state

"""Events: everything that can happen to a session. Times and ids come with them; `decide` has no clock."""

from typing import Generic, TypeVar, Union

import msgspec

from actors.core.failures import AnyFailure, Cause
from protocol.messages import Envelope, Instant, snake_case

E = TypeVar("E")
R = TypeVar("R")


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    at: Instant


class Entered(_Event, frozen=True, kw_only=True):
    """The session has come to its state by an edge, on its own way: now is the time to begin that state's work."""


class Received(_Event, frozen=True, kw_only=True):
    """A message, by one of the actor's inboxes. For a story `settles` is what takes it off the work queue."""

    message: Envelope
    inbox: str
    settles: str = ""


class Finished(_Event, Generic[E, R], frozen=True, kw_only=True):
    """An effect has its result. `of` is the effect itself, for `decide`; the record has only its id."""

    effect: str
    result: R
    of: E | None = None


class Failed(_Event, Generic[E], frozen=True, kw_only=True):
    """An effect has none. `generation` is that of the newest restore that was known when the effect was started."""

    effect: str
    failure: AnyFailure
    generation: int = 0
    of: E | None = None


class Signalled(_Event, frozen=True, kw_only=True):
    """A control signal; its generation is its place in the control stream."""

    generation: int
    signal: Envelope


class ChannelClosed(_Event, frozen=True, kw_only=True):
    """What the session takes its mail from was deleted; it will hear nothing more there."""

    inbox: str
    reason: str


class Resumed(_Event, frozen=True, kw_only=True):
    """Another process goes on with the session; `repeats` are the effects that were in hand and run again.

    Its record is the successor's claim: from then on the fence refuses whatever an earlier process still writes.
    """

    repeats: tuple[str, ...] = ()


class Failing(_Event, frozen=True, kw_only=True):
    """The next step on the way to ERROR."""

    cause: Cause


Event = Union[  # noqa: UP007 -- generic over E and R
    Entered, Received, Finished[E, R], Failed[E], Signalled, ChannelClosed, Resumed, Failing
]

"""How long a process may take, pure: until it is ready, between two signs of life, and to leave when it was told to."""

from typing import Literal

import msgspec

from actors.exits import ActorExit
from supervisors.core.watch import Way


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """The limits."""

    ready_seconds: float = 30.0
    hung_seconds: float = 15.0
    stop_seconds: float = 15.0
    """More than an actor gives itself, so that one that can still leave by itself does."""
    heed_seconds: float = 1.0
    """How long one that was told to stop by the company's own signal may take, before the machine's follows."""


class Conduct(msgspec.Struct, frozen=True, kw_only=True):
    """How a process has behaved until now, in seconds in which its supervisor was awake itself."""

    age_seconds: float
    is_ready: bool
    silent_seconds: float
    told_seconds: float | None = None
    """Since it was told to leave."""
    is_signalled: bool = False
    """Whether the machine's signal told it so."""


Measure = Literal["", "never_ready", "hung", "signal", "kill"]
"""What to do about a process: kill it because it does not become ready, or hangs, or does not leave; or tell it to."""


def measure(conduct: Conduct, patience: Patience) -> Measure:
    """What its conduct calls for now."""
    if conduct.told_seconds is not None:
        if conduct.told_seconds > patience.stop_seconds:
            return "kill"
        is_late = conduct.told_seconds > patience.heed_seconds
        return "signal" if is_late and not conduct.is_signalled else ""
    if not conduct.is_ready:
        return "never_ready" if conduct.age_seconds > patience.ready_seconds else ""
    return "hung" if conduct.silent_seconds > patience.hung_seconds else ""


_WAYS: dict[int, Way] = {
    ActorExit.DONE: "normal",
    ActorExit.ERROR: "error",
    ActorExit.CONFIGURATION: "configuration",
    ActorExit.UNREACHABLE: "cut_off",
    ActorExit.FENCED: "cut_off",
    ActorExit.LEFT: "asked",
    ActorExit.INTERRUPTED: "asked",
    ActorExit.TERMINATED: "asked",
}


def way_of(code: int, *, told: bool, killed_for: Way | None) -> Way:
    """How a process has ended, by its exit code and by what its supervisor did about it."""
    if killed_for is not None:
        return killed_for
    if told and code < 0:
        return "asked"
    return _WAYS.get(code, "crash")

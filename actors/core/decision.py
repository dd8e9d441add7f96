"""What a decider answers: stay, go, fail, defer or ignore."""

from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from actors.core.effects import Effect
from actors.core.failures import Cause


class Model(Protocol):
    """An actor's memory: one frozen struct with the state of its machine in it."""

    @property
    def state(self) -> str:
        """The state of the machine."""


M = TypeVar("M", bound=Model)


class Decision(msgspec.Struct, Generic[M], frozen=True, kw_only=True):
    """What becomes of a session after an event."""

    verb: Literal["stay", "go", "fail", "defer", "ignore"]
    model: M
    effects: tuple[Effect, ...] = ()
    cancels: tuple[str, ...] = ()
    cause: Cause | None = None


def stay(model: M, *effects: Effect, cancel: tuple[str, ...] = ()) -> Decision[M]:
    """Stay in the state. `cancel` names kinds of effects in hand that are no longer wanted."""
    return Decision(verb="stay", model=model, effects=effects, cancels=cancel)


def go(model: M, state: str, *effects: Effect, cancel: tuple[str, ...] = ()) -> Decision[M]:
    """Take an edge of the machine; a state that is not in the row is refused, and then nothing has changed."""
    changed: M = msgspec.structs.replace(model, state=state)  # type: ignore[type-var]  # every model is a struct
    return Decision(verb="go", model=changed, effects=effects, cancels=cancel)


def fail(model: M, cause: Cause, *effects: Effect) -> Decision[M]:
    """Go to ERROR by the machine's own path; effects in hand are cancelled, `effects` (sends) still happen."""
    return Decision(verb="fail", model=model, effects=effects, cause=cause)


def defer(model: M) -> Decision[M]:
    """Keep the event: it is recorded, and presented again when the session takes it."""
    return Decision(verb="defer", model=model)


def ignore(model: M) -> Decision[M]:
    """The event means nothing here, by the document."""
    return Decision(verb="ignore", model=model)

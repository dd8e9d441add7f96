"""Effects: what a decision wants done, as frozen structs that tests compare with `==`.

An actor's own effects derive from Effect. The runtime gives each its id, the place in the journal where it stands:
`<session>/<record>/<number>`.
"""

from datetime import datetime
from typing import ClassVar, Literal

import msgspec

from protocol.messages import AnyPayload, snake_case


class Effect(msgspec.Struct, frozen=True, kw_only=True, tag_field="effect", tag=snake_case):
    """Base of all effects. `id` is filled in by the runtime and is the same however often the effect is repeated."""

    reaches_outside: ClassVar[bool] = True
    """Whether it costs or changes something outside the bus, so that a process that slept asks the broker first."""

    id: str = ""


class Send(Effect, frozen=True, kw_only=True):
    """Say something to another actor. Stored by the broker before the session goes on; repeated under the same id."""

    reaches_outside: ClassVar[bool] = False

    to: str
    message: AnyPayload
    kind: Literal["REQUEST", "RESPONSE", "EVENT"] = "REQUEST"
    answers: str = ""
    """The id of the request that this answers."""
    cause: str = ""
    """The id of the message that led to this one, filled in by the runtime."""


class Timer(Effect, frozen=True, kw_only=True):
    """Finish after so many seconds. `due` is filled in by the runtime, so a restart does not begin it anew."""

    reaches_outside: ClassVar[bool] = False

    name: str
    seconds: float
    due: datetime | None = None


class AskPerson(Effect, frozen=True, kw_only=True):
    """Have a person settle something; finishes with the answer, once, however long it takes."""

    reaches_outside: ClassVar[bool] = False

    question: str
    context: str = ""
    choices: tuple[str, ...] = ()


class WithdrawAsk(Effect, frozen=True, kw_only=True):
    """Take back a question that was given up: the runtime's own, for each AskPerson that a step cancels."""

    reaches_outside: ClassVar[bool] = False

    ask: str
    """The id of the effect that asked."""


CommonEffects = Send | Timer | AskPerson | WithdrawAsk
"""What every actor's effects include."""

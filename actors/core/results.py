"""Results: what an effect came to, as frozen structs; an actor's own derive from Result."""

import msgspec

from protocol.messages import snake_case


class Result(msgspec.Struct, frozen=True, kw_only=True, tag_field="result", tag=snake_case):
    """Base of all results."""


class TimerRang(Result, frozen=True, kw_only=True):
    """The time of a Timer has come."""


class PersonAnswered(Result, frozen=True, kw_only=True):
    """What the person said to an AskPerson."""

    answer: str


class AskWithdrawn(Result, frozen=True, kw_only=True):
    """Nobody is asked any more; the runtime's own, deciders do not hear of it."""


CommonResults = TimerRang | PersonAnswered | AskWithdrawn
"""What every actor's results include."""

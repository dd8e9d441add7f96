"""What stands in the ledger: a call's hold, what the call really was, and a ceiling raised by a person.

Unknown fields are tolerated, so an old reader survives a newer writer; a new field has a default; a type never
changes. Golden bytes in the tests hold the format.
"""

from datetime import date
from typing import Annotated, Literal, get_args

import msgspec

from bus.ledger.amounts import Amount, Count, Usage
from protocol.messages import Instant, snake_case

Scope = Literal["story", "spec", "day"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

Text = Annotated[str, msgspec.Meta(max_length=1000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="entry", tag=snake_case):
    """Base of all entries."""


class Reserved(LedgerEntry, frozen=True, kw_only=True):
    """Before an attempt of a model call: the most that it can cost. `call` is this attempt's alone (`call_id`).

    A story or spec that is empty is none: then only what is left of the scopes counts. `repeats` says that an earlier
    process may have paid for the same effect. `passes` are the scopes whose ceiling a person's "once" lets it over.
    """

    call: Name
    effect: Name
    day: date
    at: Instant
    hold: Amount
    session: Text = ""
    story: Text = ""
    spec: Text = ""
    role: Text = ""
    model: Text = ""
    repeats: bool = False
    priced: bool = True
    passes: tuple[Scope, ...] = ()

    @property
    def incarnation(self) -> str:
        """The process that makes the call."""
        return self.call.removeprefix(f"{self.effect}#").rpartition("#")[0]

    @property
    def scopes(self) -> tuple[tuple[Scope, str], ...]:
        """Where it counts."""
        named: tuple[tuple[Scope, str], ...] = (
            ("story", self.story),
            ("spec", self.spec),
            ("day", self.day.isoformat()),
        )
        return tuple((scope, name) for scope, name in named if name)


class Settled(LedgerEntry, frozen=True, kw_only=True):
    """After an attempt: what it was. Without a price its dollars are those of the dearest model that is known."""

    call: Name
    at: Instant
    usage: Usage = Usage()
    microdollars: Count = 0
    milliseconds: Count = 0
    estimated: bool = False
    priced: bool = True
    price_version: Text = ""
    miss_reason: Text = ""
    outcome: Text = ""

    @property
    def spent(self) -> Amount:
        """What counts against ceilings."""
        return Amount(microdollars=self.microdollars, tokens=self.usage.tokens, milliseconds=self.milliseconds)


class Raised(LedgerEntry, frozen=True, kw_only=True):
    """A person's word: so much more for a scope, or `once`: one more call whatever the ceiling.

    The same `id` again changes nothing: whoever carries an answer out may do so twice.
    """

    id: Name
    scope: Scope
    name: Name
    by: Text
    at: Instant
    amount: Amount = Amount()
    once: bool = False


Entry = Reserved | Settled | Raised


def call_id(effect: str, incarnation: str, attempt: int) -> str:
    """The name of one attempt at an effect by one process."""
    return f"{effect}#{incarnation}#{attempt}"

"""Calls of the model, as the ledger's tests reserve and settle them."""

from datetime import UTC, date, datetime
from typing import Any

import msgspec

from bus.ledger import Amount, Ceilings, Raised, Reserved, Scope, Settled, call_id

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DAY = date(2026, 1, 2)
ALLOWED = Ceilings(story=Amount(microdollars=100))
"""A hundred millionths of a dollar for each story: enough to test with."""


def a_hold(
    effect: str = "s-1.1/1/0",
    microdollars: int = 10,
    *,
    incarnation: str = "one",
    attempt: int = 0,
    story: str = "s-1",
    spec: str = "todo",
    day: date = DAY,
    hold: Amount | None = None,
    model: str = "claude-sonnet-5-5",
    role: str = "coder",
) -> Reserved:
    return Reserved(
        call=call_id(effect, incarnation, attempt),
        effect=effect,
        session=effect.partition("/")[0],
        story=story,
        spec=spec,
        role=role,
        model=model,
        day=day,
        at=NOW,
        hold=Amount(microdollars=microdollars) if hold is None else hold,
    )


def the_cost(reserved: Reserved, microdollars: int = 10, **facts: Any) -> Settled:
    settled = Settled(call=reserved.call, at=NOW, microdollars=microdollars, price_version="1", outcome="ok")
    return msgspec.structs.replace(settled, **facts)


def a_raise(
    microdollars: int = 0, *, identifier: str = "r-1", scope: Scope = "story", name: str = "s-1", once: bool = False
) -> Raised:
    amount = Amount(microdollars=microdollars)
    return Raised(id=identifier, scope=scope, name=name, amount=amount, once=once, by="ada", at=NOW)

"""Ceilings, what is left below them, and what is said when one is near or reached. Pure."""

import msgspec

from bus.ledger.amounts import NOTHING, Amount, Measure, amount_of, in_units
from bus.ledger.entries import Scope
from bus.settings.model import Budget
from protocol.messages import BudgetWarning

PERCENTS = (80, 95, 100)
"""Where a warning is given; at the last the work takes its way for an exhausted budget."""


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """The most that each story, each spec and each day may cost; nothing of a kind is no ceiling."""

    story: Amount = NOTHING
    spec: Amount = NOTHING
    day: Amount = NOTHING

    def of(self, scope: Scope) -> Amount:
        """The ceiling of a scope, before anybody raised it."""
        match scope:
            case "story":
                return self.story
            case "spec":
                return self.spec
            case "day":
                return self.day


def ceilings_of(budget: Budget) -> Ceilings:
    """The ceilings that the settings set."""
    return Ceilings(
        story=amount_of(dollars=budget.story_dollars, tokens=budget.story_tokens, minutes=budget.story_minutes),
        spec=amount_of(dollars=budget.spec_dollars, tokens=budget.spec_tokens, minutes=budget.spec_minutes),
        day=amount_of(dollars=budget.day_dollars, tokens=budget.day_tokens, minutes=budget.day_minutes),
    )


def raised(ceiling: Amount, by: Amount) -> Amount:
    """A ceiling with what a person added to it; where there was none there is none still."""
    return Amount(
        microdollars=ceiling.microdollars and ceiling.microdollars + by.microdollars,
        tokens=ceiling.tokens and ceiling.tokens + by.tokens,
        milliseconds=ceiling.milliseconds and ceiling.milliseconds + by.milliseconds,
    )


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call may not be made: the first ceiling that it would go over. Numbers are in the smallest unit."""

    scope: Scope
    name: str
    kind: Measure
    ceiling: int
    spent: int
    held: int
    wanted: int

    @property
    def sentence(self) -> str:
        """For a person."""
        ceiling, spent, held, wanted = (
            spelled(self.kind, number) for number in (self.ceiling, self.spent, self.held, self.wanted)
        )
        return f"{self.scope} {self.name} may cost {ceiling}: {spent} spent, {held} held, {wanted} more wanted"


class Crossed(msgspec.Struct, frozen=True, kw_only=True):
    """A ceiling of which so many percent are spent since one entry. Numbers are in the smallest unit."""

    scope: Scope
    name: str
    kind: Measure
    percent: int
    spent: int
    ceiling: int

    @property
    def sentence(self) -> str:
        """For a person."""
        spent, ceiling = spelled(self.kind, self.spent), spelled(self.kind, self.ceiling)
        return f"{self.scope} {self.name} has spent {spent} of {ceiling}: {self.percent} % or more"

    @property
    def warning(self) -> BudgetWarning:
        """What is said of it on the bus."""
        return BudgetWarning(
            scope=self.scope,
            name=self.name,
            kind=self.kind,
            percent=self.percent,
            spent=in_units(self.kind, self.spent),
            ceiling=in_units(self.kind, self.ceiling),
        )


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one more call may cost; None where there is no ceiling."""

    microdollars: int | None = None
    tokens: int | None = None
    milliseconds: int | None = None

    def within(self, left: Amount, ceiling: Amount) -> "Room":
        """The least of this room and of what is left below a ceiling."""
        return Room(
            microdollars=_least(self.microdollars, left.microdollars, ceiling.microdollars),
            tokens=_least(self.tokens, left.tokens, ceiling.tokens),
            milliseconds=_least(self.milliseconds, left.milliseconds, ceiling.milliseconds),
        )


def _least(room: int | None, left: int, ceiling: int) -> int | None:
    if not ceiling:
        return room
    left = max(left, 0)
    return left if room is None else min(room, left)


def crossed(scope: Scope, name: str, before: Amount, after: Amount, ceiling: Amount) -> tuple[Crossed, ...]:
    """The thresholds that lie between two sums, the lower one's excluded: each is crossed once."""
    pairs = zip(before.measured(), after.measured(), ceiling.measured(), strict=True)
    return tuple(
        Crossed(scope=scope, name=name, kind=kind, percent=percent, spent=spent, ceiling=most)
        for (kind, was), (_, spent), (_, most) in pairs
        for percent in PERCENTS
        if most and was * 100 < most * percent <= spent * 100
    )


def spelled(kind: Measure, number: int) -> str:
    """A number of smallest units as people read it."""
    value = in_units(kind, number)
    match kind:
        case "dollars":
            return f"${value:,.2f}" if number % 10_000 == 0 else f"${value:,.4f}"
        case "tokens":
            return f"{number:,} tokens"
        case "minutes":
            return f"{value:,.1f} minutes"

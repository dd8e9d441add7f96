"""What is counted: money, tokens and time, in whole numbers, so that sums are exact in whatever order they are made."""

from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from typing import Annotated, Literal

import msgspec

LARGEST = 2**53
"""Far above any bill, and what every reader of JSON still knows exactly."""

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Measure = Literal["dollars", "tokens", "minutes"]

MICRODOLLARS = 1_000_000
"""In a dollar."""
MILLISECONDS = 60_000
"""In a minute."""


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """Some money, tokens and time: what is held, spent or allowed. As a ceiling, nothing of a kind is no ceiling."""

    microdollars: Count = 0
    tokens: Count = 0
    milliseconds: Count = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            microdollars=self.microdollars + other.microdollars,
            tokens=self.tokens + other.tokens,
            milliseconds=self.milliseconds + other.milliseconds,
        )

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(
            microdollars=self.microdollars - other.microdollars,
            tokens=self.tokens - other.tokens,
            milliseconds=self.milliseconds - other.milliseconds,
        )

    def measured(self) -> tuple[tuple[Measure, int], ...]:
        """Each kind in its smallest unit."""
        return ("dollars", self.microdollars), ("tokens", self.tokens), ("minutes", self.milliseconds)

    @property
    def dollars(self) -> float:
        """For people and programs to read, not to sum."""
        return self.microdollars / MICRODOLLARS

    @property
    def minutes(self) -> float:
        """For people and programs to read, not to sum."""
        return self.milliseconds / MILLISECONDS


NOTHING = Amount()


def amount_of(*, dollars: float = 0, tokens: int = 0, minutes: float = 0) -> Amount:
    """An amount in the units that people use."""
    return Amount(microdollars=_whole(dollars, MICRODOLLARS), tokens=tokens, milliseconds=_whole(minutes, MILLISECONDS))


def in_units(measure: Measure, number: int) -> float:
    """A number of smallest units in the units that people use."""
    return number / {"dollars": MICRODOLLARS, "tokens": 1, "minutes": MILLISECONDS}[measure]


def rounded_up(number: Decimal) -> int:
    """What is no whole number of the smallest unit is the next one: never too little."""
    return int(number.to_integral_value(ROUND_CEILING))


def _whole(number: float, units: int) -> int:
    return int((Decimal(repr(number)) * units).to_integral_value(ROUND_HALF_EVEN))


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one call, as the API counts them. Thinking is part of the output."""

    input_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_5m_tokens: Count = 0
    cache_write_1h_tokens: Count = 0
    output_tokens: Count = 0
    thinking_tokens: Count = 0

    @property
    def prompt_tokens(self) -> int:
        """All that was sent, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @property
    def tokens(self) -> int:
        """All that counts against a ceiling in tokens."""
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_5m_tokens=self.cache_write_5m_tokens + other.cache_write_5m_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            thinking_tokens=self.thinking_tokens + other.thinking_tokens,
        )

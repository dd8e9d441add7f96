"""Prices: a dated table in the package, and a person's own for other models.

A million tokens for so many dollars is one token for so many millionths: a row's numbers are microdollars a token.
A call's sum is rounded up to a whole microdollar, once, and from there on everything is exact.
"""

import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from bus.ledger.amounts import Usage, rounded_up
from bus.ledger.ceilings import Room
from bus.settings.errors import Problem, SettingsError
from bus.settings.toml_file import TomlFile, read_toml

SHIPPED = Path(__file__).with_name("prices.toml")
DOLLARS_MAX = 1_000_000

_DATED = re.compile(r"-(?:\d{8}|latest)$")

Dollars = Annotated[float, msgspec.Meta(ge=0, le=DOLLARS_MAX)]


class Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a million tokens cost."""

    input: Dollars
    cache_write_5m: Dollars
    cache_write_1h: Dollars
    cache_read: Dollars
    output: Dollars

    def microdollars(self, usage: Usage) -> Decimal:
        """What these tokens cost."""
        return (
            usage.input_tokens * _exact(self.input)
            + usage.cache_write_5m_tokens * _exact(self.cache_write_5m)
            + usage.cache_write_1h_tokens * _exact(self.cache_write_1h)
            + usage.cache_read_tokens * _exact(self.cache_read)
            + usage.output_tokens * _exact(self.output)
        )

    @property
    def prompt_max(self) -> Decimal:
        """The dearest that a token of a prompt can be."""
        return _exact(max(self.input, self.cache_write_5m, self.cache_write_1h, self.cache_read))


class LargeRates(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Instead, for a call whose whole prompt is larger than that."""

    over_prompt_tokens: Annotated[int, msgspec.Meta(ge=1)]


class Row(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's prices from a day on, or from the beginning."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    effective_from: date = date.min
    large: LargeRates | None = None

    def rates(self, prompt_tokens: int) -> Rates:
        """Those for a prompt of this size."""
        large = self.large
        return large if large is not None and prompt_tokens > large.over_prompt_tokens else self

    def tiers(self, prompt_tokens_max: int) -> tuple[Rates, ...]:
        """Those for all prompts up to this size."""
        large = self.rates(prompt_tokens_max)
        return (self,) if large is self else (self, large)


class PriceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of prices."""

    version: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    model: tuple[Row, ...] = ()


class Priced(msgspec.Struct, frozen=True, kw_only=True):
    """What a call costs; not `priced`: no price of its model is known, and these are those of the dearest that is."""

    microdollars: int
    version: str
    priced: bool


class PriceTable:
    """All prices that are known."""

    def __init__(self, version: str, rows: tuple[Row, ...]) -> None:
        assert rows, "without any price nothing could be said of an unknown model"
        self.version = version
        self._rows: dict[str, list[Row]] = {}
        for row in sorted(rows, key=lambda row: row.effective_from):
            self._rows.setdefault(row.name, []).append(row)

    def with_own(self, own: PriceFile) -> "PriceTable":
        """Those of a person besides, who knows better where both know a model."""
        names = {row.name for row in own.model}
        kept = [row for rows in self._rows.values() for row in rows if row.name not in names]
        return PriceTable(f"{self.version}+{own.version}", (*kept, *own.model))

    def row(self, model: str, day: date) -> Row | None:
        """The row that counts for a model on a day; a dated id is its family's. None: nothing is known."""
        rows = self._rows.get(model) or self._rows.get(_DATED.sub("", model)) or []
        return next((row for row in reversed(rows) if row.effective_from <= day), None)

    def price_of(self, model: str, usage: Usage, day: date) -> Priced:
        """What a call costs."""
        sums = (row.rates(usage.prompt_tokens).microdollars(usage) for row in self._candidates(model, day))
        return self._priced(model, day, max(sums))

    def hold_for(self, model: str, prompt_tokens_max: int, max_tokens: int, day: date) -> Priced:
        """The most that a call can cost: all of its prompt at its dearest, and all the tokens that it may say."""
        return self._priced(model, day, self._most(model, prompt_tokens_max, max_tokens, day))

    def max_tokens_within(self, room: Room, model: str, prompt_tokens_max: int, day: date) -> int | None:
        """How much a call may say so that its hold fits a room; None: any number, 0: not even the prompt fits."""
        limits = []
        if room.tokens is not None:
            limits.append(room.tokens - prompt_tokens_max)
        if room.microdollars is not None:
            limits.append(self._affordable(room.microdollars, model, prompt_tokens_max, day))
        return max(min(limits), 0) if limits else None

    def _affordable(self, microdollars: int, model: str, prompt_tokens_max: int, day: date) -> int:
        left = microdollars - self._most(model, prompt_tokens_max, 0, day)
        if left < 0:
            return 0
        tiers = [tier for row in self._candidates(model, day) for tier in row.tiers(prompt_tokens_max)]
        output = max(_exact(tier.output) for tier in tiers)
        return int(left // output) if output else DOLLARS_MAX

    def _most(self, model: str, prompt_tokens_max: int, max_tokens: int, day: date) -> Decimal:
        """The dearest prompt and the dearest answer of all that may apply, also where that is not one row's."""
        tiers = [tier for row in self._candidates(model, day) for tier in row.tiers(prompt_tokens_max)]
        prompt, output = max(tier.prompt_max for tier in tiers), max(_exact(tier.output) for tier in tiers)
        return prompt_tokens_max * prompt + max_tokens * output

    def _candidates(self, model: str, day: date) -> list[Row]:
        """The model's row; of a model without one all that there are, to take the dearest."""
        row = self.row(model, day)
        return [row] if row else [each for rows in self._rows.values() for each in rows]

    def _priced(self, model: str, day: date, microdollars: Decimal) -> Priced:
        is_known = self.row(model, day) is not None
        return Priced(microdollars=rounded_up(microdollars), version=self.version, priced=is_known)


@cache
def shipped_prices() -> PriceTable:
    """The prices that come with the package."""
    file = _read(SHIPPED)
    return PriceTable(file.version, file.model)


def load_prices(path: str = "") -> PriceTable:
    """The prices of the package, and those of the file that `budget.prices` names. Raises SettingsError."""
    return shipped_prices().with_own(_read(Path(path))) if path else shipped_prices()


def _read(path: Path) -> PriceFile:
    file = read_toml(path)
    try:
        found = msgspec.convert(file.data, PriceFile)
    except msgspec.ValidationError as error:
        raise _problem(file, *_explain(error)) from error
    for name, day in _twice(found):
        raise _problem(file, "", f"has two rows of {name} from the same day ({day}) on")
    return found


def _explain(error: msgspec.ValidationError) -> tuple[str, str]:
    """The dotted key that is wrong, as the file's places have it, and what is wrong with it."""
    what, _, where = str(error).partition(" - at `$")
    key = re.sub(r"\[\.\.\.\]", "", where.rstrip("`")).lstrip(".")
    return key, what[:1].lower() + what[1:]


def _problem(file: TomlFile, key: str, what: str) -> SettingsError:
    fix = "each [[model]] has name, input, cache_write_5m, cache_write_1h, cache_read and output in dollars"
    return SettingsError([Problem(place=file.place(key), key=key, what=what, fix=fix)])


def _twice(file: PriceFile) -> Iterator[tuple[str, str]]:
    seen: set[tuple[str, date]] = set()
    for row in file.model:
        if (row.name, row.effective_from) in seen:
            yield row.name, row.effective_from.isoformat() if row.effective_from > date.min else "the beginning"
        seen.add((row.name, row.effective_from))


@cache
def _exact(number: float) -> Decimal:
    """As it is written: the shortest decimal that is this float."""
    return Decimal(repr(number))

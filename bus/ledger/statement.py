"""Statements: every call of the ledger with what became of it, and sums of calls by spec, story, role and the like.

Pure, and by the book's own rules: what a call counts for here is what it counts for against the ceilings.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

import msgspec

from bus.ledger.amounts import NOTHING, Amount, Usage
from bus.ledger.book import Book, Closed
from bus.ledger.entries import Entry, Reserved

By = Literal["spec", "story", "role", "model", "day", "session"]
BYS: tuple[By, ...] = get_args(By)
Became = Literal["open", "settled", "repeated"]

_NAMES: Mapping[By, Callable[[Reserved], str]] = {
    "spec": lambda call: call.spec,
    "story": lambda call: call.story,
    "role": lambda call: call.role,
    "model": lambda call: call.model,
    "day": lambda call: call.day.isoformat(),
    "session": lambda call: call.session,
}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: open and held, settled, or never settled because another process tried again."""

    reserved: Reserved
    closed: Closed | None = None

    @property
    def became(self) -> Became:
        """What became of it."""
        if self.closed is None:
            return "open"
        return "repeated" if self.closed.settled is None else "settled"

    @property
    def usage(self) -> Usage:
        """Its tokens; nothing is known of one that was not settled."""
        return Usage() if self.closed is None or self.closed.settled is None else self.closed.settled.usage

    @property
    def spent(self) -> Amount:
        """What it counts for, unless it is open."""
        return NOTHING if self.closed is None else self.closed.spent

    @property
    def held(self) -> Amount:
        """What it holds while it is open."""
        return self.reserved.hold if self.closed is None else NOTHING

    @property
    def priced(self) -> bool:
        """Whether a price of its model was known."""
        settled = self.closed.settled if self.closed else None
        return self.reserved.priced if settled is None else settled.priced

    @property
    def estimated(self) -> bool:
        """Whether nobody knows exactly what it was."""
        return self.became == "repeated" or bool(self.closed and self.closed.settled and self.closed.settled.estimated)

    def name(self, by: By) -> str:
        """Under which name it is summed."""
        return _NAMES[by](self.reserved)


class Sum(msgspec.Struct, frozen=True, kw_only=True):
    """Some calls together. Dollars are those that have a price; what has none is `unpriced`, and never free."""

    calls: int = 0
    usage: Usage = Usage()
    spent: Amount = NOTHING
    held: Amount = NOTHING
    unpriced: Amount = NOTHING
    estimated: int = 0
    repeats: int = 0

    def with_call(self, call: Call) -> "Sum":
        """And one more."""
        spent = call.spent
        free = Amount(tokens=spent.tokens, milliseconds=spent.milliseconds)
        return Sum(
            calls=self.calls + 1,
            usage=self.usage + call.usage,
            spent=self.spent + (spent if call.priced else free),
            held=self.held + call.held,
            unpriced=self.unpriced if call.priced else self.unpriced + spent,
            estimated=self.estimated + call.estimated,
            repeats=self.repeats + call.reserved.repeats,
        )


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """The book as it is, and all calls in the order in which they were reserved."""

    book: Book
    calls: tuple[Call, ...]


def read_statement(entries: Iterable[tuple[int, Entry | None]]) -> Statement:
    """All entries by their sequence; None stands where one cannot be read."""
    book, calls = Book(), dict[str, Call]()
    for sequence, entry in entries:
        if entry is None:
            book.skip(sequence)
            continue
        change = book.add(entry, sequence)
        if change.closed is not None:
            reserved = change.closed.reserved
            calls[reserved.call] = Call(reserved=reserved, closed=change.closed)
        if change.opened is not None:
            calls[change.opened.call] = Call(reserved=change.opened)
    return Statement(book=book, calls=tuple(calls.values()))


def summed(calls: Iterable[Call], by: By) -> dict[str, Sum]:
    """Sums by name, in the order of the names; what has no name comes last."""
    sums: dict[str, Sum] = {}
    for call in calls:
        name = call.name(by)
        sums[name] = sums.get(name, Sum()).with_call(call)
    return dict(sorted(sums.items(), key=lambda item: (not item[0], item[0])))


def total(calls: Iterable[Call]) -> Sum:
    """All of them."""
    found = Sum()
    for call in calls:
        found = found.with_call(call)
    return found

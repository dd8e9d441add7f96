"""The book: what every scope has spent and holds, as the ledger's entries say it one after the other. Pure.

Two rules bear its promise. What is held counts in full until it is settled, and a call settles once. A hold whose
effect is tried again by another process counts as spent, because the call may have been paid.
"""

import msgspec

from bus.ledger.amounts import NOTHING, Amount
from bus.ledger.ceilings import Ceilings, Crossed, Refusal, Room, crossed, raised
from bus.ledger.entries import Entry, Raised, Reserved, Scope, Settled

Place = tuple[Scope, str]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One scope: what is spent, what is held, what a person has added to its ceiling, and calls let over it."""

    spent: Amount = NOTHING
    held: Amount = NOTHING
    raised: Amount = NOTHING
    passes: int = 0

    @property
    def claimed(self) -> Amount:
        """What counts against the ceiling."""
        return self.spent + self.held


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is over: as it was settled, or without that because its effect is tried again."""

    reserved: Reserved
    settled: Settled | None

    @property
    def spent(self) -> Amount:
        """What it counts for."""
        return self.reserved.hold if self.settled is None else self.settled.spent


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A scope in which an entry has spent something."""

    scope: Scope
    name: str
    before: Amount
    after: Amount
    raised: Amount

    def crossed(self, ceilings: Ceilings) -> tuple[Crossed, ...]:
        """The thresholds that this has crossed."""
        return crossed(self.scope, self.name, self.before, self.after, raised(ceilings.of(self.scope), self.raised))


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry did; nothing, if it was a repetition or spoke of an unknown call."""

    opened: Reserved | None = None
    closed: Closed | None = None
    moved: tuple[Moved, ...] = ()

    def crossed(self, ceilings: Ceilings) -> tuple[Crossed, ...]:
        """The thresholds that this entry, and no other, has crossed."""
        return tuple(each for moved in self.moved for each in moved.crossed(ceilings))


UNCHANGED = Change()


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """All that a book is, to be stored or compared."""

    sequence: int
    accounts: tuple[tuple[Scope, str, Account], ...]
    holds: tuple[Reserved, ...]
    raises: tuple[str, ...]


class Book:
    """The fold over the entries up to `sequence`; the same entries in the same order always make the same book."""

    def __init__(self) -> None:
        self.sequence = 0
        self._accounts: dict[Place, Account] = {}
        self._holds: dict[str, Reserved] = {}
        self._calls: dict[str, str] = {}
        """The open call of each effect."""
        self._raises: set[str] = set()

    @classmethod
    def restored(cls, totals: Totals) -> "Book":
        """The book that these totals were taken of."""
        book = cls()
        book.sequence = totals.sequence
        book._accounts = {(scope, name): account for scope, name, account in totals.accounts}
        book._holds = {hold.call: hold for hold in totals.holds}
        book._calls = {hold.effect: hold.call for hold in totals.holds}
        book._raises = set(totals.raises)
        return book

    def totals(self) -> Totals:
        """Everything, in an order that depends on nothing but the entries."""
        return Totals(
            sequence=self.sequence,
            accounts=tuple((scope, name, account) for (scope, name), account in sorted(self._accounts.items())),
            holds=tuple(self._holds[call] for call in sorted(self._holds)),
            raises=tuple(sorted(self._raises)),
        )

    def copy(self) -> "Book":
        """A book that stays as this one is now."""
        return Book.restored(self.totals())

    # Reading.

    def account(self, scope: Scope, name: str) -> Account:
        """How a scope stands; one that nobody has heard of has spent nothing."""
        return self._accounts.get((scope, name), Account())

    def names(self, scope: Scope) -> tuple[str, ...]:
        """Every story, spec or day that has an account."""
        return tuple(sorted(name for found, name in self._accounts if found == scope))

    def holds(self) -> tuple[Reserved, ...]:
        """The calls that are not settled, oldest first."""
        return tuple(self._holds.values())

    def hold(self, call: str) -> Reserved | None:
        """An unsettled call."""
        return self._holds.get(call)

    def hold_of(self, effect: str) -> Reserved | None:
        """The unsettled call of an effect."""
        return self._holds.get(self._calls.get(effect, ""))

    def ceiling(self, scope: Scope, name: str, ceilings: Ceilings) -> Amount:
        """The ceiling of one story, spec or day, with what a person added."""
        return raised(ceilings.of(scope), self.account(scope, name).raised)

    def refusal(self, wanted: Reserved, ceilings: Ceilings) -> Refusal | None:
        """The first ceiling that a call would go over; None if it may be made, perhaps by a person's "once"."""
        excesses = (self._excess(place, wanted.hold, ceilings) for place in wanted.scopes)
        return next((one for one in excesses if one and not self.account(one.scope, one.name).passes), None)

    def passes(self, wanted: Reserved, ceilings: Ceilings) -> tuple[Scope, ...]:
        """The scopes over whose ceiling a call may go because a person said so."""
        return tuple(place[0] for place in wanted.scopes if self._excess(place, wanted.hold, ceilings))

    def room(self, places: tuple[Place, ...], ceilings: Ceilings, *, heeds_holds: bool = True) -> Room:
        """The most that one more call may cost in these scopes (`Reserved.scopes`), or could if nothing were held."""
        room = Room()
        for scope, name in places:
            account, ceiling = self.account(scope, name), self.ceiling(scope, name, ceilings)
            if not account.passes:
                claimed = account.claimed if heeds_holds else account.spent
                left = Amount(
                    microdollars=ceiling.microdollars - claimed.microdollars,
                    tokens=ceiling.tokens - claimed.tokens,
                    milliseconds=ceiling.milliseconds - claimed.milliseconds,
                )
                room = room.within(left, ceiling)
        return room

    def _excess(self, place: Place, hold: Amount, ceilings: Ceilings) -> Refusal | None:
        scope, name = place
        account, ceiling = self.account(scope, name), self.ceiling(scope, name, ceilings)
        numbers = zip(
            ceiling.measured(), account.spent.measured(), account.held.measured(), hold.measured(), strict=True
        )
        for (kind, most), (_, spent), (_, held), (_, wanted) in numbers:
            if most and wanted and spent + held + wanted > most:
                return Refusal(scope=scope, name=name, kind=kind, ceiling=most, spent=spent, held=held, wanted=wanted)
        return None

    # Folding.

    def add(self, entry: Entry, sequence: int) -> Change:
        """Take in the entry that stands at `sequence`."""
        assert sequence > self.sequence, f"{sequence} does not come after {self.sequence}"
        self.sequence = sequence
        match entry:
            case Reserved():
                return self._open(entry)
            case Settled():
                return self._settle(entry)
            case Raised():
                return self._raise(entry)

    def skip(self, sequence: int) -> None:
        """Pass over something at `sequence` that is no entry."""
        self.sequence = sequence

    def _open(self, entry: Reserved) -> Change:
        if entry.call in self._holds:
            return UNCHANGED
        before = self.hold_of(entry.effect)
        closed = None if before is None else self._close(before, None)
        for place in entry.scopes:
            account = self.account(*place)
            self._accounts[place] = msgspec.structs.replace(
                account, held=account.held + entry.hold, passes=max(account.passes - (place[0] in entry.passes), 0)
            )
        self._holds[entry.call] = entry
        self._calls[entry.effect] = entry.call
        return Change(opened=entry, closed=closed[0], moved=closed[1]) if closed else Change(opened=entry)

    def _settle(self, entry: Settled) -> Change:
        reserved = self._holds.get(entry.call)
        if reserved is None:
            return UNCHANGED
        closed, moved = self._close(reserved, entry)
        return Change(closed=closed, moved=moved)

    def _close(self, reserved: Reserved, settled: Settled | None) -> tuple[Closed, tuple[Moved, ...]]:
        closed, moved = Closed(reserved=reserved, settled=settled), []
        for place in reserved.scopes:
            account = self._accounts[place]
            after = msgspec.structs.replace(
                account, held=account.held - reserved.hold, spent=account.spent + closed.spent
            )
            self._accounts[place] = after
            moved.append(
                Moved(scope=place[0], name=place[1], before=account.spent, after=after.spent, raised=account.raised)
            )
        del self._holds[reserved.call]
        del self._calls[reserved.effect]
        return closed, tuple(moved)

    def _raise(self, entry: Raised) -> Change:
        if entry.id not in self._raises:
            self._raises.add(entry.id)
            place = (entry.scope, entry.name)
            account = self.account(*place)
            self._accounts[place] = msgspec.structs.replace(
                account, raised=account.raised + entry.amount, passes=account.passes + entry.once
            )
        return UNCHANGED

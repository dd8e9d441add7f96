"""The ledger: one subject for all that calls cost, behind one fence, so that N processes cannot overshoot together.

Who wants to make a call knows the book up to some entry, checks the ceilings against it, and stores the hold behind
that very entry. If anybody has stored anything since, the broker refuses, and what came is read before the next try.
What a call really was is stored without a fence: it makes room and never takes any that was not held.
"""

import asyncio
import random
from collections.abc import AsyncIterator

import msgspec
import structlog

from bus.board import Board
from bus.broker import MESSAGE_ID, Broker, Message
from bus.errors import BusError, FencedError, HistoryLostError, HoldOpenError, NotAcknowledgedError
from bus.fence import Fence
from bus.following import follow
from bus.ledger.book import UNCHANGED, Book, Change
from bus.ledger.ceilings import Ceilings, Crossed, Refusal
from bus.ledger.checkpoint import ENTRIES_BETWEEN, Checkpoints
from bus.ledger.entries import Entry, Raised, Reserved, Settled
from bus.retrying import surely
from protocol.codec import encode
from protocol.subjects import Subjects

ATTEMPTS_MAX = 1000
"""How often others may be faster: at each try one of all succeeds."""
PAUSE_SECONDS = 0.002
PAUSE_SECONDS_MAX = 0.1
DOUBTS_MAX = 100
DOUBT_SECONDS = 0.05
"""How often and how long a read that does not show yet what the broker has acknowledged is repeated."""
NEVER_MADE = "never made"
"""The outcome of a call whose caller was told to stop before the hold was confirmed."""

log = structlog.get_logger()

_entry: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A hold that is stored: the call may be made. `crossed` is what an earlier process's call was found to cross."""

    entry: Reserved
    crossed: tuple[Crossed, ...] = ()


class StoredEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry with its place; None for what cannot be read there."""

    sequence: int
    entry: Entry | None


class Ledger:
    """The ledger of a project, as one process sees it."""

    def __init__(self, broker: Broker, subjects: Subjects, board: Board) -> None:
        self._broker = broker
        self._subjects = subjects
        self._stream = subjects.stream("LEDGER")
        self._subject = subjects.ledger
        self._fence = Fence(broker, self._stream)
        self._checkpoints = Checkpoints(broker, board, self._stream, self._subject)
        self._book: Book | None = None
        self._saved = 0
        self._last: Message | None = None
        self._lock = asyncio.Lock()
        self._changes: dict[str, Change] = {}
        """What the entries did for which somebody here waits, by call."""
        self._owed: dict[str, Settled] = {}
        """Settlements that were given up before they were confirmed, by call: the next reservation sees to them."""

    async def reserve(self, wanted: Reserved, ceilings: Ceilings) -> Reservation | Refusal:
        """Hold the most that a call can cost; only then may it be made, and whatever comes of it, it must be settled.

        Waits out any outage. The same call again is the same hold. HoldOpenError: this process has another open call
        of the same effect. Whoever is cancelled here has made no call, and need not settle it.
        """
        async with self._lock:
            try:
                return await self._reserve(wanted, ceilings)
            except asyncio.CancelledError:
                # Stored or not, it was never made.
                self._owed[wanted.call] = Settled(call=wanted.call, at=wanted.at, outcome=NEVER_MADE)
                raise
            finally:
                self._changes.pop(wanted.call, None)

    async def _reserve(self, wanted: Reserved, ceilings: Ceilings) -> Reservation | Refusal:
        await self._settle_what_is_owed(wanted)
        is_current, pause = self._book is None, PAUSE_SECONDS
        if is_current:
            await self._catch_up()
        self._changes[wanted.call] = UNCHANGED
        for _ in range(ATTEMPTS_MAX):
            stored = self._stored(wanted, ceilings)
            if stored is not None:
                return stored
            refusal = self._refusal(wanted, ceilings)
            if refusal is None:
                stored = await self._append(wanted, ceilings)
                if stored is not None:
                    return stored
                await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 -- spreads retries, protects nothing
                pause = min(pause * 2, PAUSE_SECONDS_MAX)
            elif is_current:
                if isinstance(refusal, Reserved):
                    raise HoldOpenError(wanted.call, refusal.call)
                return refusal
            # Somebody may have settled since we last looked: a refusal is only as good as what is known.
            await self._catch_up()
            is_current = True
        raise NotAcknowledgedError(self._subject, f"others wrote {ATTEMPTS_MAX} times meanwhile")

    def _stored(self, wanted: Reserved, ceilings: Ceilings) -> Reservation | None:
        """The hold, if it is stored already.

        One that another process has taken for lost meanwhile is stored all the same, and counts in full.
        """
        change = self._changes[wanted.call]
        ours = change.opened or self._known().hold(wanted.call)
        return None if ours is None else Reservation(entry=ours, crossed=change.crossed(ceilings))

    def _refusal(self, wanted: Reserved, ceilings: Ceilings) -> Refusal | Reserved | None:
        """Why it may not be stored: a ceiling, or a hold of this very process that is open."""
        found = self._known().hold_of(wanted.effect)
        if found is not None and found.incarnation == wanted.incarnation:
            return found
        return self._known().refusal(wanted, ceilings)

    async def _append(self, wanted: Reserved, ceilings: Ceilings) -> Reservation | None:
        """Store the hold behind all that is known; None if somebody was faster."""
        book = self._known()
        repeats = wanted.repeats or book.hold_of(wanted.effect) is not None
        entry = msgspec.structs.replace(wanted, repeats=repeats, passes=book.passes(wanted, ceilings))
        data, expected = _encoded(entry), book.sequence
        # Each try has an id of its own: brokers differ in what they say of a used one.
        message_id = f"{wanted.call}/{expected}"
        try:
            sequence = await self._fence.append(self._subject, data, message_id, expected)
        except FencedError:
            return None
        change = book.add(entry, sequence)
        return Reservation(entry=entry, crossed=change.crossed(ceilings))

    async def _settle_what_is_owed(self, wanted: Reserved) -> None:
        self._owed.pop(wanted.call, None)
        for call, settled in list(self._owed.items()):
            await self._catch_up_to(await self._publish(settled, f"{call}/settled"))
            self._owed.pop(call, None)

    async def settle(self, settled: Settled, ceilings: Ceilings) -> tuple[Crossed, ...]:
        """Say what a call was, in place of its hold; returns the thresholds that this entry has crossed.

        Of all processes exactly the one that settles is told of them, once. Waits out any outage. A call settles once:
        again, unknown, or already counted as repeated, it changes nothing. What is cancelled here is said again before
        the next reservation.
        """
        if self._book is None:
            await self.read()  # else a checkpoint that has this entry already could hide what it has crossed
        self._changes.setdefault(settled.call, UNCHANGED)
        try:
            sequence = await self._settle(settled)
            async with self._lock:
                await self._catch_up_to(sequence)
                await self._save_now_and_then()
                return self._changes.pop(settled.call, UNCHANGED).crossed(ceilings)
        finally:
            self._changes.pop(settled.call, None)

    async def _settle(self, settled: Settled) -> int:
        try:
            sequence = await self._publish(settled, f"{settled.call}/settled")
        except (asyncio.CancelledError, BusError):
            self._owed[settled.call] = settled
            raise
        self._owed.pop(settled.call, None)
        return sequence

    async def raise_ceiling(self, raised: Raised) -> Book:
        """Record a person's word; the same `id` again changes nothing. Returns the book with it."""
        sequence = await self._publish(raised, f"raised/{raised.id}")
        async with self._lock:
            await self._catch_up_to(sequence)
            return self._known().copy()

    async def read(self) -> Book:
        """The book as it is now."""
        async with self._lock:
            await self._catch_up()
            return self._known().copy()

    async def read_entries(self, first: int = 1) -> AsyncIterator[StoredEntry]:
        """All entries from sequence `first` on, up to the newest at the time of the call."""
        async for message in self._broker.read(self._stream, self._subject, first):
            yield StoredEntry(sequence=message.sequence, entry=read_entry(message))

    async def follow_entries(self, first: int = 1) -> AsyncIterator[StoredEntry]:
        """As `read_entries`, and then whatever comes, for ever."""
        live = self._subjects.live("ledger")
        async for message in follow(self._broker, self._stream, self._subject, live, first):
            yield StoredEntry(sequence=message.sequence, entry=read_entry(message))

    # What is known of it here.

    def _known(self) -> Book:
        assert self._book is not None
        return self._book

    async def _publish(self, entry: Entry, message_id: str) -> int:
        data, headers = _encoded(entry), {MESSAGE_ID: message_id}
        return (await surely(lambda: self._broker.publish(self._subject, data, headers))).sequence

    async def _catch_up(self) -> None:
        if self._book is None:
            self._book = await self._checkpoints.load()
            self._saved = self._book.sequence
        async for message in self._broker.read(self._stream, self._subject, self._book.sequence + 1):
            self._fold(message)

    async def _catch_up_to(self, sequence: int) -> None:
        """Read what the broker has acknowledged; right after an outage it may show an older truth for a while."""
        for _ in range(DOUBTS_MAX):
            if self._book is not None and self._book.sequence >= sequence:
                return
            await self._catch_up()
            if self._known().sequence < sequence:
                await asyncio.sleep(DOUBT_SECONDS)
        raise HistoryLostError(self._subject, sequence, self._known().sequence)

    def _fold(self, message: Message) -> None:
        self._last = message
        entry = read_entry(message)
        if entry is None:
            self._known().skip(message.sequence)
            return
        change = self._known().add(entry, message.sequence)
        if change is not UNCHANGED and isinstance(entry, Reserved | Settled) and entry.call in self._changes:
            self._changes[entry.call] = change

    async def _save_now_and_then(self) -> None:
        """Put up a checkpoint where enough has come since the last; only who settles does: the others may not write."""
        book = self._known()
        if book.sequence - self._saved >= ENTRIES_BETWEEN and self._last and self._last.sequence == book.sequence:
            self._saved = book.sequence
            await self._checkpoints.save(book, self._last)


def _encoded(entry: Entry) -> bytes:
    """The bytes of an entry; msgspec.ValidationError if nobody could read them, which would be ours to mend."""
    data = encode(entry)
    _entry.decode(data)
    return data


def read_entry(message: Message) -> Entry | None:
    """What a message says; None, with a warning, if that is no entry: it counts for nothing and stops nobody."""
    try:
        return _entry.decode(message.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("ledger.entry_unreadable", sequence=message.sequence, reason=str(error))
        return None

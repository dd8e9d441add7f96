"""The clerk: follows the journals, and sees to every session that came to ERROR.

What is to be done stands on the board before the bookmark passes its record, and until it is done. So the next clerk
goes on with it, wherever this one was killed. What is done a second time all the same, after a kill or by a clerk that
slept, is refused by whoever has seen it: it has the same id.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import TypeVar

import msgspec
import structlog

from actors.runtime.together import until_first
from actors.runtime.world import World
from bus.board import Posted
from bus.errors import BusClosedError, BusError
from bus.journal import Entry
from bus.settings.model import Supervision
from protocol.codec import encode
from protocol.errors import MalformedMessageError, ProtocolError
from protocol.messages import AnyPayload, Instant, Story
from protocol.record import Record
from supervisors.core.recycling import (
    PAUSE_SECONDS_MAX,
    RECOVERIES_SECONDS,
    Errand,
    Fall,
    fall_of,
    recover_letter,
    recovery_errand,
    requeue_letter,
    rests,
    story_errand,
    story_of,
)

BOOKMARK = "supervisor.clerk"
ERRANDS = "supervisor.recycling"
"""Keys on the board; below the second each errand has its own."""

ENTRIES_MAX = 100
BOOKMARK_SECONDS = 10.0
"""So much is read again at most by the next clerk."""

LOOK_SECONDS = 5.0
"""How often it is looked whether a person has answered, or all is healthy."""

HELD_UP_SECONDS = 10.0
"""After the broker has refused something, a stream that is gone for example, it is tried again."""

T = TypeVar("T")

log = structlog.get_logger()


class Bookmark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the journals are read, and when which sessions that recover have failed of late."""

    sequence: int = 0
    failures: dict[str, tuple[Instant, ...]] = {}


_bookmark = msgspec.json.Decoder(Bookmark)
_errand = msgspec.json.Decoder(Errand)


class Clerk:
    """Sees to what came to ERROR, for ever. `tell` hears what was decided, once it is on its way."""

    def __init__(self, world: World, policy: Supervision, tell: Callable[[AnyPayload], None]) -> None:
        self._world = world
        self._bus = world.bus
        self._policy = policy
        self._tell = tell
        self._bookmark = Bookmark()
        self._bookmark_at = 0.0
        self._bookmark_sequence = 0
        self._errands: dict[str, Errand] = {}
        self._asked: set[str] = set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Never returns. BusClosedError: the connection is gone for good."""
        while True:
            try:
                await self._take_up()
                await until_first(self._read_on(), self._see_to_errands())
            except BusClosedError:
                raise
            except BusError as error:
                log.warning("clerk.held_up", reason=str(error))
                await self._world.sleep(HELD_UP_SECONDS)

    async def _take_up(self) -> None:
        """Go on where the last clerk was; if nobody knows where that was, from the beginning, which repeats nothing."""
        posted = await self._bus.board.get(BOOKMARK)
        self._bookmark = _read(_bookmark, posted) or Bookmark()
        self._note_bookmark()
        errands = [_read(_errand, posted) async for posted in self._bus.board.all(ERRANDS)]
        self._errands = {errand.name: errand for errand in errands if errand is not None}

    # Reading.

    async def _read_on(self) -> None:
        async for entry in self._bus.journal.follow(first=self._bookmark.sequence + 1):
            errand = await self._errand_of(entry)
            self._bookmark = msgspec.structs.replace(self._bookmark, sequence=entry.sequence)
            if errand is not None:
                await self._world.boundary("errand.before")
                await self._bus.board.put(_key(errand), encode(errand))
                await self._world.boundary("errand.after")
            if errand is not None or self._is_far_from_bookmark:
                await self._put_bookmark()
            if errand is not None:
                self._errands[errand.name] = errand
                self._changed.set()

    @property
    def _is_far_from_bookmark(self) -> bool:
        entries = self._bookmark.sequence - self._bookmark_sequence
        return entries >= ENTRIES_MAX or self._world.elapsed() - self._bookmark_at >= BOOKMARK_SECONDS

    async def _put_bookmark(self) -> None:
        await self._bus.board.put(BOOKMARK, encode(self._bookmark))
        self._note_bookmark()

    def _note_bookmark(self) -> None:
        self._bookmark_at, self._bookmark_sequence = self._world.elapsed(), self._bookmark.sequence

    async def _errand_of(self, entry: Entry) -> Errand | None:
        """What is to be done about an entry, if anything is; one that cannot be read must not hold up the others."""
        try:
            fall = fall_of(self._record(entry))
            if fall is None:
                return None
            if fall.ends_session:
                return story_errand(fall, await self._story(fall), self._policy)
            return recovery_errand(fall, self._failures_before(fall), self._policy)
        except (ProtocolError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            log.warning("record.passed_over", subject=entry.subject, sequence=entry.sequence, reason=str(error))
            return None

    def _record(self, entry: Entry) -> Record:
        record = entry.record()
        if entry.subject != self._bus.subjects.journal(record.machine, record.session):
            raise MalformedMessageError("it stands in the journal of another session", entry.data)
        return record

    async def _story(self, fall: Fall) -> Story | None:
        """What the session was about: that came to it by one of its first records."""
        async with aclosing(_records(self._bus.journal.read(fall.machine, fall.session))) as records:
            async for record in records:
                story = story_of(record)
                if story is not None:
                    return story
        log.info("session.without_story", machine=fall.machine, session=fall.session, cause=fall.cause.kind)
        return None

    def _failures_before(self, fall: Fall) -> int:
        """How often a session has failed of late; takes down this time as well, if it counts."""
        of_late = fall.at - timedelta(seconds=RECOVERIES_SECONDS)
        failures = {
            name: recent
            for name, times in self._bookmark.failures.items()
            if (recent := tuple(at for at in times if at > of_late))
        }
        name = f"{fall.machine}.{fall.session}"
        before = failures.get(name, ())
        if fall.cause.costs_attempt:
            failures[name] = (*before, fall.at)
        self._bookmark = msgspec.structs.replace(self._bookmark, failures=failures)
        return len(before)

    # Doing.

    async def _see_to_errands(self) -> None:
        while True:
            self._changed.clear()
            for errand in tuple(self._errands.values()):
                if not 0 < (errand.due - self._world.now()).total_seconds() <= PAUSE_SECONDS_MAX:  # or a clock was set
                    await self._see_to(errand)
            await until_first(self._changed.wait(), self._world.sleep(self._seconds_to_next))

    @property
    def _seconds_to_next(self) -> float:
        now = self._world.now()
        waits = ((errand.due - now).total_seconds() for errand in self._errands.values() if errand.due > now)
        return min((LOOK_SECONDS, *waits))

    async def _see_to(self, errand: Errand) -> None:
        """Do what is to be done if it can be done by now."""
        if errand.requeue is None and not await self._rests(errand):
            await self._forget(errand)
            return
        answer = "" if errand.ask is None else await self._answer(errand)
        if answer is None or (errand.requeue is None and not await self._bus.health.is_healthy()):
            return
        await self._world.boundary("decision.before")
        if errand.requeue is not None:
            letter = requeue_letter(errand, answer)
            await self._bus.mail.send(letter)
        else:
            letter = recover_letter(errand)
            await self._bus.control.broadcast(letter)
        await self._world.boundary("decision.after")
        await self._forget(errand)
        self._tell(letter.payload)
        log.info("session.recycled", machine=errand.machine, session=errand.session, id=letter.id)

    async def _rests(self, errand: Errand) -> bool:
        last = await self._bus.journal.last(errand.machine, errand.session)
        try:
            return last is not None and rests(last.record(), errand)
        except ProtocolError:
            return True  # as far as anybody can see; whoever can read it knows better

    async def _answer(self, errand: Errand) -> str | None:
        assert errand.ask is not None
        if errand.name not in self._asked:
            await self._bus.asks.put(errand.ask)
            self._asked.add(errand.name)
        return await self._bus.asks.answer_to(errand.ask.id)

    async def _forget(self, errand: Errand) -> None:
        if errand.ask is not None:
            await self._bus.asks.withdraw(errand.ask.id)  # it goes on without the person; an answer stays
        await self._bus.board.take_down(_key(errand))
        del self._errands[errand.name]


async def _records(entries: AsyncIterator[Entry]) -> AsyncGenerator[Record, None]:
    """What can be read of a journal."""
    async for entry in entries:
        try:
            yield entry.record()
        except ProtocolError:
            continue


def _key(errand: Errand) -> str:
    return f"{ERRANDS}.{errand.name}"


def _read(decoder: msgspec.json.Decoder[T], posted: Posted | None) -> T | None:
    """None for what is not there or was written by nobody of us."""
    try:
        return None if posted is None or posted.value is None else decoder.decode(posted.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

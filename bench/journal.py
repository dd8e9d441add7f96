"""Journal append against an acknowledged publish of the same bytes."""

from collections import deque
from datetime import UTC, datetime
from uuid import uuid4

import msgspec
from nats.js.api import RetentionPolicy

from bench.rounds import Pair
from bench.world import World, all_of
from protocol.codec import encode
from protocol.record import Record

MACHINE = "coder"
SESSION_BYTES = 1500
"""The opaque part of a record; with the rest it makes about 2 KB."""

_AFTER = msgspec.Raw(msgspec.json.encode({"plan": "x" * SESSION_BYTES}))
_EVENT = msgspec.Raw(b'{"event":"received","message":"m-1"}')


def a_record(session: str, n: int, incarnation: str) -> Record:
    """A record of a usual size."""
    return Record(
        n=n,
        machine=MACHINE,
        session=session,
        incarnation=incarnation,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        event=_EVENT,
        state_from="CODING",
        state_to="CODING",
        after=_AFTER,
    )


async def fill_journals(world: World) -> None:
    """One record for every session, on both sides."""
    await world.ensure_raw_stream("journal", RetentionPolicy.LIMITS)
    records = [a_record(name, 1, "filled") for name in world.names()]
    await all_of(world.asker.journal.append(record, 0) for record in records)
    raw = world.raw_asker
    await all_of(raw.publish(f"{world.raw_name}.journal.{record.session}", encode(record)) for record in records)


async def journal_pair(world: World) -> Pair:
    """The two ways of storing a record."""
    return Pair(raw=RawAppend(world), ours=Append(world))


class Append:
    """Our append, with its fence; each time to another session."""

    def __init__(self, world: World) -> None:
        self._journal = world.asker.journal
        self._sessions = world.names_in_turn()
        self._incarnation = uuid4().hex
        self._numbers: dict[str, int] = {}
        self._sequences: dict[str, int] = {}
        self._ready: deque[Record] = deque()

    async def ready(self, operations: int) -> None:
        """Build records, and look up what a running session knows: its last record's number and sequence."""
        for session in [next(self._sessions) for _ in range(operations)]:
            if session not in self._sequences:
                await self._resume(session)
            self._numbers[session] += 1
            self._ready.append(a_record(session, self._numbers[session], self._incarnation))

    async def _resume(self, session: str) -> None:
        entry = await self._journal.last(MACHINE, session)
        assert entry is not None
        self._numbers[session], self._sequences[session] = entry.record().n, entry.sequence

    async def act(self) -> None:
        """Encode, append, learn the new sequence."""
        record = self._ready.popleft()
        self._sequences[record.session] = await self._journal.append(record, self._sequences[record.session])


class RawAppend:
    """A publish with nats-py, without id or fence; the bytes are encoded beforehand."""

    def __init__(self, world: World) -> None:
        self._stream = world.raw_asker
        self._prefix = f"{world.raw_name}.journal"
        self._sessions = world.names_in_turn()
        self._incarnation = uuid4().hex
        self._ready: deque[tuple[str, bytes]] = deque()

    async def ready(self, operations: int) -> None:
        """The same records, as bytes."""
        for session in [next(self._sessions) for _ in range(operations)]:
            self._ready.append((f"{self._prefix}.{session}", encode(a_record(session, 2, self._incarnation))))

    async def act(self) -> None:
        """Publish and wait for the acknowledgement."""
        await self._stream.publish(*self._ready.popleft())

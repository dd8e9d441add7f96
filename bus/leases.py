"""Leases: who may try. They expire by themselves, and each new holder has a higher epoch.

An epoch is the sequence of the write that took the lease: the broker's own counter, which grows across expiry,
restarts and elections, so nothing else has to be kept. A lease only decides who tries; what must not happen twice is
protected by the journal's fence.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from bus.broker import EXPECTED_LAST_SUBJECT_SEQUENCE, OPERATION, TTL, Broker, Message
from bus.errors import LeaseLostError, WrongLastSequenceError
from bus.fence import Fence
from bus.retrying import surely
from bus.topology import LEASES
from protocol.codec import encode
from protocol.subjects import Subjects

LEASE_SECONDS = 20
"""Longer than a broker election (4 to 9 seconds), so that an election is not taken for a death."""

LEFT_OVER_LEASES = 3
"""A lease that was not renewed for so many times its length has ended, whatever the broker says."""

UNKNOWN_OWNER = "?"
"""Who holds a lease under whose key lies what no lease has written: it ends when somebody removes it or its time."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """What is written under a lease's key. An epoch of 0 stands for this very write's sequence."""

    owner: str
    epoch: int = 0
    details: dict[str, Any] = {}


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A lease that `owner` holds; `revision` is its last write."""

    key: str
    owner: str
    epoch: int
    revision: int


_holder = msgspec.json.Decoder(Holder)


class Leases:
    """All leases of a project. An owner is one incarnation of a process: its name must be unique."""

    def __init__(self, broker: Broker, subjects: Subjects, seconds: int = LEASE_SECONDS) -> None:
        self._broker = broker
        self._subjects = subjects
        self._stream = subjects.key_stream(LEASES)
        self._fence = Fence(broker, self._stream)
        self.seconds = seconds

    async def acquire(
        self, key: str, owner: str, details: Mapping[str, Any] | None = None, *, instead_of: str = ""
    ) -> Lease | None:
        """Take a lease that is free or held by `instead_of`, or renew ours; None if somebody else holds it."""
        value = encode(Holder(owner=owner, details=dict(details or {})))
        while True:
            last = await self._last(key)
            holder = None if await self._is_left_over(last) else _read(last)
            if last is not None and holder is not None and (not instead_of or holder.owner != instead_of):
                if holder.owner != owner:
                    return None
                with suppress(LeaseLostError):  # it has run out meanwhile: look again
                    return await self.renew(_lease(key, last.sequence, holder), details)
                continue
            try:
                revision = await self._write(key, value, last.sequence if last else 0)
            except WrongLastSequenceError:
                continue  # somebody was faster, or it was our own write whose answer was lost: look again
            return Lease(key=key, owner=owner, epoch=revision, revision=revision)

    async def renew(self, lease: Lease, details: Mapping[str, Any] | None = None) -> Lease:
        """Keep a lease for another while; LeaseLostError if it has expired or somebody else holds it.

        What it returns was written by this very call: the broker's own word that nobody has had it in between.
        """
        value = encode(Holder(owner=lease.owner, epoch=lease.epoch, details=dict(details or {})))
        subject = self._subjects.key(LEASES, lease.key)
        while True:
            try:
                revision = await self._write(lease.key, value, lease.revision)
            except WrongLastSequenceError as refusal:
                # Lost, or written by ourselves: an earlier try whose answer was lost, or another hand of this process.
                current = _current(lease.key, await self._fence.last_after(subject, refusal))
                if current is None or (current.owner, current.epoch) != (lease.owner, lease.epoch):
                    raise LeaseLostError(lease.key, lease.owner) from refusal
                lease = current
            else:
                return msgspec.structs.replace(lease, revision=revision)

    async def release(self, lease: Lease) -> None:
        """Give a lease up; nothing happens if it is lost already."""
        subject = self._subjects.key(LEASES, lease.key)
        headers = {EXPECTED_LAST_SUBJECT_SEQUENCE: str(lease.revision), OPERATION: "DEL", TTL: f"{self.seconds}s"}
        try:
            await surely(lambda: self._broker.publish(subject, b"", headers))
        except WrongLastSequenceError:
            return

    async def holder(self, key: str) -> Lease | None:
        """Who holds a lease now."""
        last = await self._last(key)
        return None if await self._is_left_over(last) else _current(key, last)

    async def all(self, prefix: str = "") -> AsyncIterator[tuple[Lease, Holder]]:
        """All leases that are held, with what their holders say of themselves."""
        newest = await self._newest()
        async for message in self._broker.read(self._stream, self._subjects.every_key(LEASES, prefix)):
            holder = None if self._is_older(message, newest) else _read(message)
            if holder is not None and holder.owner != UNKNOWN_OWNER:
                yield _lease(self._subjects.key_of(LEASES, message.subject), message.sequence, holder), holder

    async def _is_left_over(self, last: Message | None) -> bool:
        """Whether a lease has long run out, although it is there.

        A broker that was killed can bring back what it had removed, and no longer knows when that ends. Whoever lives
        renews, so the newest write of all says how late it is, by the broker's own clock.
        """
        return last is not None and self._is_older(last, await self._newest())

    def _is_older(self, message: Message, newest: Message | None) -> bool:
        limit = timedelta(seconds=LEFT_OVER_LEASES * self.seconds)
        return newest is not None and newest.stored_at - message.stored_at > limit

    async def _newest(self) -> Message | None:
        return await surely(lambda: self._broker.last(self._stream, self._subjects.every_key(LEASES)))

    async def _last(self, key: str) -> Message | None:
        subject = self._subjects.key(LEASES, key)
        return await surely(lambda: self._broker.last(self._stream, subject))

    async def _write(self, key: str, value: bytes, expected: int) -> int:
        # No message id: the expected sequence alone makes it happen once, and an id that comes again after an expiry
        # would be answered as a duplicate although nothing is stored.
        subject = self._subjects.key(LEASES, key)
        headers = {EXPECTED_LAST_SUBJECT_SEQUENCE: str(expected), TTL: f"{self.seconds}s"}
        return (await surely(lambda: self._broker.publish(subject, value, headers))).sequence


def _read(message: Message | None) -> Holder | None:
    """The holder that a write names; None for a released or expired lease."""
    if message is None or not message.data:
        return None
    try:
        return _holder.decode(message.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Holder(owner=UNKNOWN_OWNER)


def _current(key: str, last: Message | None) -> Lease | None:
    holder = _read(last)
    return None if last is None or holder is None else _lease(key, last.sequence, holder)


def _lease(key: str, revision: int, holder: Holder) -> Lease:
    return Lease(key=key, owner=holder.owner, epoch=holder.epoch or revision, revision=revision)

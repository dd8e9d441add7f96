"""The port below everything on the bus: streams with sequences, consumers, and core hints.

Two implementations pass one contract suite: `bus.jetstream` (a real NATS server) and `bus.memory`. Journal, leases,
mail and the rest are written once, on this port, so that what is proved of them in memory, under a virtual clock and
with faults from a seed, is proved of the code that runs in production.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import lru_cache
from typing import Literal, Protocol

import msgspec

Retention = Literal["limits", "workqueue"]

MESSAGE_ID = "Nats-Msg-Id"
EXPECTED_LAST_SUBJECT_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
TTL = "Nats-TTL"
SEQUENCE = "Nats-Sequence"
ROLLUP = "Nats-Rollup"
OPERATION = "KV-Operation"

DUPLICATE_WINDOW_SECONDS = 120.0
MATCHES_KEPT = 1 << 16


class StreamPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream should be."""

    name: str
    subjects: tuple[str, ...]
    retention: Retention = "limits"
    per_subject_max: int = -1
    age_max_seconds: float = 0.0
    bytes_max: int = -1
    message_ttl: bool = False
    rollup: bool = False
    deny_delete: bool = False
    repeat_from: str = ""
    repeat_to: str = ""
    repeat_headers_only: bool = False
    replicas: int = 1
    duplicate_window_seconds: float = DUPLICATE_WINDOW_SECONDS


class ConsumerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a durable pull consumer should be."""

    stream: str
    name: str
    filter: str
    ack_wait_seconds: float
    ack_pending_max: int = 1
    deliveries_max: int = -1


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a stream stores it."""

    subject: str
    sequence: int
    data: bytes
    headers: Mapping[str, str]
    stored_at: datetime


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a consumer delivers it; `ack_subject` settles it, from any process."""

    subject: str
    sequence: int
    data: bytes
    headers: Mapping[str, str]
    ack_subject: str
    delivered: int


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's word that a message is stored; `duplicate` if that id had been stored before."""

    sequence: int
    duplicate: bool = False


@lru_cache(MATCHES_KEPT)
def matches(pattern: str, subject: str) -> bool:
    """Whether a subject falls under a pattern with the broker's wildcards."""
    wanted, found = pattern.split("."), subject.split(".")
    for part, actual in zip(wanted, found, strict=False):
        if part == ">":
            return True
        if part not in ("*", actual):
            return False
    return len(wanted) == len(found)


def header_bytes(headers: Mapping[str, str] | None) -> int:
    """What headers add to a message: a version line, each `name: value`, a blank line."""
    return 14 + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items()) if headers else 0


class Broker(Protocol):
    """One connection to a broker. All calls wait while the connection is down, and raise BusError."""

    @property
    def is_connected(self) -> bool:
        """Whether the broker can be reached now, as far as anybody knows."""

    @property
    def message_bytes_max(self) -> int:
        """The largest message (data and headers) that the broker takes."""

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] | None = None) -> Acknowledged:
        """Store one message, once tried: raises NotAcknowledgedError when nobody knows whether it is stored."""

    async def last(self, stream: str, subject: str) -> Message | None:
        """The newest message of a subject (wildcards allowed), as the stream's leader knows it."""

    async def get(self, stream: str, sequence: int) -> Message | None:
        """One message of a stream, as its leader knows it; None if it is not there."""

    def read(self, stream: str, subject: str, first: int = 1) -> AsyncIterator[Message]:
        """All messages of a subject (wildcards allowed) from sequence `first` up to the newest at the time of call."""

    def listen(self, subject: str) -> AbstractAsyncContextManager["asyncio.Queue[Message | None]"]:
        """Core messages on a subject while the context is open; None says that some may have been missed."""

    async def say(self, subject: str, data: bytes) -> None:
        """Publish a core message that nobody stores or confirms."""

    async def pull(self, stream: str, consumer: str) -> Delivery:
        """The next message of a durable consumer, however long it takes. ChannelClosedError if it was deleted."""

    async def acknowledge(self, ack_subject: str) -> None:
        """Settle a delivery; returns when the broker has confirmed, or has forgotten it: then it comes again."""

    async def extend(self, ack_subject: str) -> None:
        """Say that a delivery is still being worked on: its redelivery is put off by the consumer's ack_wait."""

    async def give_back(self, ack_subject: str, delay_seconds: float = 0.0) -> None:
        """Have a delivery delivered again, to anyone, after a delay."""

    async def reclaim(self, stream: str, consumer: str) -> None:
        """Have what was delivered and never settled delivered again at once: whoever had it is gone.

        Only for consumers that hand on one message at a time.
        """

    async def purge(self, stream: str, subject: str) -> int:
        """Remove all messages of a subject (wildcards allowed); returns how many."""

    async def delete(self, stream: str, sequence: int) -> bool:
        """Remove one message; False if it was not there."""

    async def ensure_stream(self, plan: StreamPlan) -> bool:
        """Create the stream or change it to the plan; True if anything was done."""

    async def ensure_consumer(self, plan: ConsumerPlan) -> bool:
        """Create the consumer or change it to the plan; True if anything was done.

        A broker that is killed can lose a consumer that it has just confirmed: a pull makes it again.
        """

    async def delete_stream(self, name: str) -> None:
        """Remove a stream with all that is in it; nothing happens if it is not there."""

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Remove a consumer; nothing happens if it is not there."""

    async def differences(self, plan: StreamPlan | ConsumerPlan) -> tuple[str, ...]:
        """How what exists differs from the plan, in words; empty if it does not."""

    async def close(self) -> None:
        """End the connection."""

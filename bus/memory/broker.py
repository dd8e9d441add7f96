"""One connection to a server in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TypeVar

from bus.broker import (
    Acknowledged,
    ConsumerPlan,
    Delivery,
    Message,
    StreamPlan,
    header_bytes,
)
from bus.errors import (
    BrokerRefusedError,
    BusClosedError,
    MessageTooLargeError,
)
from bus.memory.server import MemoryServer, Stream
from bus.retrying import surely

T = TypeVar("T")

MESSAGE_BYTES_MAX = 1024 * 1024
HEADER_BYTES_MAX = 64 * 1024


class MemoryBroker:
    """One connection to a MemoryServer. All that reaches the server goes through `call`."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self._closed = False

    @property
    def is_connected(self) -> bool:
        """It is in the same process."""
        return True

    @property
    def message_bytes_max(self) -> int:
        """The same as a real server's default."""
        return MESSAGE_BYTES_MAX

    def _check_open(self) -> None:
        if self._closed:
            raise BusClosedError("closed by us")

    async def call(self, action: Callable[[], T]) -> T:
        """Have the server do something; others may come first."""
        self._check_open()
        await asyncio.sleep(0)
        return action()

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] | None = None) -> Acknowledged:
        """Store one message."""
        heading = header_bytes(headers)
        if len(data) + heading > self.message_bytes_max:
            raise MessageTooLargeError(subject, len(data) + heading, self.message_bytes_max)
        if heading > HEADER_BYTES_MAX:
            raise BrokerRefusedError(subject, 10097, "header size exceeds maximum allowed of 64k")
        return await self.call(lambda: self.server.store(subject, data, dict(headers or {})))

    async def last(self, stream: str, subject: str) -> Message | None:
        """The newest message of a subject."""
        return await self.call(lambda: self.server.newest(stream, subject))

    async def get(self, stream: str, sequence: int) -> Message | None:
        """One message."""
        return await self.call(lambda: self.server.stream(stream).messages.get(sequence))

    async def read(self, stream: str, subject: str, first: int = 1) -> AsyncIterator[Message]:
        """All messages of a subject that are there now."""
        for message in await surely(lambda: self.call(lambda: self.server.kept(stream, subject, first))):
            yield message

    @asynccontextmanager
    async def listen(self, subject: str) -> AsyncIterator["asyncio.Queue[Message | None]"]:
        """Core messages while the context is open."""
        self._check_open()
        queue: asyncio.Queue[Message | None] = asyncio.Queue()
        with self.server.listening(subject, queue):
            yield queue

    async def say(self, subject: str, data: bytes) -> None:
        """Publish a core message."""
        self._check_open()
        self.server.tell(Message(subject=subject, sequence=0, data=data, headers={}, stored_at=datetime.now(UTC)))

    async def pull(self, stream: str, consumer: str) -> Delivery:
        """The next delivery."""
        self._check_open()
        await asyncio.sleep(0)
        return await self.server.next(stream, consumer)

    async def acknowledge(self, ack_subject: str) -> None:
        """Settle a delivery."""
        await self.call(lambda: self.server.settle(ack_subject, "ack"))

    async def extend(self, ack_subject: str) -> None:
        """Put off the redelivery."""
        self._check_open()
        self.server.settle(ack_subject, "wpi")

    async def give_back(self, ack_subject: str, delay_seconds: float = 0.0) -> None:
        """Hand a delivery back."""
        await self.call(lambda: self.server.settle(ack_subject, "nak", delay_seconds))

    async def reclaim(self, stream: str, consumer: str) -> None:
        """Hand back what is pending."""
        await self.call(lambda: self.server.reclaim(stream, consumer))

    async def purge(self, stream: str, subject: str) -> int:
        """Remove all messages of a subject."""
        gone = await self.call(lambda: self.server.kept(stream, subject, 1))
        return sum(self.server.stream(stream).remove(message.sequence) for message in gone)

    async def delete(self, stream: str, sequence: int) -> bool:
        """Remove one message."""
        return await self.call(lambda: self.server.stream(stream).remove(sequence))

    async def ensure_stream(self, plan: StreamPlan) -> bool:
        """Create or change."""
        self._check_open()
        if not await self.differences(plan):
            return False
        if plan.name in self.server.streams:
            self.server.streams[plan.name].plan = plan
        else:
            self.server.streams[plan.name] = Stream(plan)
        return True

    async def ensure_consumer(self, plan: ConsumerPlan) -> bool:
        """Create or change."""
        self._check_open()
        if not await self.differences(plan):
            return False
        existing = self.server.stream(plan.stream).consumers.get(plan.name)
        if existing is None:
            self.server.add_consumer(plan)
        else:
            existing.plan = plan
            existing.wake()
        return True

    async def delete_stream(self, name: str) -> None:
        """Remove a stream if it is there."""
        self._check_open()
        stream = self.server.streams.pop(name, None)
        for consumer in stream.consumers.values() if stream else ():
            consumer.deleted = True
            consumer.wake()

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Remove a consumer if it is there."""
        self._check_open()
        consumer = self.server.streams[stream].consumers.pop(name, None) if stream in self.server.streams else None
        if consumer is not None:
            consumer.deleted = True
            consumer.wake()

    async def differences(self, plan: StreamPlan | ConsumerPlan) -> tuple[str, ...]:
        """What is missing or different."""
        found: StreamPlan | ConsumerPlan | None = None
        if isinstance(plan, StreamPlan):
            title = f"stream {plan.name}"
            if plan.name in self.server.streams:
                found = self.server.streams[plan.name].plan
        else:
            title = f"consumer {plan.stream}/{plan.name}"
            stream = self.server.streams.get(plan.stream)
            if stream is not None and plan.name in stream.consumers:
                found = stream.consumers[plan.name].plan
        if found is None:
            return (f"{title} is missing",)
        return tuple(
            f"{title}: {name} is {getattr(found, name)!r}, should be {getattr(plan, name)!r}"
            for name in plan.__struct_fields__
            if getattr(found, name) != getattr(plan, name)
        )

    async def close(self) -> None:
        """End the connection; deliveries that were not settled come back after their ack_wait."""
        self._closed = True

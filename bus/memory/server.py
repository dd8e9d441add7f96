"""What a broker keeps, in memory: streams, consumers, and who listens. Outlives every connection."""

import asyncio
from bisect import insort
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import takewhile

import msgspec

from bus.broker import (
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    MESSAGE_ID,
    ROLLUP,
    SEQUENCE,
    TTL,
    Acknowledged,
    ConsumerPlan,
    Delivery,
    Message,
    StreamPlan,
    matches,
)
from bus.errors import (
    ChannelClosedError,
    NoResponderError,
    WrongLastSequenceError,
)


class Consumer:
    """Who has what, and since when."""

    def __init__(self, plan: ConsumerPlan) -> None:
        self.plan = plan
        self.ready: list[int] = []
        self.delivered: dict[int, int] = {}
        self.pending: dict[int, asyncio.TimerHandle] = {}
        self.changed = asyncio.Event()
        self.deleted = False

    def offer(self, sequence: int) -> None:
        insort(self.ready, sequence)
        self.wake()

    def reclaim(self) -> None:
        for sequence, clock in list(self.pending.items()):
            clock.cancel()
            del self.pending[sequence]
            self.offer(sequence)

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def forget(self, sequence: int) -> None:
        if sequence in self.pending:
            self.pending.pop(sequence).cancel()
        if sequence in self.ready:
            self.ready.remove(sequence)
        self.delivered.pop(sequence, None)
        self.wake()


class Stream:
    """Messages by sequence, and the last one of each subject."""

    def __init__(self, plan: StreamPlan) -> None:
        self.plan = plan
        self.messages: dict[int, Message] = {}
        self.subjects: dict[str, list[int]] = {}
        self.ids: dict[str, tuple[float, int]] = {}
        self.consumers: dict[str, Consumer] = {}
        self.sequence = 0

    def note_id(self, message_id: str, now: float, sequence: int) -> None:
        """Remember an id for the length of the window; the oldest stand first."""
        self.ids.pop(message_id, None)
        self.ids[message_id] = (now, sequence)
        while now - next(iter(self.ids.values()))[0] > self.plan.duplicate_window_seconds:
            del self.ids[next(iter(self.ids))]

    def last_of(self, subject: str) -> int:
        """The last sequence of a subject; 0 if it has none."""
        if "*" not in subject and ">" not in subject:
            kept = self.subjects.get(subject)
            return kept[-1] if kept else 0
        return max((kept[-1] for name, kept in self.subjects.items() if kept and matches(subject, name)), default=0)

    def remove(self, sequence: int) -> bool:
        message = self.messages.pop(sequence, None)
        if message is None:
            return False
        self.subjects[message.subject].remove(sequence)
        for consumer in self.consumers.values():
            consumer.forget(sequence)
        return True


class MemoryServer:
    """What a broker keeps. Lives as long as the loop it is used on."""

    def __init__(self, *, fence_first: bool = True, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.streams: dict[str, Stream] = {}
        self._listeners: list[tuple[str, asyncio.Queue[Message | None]]] = []
        self._fence_first = fence_first
        self._now = now

    # Storing.

    def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Acknowledged:
        """What a publish does once it has reached the server."""
        self.tell(Message(subject=subject, sequence=0, data=data, headers=headers, stored_at=self._now()))
        stream = next((s for s in self.streams.values() if any(matches(p, subject) for p in s.plan.subjects)), None)
        if stream is None:
            raise NoResponderError(subject)
        checks = [self._check_duplicate, self._check_fence]
        for check in reversed(checks) if self._fence_first else checks:
            known = check(stream, subject, headers)
            if known is not None:
                return known
        return self._append(stream, subject, data, headers)

    def _check_duplicate(self, stream: Stream, _: str, headers: Mapping[str, str]) -> Acknowledged | None:
        stored_at, sequence = stream.ids.get(headers.get(MESSAGE_ID, ""), (0.0, 0))
        if not sequence or asyncio.get_running_loop().time() - stored_at > stream.plan.duplicate_window_seconds:
            return None
        return Acknowledged(sequence=sequence, duplicate=True)

    def _check_fence(self, stream: Stream, subject: str, headers: Mapping[str, str]) -> Acknowledged | None:
        expected, actual = headers.get(EXPECTED_LAST_SUBJECT_SEQUENCE), stream.last_of(subject)
        if expected is not None and int(expected) != actual:
            raise WrongLastSequenceError(subject, 10071, f"wrong last sequence: {actual}", actual)
        return None

    def _append(self, stream: Stream, subject: str, data: bytes, headers: Mapping[str, str]) -> Acknowledged:
        loop = asyncio.get_running_loop()
        stream.sequence += 1
        sequence = stream.sequence
        kept = stream.subjects.setdefault(subject, [])
        if headers.get(ROLLUP) == "sub":
            for old in list(kept):
                stream.remove(old)
        message = Message(subject=subject, sequence=sequence, data=data, headers=headers, stored_at=self._now())
        stream.messages[sequence] = message
        kept.append(sequence)
        while 0 < stream.plan.per_subject_max < len(kept):
            stream.remove(kept[0])
        if MESSAGE_ID in headers:
            stream.note_id(headers[MESSAGE_ID], loop.time(), sequence)
        if TTL in headers and stream.plan.message_ttl:
            loop.call_later(float(headers[TTL].removesuffix("s")), stream.remove, sequence)
        for consumer in stream.consumers.values():
            if matches(consumer.plan.filter, subject):
                consumer.offer(sequence)
        self._repeat(stream, message)
        return Acknowledged(sequence=sequence)

    def _repeat(self, stream: Stream, message: Message) -> None:
        if not stream.plan.repeat_from or not matches(stream.plan.repeat_from, message.subject):
            return
        moved = stream.plan.repeat_to.removesuffix(">") + message.subject[len(stream.plan.repeat_from) - 1 :]
        data = b"" if stream.plan.repeat_headers_only else message.data
        headers = {**message.headers, SEQUENCE: str(message.sequence)}
        self.tell(msgspec.structs.replace(message, data=data, headers=headers), moved)

    # Core messages.

    def tell(self, message: Message, subject: str = "") -> None:
        """Give a core message to whoever listens."""
        for pattern, queue in self._listeners:
            if matches(pattern, subject or message.subject):
                queue.put_nowait(message)

    @contextmanager
    def listening(self, pattern: str, queue: "asyncio.Queue[Message | None]") -> Iterator[None]:
        """Have a queue filled while the context is open."""
        entry = (pattern, queue)
        self._listeners.append(entry)
        try:
            yield
        finally:
            self._listeners.remove(entry)

    # Reading.

    def newest(self, stream: str, subject: str) -> Message | None:
        """The newest message of a subject."""
        kept = self.stream(stream)
        return kept.messages.get(kept.last_of(subject))

    def kept(self, stream: str, subject: str, first: int) -> list[Message]:
        """All messages of a subject from a sequence on."""
        messages = self.stream(stream).messages
        newer = takewhile(lambda number: number >= first, reversed(messages))  # they stand in order
        found = [messages[number] for number in newer if matches(subject, messages[number].subject)]
        return found[::-1]

    # Delivering.

    def stream(self, name: str) -> Stream:
        """A stream that exists, or ChannelClosedError."""
        if name not in self.streams:
            raise ChannelClosedError(name, "stream not found")
        return self.streams[name]

    def add_consumer(self, plan: ConsumerPlan) -> None:
        """Create a consumer that starts with all that is there."""
        stream = self.stream(plan.stream)
        consumer = stream.consumers[plan.name] = Consumer(plan)
        for sequence, message in stream.messages.items():
            if matches(plan.filter, message.subject):
                consumer.offer(sequence)

    async def next(self, stream_name: str, consumer_name: str) -> Delivery:
        """Wait for a message and deliver it."""
        stream = self.stream(stream_name)
        consumer = stream.consumers.get(consumer_name)
        while consumer is not None and not consumer.deleted:
            changed = consumer.changed
            if len(consumer.pending) < consumer.plan.ack_pending_max and consumer.ready:
                delivery = self._deliver(stream, consumer)
                if delivery is not None:
                    return delivery
                continue
            await changed.wait()
        raise ChannelClosedError(f"{stream_name}/{consumer_name}", "the consumer was deleted")

    def _deliver(self, stream: Stream, consumer: Consumer) -> Delivery | None:
        sequence = consumer.ready.pop(0)
        count = consumer.delivered.get(sequence, 0) + 1
        plan = consumer.plan
        if 0 < plan.deliveries_max < count:
            self._advise(plan, sequence, count - 1)
            return None
        consumer.delivered[sequence] = count
        self._put_off(consumer, sequence)
        message = stream.messages[sequence]
        return Delivery(
            subject=message.subject,
            sequence=sequence,
            data=message.data,
            headers=message.headers,
            ack_subject=f"$JS.ACK.{plan.stream}.{plan.name}.{count}.{sequence}.{sequence}.0.0",
            delivered=count,
        )

    def _put_off(self, consumer: Consumer, sequence: int, seconds: float | None = None) -> None:
        """(Re)start the clock after which a delivery that is not settled becomes ready again."""
        if sequence in consumer.pending:
            consumer.pending.pop(sequence).cancel()

        def again() -> None:
            consumer.pending.pop(sequence, None)
            consumer.offer(sequence)

        wait = consumer.plan.ack_wait_seconds if seconds is None else seconds
        consumer.pending[sequence] = asyncio.get_running_loop().call_later(wait, again)

    def _advise(self, plan: ConsumerPlan, sequence: int, deliveries: int) -> None:
        advisory = {"stream": plan.stream, "consumer": plan.name, "stream_seq": sequence, "deliveries": deliveries}
        subject = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{plan.stream}.{plan.name}"
        if any(matches(p, subject) for s in self.streams.values() for p in s.plan.subjects):
            self.store(subject, msgspec.json.encode(advisory), {})

    def forget_deliveries(self) -> None:
        """What a server that is killed may do: everything that was not settled is delivered again."""
        for stream in self.streams.values():
            for consumer in stream.consumers.values():
                consumer.reclaim()

    def reclaim(self, stream: str, consumer: str) -> None:
        """Deliver again what one consumer has not settled."""
        kept = self.stream(stream).consumers.get(consumer)
        if kept is not None:
            kept.reclaim()

    def settle(self, ack_subject: str, verb: str, delay_seconds: float = 0.0) -> None:
        """An ACK, a WPI or a NAK: acts on whatever delivery of that message is current, as the real server does."""
        _, _, stream_name, consumer_name, _, sequence_text, *_ = ack_subject.split(".")
        stream, sequence = self.streams.get(stream_name), int(sequence_text)
        consumer = stream.consumers.get(consumer_name) if stream else None
        if stream is None or consumer is None:
            raise NoResponderError(ack_subject)
        if verb == "ack":
            consumer.forget(sequence)
            if stream.plan.retention == "workqueue":
                stream.remove(sequence)
        elif sequence in consumer.pending:
            self._put_off(consumer, sequence, delay_seconds if verb == "nak" else None)

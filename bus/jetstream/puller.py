"""One durable consumer, pulled one message at a time, for ever.

nats-py's `fetch` dies with the server and sits out its time-out (docs/adr/0003). A puller asks again the moment the
connection is back, and tells a consumer that was deleted from one that has nothing to say, and from one that a killed
broker has lost: that one is made again.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Protocol

import msgspec
import structlog
from nats.aio.msg import Msg

from bus.broker import ConsumerPlan, Delivery
from bus.errors import BusError, ChannelClosedError, NoResponderError, NotAcknowledgedError
from bus.jetstream.connection import Channel, Connection, is_status
from bus.retrying import MISSING_SECONDS, surely

log = structlog.get_logger()

PULL_SECONDS = 10.0
PULL_GRACE_SECONDS = 0.5
RETRY_SECONDS = 0.05

_PULL_ONE = msgspec.json.encode({"batch": 1, "expires": int(PULL_SECONDS * 1_000_000_000)})


class Consumers(Protocol):
    """What a puller asks of the broker."""

    async def consumer_exists(self, stream: str, consumer: str) -> bool:
        """Whether the server knows a consumer."""

    async def ensure_consumer(self, plan: ConsumerPlan) -> bool:
        """Create it if need be."""

    async def reclaim(self, stream: str, consumer: str) -> None:
        """Have what is not settled delivered again."""


class Puller:
    """Keeps at most one pull request open; what arrives when nobody waits for it any more is given back at once."""

    def __init__(self, connection: Connection, stream: str, consumer: str, consumers: Consumers) -> None:
        self._connection = connection
        self._stream = stream
        self._consumer = consumer
        self._consumers = consumers
        self._plan: ConsumerPlan | None = None
        self._asked_in = self._known_in = connection.reconnections
        self._answers: deque[Msg | BusError] = deque()
        self._arrived = asyncio.Event()
        self._open_until = 0.0
        self._channel: Channel | None = None
        self._missing_since: float | None = None
        self._in_hand = ""
        self._takers = 0
        self._giving_back: set[asyncio.Task[None]] = set()

    def was_made(self, plan: ConsumerPlan) -> None:
        """The server has just confirmed the consumer to us."""
        self._plan = plan
        self._known_in = self._connection.reconnections

    def was_settled(self, sequence: str) -> None:
        """The server has confirmed that a delivery is no longer in our hands."""
        if self._in_hand == sequence:
            self._in_hand = ""

    async def next(self) -> Delivery:
        """The next message, however long it takes."""
        loop = asyncio.get_running_loop()
        self._takers += 1
        try:
            while True:
                while self._answers:
                    delivery = await self._settle(self._answers.popleft())
                    if delivery is not None:
                        return delivery
                self._arrived.clear()
                if loop.time() >= self._open_until:
                    await self._ask()
                await self._wait(self._open_until - loop.time())
        finally:
            self._takers -= 1
            self._give_back_unwanted()

    async def _ask(self) -> None:
        await self._connection.wait_until_up()
        await self._reclaim_after_outage()
        if self._channel is None:
            call = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
            self._channel = await self._connection.open_channel(call, self._on_answer)
        self._asked_in = self._connection.reconnections
        self._open_until = asyncio.get_running_loop().time() + PULL_SECONDS + PULL_GRACE_SECONDS
        try:
            await self._channel.ask(_PULL_ONE)
        except NotAcknowledgedError as error:
            self._on_answer(error)

    async def _reclaim_after_outage(self) -> None:
        """Have the broker forget a delivery that it has in mind and we have not, or it would deliver nothing else.

        One that is killed has not yet noted what it has confirmed last: then it waits, for as long as it would wait for
        us, for the acknowledgement of a message that is settled and gone.
        """
        plan = self._plan
        if plan is None or plan.ack_pending_max > 1 or self._in_hand or not self._was_away():
            return
        with suppress(ChannelClosedError):  # the pull will tell
            await surely(lambda: self._consumers.reclaim(self._stream, self._consumer))

    def _was_away(self) -> bool:
        """Whether the connection has come back since the server last spoke of this consumer."""
        return self._known_in != self._connection.reconnections

    def _on_answer(self, answer: Msg | BusError) -> None:
        if isinstance(answer, Msg):
            self._known_in = self._asked_in
        self._answers.append(answer)
        self._open_until = 0.0
        self._arrived.set()
        self._give_back_unwanted()

    async def _wait(self, seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._arrived.set)
        try:
            await self._arrived.wait()
        finally:
            timer.cancel()

    async def _settle(self, answer: Msg | BusError) -> Delivery | None:
        """A delivery, or None when there is a reason to ask again."""
        match answer:
            case NoResponderError():
                await self._doubt(MISSING_SECONDS)
            case NotAcknowledgedError():
                await asyncio.sleep(RETRY_SECONDS)
            case BusError():
                raise answer
            case Msg() if answer.reply:
                self._missing_since = None
                delivery = read_delivery(answer)
                self._in_hand = str(delivery.sequence)
                return delivery
            case Msg() if not is_status(answer, "404", "408"):
                await self._doubt(0.0)
        return None

    async def _doubt(self, patience_seconds: float) -> None:
        """Deleted, or its leader is moving or recovering: only the server can tell, and not at once when just back."""
        now = asyncio.get_running_loop().time()
        if await self._exists() or await self.make_again():
            self._missing_since = None
        else:
            self._missing_since = now if self._missing_since is None else self._missing_since
            if now - self._missing_since >= patience_seconds:
                raise ChannelClosedError(f"{self._stream}/{self._consumer}", "the consumer was deleted")
        await asyncio.sleep(RETRY_SECONDS)

    async def make_again(self) -> bool:
        """Make our own consumer again if it is missing since the connection was lost and came back; True if it was.

        A broker that is killed can lose a consumer that it has just confirmed; nobody had reason to delete it.
        """
        plan = self._plan
        if plan is None or not self._was_away() or await self._exists():
            return False
        try:
            await surely(lambda: self._consumers.ensure_consumer(plan))
        except ChannelClosedError:
            return False  # its stream is missing as well
        log.warning("consumer.lost", stream=self._stream, consumer=self._consumer)
        return True

    async def _exists(self) -> bool:
        return await self._consumers.consumer_exists(self._stream, self._consumer)

    async def close(self) -> None:
        """Let go of the inbox: there is nothing to pull any more. Whoever still waits is told."""
        self._on_answer(ChannelClosedError(f"{self._stream}/{self._consumer}", "the consumer was deleted"))
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def _give_back_unwanted(self) -> None:
        if self._takers:
            return
        while self._answers:
            answer = self._answers.popleft()
            if isinstance(answer, Msg) and answer.reply:
                task = asyncio.ensure_future(self._connection.publish(answer.reply, b"-NAK"))
                self._giving_back.add(task)
                task.add_done_callback(self._gave_back)

    def _gave_back(self, task: "asyncio.Task[None]") -> None:
        self._giving_back.discard(task)
        if not task.cancelled():
            task.exception()  # it comes back by itself, only later


def read_delivery(message: Msg) -> Delivery:
    """What a consumer has sent."""
    _, _, delivered, sequence, *_ = ack_tokens(message.reply)
    return Delivery(
        subject=message.subject,
        sequence=int(sequence),
        data=message.data,
        headers=dict(message.headers or {}),
        ack_subject=message.reply,
        delivered=int(delivered),
    )


def ack_tokens(ack_subject: str) -> list[str]:
    """Stream, consumer, times delivered, sequence in the stream, and what else an ack subject says, in this order."""
    # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>, or with domain and account
    # before the stream and a random token at the end.
    tokens = ack_subject.split(".")
    return tokens[2:] if len(tokens) == 9 else tokens[4:]

"""One NATS connection with requests that never hang and never hide why they failed.

nats-py's own `request` waits out its time-out when the server dies, loses cancellations on Python 3.11, and turns a
permission violation into a time-out (docs/adr/0003). Here every request has a future of its own, which the loss of
the connection, a permission violation or the close of the connection ends at once.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import nats
import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from bus.errors import (
    BusClosedError,
    BusError,
    BusUnreachableError,
    MessageTooLargeError,
    NoResponderError,
    NotAcknowledgedError,
    PermissionDeniedError,
    SlowConsumerError,
)

log = structlog.get_logger()

PING_SECONDS = 2
PINGS_OUTSTANDING_MAX = 2
HINTS_PENDING_MAX = 65_536
_VIOLATION = re.compile(r"permissions violation for (publish|subscription) to \"([^\"]*)\"", re.IGNORECASE)

Trouble = Callable[[BusError], None]
Answer = Callable[[Msg | BusError], None]


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a broker. `connect_seconds` limits only the first connection; later ones are tried for ever."""

    url: str
    name: str = "callboard"
    inbox_prefix: str = "_INBOX"
    connect_seconds: float = 5.0
    reconnect_wait_seconds: float = 0.1
    buffered_bytes_max: int = 8 * 1024 * 1024
    secrets: Mapping[str, Any] = {}
    """Keyword arguments of nats-py that identify us: user, password, token, nkeys_seed, user_credentials, tls …"""

    def __repr__(self) -> str:
        return f"ConnectOptions(url={self.url.rpartition('@')[2]!r}, name={self.name!r})"


def log_trouble(error: BusError) -> None:
    """What happens to an error that belongs to no call: it is logged, with its subject."""
    log.error("bus.trouble", error=type(error).__name__, subject=getattr(error, "subject", ""), detail=str(error))


class Connection:
    """A connection that comes back by itself; requests in flight when it is lost fail at once."""

    def __init__(self, options: ConnectOptions, trouble: Trouble = log_trouble) -> None:
        self.options = options
        self._trouble = trouble
        self._client = Client()
        self._up = asyncio.Event()
        self._closed_reason: str | None = None
        self._waiting: dict[str, tuple[str, Answer]] = {}
        self._missed: set[Callable[[], None]] = set()
        self._last_error: Exception | None = None
        self._requests = 0
        self._prefix = ""

    @classmethod
    async def open(cls, options: ConnectOptions, trouble: Trouble = log_trouble) -> "Connection":
        """Connect, or raise BusUnreachableError within `connect_seconds`."""
        connection = cls(options, trouble)
        try:
            async with asyncio.timeout(options.connect_seconds):
                await connection._connect()
        except (OSError, nats.errors.Error, TimeoutError) as error:
            await connection._client.close()
            reason = str(connection._last_error or error) or f"no answer within {options.connect_seconds:g} s"
            raise BusUnreachableError(options.url.rpartition("@")[2], reason) from error
        return connection

    async def _connect(self) -> None:
        options = self.options
        await self._client.connect(
            [url.strip() for url in options.url.split(",")],
            name=options.name,
            inbox_prefix=options.inbox_prefix,
            connect_timeout=max(1, round(options.connect_seconds)),
            # nats-py waits this long between attempts; the jitter keeps a fleet from returning in step.
            reconnect_time_wait=options.reconnect_wait_seconds * random.uniform(0.5, 1.5),  # type: ignore[arg-type]  # noqa: S311 -- seconds, fractions work; not a secret
            max_reconnect_attempts=-1,
            ping_interval=PING_SECONDS,
            max_outstanding_pings=PINGS_OUTSTANDING_MAX,
            pending_size=options.buffered_bytes_max,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_closed,
            **options.secrets,
        )
        self._prefix = self._client.new_inbox() + "."
        await self._client.subscribe(self._prefix + "*", cb=self._on_answer)
        self._up.set()

    @property
    def message_bytes_max(self) -> int:
        """The server's limit for one message."""
        return self._client.max_payload

    @property
    def is_up(self) -> bool:
        """Whether there is a connection right now."""
        return self._up.is_set()

    async def wait_until_up(self) -> None:
        """Return when there is a connection, however long it takes; BusClosedError if there never will be."""
        await self._up.wait()
        if self._closed_reason is not None:
            raise BusClosedError(self._closed_reason)

    async def request(
        self, subject: str, data: bytes = b"", headers: Mapping[str, str] | None = None, seconds: float = 1.0
    ) -> Msg:
        """Publish and return the one answer; NotAcknowledgedError if there is none."""
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()

        def settle(result: Msg | BusError) -> None:
            if answer.done():
                return
            if isinstance(result, BusError):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        await self.wait_until_up()
        token = self._expect(subject, settle)
        timer = answer.get_loop().call_later(
            seconds, lambda: settle(NotAcknowledgedError(subject, f"no answer within {seconds:g} s"))
        )
        try:
            await self._publish(subject, data, self._prefix + token, headers)
            return await answer
        finally:
            timer.cancel()
            self._waiting.pop(token, None)

    @asynccontextmanager
    async def ask_many(self, subject: str, data: bytes) -> AsyncIterator["asyncio.Queue[Msg | BusError]"]:
        """Publish once and collect every answer, or the error that ends them, while the context is open."""
        answers: asyncio.Queue[Msg | BusError] = asyncio.Queue()
        await self.wait_until_up()
        token = self._expect(subject, answers.put_nowait)
        try:
            await self._publish(subject, data, self._prefix + token, None)
            yield answers
        finally:
            self._waiting.pop(token, None)

    async def open_channel(self, subject: str, answer: Answer) -> Callable[[bytes], Awaitable[None]]:
        """A way to ask on one subject again and again; whatever comes back, errors too, goes to `answer`.

        The answers have an inbox of their own, because deliveries of a consumer carry the subject under which they
        were stored and not the one to which they are sent.
        """
        inbox = self._client.new_inbox()

        async def take(message: Msg) -> None:
            answer(NoResponderError(subject) if is_status(message, "503") else message)

        async def ask(data: bytes) -> None:
            await self.wait_until_up()
            await self._publish(subject, data, inbox, None)

        await self.wait_until_up()
        self._expect(subject, answer)
        await self._client.subscribe(inbox, cb=take)
        return ask

    def _expect(self, subject: str, answer: Answer) -> str:
        self._requests += 1
        token = f"{self._requests:x}"
        self._waiting[token] = (subject, answer)
        return token

    async def publish(self, subject: str, data: bytes) -> None:
        """Publish a core message."""
        await self.wait_until_up()
        await self._publish(subject, data, "", None)

    async def _publish(self, subject: str, data: bytes, reply: str, headers: Mapping[str, str] | None) -> None:
        # The server counts headers too, and closes the connection of a client that sends more than its limit.
        size = len(data) + _header_bytes(headers)
        if size > self._client.max_payload:
            raise MessageTooLargeError(subject, size, self._client.max_payload)
        try:
            await self._client.publish(subject, data, reply, dict(headers) if headers else None)
        except nats.errors.ConnectionClosedError as error:
            raise BusClosedError(self._closed_reason or "closed") from error
        except nats.errors.OutboundBufferLimitError as error:
            raise NotAcknowledgedError(subject, "the connection is down and the buffer is full") from error

    @asynccontextmanager
    async def subscribe(self, subject: str) -> AsyncIterator["asyncio.Queue[Msg | None]"]:
        """Core messages on a subject; None after anything that may have lost some (a reconnect, a slow reader)."""
        await self.wait_until_up()
        messages: asyncio.Queue[Msg | None] = asyncio.Queue()

        async def take(message: Msg) -> None:
            if messages.qsize() >= HINTS_PENDING_MAX:
                self._trouble(SlowConsumerError(subject))
                while not messages.empty():
                    messages.get_nowait()
                messages.put_nowait(None)
            else:
                messages.put_nowait(message)

        def missed() -> None:
            messages.put_nowait(None)

        self._missed.add(missed)
        subscription = await self._client.subscribe(subject, cb=take)
        with suppress(nats.errors.Error):  # lost meanwhile: the subscription is made again on return, and None is told
            await self._client.flush()  # from here on the server knows of us, so nothing said later is missed
        try:
            yield messages
        finally:
            self._missed.discard(missed)
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def close(self) -> None:
        """Close for good; requests in flight fail."""
        self._end("closed by us")
        await self._client.close()

    async def _on_answer(self, message: Msg) -> None:
        expected = self._waiting.get(message.subject.rpartition(".")[2])
        if expected is None:
            return  # the asker has given up
        subject, answer = expected
        answer(NoResponderError(subject) if is_status(message, "503") else message)

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        violation = _VIOLATION.search(str(error))
        if violation:
            self._deny(violation.group(1).lower(), violation.group(2))
        elif isinstance(error, nats.errors.SlowConsumerError):
            self._trouble(SlowConsumerError(error.subject))
            self._tell_missed()
        elif self._up.is_set():
            log.warning("bus.connection", error=type(error).__name__, detail=str(error))

    def _deny(self, verb: str, subject: str) -> None:
        """Fail the calls on that subject; a violation that belongs to no call is trouble of its own."""
        error = PermissionDeniedError(subject, f"this identity may not {'publish' if verb == 'publish' else 'listen'}")
        callers = [answer for asked, answer in self._waiting.values() if asked == subject]
        for answer in callers:
            answer(error)
        if not callers:
            self._trouble(error)

    async def _on_disconnected(self) -> None:
        if self._closed_reason is None and self._up.is_set():
            log.warning("bus.disconnected", url=self.options.url.rpartition("@")[2])
        self._up.clear()
        for subject, answer in list(self._waiting.values()):
            answer(NotAcknowledgedError(subject, "the connection was lost"))

    async def _on_reconnected(self) -> None:
        log.info("bus.reconnected", url=self.options.url.rpartition("@")[2])
        self._up.set()
        self._tell_missed()

    async def _on_closed(self) -> None:
        self._end(str(self._client.last_error or "") or "closed")

    def _end(self, reason: str) -> None:
        if self._closed_reason is None:
            self._closed_reason = reason
        self._up.set()  # wakes the waiting, who then find the reason
        for _, answer in list(self._waiting.values()):
            answer(BusClosedError(self._closed_reason))
        self._tell_missed()

    def _tell_missed(self) -> None:
        for missed in list(self._missed):
            missed()


def _header_bytes(headers: Mapping[str, str] | None) -> int:
    """What headers add to a message: a version line, each `name: value`, a blank line."""
    return 14 + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items()) if headers else 0


def is_status(message: Msg, *codes: str) -> bool:
    """Whether a message is a status line of the server with one of these codes."""
    return not message.data and bool(message.headers) and (message.headers or {}).get("Status") in codes

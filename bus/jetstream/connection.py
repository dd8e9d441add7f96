"""One NATS connection with requests that never hang and never hide why they failed.

nats-py's own `request` waits out its time-out when the server dies, loses cancellations on Python 3.11, and turns a
permission violation into a time-out (docs/adr/0003). Here every request has a future of its own, which the loss of
the connection, a permission violation or the close of the connection ends at once.
"""

import asyncio
import random
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, TypeVar

import nats.errors
import nkeys  # type: ignore[import-untyped]  # it has no stubs
import structlog
from nats.aio.msg import Msg

from bus.broker import header_bytes
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
from bus.jetstream.advice import advise, is_hopeless
from bus.jetstream.callers import Answer, Callers, is_status, settler
from bus.jetstream.client import CarefulClient
from bus.jetstream.options import ConnectOptions

__all__ = ["Channel", "ConnectOptions", "Connection", "is_status", "log_trouble"]

log = structlog.get_logger()

PING_SECONDS = 2
PINGS_OUTSTANDING_MAX = 2
HINTS_PENDING_MAX = 65_536
CLOSE_SECONDS = 2.0
"""What waits to be sent is sent before a close, unless the server does not read it for this long."""

_VIOLATION = re.compile(r"permissions violation for (publish|subscription) to \"([^\"]*)\"", re.IGNORECASE)

T = TypeVar("T")
Trouble = Callable[[BusError], None]


class Channel(NamedTuple):
    """A way to ask on one subject again and again."""

    ask: Callable[[bytes], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


def log_trouble(error: BusError) -> None:
    """What happens to an error that belongs to no call: it is logged, with its subject."""
    log.error("bus.trouble", error=type(error).__name__, subject=getattr(error, "subject", ""), detail=str(error))


class Connection:
    """A connection that comes back by itself; requests in flight when it is lost fail at once."""

    def __init__(self, options: ConnectOptions, trouble: Trouble = log_trouble) -> None:
        self.options = options
        self._trouble = trouble
        self._client = CarefulClient(tls_only=options.tls_only)
        self._up = asyncio.Event()
        self._closed_reason: str | None = None
        self._callers = Callers()
        self._missed: set[Callable[[], None]] = set()
        self._flushing: set[asyncio.Task[None]] = set()
        self._failures: Counter[str] = Counter()
        self._refusing: set[str] = set()
        self._hopeless = asyncio.Event()
        self._prefix = ""
        self.reconnections = 0

    # Connecting.

    @classmethod
    async def open(cls, options: ConnectOptions, trouble: Trouble = log_trouble) -> "Connection":
        """Connect, or raise BusUnreachableError: within `connect_seconds`, or at once where waiting will not help."""
        connection = cls(options, trouble)
        connecting = asyncio.ensure_future(connection._connect())
        hopeless = asyncio.ensure_future(connection._hopeless.wait())
        try:
            await asyncio.wait(
                {connecting, hopeless}, timeout=options.connect_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not connecting.done():
                raise connection._unreachable(f"no answer within {options.connect_seconds:g} s")
            connecting.result()
        except (OSError, nats.errors.Error, nkeys.NkeysError, ValueError) as error:
            raise connection._unreachable(str(error)) from error
        else:
            return connection
        finally:
            hopeless.cancel()
            if not connection.is_up:
                await connection._give_up(connecting)

    async def _connect(self) -> None:
        options = self.options
        await self._client.connect(
            options.servers,
            name=options.name,
            inbox_prefix=options.inbox_prefix,
            connect_timeout=max(1, round(options.connect_seconds)),
            # nats-py waits this long between attempts; the jitter keeps a fleet from returning in step.
            reconnect_time_wait=options.reconnect_wait_seconds * random.uniform(0.5, 1.5),  # type: ignore[arg-type]  # noqa: S311 -- seconds, fractions work; not a secret
            max_reconnect_attempts=-1,
            ping_interval=PING_SECONDS,
            max_outstanding_pings=PINGS_OUTSTANDING_MAX,
            # The limit is kept in `_publish`: over this one a publish would wait, and lose a cancellation meanwhile.
            pending_size=sys.maxsize,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_closed,
            **options.secrets,
        )
        self._prefix = self._client.new_inbox() + "."
        await self._client.subscribe(self._prefix + "*", cb=self._on_answer)
        await self._confirm(self._prefix + "*")
        if self._client.is_connected:
            self._up.set()
        await self._up.wait()

    def _unreachable(self, reason: str) -> BusUnreachableError:
        known = "; ".join(filter(is_hopeless, self._failures)) or "; ".join(self._failures) or reason
        return BusUnreachableError(self.options.shown_url, known, advise(known))

    async def _give_up(self, connecting: "asyncio.Task[None]") -> None:
        while not connecting.done():  # on Python 3.11 a cancellation can get lost in nats-py
            connecting.cancel()
            await asyncio.wait({connecting}, timeout=0.1)
        self._end("it was never opened")
        self._client.abort()
        with suppress(AssertionError, OSError):  # it may not have come as far as having anything to close
            await self._client.close()

    @property
    def message_bytes_max(self) -> int:
        """The server's limit for one message."""
        return self._client.max_payload

    @property
    def is_up(self) -> bool:
        """Whether there is a connection right now."""
        return self._up.is_set() and self._closed_reason is None

    async def wait_until_up(self) -> None:
        """Return when there is a connection, however long it takes; BusClosedError if there never will be."""
        await self._up.wait()
        if self._closed_reason is not None:
            raise BusClosedError(self._closed_reason)

    async def close(self) -> None:
        """Close for good; requests in flight fail."""
        self._end("closed by us")
        closing = asyncio.ensure_future(self._client.close())
        await asyncio.wait({closing}, timeout=CLOSE_SECONDS)
        if not closing.done():
            self._client.abort()
        with suppress(OSError, RuntimeError):  # what uvloop says where a socket is closed and something unsent
            await closing
        for flushing in self._flushing:
            flushing.cancel()

    # Asking.

    async def request(
        self, subject: str, data: bytes = b"", headers: Mapping[str, str] | None = None, seconds: float = 1.0
    ) -> Msg:
        """Publish and return the one answer; NotAcknowledgedError if there is none."""
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        settle = settler(answer)
        await self.wait_until_up()
        token = self._callers.expect("publish", subject, settle)
        timer = answer.get_loop().call_later(
            seconds, lambda: settle(NotAcknowledgedError(subject, f"no answer within {seconds:g} s"))
        )
        try:
            await self._publish(subject, data, self._prefix + token, headers)
            return await answer
        finally:
            timer.cancel()
            self._callers.forget(token)

    @asynccontextmanager
    async def ask_many(self, subject: str, data: bytes) -> AsyncIterator["asyncio.Queue[Msg | BusError]"]:
        """Publish once and collect every answer, or the error that ends them, while the context is open."""
        answers: asyncio.Queue[Msg | BusError] = asyncio.Queue()
        await self.wait_until_up()
        token = self._callers.expect("publish", subject, answers.put_nowait)
        try:
            await self._publish(subject, data, self._prefix + token, None)
            yield answers
        finally:
            self._callers.forget(token)

    async def open_channel(self, subject: str, answer: Answer) -> Channel:
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

        async def close() -> None:
            self._callers.forget(token)
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

        await self.wait_until_up()
        token = self._callers.expect("publish", subject, answer)
        subscription = await self._client.subscribe(inbox, cb=take)
        return Channel(ask, close)

    async def publish(self, subject: str, data: bytes) -> None:
        """Publish a core message."""
        await self.wait_until_up()
        await self._publish(subject, data, "", None)

    async def _publish(self, subject: str, data: bytes, reply: str, headers: Mapping[str, str] | None) -> None:
        # The server counts headers too, and closes the connection of a client that sends more than its limit.
        size = len(data) + header_bytes(headers)
        if size > self._client.max_payload:
            raise MessageTooLargeError(subject, size, self._client.max_payload)
        unsent, limit = self._client.pending_data_size, self.options.buffered_bytes_max
        if unsent and unsent + size > limit:
            raise NotAcknowledgedError(subject, f"{unsent} bytes wait to be sent already, and the limit is {limit}")
        try:
            await self._client.publish(subject, data, reply, dict(headers) if headers else None)
        except nats.errors.ConnectionClosedError as error:
            raise BusClosedError(self._closed_reason or "closed") from error

    # Listening.

    @asynccontextmanager
    async def subscribe(self, subject: str, read: Callable[[Msg], T]) -> AsyncIterator["asyncio.Queue[T | None]"]:
        """Core messages on a subject; None after anything that may have lost some (a reconnect, a slow reader)."""
        messages: asyncio.Queue[T | None] = asyncio.Queue()

        async def take(message: Msg) -> None:
            if messages.qsize() >= HINTS_PENDING_MAX:
                self._trouble(SlowConsumerError(subject))
                while not messages.empty():
                    messages.get_nowait()
                messages.put_nowait(None)
            else:
                messages.put_nowait(read(message))

        def missed() -> None:
            messages.put_nowait(None)

        await self.wait_until_up()
        subscription = await self._client.subscribe(subject, cb=take)
        self._missed.add(missed)
        try:
            await self._confirm(subject)  # from here on the server knows of us, so nothing said later is missed
            yield messages
        finally:
            self._missed.discard(missed)
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def _confirm(self, subject: str) -> None:
        """Return when the server has taken note of a subscription; PermissionDeniedError if it refuses it."""
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        token = self._callers.expect("subscription", subject, settler(confirmed))
        # In a task of its own, which always ends by itself: nats-py's wait can lose a cancellation, and if it does not,
        # the answer that comes later ends the reading of the connection.
        flushing = asyncio.ensure_future(self._flush(confirmed))
        self._flushing.add(flushing)
        flushing.add_done_callback(self._flushing.discard)
        try:
            await confirmed
        except NotAcknowledgedError:
            return  # lost meanwhile: the subscription is made again on return, and the loss is told
        finally:
            self._callers.forget(token)

    async def _flush(self, done: "asyncio.Future[None]") -> None:
        with suppress(nats.errors.Error):
            await self._client.flush()
        if not done.done():
            done.set_result(None)

    def _tell_missed(self) -> None:
        for missed in list(self._missed):
            missed()

    # What nats-py tells us.

    async def _on_answer(self, message: Msg) -> None:
        self._callers.answer(message.subject.rpartition(".")[2], message)

    async def _on_error(self, error: Exception) -> None:
        violation = _VIOLATION.search(str(error))
        if violation:
            self._deny(violation.group(1).lower(), violation.group(2))
        elif isinstance(error, nats.errors.SlowConsumerError):
            self._trouble(SlowConsumerError(error.subject))
            self._tell_missed()
        elif self._up.is_set():
            log.warning("bus.connection", error=type(error).__name__, detail=str(error))
        else:
            self._note_failure(str(error).removeprefix("nats: ") or "no answer")

    def _deny(self, verb: str, subject: str) -> None:
        """Fail the calls on that subject; a violation that belongs to no call is trouble of its own."""
        options = self.options
        what, where = ("publish" if verb == "publish" else "listen"), "here"
        if what == "listen" and subject.lower().startswith(options.inbox_prefix.lower()):
            where = f"to the answers to its own questions, {options.inbox_prefix}.>"
        reason = f"{options.identity} may not {what} {where}; allow it in the server, or check {options.login_settings}"
        if not self._callers.deny(verb, subject, reason):
            self._trouble(PermissionDeniedError(subject, reason))

    def _note_failure(self, reason: str) -> None:
        """Keep why an attempt to connect has failed; an outage says each reason once."""
        options = self.options
        if self._prefix and not self._failures[reason]:
            log.warning("bus.unreachable", url=options.shown_url, reason=reason, advice=advise(reason))
        self._failures[reason] += 1
        if is_hopeless(reason):
            self._refusing.add(self._client.attempted)
        if len(self._refusing) >= len(options.servers):
            self._hopeless.set()
        elif not self._prefix and self._failures.total() == len(options.servers):
            # Whoever waits should not wonder why.
            detail = f"no server answers there yet; trying for {options.connect_seconds:g} s"
            log.warning("bus.unreachable", url=options.shown_url, reason=reason, detail=detail)

    async def _on_disconnected(self) -> None:
        if self._closed_reason is not None:
            return
        if self._up.is_set():
            log.warning("bus.disconnected", url=self.options.shown_url)
        self._up.clear()
        self._failures.clear()
        self._callers.fail(lambda subject: NotAcknowledgedError(subject, "the connection was lost"))

    async def _on_reconnected(self) -> None:
        self.reconnections += 1
        log.info("bus.reconnected", url=self.options.shown_url)
        self._up.set()
        self._tell_missed()

    async def _on_closed(self) -> None:
        if self._closed_reason is None:
            reason = str(self._client.last_error or "").removeprefix("nats: ") or "closed"
            log.error("bus.closed", url=self.options.shown_url, reason=reason)
            self._end(reason)

    def _end(self, reason: str) -> None:
        self._closed_reason = closed = self._closed_reason or reason
        self._up.set()  # wakes the waiting, who then find the reason
        self._callers.fail(lambda _: BusClosedError(closed))
        self._tell_missed()

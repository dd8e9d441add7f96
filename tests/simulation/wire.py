"""The broker port over a simulated network: calls travel, and on the way they may be late, lost or cut off.

What was sent before a process died still arrives. Calls of one connection arrive in the order in which they were made.
"""

import asyncio
import contextvars
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from bus.broker import Delivery, Message
from bus.errors import NotAcknowledgedError
from bus.memory import MemoryBroker, MemoryServer

T = TypeVar("T")


class Network:
    """How calls fare between one process and the server. Without a seed nothing is late or lost."""

    def __init__(
        self,
        chance: random.Random | None = None,
        *,
        delay_seconds: float = 0.0,
        loss: float = 0.0,
        duplication: float = 0.0,
    ) -> None:
        self._chance = chance
        self.delay_seconds = delay_seconds
        self.loss = loss
        self.duplication = duplication
        self.cut_until = 0.0

    def delay(self) -> float:
        """How long the next call travels, one way."""
        return self._chance.random() ** 3 * self.delay_seconds if self._chance else 0.0

    def loses(self) -> bool:
        """Whether the next message is lost."""
        return bool(self.loss and self._chance and self._chance.random() < self.loss)

    def repeats(self) -> bool:
        """Whether the next delivery comes twice."""
        return bool(self.duplication and self._chance and self._chance.random() < self.duplication)

    def is_cut(self) -> bool:
        """Whether there is a partition now."""
        return asyncio.get_running_loop().time() < self.cut_until


ANSWER_SECONDS = 2.0
"""How long a client waits for an answer that is lost."""


class Wire(MemoryBroker):
    """One connection to a MemoryServer over a network."""

    def __init__(self, server: MemoryServer, network: Network | None = None) -> None:
        super().__init__(server)
        self._network = network or Network()
        self._arrives_at = 0.0
        self._returns_at = 0.0
        self._twice: list[tuple[str, Delivery]] = []

    async def call(self, action: Callable[[], T]) -> T:
        """One call there and its answer back."""
        self._check_open()
        loop, network = asyncio.get_running_loop(), self._network
        while network.is_cut():
            await asyncio.sleep(network.cut_until - loop.time())
        answer: asyncio.Future[Any] = loop.create_future()
        if network.loses():
            loop.call_later(ANSWER_SECONDS, _lose, answer, context=contextvars.Context())
        else:
            self._arrives_at = _at(self._arrives_at, network.delay(), self._arrive, action, answer)
        result: T = await answer
        return result

    def _arrive(self, action: Callable[[], Any], answer: "asyncio.Future[Any]") -> None:
        loop, network = asyncio.get_running_loop(), self._network
        if network.is_cut():
            loop.call_later(ANSWER_SECONDS, _lose, answer)
            return
        try:
            result, error = action(), None
        except Exception as refusal:
            result, error = None, refusal
        if network.loses():
            loop.call_later(ANSWER_SECONDS, _lose, answer)
            return
        self._returns_at = _at(self._returns_at, network.delay(), _answer, answer, result, error)

    async def say(self, subject: str, data: bytes) -> None:
        """A core message, which may be lost."""
        if not self._network.loses():
            await super().say(subject, data)

    async def extend(self, ack_subject: str) -> None:
        """Put off a redelivery; nobody says whether it has arrived."""
        self._check_open()
        if not self._network.loses() and not self._network.is_cut():
            contextvars.Context().run(self.server.settle, ack_subject, "wpi")

    async def pull(self, stream: str, consumer: str) -> Delivery:
        """The next delivery; one that is lost on the way comes again when its time has run out."""
        self._check_open()
        loop, network = asyncio.get_running_loop(), self._network
        for place, (channel, again) in enumerate(self._twice):
            if channel == f"{stream}/{consumer}":
                del self._twice[place]
                return again
        while True:
            while network.is_cut():
                await asyncio.sleep(network.cut_until - loop.time())
            waiting = loop.create_task(self.server.next(stream, consumer), context=contextvars.Context())
            try:
                delivery: Delivery = await waiting
            finally:
                waiting.cancel()
            if not network.is_cut() and not network.loses():
                await asyncio.sleep(network.delay())
                if network.repeats():
                    self._twice.append((f"{stream}/{consumer}", delivery))
                return delivery

    @asynccontextmanager
    async def listen(self, subject: str) -> AsyncIterator["asyncio.Queue[Message | None]"]:
        """Core messages; what is said during a partition is lost."""
        self._check_open()
        hints = _Hints(self._network)
        with self.server.listening(subject, hints):
            yield hints


class _Hints(asyncio.Queue["Message | None"]):
    """Loses what is said during a partition."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def put_nowait(self, item: Message | None) -> None:
        if not self._network.is_cut():
            super().put_nowait(item)


def _at(earliest: float, delay_seconds: float, call: Callable[..., None], *arguments: Any) -> float:
    """Have something arrive after a delay and not before `earliest`; returns when. It belongs to no process."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    when = max(earliest, now + delay_seconds)
    if when > now:
        loop.call_at(when, call, *arguments, context=contextvars.Context())
    else:
        loop.call_soon(call, *arguments, context=contextvars.Context())
    return when


def _lose(answer: "asyncio.Future[Any]") -> None:
    if not answer.done():
        answer.set_exception(NotAcknowledgedError("a call", "no answer in time"))


def _answer(answer: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)

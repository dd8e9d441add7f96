"""Those who wait for the server's word: each gets the first that concerns it, good or bad."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from nats.aio.msg import Msg

from bus.errors import BusError, NoResponderError, PermissionDeniedError

Answer = Callable[[Msg | BusError], None]
Verb = Literal["publish", "subscription"]

STREAM = "Nats-Stream"
"""The header in which the server names the stream of a message that is read directly."""


class Caller(NamedTuple):
    """Somebody who waits for the server's word on a subject."""

    verb: Verb
    subject: str
    answer: Answer


class Callers:
    """All callers of a connection, by the token that ends their reply subject."""

    def __init__(self) -> None:
        self._callers: dict[str, Caller] = {}
        self._count = 0

    def expect(self, verb: Verb, subject: str, answer: Answer) -> str:
        """Enter a caller; returns its token."""
        self._count += 1
        token = f"{self._count:x}"
        self._callers[token] = Caller(verb, subject, answer)
        return token

    def forget(self, token: str) -> None:
        """Strike a caller out; harmless if it is not there."""
        self._callers.pop(token, None)

    def answer(self, token: str, message: Msg) -> None:
        """Hand on a message; one whose caller has given up is dropped."""
        caller = self._callers.get(token)
        if caller is not None:
            caller.answer(NoResponderError(caller.subject) if is_status(message, "503") else message)

    def deny(self, verb: str, subject: str, reason: str) -> bool:
        """Tell those concerned that it is not permitted; False if nobody is."""
        # nats-py makes what the server says lower case.
        denied = [one for one in self._callers.values() if one.verb == verb and one.subject.lower() == subject.lower()]
        for caller in denied:
            caller.answer(PermissionDeniedError(caller.subject, reason))
        return bool(denied)

    def fail(self, error: Callable[[str], BusError]) -> None:
        """Give everybody an error made from its subject."""
        for caller in list(self._callers.values()):
            caller.answer(error(caller.subject))


def settler(future: "asyncio.Future[Any]") -> Answer:
    """What ends a future with the first result or error, and lets later ones pass."""

    def settle(result: Msg | BusError) -> None:
        if future.done():
            return
        if isinstance(result, BusError):
            future.set_exception(result)
        else:
            future.set_result(result)

    return settle


def is_status(message: Msg, *codes: str) -> bool:
    """Whether a message is a status line of the server with one of these codes.

    Anybody can give a message a header `Status`. What a consumer delivers has a reply subject and what is read directly
    names its stream; the server's own word has neither.
    """
    headers = message.headers or {}
    return not (message.data or message.reply or STREAM in headers) and headers.get("Status") in codes

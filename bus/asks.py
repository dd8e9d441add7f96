"""Asks: what only a person can settle. Each is open until it is answered, once; it outlives whoever asked.

An ask and its answer stand under keys of their own, so that the broker can let every role ask and only people answer.
"""

from datetime import datetime
from typing import TypeVar

import msgspec

from bus.board import Board
from bus.errors import AskClosedError, UnknownAskError
from protocol.codec import encode
from protocol.messages import Instant
from protocol.subjects import Role

ASKS = "asks"
ANSWERS = "answers"


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to know. `id` begins with the asker's role: `<role>.<session>.<record>.<effect>`."""

    id: str
    question: str
    asked_at: Instant
    context: str = ""
    choices: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said to it."""

    text: str
    at: Instant


T = TypeVar("T")

_ask = msgspec.json.Decoder(Ask)
_answer = msgspec.json.Decoder(Answer)


def ask_id(role: Role, effect: str) -> str:
    """The id of an effect's ask: what a person can type and a key can hold."""
    return f"{role}.{effect.replace('/', '.')}"


class Asks:
    """All asks of a project."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def put(self, ask: Ask) -> None:
        """Ask; asking the same again changes nothing, also when it is answered by now."""
        await self._board.replace(f"{ASKS}.{ask.id}", encode(ask), 0)

    async def get(self, identifier: str) -> Ask:
        """An ask, open or not; UnknownAskError if there is none."""
        posted = await self._board.get(f"{ASKS}.{identifier}")
        ask = None if posted is None else _read(_ask, posted.value)
        if ask is None:
            raise UnknownAskError(identifier)
        return ask

    async def answer(self, identifier: str, text: str, at: datetime) -> None:
        """Answer an open ask. AskClosedError: somebody has; UnknownAskError: there is none."""
        await self.get(identifier)
        key = f"{ANSWERS}.{identifier}"
        if await self._board.replace(key, encode(Answer(text=text, at=at)), 0) is None:
            posted = await self._board.get(key)
            earlier = None if posted is None else _read(_answer, posted.value)
            raise AskClosedError(identifier, earlier.text if earlier else "")

    async def wait(self, identifier: str) -> str:
        """The answer, however long it takes."""
        async for posted in self._board.watch(f"{ANSWERS}.{identifier}"):
            answer = _read(_answer, posted.value)
            if answer is not None:
                return answer.text
        raise AssertionError("watching never ends")

    async def open(self) -> list[Ask]:
        """What waits for an answer, oldest first."""
        answered = {posted.key.removeprefix(f"{ANSWERS}.") async for posted in self._board.all(ANSWERS)}
        asks = [_read(_ask, posted.value) async for posted in self._board.all(ASKS)]
        return sorted((ask for ask in asks if ask and ask.id not in answered), key=lambda ask: (ask.asked_at, ask.id))


def _read(decoder: msgspec.json.Decoder[T], value: bytes | None) -> T | None:
    """None for what is not there or is not ours: the board is written by many."""
    try:
        return None if value is None else decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

"""Asks: what only a person can settle. Each is open until it is answered, once, or withdrawn.

An ask and its answer stand under keys of their own, so that the broker can let every role ask and only people answer.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import msgspec

from bus.board import Board, Posted
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
    """All asks of a project. The board is written by many: what is no ask or no answer counts for nothing."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def put(self, ask: Ask) -> None:
        """Ask; asking the same again changes nothing, also when it is answered or withdrawn by now."""
        await self._post(f"{ASKS}.{ask.id}", encode(ask), _is_asked)

    async def get(self, identifier: str) -> Ask:
        """An ask, open or answered; UnknownAskError if there is none or it was withdrawn."""
        ask = _read_ask(await self._board.get(f"{ASKS}.{identifier}"))
        if ask is None:
            raise UnknownAskError(identifier)
        return ask

    async def withdraw(self, identifier: str) -> None:
        """Take down an ask whose asker has given it up, unless it is answered. It stays so, whoever asks it again."""
        if await self.answer_to(identifier) is None:
            # Even if it is not there: a question that is still on its way comes too late then.
            await self._board.take_down(f"{ASKS}.{identifier}")

    async def answer(self, identifier: str, text: str, at: datetime) -> None:
        """Answer an open ask. AskClosedError: somebody has; UnknownAskError: there is none, or it was withdrawn."""
        await self.get(identifier)
        answer = encode(Answer(text=text, at=at))
        earlier = _read_answer(await self._post(f"{ANSWERS}.{identifier}", answer, _is_answered))
        if earlier is not None:
            raise AskClosedError(identifier, earlier.text)

    async def answer_to(self, identifier: str) -> str | None:
        """What was answered, if anything was yet."""
        answer = _read_answer(await self._board.get(f"{ANSWERS}.{identifier}"))
        return None if answer is None else answer.text

    async def wait(self, identifier: str) -> str:
        """The answer, however long it takes."""
        async for posted in self._board.watch(f"{ANSWERS}.{identifier}"):
            answer = _read_answer(posted)
            if answer is not None:
                return answer.text
        raise AssertionError("watching never ends")

    async def open(self) -> list[Ask]:
        """What waits for an answer, oldest first."""
        answers = [posted async for posted in self._board.all(ANSWERS) if _is_answered(posted)]
        answered = {posted.key.removeprefix(f"{ANSWERS}.") for posted in answers}
        asks = [_read_ask(posted) async for posted in self._board.all(ASKS)]
        return sorted((ask for ask in asks if ask and ask.id not in answered), key=lambda ask: (ask.asked_at, ask.id))

    async def _post(self, key: str, value: bytes, stands: Callable[[Posted], bool]) -> Posted | None:
        """Post under a key unless something `stands` there; gives what does."""
        while True:
            last = await self._board.last(key)
            if last is not None and stands(last):
                return last
            if await self._board.replace(key, value, last.revision if last else 0) is not None:
                return None


def _is_asked(posted: Posted) -> bool:
    return posted.value is None or _read_ask(posted) is not None


def _is_answered(posted: Posted) -> bool:
    return _read_answer(posted) is not None


def _read_ask(posted: Posted | None) -> Ask | None:
    """The ask that stands under its own key; any other could not be answered under the id that it shows."""
    ask = _read(_ask, posted)
    return ask if ask is not None and posted is not None and posted.key == f"{ASKS}.{ask.id}" else None


def _read_answer(posted: Posted | None) -> Answer | None:
    return _read(_answer, posted)


def _read(decoder: msgspec.json.Decoder[T], posted: Posted | None) -> T | None:
    """None for what is not there or is not ours."""
    try:
        return None if posted is None or posted.value is None else decoder.decode(posted.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

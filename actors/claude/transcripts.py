"""Transcripts: what was said in a conversation, read back from the journal of its session.

A process keeps what it has read and what it has heard since, so only the first question after a start reads anything.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from actors.runtime.world import World
from actors.thinking.conversation import Conversation, read_back, with_turn
from actors.thinking.effects import AskModel, ModelAnswered, Opening
from actors.thinking.errors import BadRequestError
from protocol.marks import parse_message_id
from protocol.record import Record

KEPT_MAX = 32
"""Conversations in memory; the architect has one for each coder."""


class Transcript(NamedTuple):
    """A conversation, and where in the journal it begins (0: nobody knows)."""

    conversation: Conversation
    position: int
    is_resumed: bool = False
    """Whether it was an earlier process that was to ask: it may have, and paid, without recording the answer."""


class Transcripts:
    """The conversations of the sessions in this process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: dict[str, Transcript] = {}

    async def before(self, asked: AskModel) -> Transcript:
        """What was said before a question is asked."""
        session, _ = parse_message_id(asked.id)
        if asked.opening is not None:
            return await self._begin(asked, asked.opening, session)
        kept = self._kept.get(asked.conversation)
        if kept is None or kept.conversation.last != asked.after:  # what was heard last was not recorded
            kept = await self._read(asked, session)
        self._keep(asked.conversation, kept._replace(is_resumed=False))
        return kept

    def heard(self, asked: AskModel, before: Transcript, answer: ModelAnswered) -> None:
        """An answer has come; whether it was recorded shows by what is asked next."""
        after = with_turn(before.conversation, asked, answer)
        self._keep(answer.conversation, Transcript(after, before.position))

    def _keep(self, name: str, transcript: Transcript) -> None:
        self._kept.pop(name, None)
        self._kept[name] = transcript
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]

    async def _begin(self, asked: AskModel, opening: Opening, session: str) -> Transcript:
        """Where it begins is known if that is the session's last record; else whoever reads it finds out."""
        last = await self._world.bus.journal.last("", session)
        _, place = parse_message_id(asked.id)
        is_last = last is not None and last.record().n == place.n
        is_ours = last is not None and is_last and last.record().incarnation == self._world.incarnation
        position = last.sequence if last is not None and is_last else 0
        return Transcript(Conversation(opening), position, is_resumed=not is_ours)

    async def _read(self, asked: AskModel, session: str) -> Transcript:
        records: list[Record] = []
        position = 0
        _, beginning = parse_message_id(asked.conversation)
        async for sequence, record in self._records(session, asked.position):
            if record.n == beginning.n:
                position = sequence
            if record.n >= beginning.n:
                records.append(record)
        conversation = read_back(records, asked.conversation)
        if conversation is None or conversation.last != asked.after:
            raise BadRequestError(f"conversation {asked.conversation} is not in the journal of {session}")
        _, place = parse_message_id(asked.id)
        is_ours = any(record.n == place.n and record.incarnation == self._world.incarnation for record in records)
        return Transcript(conversation, position, is_resumed=not is_ours)

    async def _records(self, session: str, first: int) -> AsyncIterator[tuple[int, Record]]:
        async for entry in self._world.bus.journal.read("", session, max(1, first)):
            yield entry.sequence, entry.record()

"""Control: restore, pause, resume, restart, scale, cancel and stop, for one actor, a role or everybody.

Signals are stored, so that an actor that was away still gets them, and repeated at once on core subjects, so that
those who are there get them fast. A signal's generation is its sequence in the stream.
"""

from collections.abc import AsyncIterator

import msgspec

from bus.broker import Message
from bus.following import follow
from bus.mail import read_envelope
from bus.post import Post
from bus.retrying import surely
from protocol.errors import BadSubjectError, MalformedMessageError, UnsupportedSchemaError
from protocol.messages import Envelope
from protocol.subjects import ALL, Role, parse_subject


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A control message and its generation."""

    generation: int
    envelope: Envelope


class Control:
    """The control signals of a project."""

    def __init__(self, post: Post) -> None:
        self._broker = post.broker
        self._subjects = post.subjects
        self._post = post
        self._stream = post.subjects.stream("CONTROL")

    async def broadcast(self, envelope: Envelope) -> int:
        """Store a signal for its recipient (`all.all`, `coder.all`, `coder.coder-1`); returns its generation."""
        return await self._post.send(self._post.seal(envelope))

    async def read(self, role: Role, identifier: str, after: int = 0) -> AsyncIterator[Signal]:
        """All signals for an actor after a generation, up to the newest at the time of the call."""
        async for message in self._broker.read(self._stream, self._subjects.every("control"), after + 1):
            signal = self._signal(message) if _is_for(message.subject, role, identifier) else None
            if signal is not None:
                yield signal

    async def listen(self, role: Role, identifier: str, after: int = 0) -> AsyncIterator[Signal]:
        """All signals for an actor after a generation, in order, for ever; what cannot be read is passed over."""
        async for message in self._follow(after):
            signal = self._signal(message) if _is_for(message.subject, role, identifier) else None
            if signal is not None:
                yield signal

    async def overhear(self, after: int = 0) -> AsyncIterator[Signal]:
        """All signals after a generation, whoever they are for: their envelopes say it. For ever, as `listen`."""
        async for message in self._follow(after):
            signal = self._signal(message)
            if signal is not None:
                yield signal

    async def generation(self) -> int:
        """The generation of the newest signal; 0 if there never was one."""
        last = await surely(lambda: self._broker.last(self._stream, self._subjects.every("control")))
        return last.sequence if last else 0

    def _follow(self, after: int) -> AsyncIterator[Message]:
        every, live = self._subjects.every("control"), self._subjects.live("control")
        return follow(self._broker, self._stream, every, live, after + 1, whole=True)

    def _signal(self, message: Message) -> Signal | None:
        try:
            envelope = read_envelope(message.data, self._post.letter_bytes_max)
        except (MalformedMessageError, UnsupportedSchemaError):
            # It stays in the stream for whoever looks; unlike mail there is nobody who waits for an answer.
            return None
        return Signal(generation=message.sequence, envelope=envelope)


def _is_for(subject: str, role: str, identifier: str) -> bool:
    try:
        parsed = parse_subject(subject)
    except BadSubjectError:
        return False
    return parsed.role in (ALL, role) and parsed.id in (ALL, identifier)

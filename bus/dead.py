"""Dead letters: what could not be read or handled, with the reason and the original bytes.

A letter's body is the original message's body, byte for byte; why and whence stand in headers. Where the broker gave
up delivering, its advisory stands here instead and names the message, which is still in its stream.
"""

from collections.abc import AsyncIterator
from datetime import datetime

import msgspec

from bus.broker import MESSAGE_ID, Broker, Delivery, Message
from bus.errors import MessageTooLargeError
from bus.objects import Objects
from bus.retrying import surely
from protocol.subjects import Role, Subjects

ABOUT = "Callboard-Dead"
BODY = "Callboard-Body"
REASON_LENGTH_MAX = 1000


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Why a message is dead and where it came from."""

    reason: str
    subject: str
    sequence: int = 0
    message_id: str = ""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter; `number` names it to a person."""

    number: int
    at: datetime
    holder: str
    reason: str
    subject: str
    sequence: int
    message_id: str
    data: bytes


class _Advisory(msgspec.Struct, frozen=True, kw_only=True):
    """What the broker says when it stops delivering a message."""

    stream: str
    consumer: str
    stream_seq: int
    deliveries: int


_about = msgspec.json.Decoder(About)
_advisory = msgspec.json.Decoder(_Advisory)


class DeadLetters:
    """All dead letters of a project."""

    def __init__(self, broker: Broker, subjects: Subjects, objects: Objects) -> None:
        self._broker = broker
        self._subjects = subjects
        self._objects = objects
        self._stream = subjects.stream("DEAD")

    async def bury(self, delivery: Delivery, role: Role, identifier: str, reason: str) -> None:
        """Keep a message that `role.identifier` could not handle. The caller acknowledges it afterwards."""
        about = About(
            reason=reason[:REASON_LENGTH_MAX],
            subject=delivery.subject,
            sequence=delivery.sequence,
            message_id=delivery.headers.get(MESSAGE_ID, ""),
        )
        subject = self._subjects.dead(role, identifier)
        headers = {ABOUT: _ascii(about), MESSAGE_ID: f"dead/{delivery.subject}/{delivery.sequence}"}
        try:
            await surely(lambda: self._broker.publish(subject, delivery.data, headers))
        except MessageTooLargeError:
            # Just under the limit before, just over it with our headers.
            headers[BODY] = await self._objects.put(delivery.data)
            await surely(lambda: self._broker.publish(subject, b"", headers))

    async def all(self) -> AsyncIterator[DeadLetter]:
        """All dead letters, oldest first."""
        async for message in self._broker.read(self._stream, ">"):
            yield await self._letter(message)

    async def get(self, number: int) -> DeadLetter | None:
        """One dead letter."""
        async for message in self._broker.read(self._stream, ">", number):
            return await self._letter(message) if message.sequence == number else None
        return None

    async def replay(self, letter: DeadLetter) -> None:
        """Put the original message where it was first sent, and take the letter away. Doing it twice does it once."""
        headers = {MESSAGE_ID: f"replay/{letter.number}/{letter.message_id}"}
        await surely(lambda: self._broker.publish(letter.subject, letter.data, headers))
        advised = await self._find_advised(letter.number)
        if advised is not None:
            await surely(lambda: self._broker.delete(*advised))
        await surely(lambda: self._broker.delete(self._stream, letter.number))

    async def _find_advised(self, number: int) -> tuple[str, int] | None:
        """The message that an advisory speaks of: it still lies in its stream, never to be delivered."""
        async for message in self._broker.read(self._stream, ">", number):
            if message.sequence == number and ABOUT not in message.headers:
                advisory = _advisory.decode(message.data)
                return advisory.stream, advisory.stream_seq
            break
        return None

    async def _letter(self, message: Message) -> DeadLetter:
        if ABOUT not in message.headers:
            return await self._advised_letter(message)
        about = _about.decode(message.headers[ABOUT].encode())
        data = await self._objects.get(message.headers[BODY]) if BODY in message.headers else message.data
        return DeadLetter(
            number=message.sequence,
            at=message.stored_at,
            holder=message.subject.split(".dead.", 1)[-1],
            reason=about.reason,
            subject=about.subject,
            sequence=about.sequence,
            message_id=about.message_id,
            data=data,
        )

    async def _advised_letter(self, message: Message) -> DeadLetter:
        advisory = _advisory.decode(message.data)
        original: Message | None = None
        async for candidate in self._broker.read(advisory.stream, ">", advisory.stream_seq):
            original = candidate if candidate.sequence == advisory.stream_seq else None
            break
        return DeadLetter(
            number=message.sequence,
            at=message.stored_at,
            holder=f"{advisory.stream}/{advisory.consumer}",
            reason=f"delivered {advisory.deliveries} times without being handled",
            subject=original.subject if original else "",
            sequence=advisory.stream_seq,
            message_id=original.headers.get(MESSAGE_ID, "") if original else "",
            data=original.data if original else b"",
        )


def _ascii(about: About) -> str:
    """JSON that may stand in a header: one line of ASCII."""
    text = msgspec.json.encode(about).decode()
    return "".join(char if " " <= char < "\x7f" else f"\\u{ord(char):04x}" for char in text if ord(char) < 0x10000)

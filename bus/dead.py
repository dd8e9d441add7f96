"""Dead letters: what could not be read or handled, with the reason and the original bytes.

A letter's body is the original message's body, byte for byte; why and whence stand in headers. Where the broker gave
up delivering, its advisory stands here instead and names the message, which is still in its stream. Anything else that
somebody has put here is shown as it is, and hides no other letter.
"""

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

import msgspec
import structlog

from bus.broker import MESSAGE_ID, Broker, Delivery, Message
from bus.errors import ChannelClosedError, MessageTooLargeError, ObjectCorruptError, ObjectMissingError
from bus.objects import Objects
from bus.retrying import surely
from bus.topology import watched_streams
from protocol.errors import BadSubjectError
from protocol.subjects import MAIL_KINDS, Role, Subjects, parse_subject

log = structlog.get_logger()

ABOUT = "Callboard-Dead"
BODY = "Callboard-Body"
REPLAY = "replay/"
"""How the id of a message begins that a person sends again; the number of the dead letter follows."""
REASON_LENGTH_MAX = 1000
MESSAGE_ID_LENGTH_MAX = 1000
"""In a header one character can take twelve bytes, and the broker takes 64 KB of headers."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Why a message is dead and where it came from."""

    reason: str
    subject: str
    sequence: int = 0
    message_id: str = ""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter; `number` names it to a person. Without a `subject` nobody knows where it was sent first."""

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
    stream_seq: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
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
        self._prefix = subjects.every("dead").removesuffix(">")
        self._watched = watched_streams(subjects)

    async def bury(self, delivery: Delivery, role: Role, identifier: str, reason: str) -> None:
        """Keep a message that `role.identifier` could not handle. The caller acknowledges it afterwards."""
        about = About(
            reason=reason[:REASON_LENGTH_MAX],
            subject=delivery.subject,
            sequence=delivery.sequence,
            message_id=delivery.headers.get(MESSAGE_ID, "")[:MESSAGE_ID_LENGTH_MAX],
        )
        log.warning("letter.dead", holder=f"{role}.{identifier}", subject=delivery.subject, reason=about.reason)
        subject = self._subjects.dead(role, identifier)
        headers = {ABOUT: _ascii(about), MESSAGE_ID: f"dead/{delivery.subject}/{delivery.sequence}"}
        try:
            await surely(lambda: self._broker.publish(subject, delivery.data, headers))
        except MessageTooLargeError:
            # Just under the limit before, just over it with our headers.
            headers[BODY] = await self._objects.put(delivery.data)
            await surely(lambda: self._broker.publish(subject, b"", headers))

    async def bury_and_acknowledge(self, delivery: Delivery, role: Role, identifier: str, reason: str) -> None:
        """Keep a message among the dead, and only then take it from its stream."""
        await self.bury(delivery, role, identifier, reason)
        await surely(lambda: self._broker.acknowledge(delivery.ack_subject))

    async def all(self) -> AsyncIterator[DeadLetter]:
        """All dead letters, oldest first."""
        async for message in self._broker.read(self._stream, ">"):
            yield await self._letter(message)

    async def get(self, number: int) -> DeadLetter | None:
        """One dead letter."""
        message = await self._stored(self._stream, number)
        return None if message is None else await self._letter(message)

    async def replay(self, letter: DeadLetter) -> None:
        """Put the original message where it was first sent, and take the letter away. Doing it twice does it once.

        BadSubjectError if that is no place for mail or work of this project; then nothing has happened.
        """
        self._check_place(letter.subject)
        headers = {MESSAGE_ID: f"{REPLAY}{letter.number}/{letter.message_id}"}
        await surely(lambda: self._broker.publish(letter.subject, letter.data, headers))
        await self.drop(letter)

    async def drop(self, letter: DeadLetter) -> None:
        """Take a letter away for good, with the message that it speaks of. Doing it twice does it once."""
        stored = await self._stored(self._stream, letter.number)
        advisory = None if stored is None else self._read_advisory(stored)
        if advisory is not None:
            # The message that the broker gave up still lies in its stream, never to be delivered.
            await surely(lambda: self._broker.delete(advisory.stream, advisory.stream_seq))
        await surely(lambda: self._broker.delete(self._stream, letter.number))

    def _check_place(self, subject: str) -> None:
        """A letter says itself where it belongs, and whoever replays it may write nearly everywhere."""
        if not subject:
            raise BadSubjectError(subject, "the letter does not say where its message was sent, or the message is gone")
        place = parse_subject(subject)
        if place.project != self._subjects.project or place.kind not in (*MAIL_KINDS, "work"):
            raise BadSubjectError(subject, f"only mail and work of {self._subjects.project} can be sent again")

    async def _letter(self, message: Message) -> DeadLetter:
        about, advisory = _read_about(message), self._read_advisory(message)
        if about is not None:
            return await self._buried_letter(message, about)
        if advisory is not None:
            return await self._advised_letter(message, advisory)
        return self._strange_letter(message)

    async def _buried_letter(self, message: Message, about: About) -> DeadLetter:
        data, reason, subject = message.data, about.reason, about.subject
        if BODY in message.headers:
            try:
                data = await self._objects.get(message.headers[BODY])
            except (ObjectMissingError, ObjectCorruptError) as error:
                reason, subject = f"{reason} (it was sent to {subject}, and its body is lost: {error})", ""
        return DeadLetter(
            number=message.sequence,
            at=message.stored_at,
            holder=self._holder(message),
            reason=reason,
            subject=subject,
            sequence=about.sequence,
            message_id=about.message_id,
            data=data,
        )

    async def _advised_letter(self, message: Message, advisory: _Advisory) -> DeadLetter:
        original = await self._stored(advisory.stream, advisory.stream_seq)
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

    def _strange_letter(self, message: Message) -> DeadLetter:
        return DeadLetter(
            number=message.sequence,
            at=message.stored_at,
            holder=self._holder(message),
            reason="no reason was given: it was not put here by the bus",
            subject="",
            sequence=0,
            message_id=message.headers.get(MESSAGE_ID, ""),
            data=message.data,
        )

    def _holder(self, message: Message) -> str:
        return message.subject.removeprefix(self._prefix)

    def _read_advisory(self, message: Message) -> _Advisory | None:
        """What the broker says; what lies on a subject of the project or speaks of other streams is not its word."""
        if message.subject.startswith(self._prefix):
            return None
        try:
            advisory = _advisory.decode(message.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return advisory if advisory.stream in self._watched else None

    async def _stored(self, stream: str, sequence: int) -> Message | None:
        """One message of a stream, if both are still there."""
        try:
            return await surely(lambda: self._broker.get(stream, sequence))
        except ChannelClosedError:
            return None


def _read_about(message: Message) -> About | None:
    try:
        return _about.decode(message.headers.get(ABOUT, "").encode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _ascii(about: About) -> str:
    """JSON that may stand in a header: one line of ASCII."""
    return json.dumps(msgspec.to_builtins(about)).replace("\x7f", "\\u007f")

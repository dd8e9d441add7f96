"""Post: an envelope on its way. Sealed first, so that whoever records what it sends knows that it can be sent."""

from typing import NamedTuple

from bus.broker import MESSAGE_ID, Broker
from bus.errors import MessageTooLargeError
from bus.retrying import surely
from protocol.codec import encode
from protocol.messages import Envelope
from protocol.routing import subject_of
from protocol.subjects import Subjects

LETTERS_PER_MESSAGE = 5
"""A letter may have this part of the broker's limit, since a record holds one beside all that it led to."""


class Sealed(NamedTuple):
    """An envelope as it travels."""

    subject: str
    data: bytes
    id: str


class Post:
    """Sealing and sending for one project."""

    def __init__(self, broker: Broker, subjects: Subjects) -> None:
        self.broker = broker
        self.subjects = subjects

    @property
    def letter_bytes_max(self) -> int:
        """The largest letter that is sent and taken; what is larger goes through the object store."""
        return self.broker.message_bytes_max // LETTERS_PER_MESSAGE

    def seal(self, envelope: Envelope) -> Sealed:
        """Make it ready. BadSubjectError: nobody can have that address; MessageTooLargeError."""
        sealed = Sealed(subject_of(self.subjects, envelope), encode(envelope), envelope.id)
        if len(sealed.data) > self.letter_bytes_max:
            raise MessageTooLargeError(sealed.subject, len(sealed.data), self.letter_bytes_max)
        return sealed

    async def send(self, sealed: Sealed) -> int:
        """Have it stored for its receiver; repeating it is harmless. Returns its sequence in its stream."""
        headers = {MESSAGE_ID: sealed.id}
        return (await surely(lambda: self.broker.publish(sealed.subject, sealed.data, headers))).sequence

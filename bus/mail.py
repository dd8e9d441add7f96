"""Mail: requests, specs and replies, kept until their receiver has recorded them.

Each kind has a consumer of its own, so that an answer is never stuck behind a request that waits for it. A consumer
hands on one message at a time and in order; what cannot be read goes to the dead letters and the next one is taken.
"""

from typing import Self

from bus.broker import MESSAGE_ID, Broker, ConsumerPlan, Delivery
from bus.dead import REPLAY, DeadLetters
from bus.post import Post
from bus.retrying import surely
from protocol.codec import decode_envelope, encode
from protocol.errors import BadSubjectError, MalformedMessageError, UnsupportedSchemaError
from protocol.marks import parse_message_id
from protocol.messages import Envelope
from protocol.routing import parse_address
from protocol.subjects import MailKind, Role, check_id

ACK_WAIT_SECONDS = 60.0
DELIVERIES_MAX = 100
"""After so many deliveries that nobody has settled, a letter is taken for what kills its readers, and is dead.

A reader that waits with a letter in hand, however long, has it delivered once; each start of a process that is ended
before it has settled it costs one more. Supervisors give up after a few starts in a minute, so only somebody who starts
readers again and again comes near this number, and then the letter is not lost: it can be replayed.
"""


class Letter:
    """A message in hand. It comes again unless it is acknowledged, to whoever takes mail under the same name."""

    def __init__(self, broker: Broker, delivery: Delivery, envelope: Envelope) -> None:
        self._broker = broker
        self.delivery = delivery
        self.envelope = envelope

    @property
    def ack_subject(self) -> str:
        """What settles this delivery, from any process; goes into the journal where a session outlives a process."""
        return self.delivery.ack_subject

    def inbox(self, kind: MailKind) -> str:
        """By which inbox it came, for marks. What a person sends again has one to itself.

        It was not taken the first time, however many later ones of its sender were since.
        """
        identifier = self.delivery.headers.get(MESSAGE_ID, "")
        if not identifier.startswith(REPLAY):
            return kind
        return f"{kind}.replay-{identifier.removeprefix(REPLAY).partition('/')[0]}"

    async def acknowledge(self) -> None:
        """Settle it, after what it led to is recorded; returns when the broker has confirmed.

        A broker that was killed may have forgotten that it delivered it: then it comes again all the same.
        """
        await surely(lambda: self._broker.acknowledge(self.ack_subject))

    async def extend(self) -> None:
        """Put off its redelivery while it is being worked on."""
        await self._broker.extend(self.ack_subject)

    async def give_back(self, delay_seconds: float = 0.0) -> None:
        """Let it come again after a delay, to anyone."""
        await surely(lambda: self._broker.give_back(self.ack_subject, delay_seconds))


class Inbox:
    """One kind of mail of one actor or session."""

    def __init__(self, post: Post, dead: DeadLetters, plan: ConsumerPlan, role: Role, identifier: str) -> None:
        self._broker = post.broker
        self._post = post
        self._dead = dead
        self._plan = plan
        self._role = role
        self._identifier = identifier

    async def open(self) -> Self:
        """Make sure that the consumer exists; what an earlier process had in hand when it died comes again at once."""
        if not await surely(lambda: self._broker.ensure_consumer(self._plan)):
            await surely(lambda: self._broker.reclaim(self._plan.stream, self._plan.name))
        return self

    async def take(self) -> Letter:
        """The next message that can be read, however long it takes; nothing here has a time-out."""
        while True:
            delivery = await self._broker.pull(self._plan.stream, self._plan.name)
            try:
                return Letter(self._broker, delivery, read_envelope(delivery.data, self._post.letter_bytes_max))
            except (MalformedMessageError, UnsupportedSchemaError) as error:
                await self._dead.bury_and_acknowledge(delivery, self._role, self._identifier, str(error))

    async def close(self) -> None:
        """Remove the consumer and what is left in it, for a session that is over."""
        await surely(lambda: self._broker.purge(self._plan.stream, self._plan.filter))
        await surely(lambda: self._broker.delete_consumer(self._plan.stream, self._plan.name))


def read_envelope(data: bytes, bytes_max: int) -> Envelope:
    """An envelope that can be recorded, marked as seen and answered, or the error that says why not."""
    if len(data) > bytes_max:
        raise MalformedMessageError(f"{len(data)} bytes are more than the {bytes_max} that a letter may have", data)
    envelope = decode_envelope(data)
    size = len(encode(envelope))  # what was left to its default is written out in a record
    if size > bytes_max:
        raise MalformedMessageError(f"written out {size} bytes, over the {bytes_max} that a letter may have", data)
    try:
        check_id(parse_message_id(envelope.id)[0])
        parse_address(envelope.sender)
    except BadSubjectError as error:
        raise MalformedMessageError(f"its sender cannot be answered: {error}", data) from error
    return envelope


class Mail:
    """Sending and receiving for one project."""

    def __init__(self, post: Post, dead: DeadLetters, ack_wait_seconds: float = ACK_WAIT_SECONDS) -> None:
        self._subjects = post.subjects
        self._post = post
        self._dead = dead
        self._ack_wait_seconds = ack_wait_seconds

    async def send(self, envelope: Envelope) -> int:
        """Store a message for its receiver; repeating it is harmless. Returns its sequence in its stream."""
        return await self._post.send(self._post.seal(envelope))

    async def inbox(self, kind: MailKind, role: Role, identifier: str) -> Inbox:
        """Open the inbox for one kind of mail of an actor or session."""
        subject: str = getattr(self._subjects, kind)(role, identifier)
        plan = ConsumerPlan(
            stream=self._subjects.mail_stream(role),
            name=self._subjects.mail_consumer(kind, identifier),
            filter=subject,
            ack_wait_seconds=self._ack_wait_seconds,
            deliveries_max=DELIVERIES_MAX,
        )
        return await Inbox(self._post, self._dead, plan, role, identifier).open()

    async def request(self, request: Envelope, replies: Inbox) -> Letter:
        """Send a request and wait for its answer, for ever; answers to other requests are acknowledged and dropped.

        For a person's commands. An actor takes its replies as events instead and forgets none.
        """
        await self.send(request)
        while True:
            letter = await replies.take()
            if letter.envelope.correlation_id == request.id:
                return letter
            await letter.acknowledge()

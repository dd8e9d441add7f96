"""The work queue: each story to one coder, and to another only when the first is gone.

A story stays in the queue, in progress, while its session lives, and is acknowledged when that has ended. When the
broker delivers it again, because the machine was lost or because an outage outlasted `ack_wait`, the lease of the
story decides: held by somebody else, the story is given back and its owner goes on; free, it is taken over.
"""

import msgspec

from bus.broker import MESSAGE_ID, Broker
from bus.dead import DeadLetters
from bus.errors import LeaseLostError
from bus.leases import Lease, Leases
from bus.mail import Letter, read_envelope
from bus.retrying import surely
from protocol.codec import encode
from protocol.errors import MalformedMessageError, UnsupportedSchemaError
from protocol.messages import Envelope, Story
from protocol.subjects import Role, Subjects

HELD_DELAY_SECONDS = 5.0
"""A story whose owner lives is offered again after this long."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A story in hand and the right to work on it."""

    letter: Letter
    story: Story
    lease: Lease

    @property
    def taken_over(self) -> bool:
        """Whether somebody else has had it. No proof of the contrary: a broker that is killed forgets deliveries."""
        return self.letter.delivery.delivered > 1


class WorkQueue:
    """Ready stories of a project, for the coders."""

    role: Role = "coder"

    def __init__(
        self,
        broker: Broker,
        subjects: Subjects,
        leases: Leases,
        dead: DeadLetters,
        held_delay_seconds: float = HELD_DELAY_SECONDS,
    ) -> None:
        self._broker = broker
        self._subjects = subjects
        self._leases = leases
        self._dead = dead
        self._held_delay_seconds = held_delay_seconds

    async def put(self, envelope: Envelope) -> int:
        """Put a story on the queue; repeating it is harmless."""
        if not isinstance(envelope.payload, Story):
            raise MalformedMessageError("only a story can be put on the work queue", encode(envelope))
        subject, data = self._subjects.work(self.role, envelope.payload.story), encode(envelope)
        return (await surely(lambda: self._broker.publish(subject, data, {MESSAGE_ID: envelope.id}))).sequence

    async def take(self, owner: str) -> Assignment:
        """The next story that nobody works on, however long it takes. `owner` is this incarnation's unique name."""
        stream, consumer = self._subjects.stream("WORK"), self._subjects.work_consumer(self.role)
        while True:
            delivery = await self._broker.pull(stream, consumer)
            try:
                envelope = read_envelope(delivery.data)
                story = _story(envelope, delivery.data)
            except (MalformedMessageError, UnsupportedSchemaError) as error:
                await self._dead.bury(delivery, self.role, "queue", str(error))
                await surely(lambda settled=delivery: self._broker.acknowledge(settled.ack_subject))  # type: ignore[misc]  # mypy cannot infer a lambda's default
                continue
            letter = Letter(self._broker, delivery, envelope)
            lease = await self._leases.acquire(self.lease_key(story.story), owner)
            if lease is not None:
                return Assignment(letter=letter, story=story, lease=lease)
            await letter.give_back(self._held_delay_seconds)

    async def keep(self, assignment: Assignment) -> Assignment:
        """Say that the story is still being worked on. LeaseLostError: it is somebody else's now, stop."""
        lease = await self._leases.renew(assignment.lease)
        await assignment.letter.extend()
        return msgspec.structs.replace(assignment, lease=lease)

    async def hand_back(self, assignment: Assignment, delay_seconds: float = 0.0) -> None:
        """Let another coder go on with it."""
        await self._leases.release(assignment.lease)
        await assignment.letter.give_back(delay_seconds)

    async def finish(self, assignment: Assignment) -> None:
        """Take the story off the queue: its session has ended. LeaseLostError: it is not ours to take off."""
        current = await self._leases.holder(assignment.lease.key)
        if current is None or current.epoch != assignment.lease.epoch:
            # An acknowledgement acts on whatever delivery is current, so a zombie's would take it from its new owner.
            raise LeaseLostError(assignment.lease.key, assignment.lease.owner)
        await assignment.letter.acknowledge()
        await self._leases.release(current)

    @staticmethod
    def lease_key(story: str) -> str:
        """The lease that says who works on a story."""
        return f"coder.story.{story}"


def _story(envelope: Envelope, data: bytes) -> Story:
    if not isinstance(envelope.payload, Story):
        raise MalformedMessageError(f"a {type(envelope.payload).__name__} is no story", data)
    return envelope.payload

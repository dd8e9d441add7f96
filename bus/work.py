"""The work queue: each story to one coder, and to another only when the first is gone.

A story stays in the queue, in progress, while its session lives, and is acknowledged when that has ended. When the
broker delivers it again, because the machine was lost or because an outage outlasted `ack_wait`, the lease of the
story decides: held by somebody else, the story is given back and its owner goes on; free, it is taken over.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.dead import DeadLetters
from bus.leases import Lease, Leases
from bus.mail import read_envelope
from bus.post import Post
from bus.retrying import surely
from protocol.codec import encode
from protocol.errors import BadSubjectError, MalformedMessageError, UnsupportedSchemaError
from protocol.messages import Envelope, Story
from protocol.subjects import Role, check_id

HELD_DELAY_SECONDS = 5.0
"""A story whose owner lives is offered again after this long."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The right to work on a story, and what takes it off the queue, from any process."""

    story: str
    ack_subject: str
    lease: Lease


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A story in hand and the claim to it."""

    envelope: Envelope
    story: Story
    claim: Claim
    delivered: int

    @property
    def taken_over(self) -> bool:
        """Whether somebody else has had it. No proof of the contrary: a broker that is killed forgets deliveries."""
        return self.delivered > 1


class WorkQueue:
    """Ready stories of a project, for the coders."""

    role: Role = "coder"

    def __init__(
        self,
        post: Post,
        leases: Leases,
        dead: DeadLetters,
        held_delay_seconds: float = HELD_DELAY_SECONDS,
    ) -> None:
        self._broker = post.broker
        self._subjects = post.subjects
        self._post = post
        self._leases = leases
        self._dead = dead
        self._held_delay_seconds = held_delay_seconds

    async def put(self, envelope: Envelope) -> int:
        """Put a story on the queue; repeating it is harmless."""
        if not isinstance(envelope.payload, Story):
            raise MalformedMessageError("only a story can be put on the work queue", encode(envelope))
        return await self._post.send(self._post.seal(envelope))

    async def take(self, owner: str) -> Assignment:
        """The next story that nobody works on, however long it takes. `owner` is this incarnation's unique name."""
        stream, consumer = self._subjects.stream("WORK"), self._subjects.work_consumer(self.role)
        while True:
            delivery = await self._broker.pull(stream, consumer)
            try:
                envelope = read_envelope(delivery.data, self._post.letter_bytes_max)
                story = _story(envelope, delivery.data)
            except (MalformedMessageError, UnsupportedSchemaError) as error:
                await self._dead.bury_and_acknowledge(delivery, self.role, "queue", str(error))
                continue
            claim = await self.claim(story.story, delivery.ack_subject, owner)
            if claim is not None:
                return Assignment(envelope=envelope, story=story, claim=claim, delivered=delivery.delivered)
            await self._give_back(delivery.ack_subject, self._held_delay_seconds)

    async def claim(self, story: str, ack_subject: str, owner: str, instead_of: str = "") -> Claim | None:
        """Claim a story whose delivery was in our hands before; None if somebody other than `instead_of` has it."""
        lease = await self._leases.acquire(self.lease_key(story), owner, instead_of=instead_of)
        return None if lease is None else Claim(story=story, ack_subject=ack_subject, lease=lease)

    async def keep(self, claim: Claim, details: Mapping[str, Any] | None = None) -> Claim:
        """Say that the story is still being worked on. LeaseLostError: it is somebody else's now, stop."""
        lease = await self._leases.renew(claim.lease, details)
        await self._broker.extend(claim.ack_subject)
        return msgspec.structs.replace(claim, lease=lease)

    async def hand_back(self, claim: Claim, delay_seconds: float = 0.0) -> None:
        """Let another coder go on with it. LeaseLostError: it is not ours to hand back."""
        lease = await self._leases.renew(claim.lease)
        await self._leases.release(lease)
        await self._give_back(claim.ack_subject, delay_seconds)

    async def finish(self, claim: Claim) -> None:
        """Take the story off the queue: its session has ended. LeaseLostError: it is not ours to take off."""

        async def settle() -> Lease:
            # An acknowledgement acts on whatever delivery is current, so a zombie's would take it from its new owner.
            # Only a write that the broker takes proves that there is none; and again after each try that failed.
            lease = await self._leases.renew(claim.lease)
            await self._broker.acknowledge(claim.ack_subject)
            return lease

        await self._leases.release(await surely(settle))

    async def _give_back(self, ack_subject: str, delay_seconds: float) -> None:
        await surely(lambda: self._broker.give_back(ack_subject, delay_seconds))

    @staticmethod
    def lease_key(story: str) -> str:
        """The lease that says who works on a story."""
        return f"coder.story.{story}"


def _story(envelope: Envelope, data: bytes) -> Story:
    if not isinstance(envelope.payload, Story):
        raise MalformedMessageError(f"a {type(envelope.payload).__name__} is no story", data)
    try:
        check_id(f"{envelope.payload.story}.{envelope.payload.run}")  # a lease's key and a journal's subject hold it
    except BadSubjectError as error:
        raise MalformedMessageError(f"its story id is no name: {error}", data) from error
    return envelope.payload

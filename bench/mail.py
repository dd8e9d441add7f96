"""A durable request and its response against the same conversation held with nats-py alone.

Both: store the request, take it, store the response, take it, settle both with confirmation; in this order, in one
task, over two connections.
"""

from collections import deque
from datetime import UTC, datetime
from itertools import count

from nats.js.api import ConsumerConfig, RetentionPolicy
from nats.js.client import JetStreamContext

from bench.rounds import Pair
from bench.world import World, all_of
from bus.mail import ACK_WAIT_SECONDS, Inbox, Mail
from protocol.codec import encode
from protocol.messages import Answer, Envelope, Question

TEXT_BYTES = 1500
"""The question's and the answer's length; with the envelope about 2 KB."""
FETCH_SECONDS = 5.0

ASKER = "measured.1"
ANSWERER = "measured"

_positions = count(1)
"""One count for the whole run: an id is never used twice, or the broker would take a message for a repetition."""


def a_question(asker: str, answerer: str) -> Envelope:
    """A request of a usual size."""
    return Envelope(
        id=f"{asker}/{next(_positions)}/0",
        kind="REQUEST",
        sender=f"coder.{asker}",
        recipient=f"architect.{answerer}",
        session=asker,
        payload=Question(story="story-1", question="x" * TEXT_BYTES),
        sent_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def an_answer(question: Envelope) -> Envelope:
    """The response to it."""
    return Envelope(
        id=f"{question.recipient}/{next(_positions)}/0",
        kind="RESPONSE",
        sender=question.recipient,
        recipient=question.sender,
        correlation_id=question.id,
        session=question.session,
        payload=Answer(answer="x" * TEXT_BYTES),
        sent_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


async def fill_mail(world: World) -> None:
    """One request and one response waiting for every session, on both sides; nobody takes them."""
    questions = [a_question(name, name) for name in world.names()]
    answers = [an_answer(question) for question in questions]
    await all_of(world.asker.mail.send(envelope) for envelope in (*questions, *answers))
    for kind, envelopes in (("request", questions), ("reply", answers)):
        await world.ensure_raw_stream(kind, RetentionPolicy.WORK_QUEUE)
        await all_of(
            world.raw_asker.publish(f"{world.raw_name}.{kind}.{envelope.session}", encode(envelope))
            for envelope in envelopes
        )


async def mail_pair(world: World) -> Pair:
    """The two ways of holding the conversation."""
    requests = await world.answerer.mail.inbox("request", "architect", ANSWERER)
    replies = await world.asker.mail.inbox("reply", "coder", ASKER)
    ours = Conversation(world.asker.mail, replies, world.answerer.mail, requests)
    raw_requests = await _raw_inbox(world.raw_answerer, world.raw_name, "request")
    raw_replies = await _raw_inbox(world.raw_asker, world.raw_name, "reply")
    return Pair(raw=RawConversation(world, raw_requests, raw_replies), ours=ours)


async def _raw_inbox(stream: JetStreamContext, raw_name: str, kind: str) -> JetStreamContext.PullSubscription:
    config = ConsumerConfig(ack_wait=ACK_WAIT_SECONDS, max_ack_pending=1)
    name = f"{raw_name}_{kind.upper()}"
    return await stream.pull_subscribe(f"{raw_name}.{kind}.measured", durable="measured", stream=name, config=config)


class Conversation:
    """Ours: envelopes encoded and decoded, ids that the broker deduplicates by, retries at hand."""

    def __init__(self, asking: Mail, replies: Inbox, answering: Mail, requests: Inbox) -> None:
        self._asking = asking
        self._replies = replies
        self._answering = answering
        self._requests = requests
        self._ready: deque[tuple[Envelope, Envelope]] = deque()

    async def ready(self, operations: int) -> None:
        """Build both envelopes."""
        for _ in range(operations):
            question = a_question(ASKER, ANSWERER)
            self._ready.append((question, an_answer(question)))

    async def act(self) -> None:
        """Ask, answer, settle."""
        question, answer = self._ready.popleft()
        await self._asking.send(question)
        request = await self._requests.take()
        await self._answering.send(answer)
        reply = await self._replies.take()
        await request.acknowledge()
        await reply.acknowledge()
        assert reply.envelope.correlation_id == request.envelope.id


class RawConversation:
    """nats-py alone: bytes encoded beforehand and never decoded, no ids."""

    def __init__(
        self,
        world: World,
        requests: JetStreamContext.PullSubscription,
        replies: JetStreamContext.PullSubscription,
    ) -> None:
        self._asking = world.raw_asker
        self._answering = world.raw_answerer
        self._request_subject = f"{world.raw_name}.request.measured"
        self._reply_subject = f"{world.raw_name}.reply.measured"
        self._requests = requests
        self._replies = replies
        self._ready: deque[tuple[bytes, bytes]] = deque()

    async def ready(self, operations: int) -> None:
        """The same envelopes, as bytes."""
        for _ in range(operations):
            question = a_question(ASKER, ANSWERER)
            self._ready.append((encode(question), encode(an_answer(question))))

    async def act(self) -> None:
        """Ask, answer, settle."""
        question, answer = self._ready.popleft()
        await self._asking.publish(self._request_subject, question)
        (request,) = await self._requests.fetch(1, FETCH_SECONDS)
        await self._answering.publish(self._reply_subject, answer)
        (reply,) = await self._replies.fetch(1, FETCH_SECONDS)
        await request.ack_sync()
        await reply.ack_sync()

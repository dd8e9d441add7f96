"""The broker port on a real NATS server."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from nats.aio.msg import Msg

from bus.broker import Acknowledged, ConsumerPlan, Delivery, Message, StreamPlan, matches
from bus.errors import (
    BrokerRefusedError,
    BusError,
    NoResponderError,
    NotAcknowledgedError,
)
from bus.jetstream.answers import (
    MESSAGE_NOT_FOUND,
    NOT_FOUND,
    SEQUENCE_NOT_FOUND,
    ApiError,
    core_message,
    decode_get_answer,
    decode_publish_answer,
    direct_message,
    refusal,
)
from bus.jetstream.connection import Connection, is_status
from bus.jetstream.plans import consumer_config, differing_keys, stream_config
from bus.jetstream.puller import Puller, ack_tokens
from bus.retrying import surely

API = "$JS.API"
API_SECONDS = 5.0
READ_SECONDS = 1.0
"""A question that reached a leader just before it died is never answered: ask again soon."""
DOUBT_SECONDS = 0.25
READ_BATCH = 512
READ_BATCH_BYTES = 4 * 1024 * 1024
READ_STALLED_SECONDS = 0.02
"""A replica that lags behind its leader is asked again after this long."""


class JetStreamBroker:
    """Streams and consumers of a NATS server, over one connection."""

    def __init__(self, connection: Connection, publish_seconds: float = 1.0) -> None:
        self.connection = connection
        self._publish_seconds = publish_seconds
        self._pullers: dict[tuple[str, str], Puller] = {}
        self._plans: dict[str, StreamPlan] = {}

    async def again(self) -> "JetStreamBroker":
        """Another connection to the same server, for the loop of another thread."""
        return JetStreamBroker(await Connection.open(self.connection.options), self._publish_seconds)

    @property
    def is_connected(self) -> bool:
        """Whether the broker can be reached now, as far as anybody knows."""
        return self.connection.is_up

    @property
    def message_bytes_max(self) -> int:
        """The server's limit."""
        return self.connection.message_bytes_max

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] | None = None) -> Acknowledged:
        """Store one message, tried once."""
        try:
            answer = await self.connection.request(subject, data, headers, self._publish_seconds)
        except NoResponderError as error:
            raise await self._nobody(error, self._stream_call(subject)) from None
        try:
            result = decode_publish_answer(answer.data)
        except msgspec.DecodeError as error:
            # Someone else answers on that subject as well; that is no word of the broker.
            raise NotAcknowledgedError(subject, f"the answer is not the broker's: {answer.data[:80]!r}") from error
        if result.error is not None:
            raise refusal(subject, result.error)
        return Acknowledged(sequence=result.seq, duplicate=result.duplicate)

    async def last(self, stream: str, subject: str) -> Message | None:
        """The newest message of a subject, from the stream's leader."""
        return await self._get(stream, {"last_by_subj": subject})

    async def get(self, stream: str, sequence: int) -> Message | None:
        """One message, from the stream's leader."""
        return await self._get(stream, {"seq": sequence}) if sequence > 0 else None

    async def _get(self, stream: str, which: dict[str, str] | dict[str, int]) -> Message | None:
        answer = await self._ask(f"{API}.STREAM.MSG.GET.{stream}", which, READ_SECONDS)
        result = decode_get_answer(answer.data)
        if result.error is not None:
            if result.error.err_code == MESSAGE_NOT_FOUND:
                return None
            raise refusal(stream, result.error)
        assert result.message is not None
        return result.message.message()

    async def read(self, stream: str, subject: str, first: int = 1) -> AsyncIterator[Message]:
        """Batches of direct reads, up to what the leader says is the last; an outage in between is waited out."""
        newest = await surely(lambda: self.last(stream, subject))
        while newest is not None and first <= newest.sequence:
            start = first
            async for message in self._read_batch(stream, subject, first):
                first = message.sequence + 1
                yield message
            if first == start:
                await asyncio.sleep(READ_STALLED_SECONDS)
                newest = await surely(lambda: self.last(stream, subject))

    async def _read_batch(self, stream: str, subject: str, first: int) -> AsyncIterator[Message]:
        query = {"seq": first, "next_by_subj": subject, "batch": READ_BATCH, "max_bytes": READ_BATCH_BYTES}
        call = f"{API}.DIRECT.GET.{stream}"
        async with self.connection.ask_many(call, msgspec.json.encode(query)) as answers:
            while True:
                try:
                    async with asyncio.timeout(READ_SECONDS):
                        answer = await answers.get()
                except TimeoutError:
                    return  # the caller asks again from where this broke off
                if isinstance(answer, NotAcknowledgedError) or (
                    isinstance(answer, Msg) and is_status(answer, "204", "404")
                ):
                    return
                if isinstance(answer, BusError):
                    raise answer
                if is_status(answer, "408", "413"):
                    raise BrokerRefusedError(call, int(_header(answer, "Status")), _header(answer, "Description"))
                yield direct_message(answer)

    @asynccontextmanager
    async def listen(self, subject: str) -> AsyncIterator["asyncio.Queue[Message | None]"]:
        """Core messages; a repeated stream message carries its sequence."""
        async with self.connection.subscribe(subject, core_message) as messages:
            yield messages

    async def say(self, subject: str, data: bytes) -> None:
        """Publish a core message."""
        await self.connection.publish(subject, data)

    async def pull(self, stream: str, consumer: str) -> Delivery:
        """The next delivery of a durable consumer."""
        return await self._puller(stream, consumer).next()

    def _puller(self, stream: str, consumer: str) -> Puller:
        if (stream, consumer) not in self._pullers:
            self._pullers[stream, consumer] = Puller(self.connection, stream, consumer, self)
        return self._pullers[stream, consumer]

    async def consumer_exists(self, stream: str, consumer: str) -> bool:
        """Whether the server knows a consumer, as soon as it can tell."""
        call = f"{API}.CONSUMER.INFO.{stream}.{consumer}"
        return bool(await surely(lambda: self._call(call, missing_ok=True, seconds=READ_SECONDS)))

    async def acknowledge(self, ack_subject: str) -> None:
        """Settle a delivery and wait for the word that it is settled."""
        try:
            await self._settle(ack_subject, b"+ACK")
        except NoResponderError:
            raise
        except NotAcknowledgedError:
            if not await self._has_forgotten(ack_subject):
                raise
            self._note_settled(ack_subject)

    async def _has_forgotten(self, ack_subject: str) -> bool:
        """Whether the server has been killed before it noted the delivery: it then answers no acknowledgement of it."""
        stream, consumer, _, sequence, *_ = ack_tokens(ack_subject)
        call = f"{API}.CONSUMER.INFO.{stream}.{consumer}"
        info = await self._call(call, missing_ok=True, seconds=READ_SECONDS)
        return bool(info) and int(info["delivered"]["stream_seq"]) < int(sequence)

    async def extend(self, ack_subject: str) -> None:
        """Put off the redelivery."""
        await self.connection.publish(ack_subject, b"+WPI")

    async def give_back(self, ack_subject: str, delay_seconds: float = 0.0) -> None:
        """Hand a delivery back."""
        delay = msgspec.json.encode({"delay": round(delay_seconds * 1_000_000_000)})
        await self._settle(ack_subject, b"-NAK " + delay)

    async def reclaim(self, stream: str, consumer: str) -> None:
        """Hand back what is pending. One at a time means that it is the last one that was delivered."""
        state = await self._call(f"{API}.CONSUMER.INFO.{stream}.{consumer}")
        if state.get("num_ack_pending"):
            delivered = state["delivered"]
            place = f"1.{delivered['stream_seq']}.{delivered['consumer_seq']}.0.0"
            await self.give_back(f"$JS.ACK.{stream}.{consumer}.{place}")

    async def _settle(self, ack_subject: str, word: bytes) -> None:
        try:
            await self.connection.request(ack_subject, word, None, self._publish_seconds)
        except NoResponderError as error:
            stream, consumer, *_ = ack_tokens(ack_subject)
            # A lost consumer has taken its deliveries along: once it is there again, so is this one.
            if not await self._puller(stream, consumer).make_again():
                raise await self._nobody(error, f"{API}.CONSUMER.INFO.{stream}.{consumer}") from None
        self._note_settled(ack_subject)

    def _note_settled(self, ack_subject: str) -> None:
        stream, consumer, _, sequence, *_ = ack_tokens(ack_subject)
        puller = self._pullers.get((stream, consumer))
        if puller is not None:
            puller.was_settled(sequence)

    async def purge(self, stream: str, subject: str) -> int:
        """Remove all messages of a subject."""
        answer = await self._call(f"{API}.STREAM.PURGE.{stream}", {"filter": subject})
        return int(answer.get("purged", 0))

    async def delete(self, stream: str, sequence: int) -> bool:
        """Remove one message."""
        try:
            answer = await self._call(f"{API}.STREAM.MSG.DELETE.{stream}", {"seq": sequence})
        except BrokerRefusedError as error:
            if error.code == SEQUENCE_NOT_FOUND:
                return False
            raise
        return bool(answer.get("success"))

    async def ensure_stream(self, plan: StreamPlan) -> bool:
        """Create or update, whichever is needed."""
        self._plans[plan.name] = plan
        found = await self._info(f"{API}.STREAM.INFO.{plan.name}")
        wanted = stream_config(plan)
        if found is None:
            await self._call(f"{API}.STREAM.CREATE.{plan.name}", wanted)
        elif differing_keys(wanted, found["config"]):
            await self._call(f"{API}.STREAM.UPDATE.{plan.name}", {**found["config"], **wanted})
        else:
            return False
        return True

    async def ensure_consumer(self, plan: ConsumerPlan) -> bool:
        """Create or update, whichever is needed; one that a killed broker loses is made again while it is pulled."""
        changed = bool(await self.differences(plan))
        if changed:
            request = {"stream_name": plan.stream, "config": consumer_config(plan)}
            await self._call(f"{API}.CONSUMER.CREATE.{plan.stream}.{plan.name}.{plan.filter}", request)
        self._puller(plan.stream, plan.name).was_made(plan)
        return changed

    async def delete_stream(self, name: str) -> None:
        """Remove a stream if it is there."""
        await self._call(f"{API}.STREAM.DELETE.{name}", missing_ok=True)

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Remove a consumer if it is there."""
        await self._call(f"{API}.CONSUMER.DELETE.{stream}.{name}", missing_ok=True)
        puller = self._pullers.pop((stream, name), None)
        if puller is not None:
            await puller.close()

    async def differences(self, plan: StreamPlan | ConsumerPlan) -> tuple[str, ...]:
        """What is missing or different, in words."""
        if isinstance(plan, StreamPlan):
            found = await self._info(f"{API}.STREAM.INFO.{plan.name}")
            wanted, title = stream_config(plan), f"stream {plan.name}"
        else:
            found = await self._info(f"{API}.CONSUMER.INFO.{plan.stream}.{plan.name}")
            wanted, title = consumer_config(plan), f"consumer {plan.stream}/{plan.name}"
        if found is None:
            return (f"{title} is missing",)
        config = found["config"]
        return tuple(
            f"{title}: {key} is {config.get(key)!r}, should be {wanted[key]!r}"
            for key in differing_keys(wanted, config)
        )

    async def close(self) -> None:
        """Close the connection."""
        await self.connection.close()

    def _stream_call(self, subject: str) -> str:
        """The question that tells whether the stream that should take a subject is there; empty if none is known."""
        taking = (name for name, plan in self._plans.items() if any(matches(taken, subject) for taken in plan.subjects))
        name = next(taking, "")
        return f"{API}.STREAM.INFO.{name}" if name else ""

    async def _nobody(self, error: NoResponderError, info_call: str) -> NotAcknowledgedError:
        """Why nobody listens: as far as the server knows there is nothing that could, or it has no leader just now."""
        try:
            exists = bool(info_call) and bool(await self._call(info_call, missing_ok=True, seconds=DOUBT_SECONDS))
        except NotAcknowledgedError:
            exists = True  # the server cannot tell either
        return NotAcknowledgedError(error.subject, "it has no leader now") if exists else error

    async def _info(self, call: str) -> dict[str, Any] | None:
        answer = await self._call(call, missing_ok=True)
        return answer or None

    async def _call(
        self, call: str, request: object = None, *, missing_ok: bool = False, seconds: float = API_SECONDS
    ) -> dict[str, Any]:
        """One call of the server's API; with `missing_ok`, an empty answer for what does not exist."""
        answer: dict[str, Any] = msgspec.json.decode((await self._ask(call, request, seconds)).data)
        if "error" not in answer:
            return answer
        error = msgspec.convert(answer["error"], ApiError)
        if missing_ok and error.err_code in NOT_FOUND:
            return {}
        raise refusal(call, error)

    async def _ask(self, call: str, request: object, seconds: float) -> Msg:
        data = b"" if request is None else msgspec.json.encode(request)
        return await self.connection.request(call, data, None, seconds)


def _header(message: Msg, name: str) -> str:
    return (message.headers or {}).get(name, "")

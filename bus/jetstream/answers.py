"""What the server answers, as our own types: acknowledgements, stored messages, refusals."""

import re
from datetime import UTC, datetime

import msgspec
from nats.aio.msg import Msg

from bus.broker import SEQUENCE, Message
from bus.errors import (
    BrokerRefusedError,
    BusError,
    ChannelClosedError,
    NotAcknowledgedError,
    StorageFullError,
    WrongLastSequenceError,
)

MESSAGE_NOT_FOUND = 10037
SEQUENCE_NOT_FOUND = 10043
NOT_FOUND = frozenset({10014, MESSAGE_NOT_FOUND, 10059})
_WRONG_LAST_SEQUENCE = 10071
_UNDECIDED = frozenset({10158, 10164, 10167})
"""A cluster's leader has this id or this subject in process, or too much of everything: it cannot tell yet."""
NOT_A_CLUSTER = 10074
TOO_FEW_SERVERS = frozenset({10005, NOT_A_CLUSTER})
"""More copies are wanted than there are servers, or than have found each other yet."""
_REPETITION = re.compile(r"callboard\.[^.]+\.live\.")
_NUMBER = re.compile(r"[0-9]{1,19}")
_STORAGE_FULL = frozenset({10023, 10047, 10077, 10110})


class ApiError(msgspec.Struct, frozen=True):
    """An error in the server's words."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class PublishAnswer(msgspec.Struct, frozen=True):
    """The answer to a publish."""

    seq: int = 0
    duplicate: bool = False
    error: ApiError | None = None


class StoredMessage(msgspec.Struct, frozen=True):
    """A message as the server's API gives it."""

    subject: str
    seq: int
    time: datetime
    data: bytes = b""
    hdrs: bytes = b""

    def message(self) -> Message:
        """The same as our own type."""
        return Message(
            subject=self.subject,
            sequence=self.seq,
            data=self.data,
            headers=parse_headers(self.hdrs),
            stored_at=self.time,
        )


class GetAnswer(msgspec.Struct, frozen=True):
    """The answer to a question for one message."""

    message: StoredMessage | None = None
    error: ApiError | None = None


decode_publish_answer = msgspec.json.Decoder(PublishAnswer).decode
decode_get_answer = msgspec.json.Decoder(GetAnswer).decode


def refusal(subject: str, error: ApiError) -> BusError:
    """The typed error for what the server said."""
    code, reason = error.err_code or error.code, error.description
    if code == _WRONG_LAST_SEQUENCE:
        number = re.search(r"wrong last sequence: (\d+)", reason)
        return WrongLastSequenceError(subject, code, reason, int(number.group(1)) if number else None)
    if code in _UNDECIDED or "store is closed" in reason:
        return NotAcknowledgedError(subject, reason)
    if code in _STORAGE_FULL or "no space left" in reason:
        return StorageFullError(subject, reason)
    if code in NOT_FOUND:
        return ChannelClosedError(subject, reason)
    if error.code == 503:
        return NotAcknowledgedError(subject, reason)
    return BrokerRefusedError(subject, code, reason)


def parse_headers(raw: bytes) -> dict[str, str]:
    """The headers of a stored message."""
    lines = raw.decode(errors="replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def direct_message(answer: Msg) -> Message:
    """A message as a direct read gives it: where it stood is in headers of the server's."""
    headers = dict(answer.headers or {})
    headers.pop("Nats-Stream", None)
    headers.pop("Nats-Num-Pending", None)
    headers.pop("Nats-Last-Sequence", None)
    subject = headers.pop("Nats-Subject")
    sequence = int(headers.pop(SEQUENCE))
    stored_at = msgspec.convert(headers.pop("Nats-Time-Stamp"), datetime)
    return Message(subject=subject, sequence=sequence, data=answer.data, headers=headers, stored_at=stored_at)


def core_message(message: Msg) -> Message:
    """A message as a core subscription gives it; its sequence is 0 unless a stream repeats it.

    Anybody can give a message the headers of a repetition; only on the subjects of repetitions are they the server's.
    """
    headers = dict(message.headers or {})
    where = headers if _REPETITION.match(message.subject) else {}
    sequence = where.get(SEQUENCE, "")
    return Message(
        subject=where.get("Nats-Subject", message.subject),
        sequence=int(sequence) if _NUMBER.fullmatch(sequence) else 0,
        data=message.data,
        headers=headers,
        stored_at=datetime.now(UTC),
    )

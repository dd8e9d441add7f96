"""Marks: how a receiver refuses what it has already taken, however late the repetition comes.

A message's id is `<sender>/<n>/<k>`, the position of the effect that sent it: record n of the sender's session,
effect k of that record. Positions grow, and each consumer hands on a sender's messages in order, so the highest
position per consumer and sender is all that has to be kept. One mark for all consumers together would be wrong:
a reply may overtake a request of the same sender, and the request would then be refused unread.
"""

import re
from collections.abc import Mapping

import msgspec

from protocol.errors import MalformedMessageError

_NUMBER = re.compile(r"[0-9]{1,18}")
"""No session gets further; Python refuses to read numbers of some thousand digits, with an error of its own."""


class Position(msgspec.Struct, frozen=True, order=True):
    """Where in its sender's history a message was sent."""

    n: int
    k: int


Marks = Mapping[str, Position]
"""The highest position taken, by sender; one such mapping per consumer."""


def message_id(sender: str, n: int, k: int) -> str:
    """The id of effect `k` of record `n` of a sender's session."""
    return f"{sender}/{n}/{k}"


def parse_message_id(identifier: str) -> tuple[str, Position]:
    """Take an id apart, or raise MalformedMessageError."""
    sender, _, rest = identifier.partition("/")
    n, _, k = rest.partition("/")
    if not (sender and _NUMBER.fullmatch(n) and _NUMBER.fullmatch(k)):
        raise MalformedMessageError(f"the id {identifier[:100]!r} is not <sender>/<n>/<k>", identifier.encode())
    return sender, Position(int(n), int(k))


def was_seen(marks: Marks, identifier: str) -> bool:
    """Whether the message with this id, or a later one of its sender, was taken before."""
    sender, position = parse_message_id(identifier)
    return sender in marks and position <= marks[sender]


def with_mark(marks: Marks, identifier: str) -> dict[str, Position]:
    """The marks after the message with this id was taken."""
    sender, position = parse_message_id(identifier)
    return {**marks, sender: max(position, marks.get(sender, position))}

"""Who may say and hear what: a pure function of the role, so that a cluster can be given the same rules.

Reading is open to every role of the project; writing is not. Whatever a role may publish is listed here and nowhere
else: an event, a journal, a lease and a dead letter carry their writer's role in the subject, so the broker itself
refuses a coder who announces a merge or writes the architect's journal.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from bus.topology import BOARD, LEASES, OBJECTS, plan_topology
from protocol.subjects import Kind, Role, Subjects

API = "$JS.API"
ACK = "$JS.ACK"

OWNERS: tuple[Role, ...] = ("supervisor", "person")
"""Whoever is one of these owns the machine, and so the whole project."""

Writes = tuple[tuple[Kind, str], ...]
"""Pairs of a kind and a role; an empty role is every role."""

_PEOPLE: Writes = (("reply", "person"), ("reply", "web"))

_WRITES: dict[Role, Writes] = {
    "pm": (("request", "architect"), *_PEOPLE, ("event", "pm"), ("journal", "pm"), ("ledger", ""), ("dead", "pm")),
    "architect": (
        ("request", "pm"),
        ("request", "person"),
        ("request", "web"),
        ("reply", ""),
        ("event", "architect"),
        ("journal", "architect"),
        ("journal", "architect-classic"),
        ("work", ""),
        ("ledger", ""),
        ("dead", "architect"),
    ),
    "coder": (
        ("request", "architect"),
        *_PEOPLE,
        ("event", "coder"),
        ("journal", "coder"),
        ("journal", "coder-classic"),
        ("ledger", ""),
        ("dead", "coder"),
    ),
    "web": (("request", ""), ("spec", ""), ("reply", ""), ("control", ""), ("event", "web"), ("dead", "web")),
}

_BOARD_KEYS: dict[Role, tuple[str, ...]] = {
    "pm": ("asks.pm", "actors.pm", "ledger", "throttles"),
    "architect": ("asks.architect", "actors.architect", "specs", "stories", "ledger", "throttles"),
    "coder": ("asks.coder", "actors.coder", "ledger", "throttles"),
    "web": ("asks.web", "answers", "specs", "stories"),
}

_LIVE: tuple[Kind, ...] = ("journal", "control", "event", "ledger")


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """What one identity may publish and subscribe to; everything else is refused."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def plan_permissions(role: Role, subjects: Subjects) -> Permissions:
    """The permissions of a role; pure."""
    inbox = f"{subjects.inbox(role)}.>"
    if role in OWNERS:
        return Permissions(publish=tuple(_owner_writes(subjects)), subscribe=(inbox, subjects.everything))
    publish = (*_messages(role, subjects), *_reading(subjects), *_taking_mail(role, subjects))
    if role == "coder":
        publish = (*publish, *_taking(subjects.stream("WORK"), subjects.work_consumer(role)))
    live = (subjects.live(kind) for kind in _LIVE)
    return Permissions(publish=publish, subscribe=(inbox, *live, subjects.live_board))


def _owner_writes(subjects: Subjects) -> Iterator[str]:
    yield subjects.everything
    yield f"{API}.>"
    yield f"{ACK}.>"
    yield subjects.every_key(LEASES)
    yield subjects.every_key(BOARD)
    yield from subjects.every_object(OBJECTS)


def _messages(role: Role, subjects: Subjects) -> Iterator[str]:
    """What a role stores: its messages, its leases, its part of the board, and objects."""
    for kind, whose in _WRITES[role]:
        yield subjects.every(kind, whose)
    yield subjects.every_key(LEASES, role)
    for prefix in _BOARD_KEYS[role]:
        yield subjects.every_key(BOARD, prefix)
    yield from subjects.every_object(OBJECTS)


def _reading(subjects: Subjects) -> Iterator[str]:
    """The calls by which anything of this project, and of no other, can be read."""
    for plan in plan_topology(subjects).streams:
        yield from _calls(plan.name, "STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")
        yield f"{API}.DIRECT.GET.{plan.name}.>"
        yield f"{API}.CONSUMER.INFO.{plan.name}.*"


def _taking_mail(role: Role, subjects: Subjects) -> Iterator[str]:
    stream = subjects.mail_stream(role)
    yield f"{API}.CONSUMER.CREATE.{stream}.>"
    yield f"{API}.CONSUMER.DELETE.{stream}.*"
    yield f"{API}.STREAM.PURGE.{stream}"
    yield from _taking(stream, "*")


def _taking(stream: str, consumer: str) -> Iterator[str]:
    """Pulling and acknowledging; servers spell an ack subject with or without domain and account."""
    yield f"{API}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
    yield f"{ACK}.{stream}.{consumer}.>"
    yield f"{ACK}.*.*.{stream}.{consumer}.>"


_Call = Literal["STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET"]


def _calls(stream: str, *calls: _Call) -> Iterable[str]:
    return (f"{API}.{call}.{stream}" for call in calls)

"""What has happened to processes and sessions, from what supervisors and sessions have recorded."""

from collections import deque
from collections.abc import AsyncIterator
from signal import Signals

import msgspec

from bus.bus import Bus
from bus.cli.lines import UNREADABLE, tag
from bus.cli.output import one_line
from protocol.codec import decode_envelope
from protocol.messages import ActorExited, Envelope, Instant
from protocol.routing import parse_address
from supervisors.office import SUPERVISOR
from supervisors.views.sessions import Failing, memory_of, steps

TRANSITIONS_SHOWN = 8
EXITS_SHOWN = 3


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a session from one state to another, and the event that led to it."""

    n: int
    at: Instant
    state_from: str
    state_to: str
    event: str


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What a session failed by last."""

    at: Instant
    cause: Failing


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a process has ended."""

    at: Instant
    exited: ActorExited


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A session's last transitions and its last error."""

    transitions: tuple[Transition, ...] = ()
    fault: Fault | None = None


async def past_of(bus: Bus, machine: str, session: str) -> Past:
    """What a session has gone through."""
    transitions: deque[Transition] = deque(maxlen=TRANSITIONS_SHOWN)
    fault: Fault | None = None
    async for record in steps(bus, machine, session):
        if record.state_from == record.state_to:
            continue
        transitions.append(
            Transition(
                n=record.n,
                at=record.at,
                state_from=record.state_from,
                state_to=record.state_to,
                event=tag(record.event),
            )
        )
        cause = memory_of(record).failing
        if cause is not None:
            fault = Fault(at=record.at, cause=cause)
    return Past(transitions=tuple(transitions), fault=fault)


async def endings_of(bus: Bus, name: str) -> tuple[Ending, ...]:
    """How the last processes of a name have ended, the newest first."""
    found: deque[Ending] = deque(maxlen=EXITS_SHOWN)
    async for envelope in events(bus):
        if isinstance(envelope.payload, ActorExited) and envelope.payload.name == name:
            found.appendleft(Ending(at=envelope.sent_at, exited=envelope.payload))
    return tuple(found)


async def events(bus: Bus) -> AsyncIterator[Envelope]:
    """All that the supervisor has told."""
    subject = bus.subjects.event(*parse_address(SUPERVISOR))
    async for message in bus.broker.read(bus.subjects.stream("EVENTS"), subject):
        try:
            yield decode_envelope(message.data)
        except UNREADABLE:
            continue


def ending_line(exited: ActorExited) -> str:
    """How a process ended, with what it had used up."""
    how = f"by {_signal(-exited.code)}" if exited.code < 0 else f"with code {exited.code}"
    used = f"{exited.user_seconds + exited.system_seconds:.1f} s of CPU, {exited.memory_bytes_max / 2**20:.0f} MB"
    reason = f": {exited.reason}" if exited.reason else ""
    return one_line(
        f"process {exited.pid} ended {how} ({exited.way}) after {exited.lived_seconds:.0f} s, {used}{reason}"
    )


def _signal(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"

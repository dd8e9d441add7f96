"""What a test puts on the bus for a command to find: how a tree stands, who is there, and what was recorded."""

import os
import socket
from datetime import UTC, datetime
from typing import Any

import msgspec

from actors.hosting.heartbeat import Heartbeat, Playing
from bus.bus import Bus
from bus.health import Health, Service
from bus.leases import Lease
from protocol.codec import encode
from protocol.messages import ActorExited, AnyPayload, Envelope
from protocol.record import Record
from supervisors.core.standing import ROOT_LEASE, STANDING, ChildStanding, Standing, SupervisorStanding
from supervisors.office import SUPERVISOR

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SUPERVISORS = (
    SupervisorStanding(
        name="company",
        parent="",
        strategy="one_for_one",
        restart="permanent",
        phase="ready",
        failures_max=5,
        failures_seconds=60.0,
    ),
    SupervisorStanding(
        name="coders",
        parent="company",
        strategy="one_for_one",
        restart="permanent",
        phase="ready",
        failures=2,
        failures_max=5,
        failures_seconds=60.0,
    ),
)


def a_child(name: str, **facts: Any) -> ChildStanding:
    """A process that is ready, unless the facts say something else."""
    usual = {
        "runs": name.partition("-")[0],
        "supervisor": "coders" if name.startswith("coder-") else "company",
        "restart": "permanent",
        "phase": "ready",
        "since": AT,
        "actor": f"coder.{name}" if name.startswith("coder-") else "",
    }
    return ChildStanding(name=name, **{**usual, **facts})


def a_standing(*children: ChildStanding, **facts: Any) -> Standing:
    """A tree of such children, whose supervisor is this process."""
    usual = {"host": socket.gethostname(), "pid": os.getpid(), "started_at": AT, "at": AT, "supervisors": SUPERVISORS}
    return Standing(children=children, **{**usual, **facts})


async def open_company(bus: Bus, *children: ChildStanding, **facts: Any) -> Lease:
    """Have a company run, as far as anybody can see."""
    await post(bus, a_standing(*children, **facts))
    lease = await bus.leases.acquire(ROOT_LEASE, "supervisor/test")
    assert lease is not None
    return lease


async def post(bus: Bus, standing: Standing) -> None:
    """Say how the tree stands."""
    await bus.board.put(STANDING, encode(standing))


async def be_there(bus: Bus, actor: str, *sessions: Playing, **facts: Any) -> Lease:
    """Hold an actor's name, and say what it does."""
    role, _, identifier = actor.partition(".")
    key, owner = f"{role}.actor.{identifier}", f"{identifier}/test"
    lease = await bus.leases.acquire(key, owner, a_beat(actor, *sessions, **facts))
    assert lease is not None
    return lease


def a_beat(actor: str, *sessions: Playing, **facts: Any) -> dict[str, Any]:
    """What an actor says of itself."""
    state = sessions[0].state if sessions else "WAITING"
    usual = {"machine": actor.partition(".")[0], "state": state, "started_at": AT, "ready": True}
    said: dict[str, Any] = msgspec.to_builtins(Heartbeat(sessions=sessions, **{**usual, **facts}))
    return said


def playing(session: str, state: str, **facts: Any) -> Playing:
    """A session in a heartbeat."""
    return Playing(session=session, state=state, since=AT, records=7, **facts)


async def step(
    bus: Bus,
    session: str,
    state_from: str,
    state_to: str,
    *,
    n: int,
    after: object = None,
    event: object = None,
    machine: str = "coder",
    expected: int = 0,
) -> int:
    """Record a step of a session; returns where."""
    record = Record(
        n=n,
        machine=machine,
        session=session,
        incarnation="test",
        at=AT,
        event=msgspec.Raw(msgspec.json.encode(event or {"event": "entered"})),
        state_from=state_from,
        state_to=state_to,
        after=msgspec.Raw(msgspec.json.encode(after or {})),
    )
    return await bus.journal.append(record, expected)


def suspended_memory(state: str = "CODING", service: str = "model") -> dict[str, Any]:
    """What a session in SUSPEND remembers."""
    return {
        "since": AT,
        "open": {
            "s-1.1/2/0": {"effect": "think"},
            "s-1.1/3/0": {"effect": "timer", "name": "SUSPEND", "seconds": 900, "due": "2026-01-02T03:19:05Z"},
        },
        "suspension": {
            "suspended_from": state,
            "service": service,
            "generation": 0,
            "timer": "s-1.1/3/0",
            "parked": ["s-1.1/2/0"],
        },
    }


async def suspend(bus: Bus, session: str = "s-1.1", service: str = "model") -> int:
    """Have a session's record say that it is in SUSPEND."""
    first = await step(bus, session, "WAITING", "SETUP", n=1)
    second = await step(bus, session, "SETUP", "CODING", n=2, expected=first)
    memory = suspended_memory(service=service)
    return await step(bus, session, "CODING", "SUSPEND", n=3, after=memory, expected=second)


async def tell(bus: Bus, payload: AnyPayload, number: int) -> None:
    """Have the supervisor have told something."""
    await bus.post.send(
        bus.post.seal(
            Envelope(
                id=f"supervisor-test/{number}/0",
                kind="EVENT",
                sender=SUPERVISOR,
                recipient="",
                payload=payload,
                sent_at=AT,
            )
        )
    )


def an_exit(name: str, **facts: Any) -> ActorExited:
    """A process that was killed, unless the facts say something else."""
    usual = {"actor": f"coder.{name}", "machine": "coder", "pid": 4711, "way": "crash", "code": -9}
    return ActorExited(name=name, **{**usual, **facts})


async def post_health(bus: Bus, *, healthy: bool, error: str = "") -> None:
    """Say how the APIs are."""
    broker = Service(name="broker", healthy=True, since=AT, checked_at=AT, latency_ms=0.4, successes=3)
    in_row = {"successes": 2} if healthy else {"failures": 4}
    model = Service(name="model", healthy=healthy, since=AT, checked_at=AT, latency_ms=12.0, error=error, **in_row)
    await bus.health.put(Health(at=AT, services=(broker, model)))

"""What there is to see of a company, read in one place: its tree, who is there with which work, health, open asks.

Others write on the board and under leases too: what cannot be read there counts as not being there.
"""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from actors.hosting.heartbeat import Heartbeat, Playing
from actors.hosting.hosted import read_hosted
from bus.asks import Ask
from bus.bus import Bus
from bus.health import Health
from bus.server.process import birth
from protocol.errors import BadSubjectError
from protocol.machine import SUSPEND
from protocol.messages import Instant
from protocol.routing import address
from protocol.subjects import ROLES, check_id
from supervisors.core.standing import ROOT_LEASE, STANDING, ChildStanding, Standing
from supervisors.presence import presences
from supervisors.views.sessions import Seen, Suspended, look_up

_standing = msgspec.json.Decoder(Standing)


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A session that an actor has, also while no process hosts it."""

    session: str
    state: str
    since: Instant | None
    records: int
    in_hand: tuple[str, ...] = ()
    suspension: Suspended | None = None
    due: Instant | None = None
    """When its suspension leads to ERROR."""


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """One actor. Whoever is in no tree, started by hand or with work left behind, has its address for a name."""

    address: str
    name: str
    child: ChildStanding | None
    present: bool
    """Whether a process holds its name now."""
    heartbeat: Heartbeat | None
    work: tuple[Work, ...]

    @property
    def paused(self) -> bool:
        """Whether it takes nothing new."""
        return self.heartbeat is not None and self.heartbeat.paused


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A company at one moment. `running`: a supervisor is at work; `standing` is what one has said last."""

    project: str
    at: Instant
    running: bool
    standing: Standing | None
    health: Health | None
    actors: tuple[Actor, ...]
    asks: tuple[Ask, ...]

    @property
    def suspended(self) -> tuple[tuple[Actor, Work], ...]:
        """Every session in SUSPEND and whose it is."""
        return tuple((actor, work) for actor in self.actors for work in actor.work if work.state == SUSPEND)

    @property
    def gave_up(self) -> bool:
        """Whether the root of the tree has ended everybody, and its supervisor stays to say so."""
        return self.running and self.standing is not None and self.standing.gave_up


async def gather(bus: Bus) -> Overview:
    """Look at everything once."""
    standing = await read_standing(bus)
    return Overview(
        project=bus.subjects.project,
        at=datetime.now(UTC),
        running=await is_running(bus, standing),
        standing=standing,
        health=await bus.health.get(),
        actors=tuple(await _actors(bus, standing)),
        asks=tuple(await bus.asks.open()),
    )


async def read_standing(bus: Bus) -> Standing | None:
    """What a supervisor has said last; None once the company was stopped."""
    posted = await bus.board.get(STANDING)
    try:
        return _standing.decode(posted.value) if posted and posted.value else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def is_running(bus: Bus, standing: Standing | None) -> bool:
    """Whether a supervisor is at work. Its lease outlives it for a while: on its own machine the process tells."""
    if await bus.leases.holder(ROOT_LEASE) is None:
        return False
    return standing is None or standing.host != socket.gethostname() or is_process(standing.pid)


def is_process(pid: int) -> bool:
    """Whether there is a process of that number that still runs; that of another user is one too."""
    return birth(pid) is not None


async def left_on_board(bus: Bus) -> dict[str, tuple[str, ...]]:
    """The sessions that actors had open when they were last there, by address."""
    found: dict[str, tuple[str, ...]] = {}
    async for posted in bus.board.all("actors"):
        _, role, identifier, session = (*posted.key.split(".", 3), "", "", "")[:4]
        if not session:
            hosted = read_hosted(posted)
            session = hosted.session if hosted else ""
        if role in ROLES and identifier and _is_name(session):
            found[address(role, identifier)] = (*found.get(address(role, identifier), ()), session)
    return found


def _is_name(session: str) -> bool:
    try:
        return bool(check_id(session))
    except BadSubjectError:
        return False


async def _actors(bus: Bus, standing: Standing | None) -> list[Actor]:
    """Those of the tree in its order, then all others."""
    children = {child.actor: child for child in standing.children if child.actor} if standing else {}
    present, left = await presences(bus), await left_on_board(bus)
    everybody = dict.fromkeys((*children, *sorted(present), *sorted(left), *_one_for_ever()))
    found = [
        await _actor(bus, each, children.get(each), present, (*left.get(each, ()), *_own_session(each)))
        for each in everybody
    ]
    return [actor for actor in found if actor.child or actor.present or actor.work]


def _one_for_ever() -> Iterator[str]:
    """Who has a session under a name of its own, of which no board tells."""
    yield address("architect", "main")


def _own_session(actor: str) -> tuple[str, ...]:
    role, _, identifier = actor.partition(".")
    return (identifier,) if role == "architect" else ()


async def _actor(
    bus: Bus,
    actor: str,
    child: ChildStanding | None,
    present: dict[str, Heartbeat | None],
    left: tuple[str, ...],
) -> Actor:
    role = actor.partition(".")[0]
    heartbeat = present.get(actor)
    playing = {each.session: each for each in heartbeat.sessions} if heartbeat else {}
    work = []
    for session in dict.fromkeys((*playing, *left)):
        # A heartbeat is a little old: what was recorded is true.
        seen = await look_up(bus, role, session)
        if seen is not None:
            work.append(_work(seen))
        elif session in playing:
            work.append(_work_said(playing[session]))
    return Actor(
        address=actor,
        name=child.name if child else actor,
        child=child,
        present=actor in present,
        heartbeat=heartbeat,
        work=tuple(work),
    )


def _work(seen: Seen) -> Work:
    return Work(
        session=seen.session,
        state=seen.state,
        since=seen.memory.since,
        records=seen.records,
        in_hand=tuple(each.effect for each in seen.memory.open.values()),
        suspension=seen.memory.suspension,
        due=seen.memory.due,
    )


def _work_said(playing: Playing) -> Work:
    return Work(
        session=playing.session,
        state=playing.state,
        since=playing.since,
        records=playing.records,
        in_hand=playing.in_hand,
    )

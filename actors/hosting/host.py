"""A process and the sessions it hosts."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any

import msgspec
import structlog

from actors.core.events import ChannelClosed
from actors.core.session import Session
from actors.errors import UnreadableSessionError
from actors.hosting.heartbeat import Heartbeat, Playing
from actors.hosting.hosted import board_key
from actors.hosting.part import Part
from actors.hosting.signals import Signals
from actors.runtime.feeding import feed
from actors.runtime.runner import Runner
from actors.runtime.tenure import Tenure
from actors.runtime.together import until_first
from actors.runtime.waiting import waiting_executors
from actors.runtime.world import World
from bus.asks import Ask
from bus.errors import ChannelClosedError
from bus.mail import Inbox
from protocol.machine import DONE
from protocol.subjects import MailKind

log = structlog.get_logger()

STOP_SECONDS = 10.0
"""How long a process that was told to leave may take for what is in hand."""

RELEASE_SECONDS = 2.0
"""How long it may then take to give up its presence; without a broker that ends by itself, when the lease does."""

AnyRunner = Runner[Any, Any, Any]
AnySession = Session[Any, Any, Any]


class Ending(Enum):
    """How a process came to its end: its session's, or because it was told to leave."""

    DONE = "done"
    ERROR = "error"
    LEFT = "left"


class Host:
    """One actor in one process: its presence, what is signalled to it, and its sessions."""

    def __init__(self, world: World, part: Part, actor: str, stop_seconds: float = STOP_SECONDS) -> None:
        self.world = world
        self.part = part
        self.actor = actor
        self.role = part.behaviour.role
        self.signals = Signals(world, self.role, actor)
        self.tenure: Tenure
        self._machine = part.behaviour.machine
        self._executors = {**waiting_executors(world, self.role), **part.executors(world)}
        self._stop_seconds = stop_seconds
        self._runners: dict[str, AnyRunner] = {}
        self._started_at = world.now()
        self._unreadable: set[str] = set()
        self._ready = False
        self.stopping = False

    @property
    def board_key(self) -> str:
        """Where on the board it stands which sessions this actor has."""
        return board_key(self.role, self.actor)

    async def run(self, play: "Play", told: "asyncio.Future[None]", ready: Callable[[], None] | None = None) -> Ending:
        """Play until the end, or until `told` is done. LostSessionError: another process is this actor now."""
        if not await until_first(self._begin(), _wait(told)):
            return Ending.LEFT
        if ready is not None:
            ready()
        ending: Ending = await until_first(self.tenure.keep(), play(self), self._leave(told))
        await until_first(self.tenure.release(), self.world.sleep(RELEASE_SECONDS))
        return ending

    async def _begin(self) -> bool:
        self.tenure = await Tenure.begin(self.world, self.role, self.actor, self.heartbeat)
        await self.signals.catch_up()
        self._ready = True
        await self.tenure.renew()  # who looks at the presence should see it at once
        return True

    async def _leave(self, told: "asyncio.Future[None]") -> Ending:
        """Once told, by the machine's signal or the company's, begin nothing new, and go when the time is up."""
        await until_first(self.signals.listen(), _wait(told))
        self.stopping = True
        for runner in self._runners.values():
            runner.stop()
        is_opening = self.tenure.claim is not None and not self._unreadable
        if self._runners or is_opening:  # a story that was just taken is recorded, so that the next process has it
            await self.world.sleep(self._stop_seconds)
        return Ending.LEFT

    async def open(self, session: str) -> AnyRunner:
        """A runner for a session, from its last record if there is one; a person is asked while it is unreadable."""
        attempt = 1
        while True:
            try:
                return await self.try_to_open(session)
            except UnreadableSessionError as error:
                await self._ask_about(error, session, attempt)
                attempt += 1

    async def try_to_open(self, session: str) -> AnyRunner:
        """As `open`; UnreadableSessionError if this code cannot read its last record."""
        behaviour = self.part.behaviour
        entry = await self.world.bus.journal.last(self._machine.name, session)
        if entry is not None:
            return Runner.resume(self.world, behaviour, self._executors, entry, self.tenure)
        fresh = behaviour.begin(session, self.signals.generation)
        return Runner(self.world, behaviour, self._executors, fresh, self.tenure)

    async def perform(self, runner: AnyRunner, kinds: tuple[MailKind, ...] = ()) -> AnySession:
        """Run a session, with its replies and its own mail of `kinds`, until it is over or told to leave."""
        name = runner.session.id
        assert name not in self._runners, f"{name} is performed already"
        self._runners[name] = runner
        try:
            return await self._perform(runner, kinds)
        finally:
            del self._runners[name]

    async def _perform(self, runner: AnyRunner, kinds: tuple[MailKind, ...]) -> AnySession:
        name = runner.session.id
        inboxes = await self._inboxes(runner, ("reply", *kinds))
        await self.signals.attach(runner)
        if self.stopping:
            runner.stop()
        try:
            with structlog.contextvars.bound_contextvars(session=name):
                feeds = [feed(self.world, self.tenure, runner, inbox, kind) for kind, inbox in inboxes.items()]
                await until_first(runner.run(), *feeds)
        finally:
            self.signals.detach(runner)
        if runner.is_over:
            for inbox in inboxes.values():
                with suppress(ChannelClosedError):  # gone already
                    await inbox.close()
        return runner.session

    async def _inboxes(self, runner: AnyRunner, kinds: tuple[MailKind, ...]) -> dict[MailKind, Inbox]:
        """The inboxes of a session; where there can be none, it hears so."""
        inboxes: dict[MailKind, Inbox] = {}
        for kind in kinds:
            try:
                inboxes[kind] = await self.world.bus.mail.inbox(kind, self.role, runner.session.id)
            except ChannelClosedError as error:
                runner.offer(ChannelClosed(at=self.world.now(), inbox=kind, reason=error.reason))
        return inboxes

    async def _ask_about(self, error: UnreadableSessionError, session: str, attempt: int) -> None:
        """Have a person look at a record that this code cannot read; crashing again and again would help nobody."""
        ask = Ask(
            id=f"{self.role}.{session}.unreadable.{error.sequence}.{attempt}",
            question=f"{error}. Try again?",
            context=(
                "Most often it was written by a newer version than this one, or the model of a part has changed: "
                "put that right, then answer. "
                "Mail that comes for it meanwhile is kept: among the dead letters where others share its inbox."
            ),
            choices=("try again",),
            asked_at=self.world.now(),
        )
        log.error("session.unreadable", session=session, sequence=error.sequence, reason=error.reason, ask=ask.id)
        self._unreadable.add(session)
        await self.world.bus.asks.put(ask)
        await self.world.bus.asks.wait(ask.id)
        self._unreadable.discard(session)

    def heartbeat(self) -> Mapping[str, Any]:
        """What this actor does now."""
        sessions = tuple(_playing(runner) for runner in self._runners.values())
        beat = Heartbeat(
            machine=self._machine.name,
            state=sessions[0].state if sessions else self._machine.initial,
            started_at=self._started_at,
            sessions=sessions,
            ready=self._ready,
            paused=self.signals.paused,
            unreadable=tuple(sorted(self._unreadable)),
        )
        facts: Mapping[str, Any] = msgspec.to_builtins(beat)
        return facts


Play = Callable[[Host], Coroutine[Any, Any, Ending]]


def ending_of(runner: AnyRunner) -> Ending:
    """How a process ends whose only session ended so, or did not."""
    if not runner.is_over:
        return Ending.LEFT
    return Ending.DONE if runner.session.state == DONE else Ending.ERROR


def _playing(runner: AnyRunner) -> Playing:
    name, at = runner.last_event or ("", None)
    session = runner.session
    return Playing(
        session=session.id,
        state=session.state,
        since=session.since,
        records=session.n,
        last_event=name,
        last_event_at=at,
        in_hand=tuple(sorted({str(effect.__struct_config__.tag) for effect in session.open.values()})),
    )


async def _wait(told: "asyncio.Future[None]") -> None:
    await asyncio.shield(told)

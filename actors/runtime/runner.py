"""One session, live: take an event, decide, check, record, send, acknowledge, start the rest. Always in this order."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import structlog

from actors.core.behaviour import Behaviour
from actors.core.decision import Model
from actors.core.effects import Effect
from actors.core.events import ChannelClosed, Event, Failed, Finished, Received, Resumed, Signalled
from actors.core.failures import AnyFailure, Unavailable
from actors.core.session import Session
from actors.core.step import Step, advance, is_repeated, next_event
from actors.errors import EffectCancelledError, LostSessionError
from actors.runtime.bell import Bell
from actors.runtime.drafts import draft_of, has_room_for_a_letter, session_bytes
from actors.runtime.executors import Executors, execute, failure_of
from actors.runtime.records import resumable
from actors.runtime.tenure import Tenure
from actors.runtime.together import end_all
from actors.runtime.world import World
from bus.errors import BrokerRefusedError, BusClosedError, ChannelClosedError, FencedError
from bus.journal import Entry
from bus.post import Sealed
from protocol.machine import SUSPEND
from protocol.messages import Restore
from protocol.subjects import MailKind, parse_subject

M = TypeVar("M", bound=Model)
E = TypeVar("E", bound=Effect)
R = TypeVar("R")

log = structlog.get_logger()

RESTORE_SPREAD_SECONDS = 2.0
"""What a restore sets going again begins at a random moment within this time."""

Settle = Callable[[], Awaitable[None]]


class Arrival(NamedTuple):
    """An event and what acknowledges it. An exception ends the session's run; None only wakes it."""

    event: Any
    settle: Settle | None = None


class InHand(NamedTuple):
    """An effect that is being performed."""

    effect: Effect
    task: "asyncio.Task[None]"


class Runner(Generic[M, E, R]):
    """Runs one session in this process until it is over, lost or told to stop."""

    def __init__(
        self,
        world: World,
        behaviour: Behaviour[M, E, R],
        executors: Executors,
        session: Session[M, E, R],
        tenure: Tenure,
    ) -> None:
        self._world = world
        self._behaviour = behaviour
        self._executors = executors
        self._tenure = tenure
        self.session = session
        self._sequence = 0
        self._session_size = 0
        self._unsent: list[Sealed] = []
        self._arrivals: asyncio.Queue[Arrival] = asyncio.Queue()
        self._in_hand: dict[str, InHand] = {}
        self._held: list[E] = []
        self._unsettled: list[asyncio.Future[bool]] = []
        self._restore: Signalled | None = None
        self._paused = False
        self._stopping = False
        self._ended = False
        self.last_event: tuple[str, datetime] | None = None
        self.changed = Bell()
        self._log = log.bind()  # once: unbound, every line would look up the whole configuration again

    @classmethod
    def resume(
        cls, world: World, behaviour: Behaviour[M, E, R], executors: Executors, entry: Entry, tenure: Tenure
    ) -> "Runner[M, E, R]":
        """Go on from the last record; UnreadableSessionError if this code cannot read it."""
        found = resumable(behaviour, entry, world.bus.post.seal)
        runner = cls(world, behaviour, executors, found.session, tenure)
        runner._sequence = entry.sequence
        runner._unsent = found.letters
        return runner

    # What others may ask and say.

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do: an end of the machine, and no effect in hand."""
        return not self.session.open and self.session.state in self._behaviour.machine.terminal

    def takes(self, kind: MailKind) -> bool:
        """Whether mail of a kind may be pulled for this session now."""
        if self._paused or (self.session.suspension and not has_room_for_a_letter(self._world, self._session_size)):
            return False  # in SUSPEND everything is kept: what does not fit is safe where it is
        return kind == "reply" or self.session.state in self._behaviour.pulls.get(kind, ())

    def offer(self, event: Event[E, R]) -> None:
        """Something has happened."""
        self._arrivals.put_nowait(Arrival(event))

    async def hand(self, event: Event[E, R], acknowledge: Settle) -> bool:
        """Hand over a message: True when it is recorded and acknowledged, False if the session ended before."""
        if self._ended:
            return False
        settled = asyncio.get_running_loop().create_future()
        self._unsettled.append(settled)

        async def settle() -> None:
            await acknowledge()
            if not settled.done():
                settled.set_result(True)

        self._arrivals.put_nowait(Arrival(event, settle))
        is_settled: bool = await settled
        self._unsettled.remove(settled)
        return is_settled

    @property
    def paused(self) -> bool:
        """Whether the person's brake is on: what is in hand is finished and recorded, and nothing more."""
        return self._paused

    @paused.setter
    def paused(self, value: bool) -> None:
        self._paused = value
        if not value:
            held, self._held = self._held, []
            for effect in held:
                if effect.id in self.session.open:
                    self._start(effect)
        self._arrivals.put_nowait(Arrival(None))
        self.changed.ring()

    def stop(self) -> None:
        """Begin nothing new; `run` returns when what is in hand is finished and recorded."""
        self._stopping = True
        self._arrivals.put_nowait(Arrival(None))

    # Running.

    async def run(self) -> Session[M, E, R]:
        """Run to the end of the session. LostSessionError: somebody else has it, and nothing more was done."""
        try:
            if self._sequence:
                await self._pick_up()
            while not self.is_over and not self._may_leave:
                own = self._own()
                if own is not None:
                    await self._go_through(advance(self._behaviour, self.session, own))
                else:
                    await self._take(await self._arrivals.get())
            return self.session
        finally:
            self._ended = True
            # What is in hand stays open in the record and runs again in the next process.
            in_hand, self._in_hand = self._in_hand, {}
            await end_all([each.task for each in in_hand.values()])
            for unsettled in self._unsettled:
                if not unsettled.done():
                    unsettled.set_result(False)

    async def _pick_up(self) -> None:
        """Repeat the last record's sends, claim the journal, and run again what was in hand."""
        for letter in self._unsent:
            await self._send(letter)
        if self.is_over:
            return
        parked = self.session.suspension.parked if self.session.suspension else ()
        again = [effect for effect in self.session.open.values() if effect.id not in parked]
        repeats = tuple(effect.id for effect in again if effect.reaches_outside)
        await self._go_through(advance(self._behaviour, self.session, Resumed(at=self._world.now(), repeats=repeats)))
        for effect in again:
            self._start(effect)

    @property
    def _may_leave(self) -> bool:
        if not self._stopping or not self._arrivals.empty():
            return False
        return not any(each.effect.reaches_outside for each in self._in_hand.values())

    def _own(self) -> Event[E, R] | None:
        """What the session presents to itself, before anything that has arrived."""
        suspension, failing = self.session.suspension, self.session.failing
        if self._paused or not (self.session.deferred or suspension or failing):
            return None
        event: Event[E, R] | None = next_event(self._behaviour, self.session, self._world.now())
        if suspension is not None and self._restore is not None and self._restore.generation > suspension.generation:
            # Heard before the session was suspended, and yet newer than the effect that failed.
            event = event or self._restore
        return event

    async def _take(self, arrival: Arrival) -> None:
        event, settle = arrival
        if event is None:
            return  # only to look around
        if isinstance(event, Exception):
            raise event
        await self._go_through(self._step(event), settle)

    async def _go_through(self, step: Step[M, E, R] | None, settle: Settle | None = None) -> None:
        if step is not None:
            step = await self._record(step)
        try:
            if settle is not None:
                await self._world.boundary("acknowledge.before")
                await settle()
                await self._world.boundary("acknowledge.after")
            if step is not None:
                self._follow_up(step)
        finally:
            if step is not None:
                # After the effects have begun: what a line costs is a good part of what a step costs.
                asyncio.get_running_loop().call_soon(_log, self._log, step)

    def _step(self, event: Event[E, R]) -> Step[M, E, R] | None:
        if isinstance(event, Signalled) and isinstance(event.signal.payload, Restore):
            self._restore = event
        if isinstance(event, Finished | Failed):
            self._in_hand.pop(event.effect, None)
        if is_repeated(self.session, event):
            return None
        if self._paused and isinstance(event, Failed) and isinstance(event.failure, Unavailable):
            self._held.append(self.session.open[event.effect])  # as if it had not begun
            return None
        return advance(self._behaviour, self.session, event, paused=self._paused)

    async def _record(self, step: Step[M, E, R]) -> Step[M, E, R]:
        """Store the step and its letters; returns the one that was stored, which may be that of its failure."""
        draft = draft_of(self._world, self._behaviour, self.session, step, paused=self._paused)
        await self._world.boundary("append.before")
        asked = self._world.elapsed()
        try:
            self._sequence = await self._world.bus.journal.append(draft.record, self._sequence)
        except FencedError as error:
            raise LostSessionError(self.session.id, str(error)) from error
        await self._world.boundary("append.after")
        if draft.step.session.n == 1:
            # Nobody has claimed the journal of a new session by a record: a process that slept would not be refused.
            await self._tenure.renew()
        else:
            self._tenure.confirm(asked)
        self.session = draft.step.session
        self._session_size = session_bytes(draft.record)
        self.last_event = (type(draft.step.event).__name__, draft.record.at)
        for letter in draft.letters:
            await self._send(letter)
        return draft.step

    async def _send(self, letter: Sealed) -> None:
        await self._world.boundary("send.before")
        try:
            await self._world.bus.post.send(letter)
        except (BrokerRefusedError, ChannelClosedError) as error:
            self._log.error("letter.refused", message=letter.id, subject=letter.subject, reason=str(error))
            if parse_subject(letter.subject).kind not in ("reply", "event"):
                # Whoever waits for an answer would wait for ever; an answer that is not wanted harms nobody here.
                self.offer(ChannelClosed(at=self._world.now(), inbox=letter.subject, reason=error.reason))
        await self._world.boundary("send.after")

    def _follow_up(self, step: Step[M, E, R]) -> None:
        for identifier in step.cancelled:
            if identifier in self._in_hand:
                self._in_hand.pop(identifier).task.cancel()
        is_restore = step.state_from == SUSPEND
        for effect in step.runs:
            self._start(effect, RESTORE_SPREAD_SECONDS * self._world.chance() if is_restore else 0.0)
        self.changed.ring()

    # Effects.

    def _start(self, effect: E, delay_seconds: float = 0.0) -> None:
        if self._stopping:
            return
        if self._paused:
            self._held.append(effect)
            return
        task = asyncio.ensure_future(self._perform(effect, delay_seconds))
        self._in_hand[effect.id] = InHand(effect, task)

    async def _perform(self, effect: E, delay_seconds: float) -> None:
        if delay_seconds:
            await self._world.sleep(delay_seconds)
        generation = self._restore.generation if self._restore else self.session.heard
        try:
            await self._world.boundary("effect.before")
            if effect.reaches_outside:
                await self._tenure.check()
            result = await execute(self._executors, effect)
            await self._world.boundary("effect.after")
        except (LostSessionError, BusClosedError) as error:
            self._arrivals.put_nowait(Arrival(error))
        except asyncio.CancelledError:
            if effect.id not in self._in_hand:
                raise
            self._fail(effect, failure_of(EffectCancelledError("its executor gave it up")), generation)
        except (Exception, SystemExit) as error:  # a library that means to end the process ends its effect
            self._fail(effect, failure_of(error), generation)
        else:
            self.offer(Finished(at=self._world.now(), effect=effect.id, result=result))

    def _fail(self, effect: E, failure: AnyFailure, generation: int) -> None:
        self.offer(Failed(at=self._world.now(), effect=effect.id, failure=failure, generation=generation))


def _log(to: Any, step: Step[Any, Any, Any]) -> None:
    event = step.event
    facts: dict[str, Any] = {}
    if isinstance(event, Received):
        facts["message"] = event.message.id
    if isinstance(event, Finished | Failed):
        facts["effect"] = event.effect
    if step.cause is not None:
        facts |= {"cause": step.cause.kind, "reason": step.cause.reason, "evidence": step.cause.evidence}
    say = to.info if step.cause is None or step.cause.kind != "bug" else to.error
    say(
        "event.handled",
        happened=type(event).__name__,
        state_from=step.state_from,
        state_to=step.session.state,
        effects=[effect.id for effect in step.effects],
        n=step.session.n,
        **facts,
    )

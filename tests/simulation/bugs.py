"""Planted bugs, one of each class that the simulator must find. Each is undone by the test that plants it."""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from typing import Any, NamedTuple

import msgspec
import pytest

from actors.core import step as step_module
from actors.core.decision import Decision
from actors.core.events import Received
from actors.core.session import Session
from actors.hosting import many as many_module
from actors.runtime import runner as runner_module
from actors.runtime.runner import Runner
from bus.board import Board
from bus.broker import EXPECTED_LAST_SUBJECT_SEQUENCE, MESSAGE_ID
from bus.journal import Journal
from bus.retrying import surely
from protocol.codec import encode
from protocol.marks import message_id
from supervisors.clerk import clerk as clerk_module
from supervisors.clerk.clerk import ERRANDS
from supervisors.core import recycling


def effect_before_its_record(patch: pytest.MonkeyPatch) -> None:
    """Effects are started first and recorded afterwards."""

    async def go_through(self: Any, step: Any, settle: Any = None) -> None:
        if step is not None:
            self._follow_up(step)
            await self._record(step)
        if settle is not None:
            await settle()

    patch.setattr(Runner, "_go_through", go_through)


def acknowledgement_before_the_append(patch: pytest.MonkeyPatch) -> None:
    """A message is acknowledged and then recorded."""

    async def go_through(self: Any, step: Any, settle: Any = None) -> None:
        if settle is not None:
            await settle()
        if step is not None:
            await self._record(step)
            self._follow_up(step)

    patch.setattr(Runner, "_go_through", go_through)


def no_dedupe(patch: pytest.MonkeyPatch) -> None:
    """A message that comes twice is taken twice."""
    genuine = step_module.is_repeated

    def is_repeated(session: Any, event: Any) -> bool:
        return not isinstance(event, Received) and genuine(session, event)

    patch.setattr(runner_module, "is_repeated", is_repeated)


def forgotten_effect(patch: pytest.MonkeyPatch) -> None:
    """A resume does not run again what was in hand."""

    async def pick_up(self: Any) -> None:
        for letter in self._unsent:
            await self._send(letter)

    patch.setattr(Runner, "_pick_up", pick_up)


def effect_run_twice(patch: pytest.MonkeyPatch) -> None:
    """A resume runs again what was in hand, and then again."""
    genuine = Runner._pick_up

    async def pick_up(self: Any) -> None:
        await genuine(self)
        for effect in self.session.open.values():
            self._start(effect)

    patch.setattr(Runner, "_pick_up", pick_up)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """An append does not say after what it comes."""

    async def append(self: Any, record: Any, _expected: int) -> int:
        subject = self._subjects.journal(record.machine, record.session)
        headers = {MESSAGE_ID: record.append_id}
        assert EXPECTED_LAST_SUBJECT_SEQUENCE not in headers
        stored = await surely(lambda: self._broker.publish(subject, encode(record), headers))
        return int(stored.sequence)

    patch.setattr(Journal, "append", append)


def ignored_in_suspend(patch: pytest.MonkeyPatch) -> None:
    """What happens in SUSPEND is dropped instead of kept."""
    genuine = step_module._judge

    def judge(behaviour: Any, session: Session[Any, Any, Any], event: Any, effect: Any) -> Decision[Any]:
        decision: Decision[Any] = genuine(behaviour, session, event, effect)
        if session.suspension is not None and decision.verb == "defer":
            return Decision(verb="ignore", model=session.model)
        return decision

    patch.setattr(step_module, "_judge", judge)


def crash(patch: pytest.MonkeyPatch) -> None:
    """An effect that is no longer wanted is taken to be in hand: one that is held back or parked is not."""

    def follow_up(self: Any, step: Any) -> None:
        for identifier in step.cancelled:
            if identifier != getattr(step.event, "effect", None):
                self._in_hand.pop(identifier).task.cancel()
        for effect in step.runs:
            self._start(effect)
        self.changed.ring()

    patch.setattr(Runner, "_follow_up", follow_up)


def session_opened_twice(patch: pytest.MonkeyPatch) -> None:
    """Whether a session is open is asked before something is awaited, and believed afterwards.

    A host that runs one session twice says so and crashes; before it did, a letter was acknowledged and never recorded.
    """
    genuine = many_module._Many.__init__

    def init(self: Any, host: Any) -> None:
        genuine(self, host)
        self._opening = nullcontext()

    patch.setattr(many_module._Many, "__init__", init)


def errand_in_mind(patch: pytest.MonkeyPatch) -> None:
    """What the clerk has to do does not stand on the board while it waits for its time."""
    genuine = Board.put

    async def put(self: Any, key: str, value: bytes) -> int:
        return 0 if key.startswith(ERRANDS) else await genuine(self, key, value)

    patch.setattr(Board, "put", put)


def requeue_under_a_new_id(patch: pytest.MonkeyPatch) -> None:
    """What the clerk says a second time has another id, so that nobody can know it for a repetition."""
    genuine, numbers = recycling.requeue_letter, count(1)

    def requeue_letter(errand: Any, answer: str) -> Any:
        letter = genuine(errand, answer)
        return msgspec.structs.replace(letter, id=message_id(f"requeue.{errand.session}", next(numbers), 0))

    patch.setattr(clerk_module, "requeue_letter", requeue_letter)


class Bug(NamedTuple):
    """What is planted, and the invariant that it must be found to violate."""

    plant: Callable[[pytest.MonkeyPatch], None]
    violates: str


BUGS = {
    "an effect before its record": Bug(effect_before_its_record, "no effect without its record"),
    "an acknowledgement before the append": Bug(
        acknowledgement_before_the_append, "no acknowledgement without its record"
    ),
    "no dedupe": Bug(no_dedupe, "a message is taken once"),
    "a resume that forgets an effect": Bug(forgotten_effect, "everything comes to its end"),
    "a resume that runs an effect twice": Bug(effect_run_twice, "a crash repeats at most what was in hand"),
    "no fence": Bug(no_fence, "one writer"),
    "an ignored event in SUSPEND": Bug(ignored_in_suspend, "everybody makes progress"),
    "a crash": Bug(crash, "nobody crashes"),
    "an errand that is only in mind": Bug(errand_in_mind, "everything comes to its end"),
    "a requeue under a new id": Bug(requeue_under_a_new_id, "one id, one content"),
    "a session opened twice": Bug(session_opened_twice, "nobody crashes"),
}

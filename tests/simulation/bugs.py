"""Planted bugs, one of each class that the simulator must find. Each is undone by the test that plants it."""

from typing import Any

import pytest

from actors.core import step as step_module
from actors.core.decision import Decision
from actors.core.events import Received
from actors.core.session import Session
from actors.runtime import runner as runner_module
from actors.runtime.runner import Runner
from bus.broker import EXPECTED_LAST_SUBJECT_SEQUENCE, MESSAGE_ID
from bus.journal import Journal
from bus.retrying import surely
from protocol.codec import encode


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
        for send, at in self._unsent:
            await self._send(send, at)

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


BUGS = {
    "an effect before its record": effect_before_its_record,
    "an acknowledgement before the append": acknowledgement_before_the_append,
    "no dedupe": no_dedupe,
    "a resume that forgets an effect": forgotten_effect,
    "no fence": no_fence,
    "an ignored event in SUSPEND": ignored_in_suspend,
}

"""A behaviour: what one kind of actor is, as far as the runtime has to know."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from actors.core.decision import Decision, Model
from actors.core.events import Event
from actors.core.session import Session
from protocol.machine import Machine
from protocol.subjects import MailKind, Role

M = TypeVar("M", bound=Model)
E = TypeVar("E")
R = TypeVar("R")

SUSPEND_SECONDS = 15 * 60.0


class Behaviour(msgspec.Struct, Generic[M, E, R], frozen=True, kw_only=True):
    """A machine and who decides on it. `session_type` is Session[Model, Effects, Results], for reading records."""

    machine: Machine
    role: Role
    decide: Callable[[M, Event[E, R]], Decision[M]]
    initial: M
    session_type: Any
    pulls: Mapping[MailKind, frozenset[str]]
    """The states in which mail of a kind is pulled; replies and control are always heard."""
    suspend_seconds: float = SUSPEND_SECONDS

    def begin(self, session: str, generation: int) -> Session[M, E, R]:
        """A fresh session that heeds control signals after `generation`."""
        return Session(id=session, model=self.initial, heard=generation)

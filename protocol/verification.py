"""Whether a recorded history could have happened: every transition replayed against its machine."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from protocol.errors import IllegalTransitionError, UnknownMachineError
from protocol.machine import SUSPEND, Machine
from protocol.machines import MACHINES

Rule = Literal["machine", "number", "start", "edge"]


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """What a record says about its session's state; a stay has the same state twice."""

    machine: str
    session: str
    n: int
    state_from: str
    state_to: str


class Offence(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded transition that breaks `rule`; `reason` says how, for a person."""

    transition: Transition
    rule: Rule
    reason: str


class _Course(msgspec.Struct, frozen=True, kw_only=True):
    """How far a session has come: its last number, the state it is in, and the one it was suspended from."""

    n: int
    state: str
    suspended_from: str = ""

    def after(self, taken: Transition) -> "_Course":
        """Trusts the record even when it is an offence, so that one fault is not reported again with each successor."""
        if taken.state_to != SUSPEND:
            return _Course(n=taken.n, state=taken.state_to)
        origin = self.suspended_from if taken.state_from == SUSPEND else taken.state_from
        return _Course(n=taken.n, state=SUSPEND, suspended_from=origin)


def verify(transitions: Iterable[Transition], machines: Mapping[str, Machine] = MACHINES) -> Iterator[Offence]:
    """Every offence, in the order of the records; nothing when the history is sound.

    Sessions may be interleaved, each in its own order and from its first record on. Streams: what is kept is the last
    number and state of each session. One record can offend more than once.
    """
    courses: dict[tuple[str, str], _Course] = {}
    for taken in transitions:
        machine = machines.get(taken.machine)
        if machine is None:
            reason = str(UnknownMachineError(taken.machine, tuple(machines)))
            yield Offence(transition=taken, rule="machine", reason=reason)
            continue
        key = (taken.machine, taken.session)
        course = courses.get(key) or _Course(n=0, state=machine.initial)
        yield from _offences(machine, course, taken)
        courses[key] = course.after(taken)


def _offences(machine: Machine, course: _Course, taken: Transition) -> Iterator[Offence]:
    if taken.n != course.n + 1:
        reason = f"expected number {course.n + 1}, found {taken.n}"
        yield Offence(transition=taken, rule="number", reason=reason)
    if taken.state_from != course.state:
        reason = f"starts in {taken.state_from}, but the session was in {course.state}"
        yield Offence(transition=taken, rule="start", reason=reason)
    try:
        machine.check(taken.state_from, taken.state_to, course.suspended_from)
    except IllegalTransitionError as illegal:
        yield Offence(transition=taken, rule="edge", reason=str(illegal))

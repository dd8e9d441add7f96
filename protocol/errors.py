"""Errors of the protocol, by whose fault they are.

ProtocolError
├── IllegalTransitionError   ours: a handler asked for an edge that its machine does not have; nothing has changed
├── UnknownMachineError      the caller's: no machine has that name
├── MalformedMessageError    the peer's: bytes that are not an envelope; dead-letter them and go on
├── UnsupportedSchemaError   the peer's: an envelope or record of a schema this code cannot read; dead-letter or ask
├── BadSubjectError          the caller's: a token that may not stand in a subject
└── SpecError                the person's: a spec with problems, each with its line and how to fix it
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # protocol.spec raises SpecError, so it imports this module first.
    from protocol.spec.model import SpecProblem

PROBLEMS_SHOWN_MAX = 20


class ProtocolError(Exception):
    """Base of everything that `protocol` raises."""


class IllegalTransitionError(ProtocolError):
    """`machine` has no way from `state_from` to `state_to`."""

    def __init__(self, machine: str, state_from: str, state_to: str, allowed: tuple[str, ...]) -> None:
        self.machine = machine
        self.state_from = state_from
        self.state_to = state_to
        self.allowed = allowed
        ways = ", ".join(allowed) or "nowhere"
        super().__init__(f"{machine}: {state_from} → {state_to} is not an edge; {state_from} leads to {ways}")


class UnknownMachineError(ProtocolError):
    """There is no machine called `name`."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        super().__init__(f"there is no machine {name!r}; the machines are {', '.join(known)}")


class MalformedMessageError(ProtocolError):
    """`data` cannot be read as what it should be; `reason` says why."""

    def __init__(self, reason: str, data: bytes) -> None:
        self.reason = reason
        self.data = data
        super().__init__(reason)


class UnsupportedSchemaError(ProtocolError):
    """`data` was written under schema `found`; this code reads `supported`."""

    def __init__(self, found: object, supported: int, data: bytes) -> None:
        self.found = found
        self.supported = supported
        self.data = data
        self.reason = f"schema {found!r} is not supported: this code reads schema {supported}"
        super().__init__(self.reason)


class BadSubjectError(ProtocolError):
    """`token` may not stand in a subject; `reason` says why and what may."""

    def __init__(self, token: str, reason: str) -> None:
        self.token = token
        self.reason = reason
        super().__init__(f"{token!r} cannot be part of a subject: {reason}")


class SpecError(ProtocolError):
    """A text is not a valid spec; `problems` has everything that is wrong with it, in the order of its lines."""

    def __init__(self, problems: "tuple[SpecProblem, ...]") -> None:
        self.problems = problems
        shown = [str(problem) for problem in problems[:PROBLEMS_SHOWN_MAX]]
        if len(problems) > PROBLEMS_SHOWN_MAX:
            shown.append(f"and {len(problems) - PROBLEMS_SHOWN_MAX} more")
        super().__init__("\n".join(shown))

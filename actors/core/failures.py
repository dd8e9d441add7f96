"""How an effect can fail, and why a session comes to ERROR."""

from typing import Literal

import msgspec

from protocol.messages import snake_case


class Failure(msgspec.Struct, frozen=True, kw_only=True, tag_field="failure", tag=snake_case):
    """Base of the ways in which an effect ends without a result."""

    reason: str


class Unavailable(Failure, frozen=True, kw_only=True):
    """Transient, and all retries are used up: the session suspends until the service is healthy again."""

    service: str


class Broken(Failure, frozen=True, kw_only=True):
    """Permanent: trying again would not help. `error` names its type, `evidence` is what is known of it."""

    error: str
    evidence: str = ""


class Cancelled(Failure, frozen=True, kw_only=True):
    """Given up by us before it was done."""


AnyFailure = Unavailable | Broken | Cancelled

CauseKind = Literal[
    "bug",
    "effect",
    "unexpected",
    "abandoned",
    "budget",
    "channel_closed",
    "stuck",
    "suspend_timeout",
    "shutdown",
    "cancelled",
    "configuration",
]

FREE_KINDS: frozenset[str] = frozenset({"suspend_timeout", "shutdown", "cancelled", "configuration"})
"""Causes that are nobody's failed attempt."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a session is in ERROR or on its way there; every record of the way carries it."""

    kind: CauseKind
    reason: str
    evidence: str = ""

    @property
    def costs_attempt(self) -> bool:
        """Whether a story that ends so has used up one of its attempts."""
        return self.kind not in FREE_KINDS

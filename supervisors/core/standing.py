"""How the tree stands, as its supervisor posts it on the board for status, tree and why."""

import msgspec

from protocol.messages import Instant
from supervisors.core.plans import Restart, Strategy
from supervisors.core.watch import Phase, Way

STANDING = "supervisor.standing"
"""The key on the board."""

ROOT_LEASE = "supervisor.root"
"""The lease of the one supervisor that is at work."""

GAVE_UP = "gave-up"
"""Stands in the id of the ask by which a company that has given up wants to know what now."""


class ChildStanding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process, or what else runs: `actor` is its address, `coder.coder-1`, where it is an actor."""

    name: str
    runs: str
    supervisor: str
    restart: Restart
    phase: Phase
    actor: str = ""
    pid: int = 0
    since: Instant | None = None
    """When it came to its phase."""
    starts: int = 0
    """How often it was started, since the company was opened first; that grows also when the tree begins anew."""
    failures: int = 0
    """How often it has failed since then: crashed, hung, not become ready, or been cut off."""
    last_way: Way | None = None
    last_reason: str = ""
    """Why it ended the last time, in a sentence."""
    next_start: Instant | None = None
    """When it is started again, if it is left alone for a while."""


class SupervisorStanding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A supervisor; the root has no parent."""

    name: str
    parent: str
    strategy: Strategy
    restart: Restart
    phase: Phase
    failures: int = 0
    """Failures that count against its budget now."""
    failures_max: int = 0
    failures_seconds: float = 0.0


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole tree, in the order in which it is started: each supervisor before those below it."""

    host: str
    pid: int
    started_at: Instant
    at: Instant
    closing: bool = False
    supervisors: tuple[SupervisorStanding, ...] = ()
    children: tuple[ChildStanding, ...] = ()

    @property
    def gave_up(self) -> bool:
        """Whether its root has ended everybody, and the supervisor stays to ask what now."""
        return any(not each.parent and each.phase == "over" for each in self.supervisors)

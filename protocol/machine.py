"""A machine is a table: its states, and every edge between them with what causes it.

Two things hold for every machine and stand only here, in no table. Staying is always allowed and is no edge.
SUSPEND can be entered from any state but DONE, ERROR and itself; it leads back to the state it was entered from
and to no other, or to ERROR.
"""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from protocol.errors import IllegalTransitionError

DONE = "DONE"
ERROR = "ERROR"
SUSPEND = "SUSPEND"
NEVER_SUSPENDED = frozenset({DONE, ERROR, SUSPEND})


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The states and edges of one document; nothing of it can be changed once it is made.

    `purpose` says in one sentence what the machine is for, `states` what each state is for, in the document's order.
    `edges` has a row for every state: where it leads, and when; " · " stands between causes that a document draws as
    edges of their own. `ways_to_error` holds the first step of a failure where ways to ERROR are equally short.
    """

    name: str
    purpose: str
    initial: str
    states: Mapping[str, str]
    edges: Mapping[str, Mapping[str, str]]
    ways_to_error: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        assert {DONE, ERROR, self.initial} <= set(self.states), self.name
        assert SUSPEND not in self.states, self.name
        assert tuple(self.edges) == tuple(self.states), self.name
        assert all(set(row) <= set(self.states) - {state} for state, row in self.edges.items()), self.name
        assert all(way in self.edges[state] for state, way in self.ways_to_error.items()), self.name
        rows = {state: MappingProxyType(dict(row)) for state, row in self.edges.items()}
        msgspec.structs.force_setattr(self, "states", MappingProxyType(dict(self.states)))
        msgspec.structs.force_setattr(self, "edges", MappingProxyType(rows))
        msgspec.structs.force_setattr(self, "ways_to_error", MappingProxyType(dict(self.ways_to_error)))

    @property
    def terminal(self) -> tuple[str, ...]:
        """The states that end a session: those that lead nowhere."""
        return tuple(state for state, row in self.edges.items() if not row)

    def allows(self, state_from: str, state_to: str, suspended_from: str = "") -> bool:
        """Whether a session may go from one state to the other, or stay; False for states that are not known.

        `suspended_from` is the state that SUSPEND was entered from, and matters only to a session that is in SUSPEND.
        """
        if state_from == state_to:
            return self.knows(state_from)
        return state_to in self.leads_to(state_from, suspended_from)

    def check(self, state_from: str, state_to: str, suspended_from: str = "") -> None:
        """Raise IllegalTransitionError unless the step is allowed."""
        if not self.allows(state_from, state_to, suspended_from):
            raise IllegalTransitionError(self.name, state_from, state_to, self.leads_to(state_from, suspended_from))

    def leads_to(self, state: str, suspended_from: str = "") -> tuple[str, ...]:
        """The other states one step away, SUSPEND among them; none for a state that is not known."""
        if state == SUSPEND:
            return (suspended_from, ERROR) if self.can_suspend(suspended_from) else (ERROR,)
        row = tuple(self.edges.get(state, ()))
        return (*row, SUSPEND) if self.can_suspend(state) else row

    def can_suspend(self, state: str) -> bool:
        """Whether SUSPEND can be entered from `state`."""
        return state in self.states and state not in NEVER_SUSPENDED

    def path_to_error(self, state: str) -> tuple[str, ...] | None:
        """The states that a failure in `state` steps through, ending in ERROR.

        Its own edge, else the shortest way along the table's edges and never through SUSPEND. Empty in ERROR, where
        there is nothing left to do; None where no way leads there. A state that is not known raises
        IllegalTransitionError.
        """
        if not self.knows(state):
            raise IllegalTransitionError(self.name, state, ERROR, ())
        if state in (ERROR, SUSPEND):
            return () if state == ERROR else (ERROR,)
        return self._shortest_way_to_error(state)

    def _shortest_way_to_error(self, start: str) -> tuple[str, ...] | None:
        paths = deque[tuple[str, ...]]([(start,)])
        seen = {start}
        while paths:
            path = paths.popleft()
            row = self.edges[path[-1]]
            if ERROR in row:
                return (*path[1:], ERROR)
            preferred = self.ways_to_error.get(path[-1])
            ways = sorted(row.keys() - seen, key=lambda state: (state != preferred, tuple(row).index(state)))
            seen.update(ways)
            paths.extend((*path, way) for way in ways)
        return None

    def knows(self, state: str) -> bool:
        """Whether a session of this machine can be in a state, SUSPEND among them."""
        return state in self.states or state == SUSPEND

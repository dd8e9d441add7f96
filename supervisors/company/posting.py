"""How the tree stands, put together from what was decided and from what runs, and posted on the board."""

import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from supervisors.company.life import Death, Life
from supervisors.core.plans import Child, Plan, Supervisor
from supervisors.core.standing import ChildStanding, Standing, SupervisorStanding
from supervisors.core.tree import Tree
from supervisors.core.watch import Known


class Seen(msgspec.Struct):
    """What the supervisor has seen of a child, beside what it has decided."""

    phase: str = ""
    since: datetime | None = None
    death: Death | None = None


class Poster:
    """Keeps what is only seen: since when a child is in its phase, and how it has ended the last time."""

    def __init__(self, started_at: datetime) -> None:
        self._started_at = started_at
        self._seen: dict[str, Seen] = {}

    def died(self, name: str, death: Death) -> None:
        """A child has ended."""
        self._seen.setdefault(name, Seen()).death = death

    def standing(self, tree: Tree, lives: Mapping[str, Life], now: datetime) -> Standing:
        """How the tree stands now."""
        supervisors: list[SupervisorStanding] = []
        children: list[ChildStanding] = []

        def add(plan: Plan, parent: str, known: Known) -> None:
            if isinstance(plan, Child):
                children.append(self._child(plan, parent, known, lives.get(plan.name), now))
                return
            watch = tree.watches.get(plan.name)
            supervisors.append(
                SupervisorStanding(
                    name=plan.name,
                    parent=parent,
                    strategy=plan.strategy,
                    restart=plan.restart,
                    phase=known.phase,
                    failures=_counting(watch.failures, plan, now) if watch else 0,
                    failures_max=plan.budget.failures_max,
                    failures_seconds=plan.budget.seconds,
                )
            )
            # What is leaving is in the watch alone, what was not started yet in the plan alone.
            planned = watch.plan.children if watch else plan.children
            for child in planned:
                add(child, plan.name, watch.children[child.name] if watch else Known())

        root = tree.plan
        add(root, "", Known(phase="over" if tree.gave_up else "ready"))
        return Standing(
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._started_at,
            at=now,
            closing=bool(tree.watches[root.name].closing),
            supervisors=tuple(supervisors),
            children=tuple(children),
        )

    def _child(self, child: Child, parent: str, known: Known, life: Life | None, now: datetime) -> ChildStanding:
        seen = self._seen.setdefault(child.name, Seen())
        if seen.phase != known.phase:
            seen.phase, seen.since = known.phase, now
        is_paused = known.phase == "down" and known.not_before > now.timestamp()
        return ChildStanding(
            name=child.name,
            runs=child.runs,
            supervisor=parent,
            restart=child.restart,
            phase=known.phase,
            actor=child.address,
            pid=life.pid if life else 0,
            since=seen.since,
            starts=known.starts,
            failures=known.failures,
            last_way=known.last_way,
            last_reason=seen.death.reason if seen.death else "",
            next_start=datetime.fromtimestamp(known.not_before, UTC) if is_paused else None,
        )


def _counting(failures: tuple[float, ...], plan: Supervisor, now: datetime) -> int:
    return sum(1 for at in failures if now.timestamp() - at < plan.budget.seconds)

"""Whether sessions make progress, pure: which states work, who is stuck, and what is to be done about it.

A state either works, and then something has to be recorded now and then, or it waits for somebody else, and then for as
long as that takes. One who is stuck is reported; if nothing is recorded all the same, recycled; and if even that leads
to no record, its process has to begin anew.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

import msgspec

from actors.core.effects import AskPerson
from actors.hosting.heartbeat import Heartbeat, Playing
from bus.settings.model import Supervision
from protocol.machine import SUSPEND
from protocol.messages import Instant, Natural

WORKING = frozenset(
    ["SETUP", "PLANNING", "CODING", "TESTING", "FIXING", "SCOPING", "DISPATCHING", "REQUEST", "DRAFTING", "SUBMITTING"]
)
WAITING = frozenset(
    [
        "WAITING",
        "PLAN_REVIEW",
        "CODE_REVIEW",
        "BUDGET_REVIEW",
        "AWAIT_MERGE",
        "QUESTION",
        "MONITORING",
        "ESCALATED",
        "INTERVIEWING",
        "DONE",
        "ERROR",
        SUSPEND,
    ]
)
"""In which states of all machines a session works, and in which it waits."""

ASKS_PERSON = str(AskPerson.__struct_config__.tag)

Stage = Literal["reported", "recycled", "restarted"]


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is stuck, with the address of its actor, and what was done about it so far, and when."""

    actor: str
    machine: str
    session: str
    state: str
    records: Natural
    since: Instant
    """When it last recorded something."""
    stage: Stage
    at: Instant


class Rounds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the watchman knows from earlier rounds, by session: who is suspected, and who was last seen paused, when."""

    suspects: dict[str, Suspect] = {}
    paused: dict[str, Instant] = {}


def go_round(
    rounds: Rounds, beats: Mapping[str, Heartbeat], policy: Supervision, now: Instant
) -> tuple[Rounds, tuple[Suspect, ...]]:
    """Look at everybody, by address; gives those about whom something has to be done, which their stage says."""
    suspects: dict[str, Suspect] = {}
    paused: dict[str, Instant] = {}
    for actor, beat in beats.items():
        for playing in beat.sessions:
            name = f"{beat.machine}.{playing.session}"
            if beat.paused:
                paused[name] = now
                continue
            if name in rounds.paused:
                paused[name] = rounds.paused[name]
            since = playing.last_event_at or beat.started_at
            if is_stuck(playing, max(since, paused.get(name, since)), policy, now):
                fresh = Suspect(
                    actor=actor,
                    machine=beat.machine,
                    session=playing.session,
                    state=playing.state,
                    records=playing.records,
                    since=since,
                    stage="reported",
                    at=now,
                )
                suspects[name] = _go_on(rounds.suspects.get(name), fresh, policy)
    changed = tuple(suspect for name, suspect in suspects.items() if suspect != rounds.suspects.get(name))
    return Rounds(suspects=suspects, paused=paused), changed


def is_stuck(playing: Playing, since: Instant, policy: Supervision, now: Instant) -> bool:
    """Whether a session should have recorded something since then, and has not."""
    is_working = playing.state in WORKING and ASKS_PERSON not in playing.in_hand
    return is_working and now - since >= timedelta(seconds=policy.stuck_seconds)


def _go_on(known: Suspect | None, fresh: Suspect, policy: Supervision) -> Suspect:
    """The next stage, once it is time; from the first again for somebody who has recorded something meanwhile."""
    if known is None or known.records != fresh.records:
        return fresh
    if known.stage == "restarted" or fresh.at - known.at < timedelta(seconds=policy.recycle_seconds):
        return known
    return msgspec.structs.replace(fresh, stage="recycled" if known.stage == "reported" else "restarted")

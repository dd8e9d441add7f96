"""Words that all views share: times, names and reasons for a person's eyes."""

from datetime import datetime

from actors.hosting.heartbeat import Heartbeat
from bus.cli.output import counted, moment, one_line
from protocol.messages import Instant
from supervisors.core.standing import ChildStanding
from supervisors.views.overview import Actor, Overview, Work

NOBODY = "-"
MINUTE, HOUR, DAY = 60, 3600, 86400


def how_long(since: datetime, now: datetime) -> str:
    """A span, as exact as one wants to know it."""
    seconds = max(0, int((now - since).total_seconds()))
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min"
    if seconds < DAY:
        return f"{seconds // HOUR} h {seconds % HOUR // MINUTE} min"
    return f"{seconds // DAY} d {seconds % DAY // HOUR} h"


def company_line(overview: Overview) -> str:
    """Whether the company runs, since when and where; if not, what to do."""
    standing, name = overview.standing, f"company {overview.project}"
    if standing is None:
        return f"{name} is just starting" if overview.running else f"{name} does not run: `supervisor up` starts it"
    where = one_line(f"process {standing.pid} on {standing.host}")
    if not overview.running:
        return f"{name} does not run ({where} is gone since {moment(standing.at)}): `supervisor up` starts it"
    if overview.gave_up:
        return f"{name} has given up: too much has failed; `supervisor tree` shows what ({where})"
    is_doing = "is closing" if standing.closing else "runs"
    lasted = how_long(standing.started_at, overview.at)
    return f"{name} {is_doing} since {moment(standing.started_at)} ({lasted}), {where}"


def state_of(actor: Actor, work: Work | None = None, *, running: bool = True) -> str:
    """Where an actor is, by its session, or else by its process; without a company there is none."""
    if work is not None:
        return one_line(work.state)
    if actor.heartbeat is not None and actor.present:
        return one_line(actor.heartbeat.state)
    return actor.child.phase if actor.child and running else NOBODY


def since_of(actor: Actor, work: Work | None = None) -> Instant | None:
    """Since when it is there."""
    if work is not None:
        return work.since
    if actor.heartbeat is not None and actor.present:
        return actor.heartbeat.started_at
    return actor.child.since if actor.child else None


def note_on(actor: Actor, work: Work | None, overview: Overview) -> str:
    """What a person should know of it beside its state."""
    return one_line("; ".join((*_on_session(work), *_on_process(actor, overview))))


def _on_session(work: Work | None) -> tuple[str, ...]:
    if work is None:
        return ()
    if work.suspension is not None:
        until = f", ERROR at {moment(work.due)}" if work.due else ""
        return (f"from {work.suspension.suspended_from}, for want of {work.suspension.service}{until}",)
    return (", ".join(dict.fromkeys(work.in_hand)),) if work.in_hand else ()


def _on_process(actor: Actor, overview: Overview) -> tuple[str, ...]:
    words = []
    if actor.paused:
        words.append("paused")
    if actor.heartbeat is not None and actor.heartbeat.unreadable:
        words.append(_unreadable(actor.heartbeat))
    if actor.child is not None and overview.running:
        if actor.child.phase in ("starting", "stopping"):
            words.append(actor.child.phase)
        words.extend(on_child(actor.child))
        if actor.child.failures:
            words.append(counted(actor.child.failures, "failure"))
    elif overview.running and overview.standing is not None:
        words.append("in no tree")
    if not actor.present and actor.work:
        words.append("no process has it now")
    return tuple(words)


def _unreadable(heartbeat: Heartbeat) -> str:
    return f"cannot be read: {', '.join(heartbeat.unreadable)}: `bus asks`"


def on_child(child: ChildStanding) -> tuple[str, ...]:
    """What its supervisor has to say of a process that is not there."""
    why = f" ({one_line(child.last_reason)})" if child.last_reason else ""
    match child.phase:
        case "down" if child.next_start:
            return (f"left alone until {moment(child.next_start)}{why}",)
        case "down":
            return (f"waits to be started{why}",)
        case "over":
            return (f"is not started again by itself{why}",)
        case _:
            return ()

"""What a session or a process waits for, and what happens next: pure, from what is known of it."""

from collections.abc import Iterator

from bus.asks import Ask
from bus.cli.output import counted, moment, one_line
from protocol.machine import DONE, ERROR, SUSPEND
from protocol.machines import MACHINES
from supervisors.core.recycling import Errand
from supervisors.core.standing import GAVE_UP, ChildStanding, SupervisorStanding
from supervisors.views.overview import Actor, Overview
from supervisors.views.sessions import Seen


def outlook(
    overview: Overview,
    one: ChildStanding | SupervisorStanding | None,
    actor: Actor | None,
    seen: Seen | None,
    errand: Errand | None = None,
) -> Iterator[str]:
    """Sentences, the most pressing first; `errand` is what is still to be done about a session in ERROR."""
    if not overview.running:
        yield "the company does not run: `supervisor up` starts it, and sessions go on where they are"
    elif isinstance(one, SupervisorStanding):
        yield from _supervisor(one)
    elif one is not None and not overview.gave_up:
        yield from _process(one)
    for ask in overview.asks:
        if (
            (overview.gave_up and GAVE_UP in ask.id)
            or _concerns(ask, actor, seen)
            or (errand and errand.ask and errand.ask.id == ask.id)
        ):
            choices = f" ({' | '.join(ask.choices)})" if ask.choices else ""
            yield one_line(f"waits for your answer: {ask.question}{choices}: `bus answer {ask.id} …`")
    if actor is not None and actor.paused:
        yield "paused by a person: `supervisor resume` lets it go on"
    if seen is not None:
        yield from _session(overview, seen, errand)
    elif actor is not None and actor.work:
        yield f"has {counted(len(actor.work), 'session')}: `supervisor why SESSION` says more of each"
    elif actor is not None and actor.present:
        yield "has no session now: it waits for work"
    if overview.health is not None and not overview.health.healthy and (seen is None or seen.state != SUSPEND):
        yield f"no story is handed out while {_sick(overview)}"


def _supervisor(one: SupervisorStanding) -> Iterator[str]:
    left = counted(one.failures_max - one.failures, "failure")
    if one.phase == "over":
        yield "has given up: `supervisor restart` with the name of a child begins anew, once the cause is mended"
    else:
        yield f"bears {left} more within {one.failures_seconds:g} s before it gives up"


def _process(child: ChildStanding) -> Iterator[str]:
    match child.phase:
        case "down" if child.next_start:
            yield f"left alone until {moment(child.next_start)}, then started again"
        case "down":
            yield "is started again when those before it are ready"
        case "over" if child.last_way == "configuration":
            yield f"is not started again by itself: mend its configuration, then `supervisor restart {child.name}`"
        case "over":
            yield f"is not started again by itself: `supervisor restart {child.name}` does it"
        case "starting":
            yield "is being started"
        case "stopping":
            yield "was told to end"


def _session(overview: Overview, seen: Seen, errand: Errand | None) -> Iterator[str]:
    machine, memory = MACHINES.get(seen.machine), seen.memory
    if seen.state == SUSPEND and memory.suspension is not None:
        since = f" since {moment(memory.since)}" if memory.since else ""
        sick = f" ({_sick(overview)})" if overview.health and not overview.health.healthy else ""
        yield one_line(f"suspended for want of {memory.suspension.service}{since}")
        back = f"goes back to {memory.suspension.suspended_from} when all APIs are healthy{sick}"
        yield one_line(f"{back}; ERROR at {moment(memory.due)}" if memory.due else back)
    elif seen.state == ERROR:
        yield _after_error(errand)
    elif machine is not None and seen.state in machine.terminal:
        yield "this session is over"
    elif seen.state == DONE:
        yield "it rests until the next request comes"
    else:
        for effect in memory.open.values():
            due = f" until {moment(effect.due)}" if effect.due else ""
            yield one_line(f"in hand: {effect.effect}{' ' + effect.name if effect.name else ''}{due}")
        row = machine.edges.get(seen.state, {}) if machine is not None else {}
        for state, cause in row.items():
            yield f"then {state}: {cause}"


def _after_error(errand: Errand | None) -> str:
    if errand is None:
        return "came to ERROR, and all that was to be done about it is done"
    what = "goes on from its first state" if errand.requeue is None else "is over; its story comes again as another run"
    when = "when you have answered" if errand.ask else f"from {moment(errand.due)} on"
    if errand.requeue is None:
        when = f"{when}, as soon as all APIs are healthy"
    return f"came to ERROR: it {what} {when}"


def _sick(overview: Overview) -> str:
    services = overview.health.services if overview.health else ()
    return one_line("; ".join(f"{each.name} is not healthy: {each.error}" for each in services if not each.healthy))


def _concerns(ask: Ask, actor: Actor | None, seen: Seen | None) -> bool:
    """An ask's id is `<role>.<session>.<record>.<effect>`, that of a session that cannot be read begins so too."""
    if actor is None and seen is None:
        return False
    session = seen.session if seen else ""
    role = actor.address.partition(".")[0] if actor else (seen.machine.partition("-")[0] if seen else "")
    return bool(session) and ask.id.startswith(f"{role}.{session}.")

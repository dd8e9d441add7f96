"""Why somebody is where it is: what was asked for is found by whichever name, and all that is known of it read."""

from collections.abc import Iterator

import msgspec

from bus.bus import Bus
from bus.cli.output import counted, moment, one_line, plain
from protocol.errors import BadSubjectError
from protocol.machine import ERROR
from protocol.subjects import check_id
from supervisors.clerk.clerk import ERRANDS
from supervisors.core.recycling import Errand
from supervisors.core.standing import ChildStanding, SupervisorStanding
from supervisors.views.history import Ending, Past, ending_line, endings_of, past_of
from supervisors.views.outlook import outlook
from supervisors.views.overview import Actor, Overview, gather
from supervisors.views.sessions import MACHINES_OF, Seen, look_up, newest_run
from supervisors.views.tree import facts_of

INDENT = "    "


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """One process, supervisor or session, with its past and what comes."""

    name: str
    process: ChildStanding | SupervisorStanding | None
    actor: str
    session: Seen | None
    sessions: tuple[str, ...]
    """All that the actor has, where those are several."""
    past: Past
    endings: tuple[Ending, ...]
    outlook: tuple[str, ...]


async def gather_why(bus: Bus, name: str) -> Why | None:
    """All that is known under a name: of the tree, an actor's address, a session or a story. None: there is nothing."""
    overview = await gather(bus)
    one = _in_tree(overview, name)
    actor = _actor(overview, name)
    work = actor.work if actor else ()
    if one is None and actor is None:
        seen = await _find_session(bus, name)
        if seen is None:
            return None
        actor = next((each for each in overview.actors if _has(each, seen)), None)
        one = actor.child if actor else None
    else:
        role = actor.address.partition(".")[0] if actor else ""
        seen = await look_up(bus, role, work[0].session) if len(work) == 1 else None
    return Why(
        name=name,
        process=one,
        actor=actor.address if actor else "",
        session=seen,
        sessions=tuple(each.session for each in work),
        past=await past_of(bus, seen.machine, seen.session) if seen else Past(),
        endings=await endings_of(bus, one.name) if isinstance(one, ChildStanding) else (),
        outlook=tuple(outlook(overview, one, actor, seen, await _errand(bus, seen))),
    )


def known_names(overview: Overview) -> list[str]:
    """What one can ask for, beside sessions that are over."""
    standing = overview.standing
    supervisors, children = (standing.supervisors, standing.children) if standing else ((), ())
    names = [*(each.name for each in supervisors), *(each.name for each in children)]
    sessions = [work.session for actor in overview.actors for work in actor.work]
    return list(dict.fromkeys((*names, *(actor.address for actor in overview.actors), *sessions)))


def _in_tree(overview: Overview, name: str) -> ChildStanding | SupervisorStanding | None:
    standing = overview.standing
    if standing is None:
        return None
    child = next((each for each in standing.children if name in (each.name, each.actor)), None)
    return child or next((each for each in standing.supervisors if each.name == name), None)


def _actor(overview: Overview, name: str) -> Actor | None:
    return next((each for each in overview.actors if name == each.address or _is_child(each, name)), None)


def _is_child(actor: Actor, name: str) -> bool:
    return actor.child is not None and actor.child.name == name


def _has(actor: Actor, seen: Seen) -> bool:
    machines = MACHINES_OF.get(actor.address.partition(".")[0], ())
    return seen.machine in machines and any(work.session == seen.session for work in actor.work)


async def _find_session(bus: Bus, name: str) -> Seen | None:
    """A session of that name, else the newest run at a story of that name."""
    try:
        check_id(name)
    except BadSubjectError:
        return None
    found = [await look_up(bus, role, name) for role in MACHINES_OF]
    newest = max((seen for seen in found if seen), key=lambda seen: seen.sequence, default=None)
    return newest or await newest_run(bus, name)


async def _errand(bus: Bus, seen: Seen | None) -> Errand | None:
    """What is still to be done about a session that came to ERROR."""
    if seen is None or seen.state != ERROR:
        return None
    found = [posted async for posted in bus.board.all(f"{ERRANDS}.{seen.machine}.{seen.session}")]
    try:
        return msgspec.json.decode(found[-1].value or b"", type=Errand) if found else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def lines(why: Why) -> Iterator[str]:
    """For a person."""
    yield _heading(why)
    yield from (f"{INDENT}{sentence}" for sentence in why.outlook)
    if len(why.sessions) > 1:
        yield one_line(f"sessions: {', '.join(why.sessions)}")
    if why.past.transitions:
        yield "last transitions:"
    for step in why.past.transitions:
        yield one_line(f"{INDENT}{step.n:5}  {moment(step.at)}  {step.state_from} → {step.state_to}  {step.event}")
    if why.past.fault is not None:
        yield one_line(
            f"last error, {moment(why.past.fault.at)}: {why.past.fault.cause.kind}: {why.past.fault.cause.reason}"
        )
        yield from _indented(why.past.fault.cause.evidence)
    if why.endings:
        yield "last exits:"
    for ending in why.endings:
        yield f"{INDENT}{moment(ending.at)}  {ending_line(ending.exited)}"
        if ending.exited.way not in ("normal", "asked"):
            yield from (f"{INDENT}{line}" for line in _indented(ending.exited.said))


def _heading(why: Why) -> str:
    parts = [why.name]
    if why.process is not None:
        who = "" if why.process.name == why.name else f"{why.process.name} "
        parts.append(f"{who}is {why.process.phase} ({', '.join(facts_of(why.process))})")
    if why.session is not None:
        records = counted(why.session.records, "record")
        parts.append(f"session {why.session.session} is in {why.session.state}, {records}")
    between = " " if len(parts) > 1 and parts[1].startswith("is ") else ": "
    return one_line(between.join((parts[0], "; ".join(parts[1:])) if len(parts) > 1 else parts))


def _indented(text: str) -> Iterator[str]:
    yield from (f"{INDENT}{line}" for line in plain(text).splitlines())

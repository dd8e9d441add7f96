"""`bus journal` and `bus verify`: the record of everything, to read and to check."""

import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from typing import Annotated, Any

import msgspec
import typer

from bus.bus import Bus
from bus.cli.app import app
from bus.cli.failures import CommandError
from bus.cli.flags import Json, person_bus, project_of
from bus.cli.lines import UNKNOWN, UNREADABLE, record_line
from bus.cli.output import counted, one_line, say, show, show_bytes, show_json
from bus.cli.running import run, while_somebody_reads
from bus.exits import Exit
from bus.journal import Entry
from protocol.errors import BadSubjectError
from protocol.subjects import check_id, parse_subject
from protocol.verification import Transition
from protocol.verification import verify as replay


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the list: how many records it has and the state after the last of them."""

    machine: str
    session: str
    records: int
    state: str


@app.command(epilog="Examples: bus journal · bus journal s-1.1 · bus journal main --follow --json")
def journal(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="The session; without it all sessions are listed.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    json: Json = False,
) -> int:
    """List the sessions, or show the records of one.

    With --json the list is one array and records are one line each, as they are stored.
    """
    if session:
        check_id(session)
    if not session and not follow:
        run(lambda: _list_sessions(context, json=json))
    else:
        run(lambda: _show_records(context, session, follow=follow, json=json), endless=follow)
    return Exit.OK


async def _list_sessions(context: typer.Context, *, json: bool) -> None:
    found: dict[str, SessionSummary] = {}
    async with person_bus(context) as bus:
        async for entry in bus.journal.read():
            before = found.get(entry.subject)
            found[entry.subject] = _summary(entry, 1 if before is None else before.records + 1)
    if json:
        show_json(list(found.values()))
        return
    for one in found.values():
        show(f"{one.machine:18} {one.session:24} {counted(one.records, 'record'):>14}  {one_line(one.state)}")
    project = project_of(context)
    say(counted(len(found), "session") if found else f"no session of project {project} has recorded anything yet")


def _summary(entry: Entry, records: int) -> SessionSummary:
    try:
        state = entry.record().state_to
    except UNREADABLE:
        state = UNKNOWN
    machine, session = _place(entry)
    return SessionSummary(machine=machine, session=session, records=records, state=state)


async def _show_records(context: typer.Context, session: str, *, follow: bool, json: bool) -> None:
    shown = 0
    async with person_bus(context) as bus, while_somebody_reads() if follow else nullcontext():
        if follow:
            say(f"following {session or 'all sessions'}")
        async for entry in _entries(bus, session, follow=follow):
            _show_entry(entry, json=json)
            shown += 1
    if not shown:
        raise _no_session(context, session)


def _entries(bus: Bus, session: str, *, follow: bool) -> AsyncIterator[Entry]:
    return bus.journal.follow(session=session) if follow else bus.journal.read(session=session)


def _no_session(context: typer.Context, session: str) -> CommandError:
    where = f"project {project_of(context)} has no record of a session {session}"
    return CommandError(Exit.FAILED, f"{where}; `bus journal` lists the sessions")


def _show_entry(entry: Entry, *, json: bool) -> None:
    try:
        record = entry.record()
        line = msgspec.json.format(entry.data, indent=-1).decode()
    except (*UNREADABLE, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if json:
            show_json(_unreadable(entry, str(error)))
        else:
            machine, session = _place(entry)
            show(one_line(f"{machine} {session}     ?  sequence {entry.sequence} is unreadable: {error}"))
        return
    if json:
        show_bytes(line.encode() + b"\n")
    else:
        show(record_line(record))


def _place(entry: Entry) -> tuple[str, str]:
    """Machine and session by the subject, which the record inside may contradict."""
    try:
        subject = parse_subject(entry.subject)
    except BadSubjectError:
        return UNKNOWN, one_line(entry.subject)
    return subject.role, subject.id


def _unreadable(entry: Entry, reason: str, rule: str = "unreadable") -> dict[str, Any]:
    machine, session = _place(entry)
    return {
        "machine": machine,
        "session": session,
        "sequence": entry.sequence,
        "rule": rule,
        "reason": reason,
        "data_base64": base64.b64encode(entry.data).decode(),
    }


@app.command(epilog="Examples: bus verify · bus verify s-1.1 --json")
def verify(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="Check only this session.")] = "",
    json: Json = False,
) -> int:
    """Check the records against the machines.

    Every recorded transition is replayed; if any is illegal, the offending records are shown and the exit code is 1.
    """
    if session:
        check_id(session)

    async def work() -> list[Transition | dict[str, Any]]:
        async with person_bus(context) as bus:
            return [_transition(entry) async for entry in bus.journal.read(session=session)]

    taken = run(work)
    if session and not taken:
        raise _no_session(context, session)
    offences = list(_offences(taken))
    if json:
        show_json({"records": len(taken), "offences": offences})
    else:
        for one in offences:
            place = f"record {one['n']}" if "n" in one else f"sequence {one['sequence']}"
            show(one_line(f"{one['machine']} {one['session']} {place}: {one['reason']}"))
        where = "" if taken else f" (project {project_of(context)})"
        say(f"{counted(len(taken), 'record')}, {counted(len(offences), 'offence')}{where}")
    return Exit.FAILED if offences else Exit.OK


def _transition(entry: Entry) -> Transition | dict[str, Any]:
    """What a record says happened, or the offence of saying nothing, or of saying it under another's name."""
    try:
        record = entry.record()
    except UNREADABLE as error:
        return _unreadable(entry, str(error))
    if (record.machine, record.session) != _place(entry):
        return _unreadable(entry, f"the record says that it is of {record.machine} {record.session}", "name")
    return Transition(
        machine=record.machine,
        session=record.session,
        n=record.n,
        state_from=record.state_from,
        state_to=record.state_to,
    )


def _offences(taken: list[Transition | dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every offence in the order of the records."""
    waiting: list[dict[str, Any]] = []

    def readable() -> Iterator[Transition]:
        for one in taken:
            if isinstance(one, Transition):
                yield one
            else:
                waiting.append(one)

    for offence in replay(readable()):
        yield from waiting
        waiting.clear()
        yield {**msgspec.to_builtins(offence.transition), "rule": offence.rule, "reason": offence.reason}
    yield from waiting

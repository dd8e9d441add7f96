"""`bus journal` and `bus verify`: the record of everything, to read and to check."""

from typing import Annotated

import msgspec
import typer

from bus.cli.app import Json, app, person_bus, run, say, show, show_json
from bus.exits import Exit
from bus.journal import Entry
from protocol.errors import BadSubjectError, MalformedMessageError, UnsupportedSchemaError
from protocol.record import Record
from protocol.subjects import parse_subject
from protocol.verification import Transition
from protocol.verification import verify as replay


@app.command(epilog="Examples: bus journal · bus journal s-1.1 · bus journal main --follow --json")
def journal(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="The session; without it all sessions are listed.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    json: Json = False,
) -> int:
    """Show the records of a session, or list the sessions."""

    async def work() -> None:
        async with person_bus(context) as bus:
            if not session and not follow:
                sessions: dict[str, tuple[int, str]] = {}
                async for entry in bus.journal.read():
                    count, _ = sessions.get(entry.subject, (0, ""))
                    sessions[entry.subject] = (count + 1, _state(entry))
                for subject, (count, state) in sessions.items():
                    _show_session(subject, count, state, json=json)
                return
            entries = bus.journal.follow(session=session) if follow else bus.journal.read(session=session)
            async for entry in entries:
                _show_entry(entry, json=json)

    run(work)
    return Exit.OK


def _state(entry: Entry) -> str:
    try:
        return entry.record().state_to
    except (MalformedMessageError, UnsupportedSchemaError):
        return "?"


def _show_session(subject: str, count: int, state: str, *, json: bool) -> None:
    parsed = parse_subject(subject)
    if json:
        show_json({"machine": parsed.role, "session": parsed.id, "records": count, "state": state})
    else:
        show(f"{parsed.role:18} {parsed.id:24} {count:6} records  {state}")


def _show_entry(entry: Entry, *, json: bool) -> None:
    try:
        record = entry.record()
    except (MalformedMessageError, UnsupportedSchemaError) as error:
        show_json({"sequence": entry.sequence, "subject": entry.subject, "unreadable": str(error)}) if json else show(
            f"{entry.sequence:6} {entry.subject}: unreadable: {error}"
        )
        return
    show(entry.data.decode() if json else _line(record))


def _line(record: Record) -> str:
    step = record.state_to if record.state_from == record.state_to else f"{record.state_from} → {record.state_to}"
    event = _tag(record.event)
    effects = ", ".join(_tag(effect) for effect in record.effects)
    at = record.at.isoformat(timespec="milliseconds")
    return f"{record.n:6} {at} {step:28} {event}{'  ⇒ ' + effects if effects else ''}"


def _tag(raw: msgspec.Raw) -> str:
    """What an event or effect calls itself: its first text value."""
    value = msgspec.json.decode(raw)
    if isinstance(value, dict):
        return next((str(item) for item in value.values() if isinstance(item, str)), "?")
    return str(value)


@app.command(epilog="Examples: bus verify · bus verify s-1.1 --json")
def verify(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="Check only this session.")] = "",
    json: Json = False,
) -> int:
    """Replay the recorded transitions against the machines; exit 1 and the offending records if any is illegal."""

    async def work() -> tuple[list[Transition], list[dict[str, object]]]:
        taken: list[Transition] = []
        unreadable: list[dict[str, object]] = []
        async with person_bus(context) as bus:
            async for entry in bus.journal.read(session=session):
                try:
                    taken.append(_transition(entry))
                except (MalformedMessageError, UnsupportedSchemaError, BadSubjectError) as error:
                    unreadable.append({"sequence": entry.sequence, "subject": entry.subject, "reason": str(error)})
        return taken, unreadable

    taken, offending = run(work)
    for offence in replay(taken):
        offending.append({**msgspec.to_builtins(offence.transition), "rule": offence.rule, "reason": offence.reason})
    if json:
        show_json({"records": len(taken), "offences": offending})
    else:
        for one in offending:
            show(f"{one.get('session', one.get('subject'))} {one.get('n', '')}: {one['reason']}")
        say(f"{len(taken)} records, {len(offending)} offences")
    return Exit.FAILED if offending else Exit.OK


def _transition(entry: Entry) -> Transition:
    """What a record says happened, under the name that its subject gives it."""
    record, subject = entry.record(), parse_subject(entry.subject)
    if (record.machine, record.session) != (subject.role, subject.id):
        raise MalformedMessageError(f"the record says {record.machine} {record.session}", entry.data)
    return Transition(
        machine=record.machine,
        session=record.session,
        n=record.n,
        state_from=record.state_from,
        state_to=record.state_to,
    )

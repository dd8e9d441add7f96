"""One line for a person, of whatever stands in a journal or travels on the bus."""

import msgspec

from bus.cli.output import moment, one_line
from protocol.codec import decode_envelope
from protocol.errors import MalformedMessageError, UnsupportedSchemaError
from protocol.messages import Envelope
from protocol.record import Record, decode_record

PREVIEW_CHARACTERS = 200
UNKNOWN = "?"

UNREADABLE = (MalformedMessageError, UnsupportedSchemaError)


def record_line(record: Record) -> str:
    """Which session, its step, when, from where to where, what happened and what is to be done about it."""
    step = record.state_to if record.state_from == record.state_to else f"{record.state_from} → {record.state_to}"
    effects = ", ".join(tag(effect) for effect in record.effects)
    done = f"{tag(record.event)}{'  ⇒ ' + effects if effects else ''}{_why(record)}"
    return one_line(f"{record.machine} {record.session} {record.n:5}  {moment(record.at)}  {step:28}  {done}")


class _Why(msgspec.Struct, frozen=True, kw_only=True):
    """As much of an actor's session as says what went wrong."""

    class Cause(msgspec.Struct, frozen=True, kw_only=True):
        kind: str
        reason: str

    class Suspension(msgspec.Struct, frozen=True, kw_only=True):
        service: str

    failing: Cause | None = None
    suspension: Suspension | None = None


_why_decoder = msgspec.json.Decoder(_Why)


def _why(record: Record) -> str:
    """Why it fails, or what it waits for, where it has just come to that."""
    if record.state_from == record.state_to:
        return ""
    try:
        why = _why_decoder.decode(record.after)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""  # of an actor that keeps other things
    if why.failing is not None:
        return f"  ✗ {why.failing.kind}: {why.failing.reason}"
    return f"  … {why.suspension.service} is out of reach" if why.suspension is not None else ""


def tag(raw: msgspec.Raw) -> str:
    """What an event or effect calls itself.

    Only its actors know its fields, but a tagged struct is always written with its tag first, whatever the tag's field
    is called; so the first member counts if it is a text, and nothing else is guessed.
    """
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNKNOWN
    first = next(iter(value.values()), None) if isinstance(value, dict) else value
    return first if isinstance(first, str) and first else UNKNOWN


def envelope_line(envelope: Envelope) -> str:
    """When it was sent, what kind of message it is, from whom and for whom."""
    about = f"{moment(envelope.sent_at)}  {envelope.kind} {type(envelope.payload).__name__}"
    return one_line(f"{about}  {envelope.sender} → {envelope.recipient or 'all'}  {envelope.id}")


def data_line(data: bytes) -> str:
    """An envelope or a record as such; anything else as the beginning of its text."""
    try:
        return envelope_line(decode_envelope(data))
    except UNREADABLE:
        pass
    try:
        return record_line(decode_record(data))
    except UNREADABLE:
        text = data[: 4 * PREVIEW_CHARACTERS].decode(errors="backslashreplace")
        return one_line(text if len(text) <= PREVIEW_CHARACTERS else text[:PREVIEW_CHARACTERS] + " …")

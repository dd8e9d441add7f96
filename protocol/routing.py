"""Where an envelope goes: its subject follows from its kind, its payload and its addresses."""

from protocol.errors import BadSubjectError
from protocol.messages import Envelope, SpecUpload, Story
from protocol.subjects import ALL, ROLES, Role, Subjects, check_id


def address(role: str, identifier: str) -> str:
    """How an actor is named in an envelope: `architect.main`, `coder.coder-1`."""
    return f"{role}.{identifier}"


def parse_address(text: str) -> tuple[Role, str]:
    """Take an address apart, or raise BadSubjectError."""
    role, _, identifier = text.partition(".")
    for known in ROLES:
        if role == known and identifier:
            return known, check_id(identifier)
    raise BadSubjectError(text[:100], f"an address is <role>.<id>, the role one of {', '.join(ROLES)}")


def subject_of(subjects: Subjects, envelope: Envelope) -> str:
    """The subject on which an envelope travels."""
    match envelope.kind:
        case "EVENT":
            return subjects.event(*parse_address(envelope.sender))
        case "CONTROL":
            role, _, identifier = envelope.recipient.partition(".")
            return subjects.control(role or ALL, identifier or ALL)
        case "REQUEST" if isinstance(envelope.payload, SpecUpload):
            return subjects.spec(*parse_address(envelope.recipient))
        case "REQUEST" if isinstance(envelope.payload, Story):
            return subjects.work("coder", envelope.payload.story)
        case "REQUEST":
            return subjects.request(*parse_address(envelope.recipient))
        case "RESPONSE":
            return subjects.reply(*parse_address(envelope.recipient))

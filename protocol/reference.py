"""What can be said, for people: the page docs/protocol.md, printed from the structs."""

from collections.abc import Iterator
from typing import get_args

import msgspec

from protocol.messages import AnyPayload, Envelope, MergeOutcome
from protocol.pages import markdown_table
from protocol.record import Record
from protocol.subjects import Subjects

_BEFORE = """\
# The protocol

<!-- Printed from protocol/ by `make docs`: change the structs there, not this page. -->

Everything that passes between actors is an envelope with one payload, as JSON, on a NATS subject.
`bus schema` prints the JSON Schema with all types; here are the names and what they are for.
Fields in *italics* may be left out.
A reader passes over fields that it does not know, and refuses an envelope or record with another `schema` number.
"""

_SUBJECTS = """\
A subject is `callboard.<project>.<kind>.<role>.<id>`, of tokens of `a-z 0-9 - _`.
An id may have several tokens: a coder's session is `<story>.<run>`.
"""

_IDS = """\
An envelope's `id` is `<sender>/<n>/<k>`: effect `k` of record `n` of the sender's session.
A repetition has the same id, so a receiver that keeps the highest position of each sender refuses it, however late.
"""

_RECORDS = """\
A session's journal is one subject; each record on it is one step.
Event, effects and the session after the step belong to the agents and are kept as they are.
"""


def protocol_page() -> str:
    """The whole page."""
    sections = [
        _BEFORE,
        f"## Subjects\n\n{_SUBJECTS}",
        markdown_table(("kind", "what travels there", "for example"), _subjects(Subjects("demo"))),
        f"## Envelope\n\n{_IDS}\n{_fields(Envelope)}\n",
        "## Payloads\n",
        markdown_table(("payload", "what it says", "fields"), _rows(get_args(AnyPayload))),
        "## How a merge can end\n",
        markdown_table(("outcome", "what it says", "fields"), _rows(get_args(MergeOutcome))),
        f"## Records\n\n{_RECORDS}\n{_fields(Record)}\n",
    ]
    return "\n".join(sections)


def _subjects(subjects: Subjects) -> Iterator[tuple[str, str, str]]:
    rows = (
        ("request", "what an actor is asked; acknowledged when its journal has it", subjects.request("pm", "main")),
        ("spec", "specs that a person publishes", subjects.spec("pm", "main")),
        ("reply", "answers to an actor's or a session's own requests", subjects.reply("coder", "s-42.1")),
        ("event", "what happened", subjects.event("coder", "coder-1")),
        ("work", "ready stories, each for one coder", subjects.work("coder", "s-42")),
        ("journal", "the records of a session; the role is its machine", subjects.journal("coder", "s-42.1")),
        ("control", "signals for one actor, a role or everybody", subjects.control("coder")),
        ("dead", "what could not be read or handled, with the reason", subjects.dead("coder", "coder-1")),
    )
    for kind, meaning, example in rows:
        yield f"`{kind}`", meaning, f"`{example}`"


def _rows(structs: tuple[type[msgspec.Struct], ...]) -> Iterator[tuple[str, str, str]]:
    for struct in structs:
        meaning = " ".join((struct.__doc__ or "").split())
        yield f"`{struct.__struct_config__.tag}`", meaning, _fields(struct)


def _fields(struct: type[msgspec.Struct]) -> str:
    fields = msgspec.structs.fields(struct)
    return ", ".join(f"`{field.encode_name}`" if field.required else f"*`{field.encode_name}`*" for field in fields)

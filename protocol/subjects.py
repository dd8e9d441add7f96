"""The only place where a subject, a stream, a bucket or a consumer gets its name.

Subjects are `callboard.<project>.<kind>.<role>.<id>`; an id may have several tokens (a coder's session is
`<story>.<run>`). Streams are UPPER_SNAKE, one per kind of traffic; mail has a stream per role, because the broker
can grant a role its own stream but not a prefix of a consumer's name.
"""

import re
from typing import Literal, get_args

import msgspec

from protocol.errors import BadSubjectError

Role = Literal["pm", "architect", "coder", "supervisor", "web", "person"]
ROLES: tuple[Role, ...] = get_args(Role)

MailKind = Literal["request", "spec", "reply"]
MAIL_KINDS: tuple[MailKind, ...] = get_args(MailKind)

Kind = Literal["request", "spec", "reply", "event", "work", "journal", "control", "dead", "ledger"]
KINDS: tuple[Kind, ...] = get_args(Kind)

ALL: str = "all"
"""Stands for every role or every id in a control subject; no actor may be called so."""

TOKEN_LENGTH_MAX = 64
ID_LENGTH_MAX = 200
"""The name of a consumer holds an id, and the broker takes 255 characters for it."""
TOKEN_PATTERN = rf"[a-z0-9_-]{{1,{TOKEN_LENGTH_MAX}}}"
_TOKEN = re.compile(TOKEN_PATTERN)
_KEY_TOKEN = re.compile(r"[a-zA-Z0-9_=-]{1,128}")


def check_token(token: str) -> str:
    """Return `token` if it may stand between two dots of a subject, else raise BadSubjectError."""
    if not _TOKEN.fullmatch(token):
        raise BadSubjectError(token[:100], f"use 1 to {TOKEN_LENGTH_MAX} of a-z 0-9 - _ (no wildcards, dots or spaces)")
    return token


def check_id(identifier: str) -> str:
    """Return `identifier` if it is one or more tokens joined by dots, else raise BadSubjectError."""
    if len(identifier) > ID_LENGTH_MAX:
        raise BadSubjectError(identifier[:100], f"use at most {ID_LENGTH_MAX} characters")
    for token in identifier.split("."):
        check_token(token)
    return identifier


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A subject taken apart."""

    project: str
    kind: Kind
    role: str
    id: str


def parse_subject(subject: str) -> Subject:
    """Take a subject of ours apart, or raise BadSubjectError."""
    parts = subject.split(".", 4)
    if len(parts) != 5 or parts[0] != "callboard":
        raise BadSubjectError(subject[:200], "a subject is callboard.<project>.<kind>.<role>.<id>")
    _, project, kind, role, identifier = parts
    if kind not in KINDS:
        raise BadSubjectError(subject[:200], f"its third token is one of {', '.join(KINDS)}")
    return Subject(project=check_token(project), kind=kind, role=check_token(role), id=check_id(identifier))


class Subjects(msgspec.Struct, frozen=True):
    """All names of one project on a broker that it may share with others."""

    project: str

    def __post_init__(self) -> None:
        check_token(self.project)

    def _spell(self, kind: Kind, role: str, identifier: str) -> str:
        return f"callboard.{self.project}.{kind}.{check_token(role)}.{check_id(identifier)}"

    def request(self, role: Role, identifier: str) -> str:
        """Where an actor's requests arrive."""
        return self._spell("request", role, identifier)

    def spec(self, role: Role, identifier: str) -> str:
        """Where specs arrive that a person publishes: the PM's upload, or classic's architect."""
        return self._spell("spec", role, identifier)

    def reply(self, role: Role, identifier: str) -> str:
        """Where answers to an actor's or a session's own requests arrive."""
        return self._spell("reply", role, identifier)

    def event(self, role: Role, identifier: str) -> str:
        """Where an actor says what happened."""
        return self._spell("event", role, identifier)

    def work(self, role: Role, story: str) -> str:
        """Where a ready story is put for whoever of `role` is free."""
        return self._spell("work", role, story)

    def journal(self, machine: str, session: str) -> str:
        """The one subject that holds a session's records."""
        return self._spell("journal", machine, session)

    def journals_of(self, session: str) -> str:
        """The filter for the records of a session whose machine is not known."""
        return f"callboard.{self.project}.journal.*.{check_id(session)}"

    def journals_below(self, prefix: str) -> str:
        """The filter for the records of all sessions whose names go on after `prefix`: the runs at a story."""
        return f"callboard.{self.project}.journal.*.{check_id(prefix)}.>"

    def control(self, role: str = ALL, identifier: str = ALL) -> str:
        """Where a control signal for one actor, a role or everybody goes."""
        return self._spell("control", role, identifier)

    @property
    def ledger(self) -> str:
        """The one subject that holds what calls cost, of all roles: so that it has an order that a fence can keep."""
        return self._spell("ledger", ALL, "main")

    def dead(self, role: Role, identifier: str) -> str:
        """Where a message goes that the actor could not read or handle."""
        return self._spell("dead", role, identifier)

    def every(self, kind: Kind, role: str = "") -> str:
        """The filter for all subjects of a kind, or of a kind and a role."""
        middle = f".{check_token(role)}" if role else ""
        return f"callboard.{self.project}.{kind}{middle}.>"

    @property
    def everything(self) -> str:
        """The filter for all that this project says."""
        return f"callboard.{self.project}.>"

    def live(self, kind: Kind) -> str:
        """The filter for the core subjects on which the broker repeats what it has stored of a kind."""
        return f"callboard.{self.project}.live.{kind}.>"

    @property
    def live_board(self) -> str:
        """The filter for the core subjects on which the broker repeats changes of the board."""
        return f"callboard.{self.project}.live.board.>"

    def inbox(self, role: Role) -> str:
        """The prefix of the inboxes of a role, so that no role can listen to another's answers."""
        return f"_INBOX.{self.project}.{check_token(role)}"

    # Streams, buckets and consumers.

    def stream(self, name: str) -> str:
        """The stream for one kind of traffic, for example JOURNAL."""
        return f"CALLBOARD_{self.project.upper()}_{name}"

    def mail_stream(self, role: Role) -> str:
        """The stream that keeps the mail of a role until it is acknowledged."""
        return self.stream(f"MAIL_{check_token(role).upper()}")

    def bucket(self, name: str) -> str:
        """A key-value bucket or object store of this project, as clients know it."""
        return f"callboard_{self.project}_{check_token(name)}"

    def key_stream(self, bucket: str) -> str:
        """The stream behind a key-value bucket."""
        return f"KV_{self.bucket(bucket)}"

    def key(self, bucket: str, key: str) -> str:
        """The subject of a key: a key has tokens like an id, and may have capitals and `=`."""
        for token in key.split("."):
            if not _KEY_TOKEN.fullmatch(token):
                raise BadSubjectError(key[:100], "a key's tokens are a-z A-Z 0-9 - _ =")
        return f"$KV.{self.bucket(bucket)}.{key}"

    def every_key(self, bucket: str, prefix: str = "") -> str:
        """The filter for all keys of a bucket, or those below a prefix."""
        return f"{self.key(bucket, prefix)}.>" if prefix else f"$KV.{self.bucket(bucket)}.>"

    def key_of(self, bucket: str, subject: str) -> str:
        """The key that a subject of a bucket spells."""
        return subject.removeprefix(f"$KV.{self.bucket(bucket)}.")

    def object_stream(self, bucket: str) -> str:
        """The stream behind an object store."""
        return f"OBJ_{self.bucket(bucket)}"

    def object_meta(self, bucket: str, encoded_name: str) -> str:
        """The subject of an object's description; the name is already base64url."""
        return f"$O.{self.bucket(bucket)}.M.{encoded_name}"

    def object_chunks(self, bucket: str, nuid: str) -> str:
        """The subject of an object's chunks."""
        return f"$O.{self.bucket(bucket)}.C.{nuid}"

    def every_object(self, bucket: str) -> tuple[str, str]:
        """The filters for all chunks and all descriptions of an object store."""
        return f"$O.{self.bucket(bucket)}.C.>", f"$O.{self.bucket(bucket)}.M.>"

    def mail_consumer(self, kind: MailKind, identifier: str) -> str:
        """The durable by which an actor or session takes one kind of its mail (a consumer's name has no dots)."""
        return f"{kind}-{check_id(identifier).replace('.', '=')}"

    def work_consumer(self, role: Role) -> str:
        """The durable that all actors of a role share."""
        return f"work-{check_token(role)}"

    def delivery_limit_advisories(self, stream: str) -> str:
        """Where the broker says that it gave up delivering a message of a stream."""
        return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.*"

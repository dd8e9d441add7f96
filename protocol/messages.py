"""What can be said: the envelope and every payload, in the documents' words.

Payloads are facts (past tense) or requests. Unknown fields are tolerated, so an old reader survives a newer writer;
a new field has a default; a type never changes. Golden bytes in the tests hold the wire format.
"""

import re
from datetime import datetime
from typing import Annotated, Literal, get_args

import msgspec

SCHEMA = 1
"""The version of the wire format. A reader refuses every other one."""

Kind = Literal["REQUEST", "RESPONSE", "EVENT", "CONTROL"]
ApprovalType = Literal["plan", "code", "completion", "budget_review", "spec"]
Verdict = Literal["APPROVED", "NEEDS_CHANGES", "ABANDON"]
BudgetVerdict = Literal["CONTINUE", "PIVOT", "REPLAN", "ESCALATE", "ABANDON"]
Status = Literal["APPROVED", "NEEDS_CHANGES", "ABANDON", "CONTINUE", "PIVOT", "REPLAN", "ESCALATE"]
StoryKind = Literal["app", "devops"]

VERDICTS: frozenset[str] = frozenset(get_args(Verdict))
BUDGET_VERDICTS: frozenset[str] = frozenset(get_args(BudgetVerdict))

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
Natural = Annotated[int, msgspec.Meta(ge=0)]


def snake_case(name: str) -> str:
    """The tag of a payload: ApprovalResult is `approval_result` on the wire."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Payload(msgspec.Struct, frozen=True, kw_only=True, tag_field="payload", tag=snake_case):
    """Base of all payloads."""


# Specs, interviews and stories.


class SpecUpload(Payload, frozen=True, kw_only=True):
    """Person → PM, in classic → architect: a spec, whole or, when it is large, by its key in the object store."""

    spec: str
    revision: Natural
    markdown: str = ""
    object: str = ""
    digest: str = ""


class InterviewRequest(Payload, frozen=True, kw_only=True):
    """Person → PM: let us talk about something to build."""

    interview: str
    text: str = ""
    expertise: str = ""


class InterviewMessage(Payload, frozen=True, kw_only=True):
    """Person ↔ PM: one turn of an interview; `finished` says that the person has nothing to add."""

    interview: str
    text: str
    finished: bool = False


class Story(Payload, frozen=True, kw_only=True):
    """Architect → work queue: one piece of work that a coder can finish by itself."""

    story: str
    spec: str
    run: Natural
    title: str
    description: str
    acceptance_criteria: tuple[str, ...]
    kind: StoryKind = "app"
    requirements: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    attempt: Natural = 1
    earlier: tuple["EarlierRun", ...] = ()


class EarlierRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a requeued story brings along from a run that failed: where its work is and why it ended."""

    session: str
    cause: str
    diagnosis: str = ""
    commit: str = ""
    pack: str = ""


# Requests between agents and their answers.


class Question(Payload, frozen=True, kw_only=True):
    """Coder → architect: something is unclear."""

    story: str
    question: str
    context: str = ""


class Answer(Payload, frozen=True, kw_only=True):
    """Architect → coder: what was unclear."""

    answer: str


class ApprovalRequest(Payload, frozen=True, kw_only=True):
    """Coder or PM → architect: judge a plan, code, a completion, a budget or a spec."""

    approval_type: ApprovalType
    content: str
    reason: str = ""
    metadata: dict[str, str] = {}


class ApprovalResult(Payload, frozen=True, kw_only=True):
    """Architect → whoever asked: the verdict."""

    status: Status
    feedback: str = ""
    type: ApprovalType

    def __post_init__(self) -> None:
        allowed = BUDGET_VERDICTS if self.type == "budget_review" else VERDICTS
        if self.status not in allowed:
            raise ValueError(f"{self.status} is no verdict on a {self.type}: one of {', '.join(sorted(allowed))}")


class MergeRequest(Payload, frozen=True, kw_only=True):
    """Coder → architect: the reviewed commit may be merged."""

    story: str
    branch: str
    commit: str
    pull_request: str = ""
    summary: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="outcome", tag=snake_case):
    """Base of the ways in which a merge can end."""


class Merged(Outcome, frozen=True, kw_only=True):
    """It is on the target branch as `commit`."""

    commit: str


class Conflict(Outcome, frozen=True, kw_only=True):
    """It does not fit what another story merged meanwhile."""

    files: tuple[str, ...]
    hunks: str = ""
    with_story: str = ""


class TestsFailed(Outcome, frozen=True, kw_only=True):
    """The merged result does not pass the project's tests; `log` is a key in the object store or a short text."""

    __test__ = False  # not a test, whatever its name looks like to pytest
    log: str


class Stale(Outcome, frozen=True, kw_only=True):
    """The branch is no longer at the commit that was reviewed."""

    reviewed: str
    head: str


class Failed(Outcome, frozen=True, kw_only=True):
    """It cannot be merged at all."""

    reason: str


MergeOutcome = Merged | Conflict | TestsFailed | Stale | Failed


class MergeResult(Payload, frozen=True, kw_only=True):
    """Architect → coder: how the merge ended."""

    story: str
    outcome: MergeOutcome


class Requeue(Payload, frozen=True, kw_only=True):
    """Supervisor → architect: a run at a story is over without a merge; put the story back as its next run.

    `decision` is what a person said where one had to be asked, because no attempt was left: `try again` or `give up`.
    """

    story: str
    run: Natural
    cause: str
    costs_attempt: bool
    earlier: EarlierRun | None = None
    decision: str = ""


# The person.


class Escalation(Payload, frozen=True, kw_only=True):
    """Architect → person: a request that it cannot answer itself, with a deadline."""

    escalation: str
    request_id: str
    question: str
    context: str = ""
    deadline: Instant | None = None


class EscalationAnswer(Payload, frozen=True, kw_only=True):
    """Person → architect: the answer; `abandon` gives up the spec."""

    escalation: str
    answer: str
    abandon: bool = False


class Ask(Payload, frozen=True, kw_only=True):
    """Anyone → person: something only a person can settle; stays open until it is answered, once."""

    ask: str
    question: str
    context: str = ""
    choices: tuple[str, ...] = ()


class AskAnswer(Payload, frozen=True, kw_only=True):
    """Person → whoever asked."""

    ask: str
    answer: str


# What happened.


class StateChanged(Payload, frozen=True, kw_only=True):
    """A session took an edge of its machine; `record` is the number of the record that says so."""

    machine: str
    state_from: str
    state_to: str
    record: Natural
    cause: str = ""


class StoryComplete(Payload, frozen=True, kw_only=True):
    """A story's work is on the target branch."""

    story: str
    spec: str
    commit: str


class AllStoriesComplete(Payload, frozen=True, kw_only=True):
    """No story of a spec is left."""

    spec: str
    stories: Natural


class ActorExited(Payload, frozen=True, kw_only=True):
    """Supervisor: a process has ended; how, and what is known of it. A negative code is the signal that ended it."""

    name: str
    actor: str
    machine: str
    pid: Natural
    way: str
    code: int
    reason: str = ""
    said: str = ""
    lived_seconds: float = 0.0
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    memory_bytes_max: Natural = 0


class SupervisorGaveUp(Payload, frozen=True, kw_only=True):
    """Supervisor: too many children of one supervisor have failed; it has ended the others, and its parent decides."""

    name: str
    failures: Natural
    reason: str = ""


class SessionStuck(Payload, frozen=True, kw_only=True):
    """Supervisor: a session has recorded nothing for longer than its state allows."""

    machine: str
    session: str
    state: str
    since: Instant
    waited_seconds: float


class HealthChanged(Payload, frozen=True, kw_only=True):
    """Supervisor: an API has become healthy, or is so no longer."""

    service: str
    healthy: bool
    error: str = ""


class ConversationRestarted(Payload, frozen=True, kw_only=True):
    """Whoever thinks: a conversation grew too long, and another one goes on from what matters."""

    conversation: str
    reason: str
    state: str
    story: str = ""
    spec: str = ""
    tokens: Natural = 0


class BudgetWarning(Payload, frozen=True, kw_only=True):
    """Whoever makes calls: since one of its calls so many percent of a ceiling are spent, in the unit of its kind."""

    scope: Literal["story", "spec", "day"]
    name: str
    kind: Literal["dollars", "tokens", "minutes"]
    percent: Natural
    spent: float
    ceiling: float


# Control.


class Cancel(Payload, frozen=True, kw_only=True):
    """End the work on a story, on a spec, or on everything when both are empty."""

    story: str = ""
    spec: str = ""
    reason: str = ""


class Restore(Payload, frozen=True, kw_only=True):
    """All APIs are healthy: every suspended session goes back to where it was. Its generation is its sequence."""


class Recover(Payload, frozen=True, kw_only=True):
    """The supervisor's decision: a session that rests in ERROR goes on from WAITING."""

    session: str
    reason: str = ""


class Recycle(Payload, frozen=True, kw_only=True):
    """The supervisor's decision: a session that makes no progress takes its way to ERROR, if `record` is its last."""

    session: str
    record: Natural
    reason: str = ""


class Pause(Payload, frozen=True, kw_only=True):
    """The person's brake: stay where you are and take no new event."""

    reason: str = ""


class Resume(Payload, frozen=True, kw_only=True):
    """The brake is off."""


class Restart(Payload, frozen=True, kw_only=True):
    """Leave the process; the supervisor starts the next one, which goes on with the same sessions."""

    reason: str = ""


class Scale(Payload, frozen=True, kw_only=True):
    """Have so many actors of a role."""

    role: str
    size: Natural


class Stop(Payload, frozen=True, kw_only=True):
    """The company closes for now."""

    reason: str = ""


AnyPayload = (
    SpecUpload
    | InterviewRequest
    | InterviewMessage
    | Story
    | Question
    | Answer
    | ApprovalRequest
    | ApprovalResult
    | MergeRequest
    | MergeResult
    | Requeue
    | Escalation
    | EscalationAnswer
    | Ask
    | AskAnswer
    | StateChanged
    | StoryComplete
    | AllStoriesComplete
    | ActorExited
    | SupervisorGaveUp
    | SessionStuck
    | HealthChanged
    | Cancel
    | Restore
    | Pause
    | Resume
    | Restart
    | Scale
    | Stop
    | Recover
    | Recycle
    | BudgetWarning
    | ConversationRestarted
)


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What every message carries around its payload.

    `id` is the position of the effect that sent it, `<sender's session>/<record>/<effect>`, so a repetition has the
    same id and receivers can refuse it however late it comes (`protocol.marks`).
    """

    id: str
    kind: Kind
    sender: str
    recipient: str
    payload: AnyPayload
    sent_at: Instant
    session: str = ""
    correlation_id: str = ""
    cause_id: str = ""
    schema: int = SCHEMA
    traceparent: str = ""

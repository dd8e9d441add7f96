"""The wire format: golden bytes for every payload, and what happens to bytes that are none."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import messages as m
from protocol.codec import decode_envelope, encode
from protocol.errors import MalformedMessageError, UnsupportedSchemaError
from protocol.record import Record, decode_record
from protocol.schema import json_schema

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
GOLDEN = Path(__file__).parent / "golden.jsonl"

PAYLOADS: list[m.AnyPayload] = [
    m.SpecUpload(spec="todo", revision=1, markdown="# x", digest="ab"),
    m.InterviewRequest(interview="i-1", text="a to-do list"),
    m.InterviewMessage(interview="i-1", text="yes", finished=True),
    m.Story(
        story="s-1",
        spec="todo",
        run=2,
        title="Add",
        description="Add it",
        acceptance_criteria=("adds",),
        kind="devops",
        requirements=("R-001",),
        depends_on=("s-0",),
        attempt=2,
        earlier=(m.EarlierRun(session="s-1.1", cause="tests", diagnosis="red", commit="c0ffee", pack="sha256-00"),),
    ),
    m.Question(story="s-1", question="which file?"),
    m.Answer(answer="that one"),
    m.ApprovalRequest(approval_type="spec", content="short", reason="ready", metadata={"spec_markdown": "# x"}),
    m.ApprovalResult(status="NEEDS_CHANGES", feedback="more", type="plan"),
    m.ApprovalResult(status="PIVOT", feedback="smaller", type="budget_review"),
    m.MergeRequest(story="s-1", branch="story/s-1", commit="c0ffee", pull_request="7"),
    m.MergeResult(story="s-1", outcome=m.Merged(commit="beef")),
    m.MergeResult(story="s-1", outcome=m.Conflict(files=("a.py",), hunks="<<<", with_story="s-2")),
    m.MergeResult(story="s-1", outcome=m.TestsFailed(log="1 failed")),
    m.MergeResult(story="s-1", outcome=m.Stale(reviewed="aa", head="bb")),
    m.MergeResult(story="s-1", outcome=m.Failed(reason="no such branch")),
    m.Requeue(story="s-1", run=1, cause="tests", costs_attempt=True),
    m.Escalation(escalation="e-1", request_id="s-1.1/4/0", question="may I?", deadline=AT),
    m.EscalationAnswer(escalation="e-1", answer="no", abandon=True),
    m.Ask(ask="a-1", question="which key?", choices=("this", "that")),
    m.AskAnswer(ask="a-1", answer="this"),
    m.StateChanged(machine="coder", state_from="WAITING", state_to="SETUP", record=1),
    m.StoryComplete(story="s-1", spec="todo", commit="beef"),
    m.AllStoriesComplete(spec="todo", stories=3),
    m.Cancel(story="s-1", reason="changed my mind"),
    m.Restore(),
    m.Pause(reason="lunch"),
    m.Resume(),
    m.Restart(),
    m.Scale(role="coder", size=8),
    m.Stop(),
    m.Requeue(story="s-1", run=3, cause="budget", costs_attempt=True, decision="give up"),
    m.ActorExited(
        name="coder-1",
        actor="coder.coder-1",
        machine="coder",
        pid=7,
        way="crash",
        code=-9,
        reason="SIGKILL",
        said="the end",
        lived_seconds=1.5,
        user_seconds=0.25,
        system_seconds=0.5,
        memory_bytes_max=1024,
    ),
    m.SupervisorGaveUp(name="coders", failures=6, reason="coder-1: crash"),
    m.SessionStuck(machine="coder", session="s-1.1", state="CODING", since=AT, waited_seconds=1800.0),
    m.HealthChanged(service="model", healthy=False, error="overloaded"),
    m.Recover(session="main", reason="recovered"),
    m.Recycle(session="s-1.1", record=7, reason="no record for 2400 s"),
    m.BudgetWarning(scope="story", name="s-1", kind="dollars", percent=80, spent=4.25, ceiling=5.0),
    m.ConversationRestarted(
        conversation="s-1.1/3/0", reason="too long", state="CODING", story="s-1", spec="todo", tokens=150001
    ),
]


def envelope(payload: m.AnyPayload) -> m.Envelope:
    return m.Envelope(
        id="s-1.1/3/0",
        kind="REQUEST",
        sender="coder.coder-1",
        recipient="architect.main",
        payload=payload,
        sent_at=AT,
        session="s-1.1",
        correlation_id="main/2/0",
        cause_id="main/1/0",
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )


def test_the_wire_format_is_what_it_was() -> None:
    """A difference here breaks old readers: change golden.jsonl only together with the schema and the changelog."""
    written = [encode(envelope(payload)) for payload in PAYLOADS]

    assert written == GOLDEN.read_bytes().splitlines()


@pytest.mark.parametrize("line", GOLDEN.read_bytes().splitlines())
def test_golden_bytes_read_back(line: bytes) -> None:
    assert encode(decode_envelope(line)) == line


def test_every_payload_has_its_golden_bytes() -> None:
    assert {type(payload) for payload in PAYLOADS} == set(m.AnyPayload.__args__)


def test_unknown_fields_are_tolerated() -> None:
    data = encode(envelope(m.Answer(answer="x"))).replace(b'"answer":"x"', b'"answer":"x","mood":"good"')

    assert decode_envelope(data) == envelope(m.Answer(answer="x"))


@pytest.mark.parametrize(
    ("type_", "status"), [("budget_review", "APPROVED"), ("plan", "CONTINUE"), ("code", "REPLAN"), ("spec", "ESCALATE")]
)
def test_a_verdict_of_the_wrong_kind_is_refused(type_: m.ApprovalType, status: m.Status) -> None:
    with pytest.raises(ValueError, match="is no verdict on a"):
        m.ApprovalResult(type=type_, status=status)


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"{", b"\xff", b'{"id":"a"}', b"[" * 50_000, b'{"a":' * 50_000, b'"' + b"x" * 1000 + b'"'],
)
def test_noise_is_malformed_and_keeps_its_bytes(data: bytes) -> None:
    with pytest.raises(MalformedMessageError) as caught:
        decode_envelope(data)

    assert caught.value.data == data


def test_another_schema_is_told_before_what_it_may_have_changed() -> None:
    with pytest.raises(UnsupportedSchemaError, match="schema 2"):
        decode_envelope(b'{"schema":2,"payload":{"payload":"telepathy"}}')


@given(st.binary(max_size=200))
def test_no_bytes_make_decoding_raise_anything_else(data: bytes) -> None:
    for decode in (decode_envelope, decode_record):
        try:
            decode(data)
        except (MalformedMessageError, UnsupportedSchemaError):
            continue


def test_a_record_keeps_what_it_does_not_understand() -> None:
    line = (
        b'{"n":1,"machine":"coder","session":"s-1.1","incarnation":"ab","at":"2026-01-02T03:04:05Z",'
        b'"event":{"event":"timer","x":[1, 2]},"from":"WAITING","to":"SETUP","after":{"model": {}},'
        b'"effects":[{"effect":"prepare"}],"schema":1}'
    )

    record = decode_record(line)

    assert encode(record) == line
    assert (record.state_from, record.state_to, record.append_id) == ("WAITING", "SETUP", "s-1.1/1/ab")
    assert bytes(record.event) == b'{"event":"timer","x":[1, 2]}'


def test_a_record_of_another_schema_is_named() -> None:
    with pytest.raises(UnsupportedSchemaError, match="schema 7"):
        decode_record(b'{"schema":7}')


def test_the_schema_covers_all_payloads_and_the_record() -> None:
    definitions = json_schema()["$defs"]

    assert {"Envelope", "Record", *(kind.__name__ for kind in m.AnyPayload.__args__)} <= set(definitions)
    printed = msgspec.json.encode(json_schema())
    assert msgspec.json.encode(msgspec.json.decode(printed)) == printed
    assert Record.__name__ in definitions

"""Subjects: spelled in one place, taken apart again, and closed to noise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import BadSubjectError, MalformedMessageError
from protocol.marks import Position, message_id, parse_message_id, was_seen, with_mark
from protocol.messages import Answer, Envelope, Pause, Question, SpecUpload, StoryComplete
from protocol.routing import parse_address, subject_of
from protocol.subjects import ROLES, Subject, Subjects, parse_subject
from tests.contract.samples import an_envelope

DEMO = Subjects("demo")


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        (DEMO.request("architect", "main"), "callboard.demo.request.architect.main"),
        (DEMO.reply("coder", "coder-1"), "callboard.demo.reply.coder.coder-1"),
        (DEMO.journal("coder", "s-42.1"), "callboard.demo.journal.coder.s-42.1"),
        (DEMO.dead("coder", "coder-1"), "callboard.demo.dead.coder.coder-1"),
        (DEMO.ledger, "callboard.demo.ledger.all.main"),
        (DEMO.control(), "callboard.demo.control.all.all"),
        (DEMO.every("journal"), "callboard.demo.journal.>"),
        (DEMO.stream("JOURNAL"), "CALLBOARD_DEMO_JOURNAL"),
        (DEMO.mail_consumer("reply", "s-42.1"), "reply-s-42=1"),
    ],
)
def test_names_are_spelled_as_documented(spelled: str, expected: str) -> None:
    assert spelled == expected


def test_a_subject_can_be_taken_apart() -> None:
    assert parse_subject("callboard.demo.journal.coder.s-42.1") == Subject(
        project="demo", kind="journal", role="coder", id="s-42.1"
    )


@pytest.mark.parametrize("token", ["", "*", ">", "a.*", "a b", "A", "a..b", ".", "ü", "a\r\nPUB x", "x" * 65, "a/b"])
def test_bad_tokens_are_refused_everywhere(token: str) -> None:
    with pytest.raises(BadSubjectError):
        Subjects(token)
    with pytest.raises(BadSubjectError):
        DEMO.request("architect", token)
    with pytest.raises(BadSubjectError):
        DEMO.journal(token, "main")


@pytest.mark.parametrize("text", ["", "callboard", "other.demo.request.pm.main", "callboard.demo.gossip.pm.main"])
def test_foreign_subjects_are_refused(text: str) -> None:
    with pytest.raises(BadSubjectError):
        parse_subject(text)


@given(st.text(max_size=80))
def test_no_text_makes_it_raise_anything_else(text: str) -> None:
    for take_apart in (parse_subject, parse_address, Subjects):
        try:
            take_apart(text)
        except BadSubjectError:
            continue


@given(st.from_regex(r"[a-z0-9_-]{1,20}(\.[a-z0-9_-]{1,20}){0,2}", fullmatch=True), st.sampled_from(ROLES))
def test_what_is_spelled_is_read_back(identifier: str, role: str) -> None:
    assert parse_subject(f"callboard.demo.request.{role}.{identifier}").id == identifier


@pytest.mark.parametrize(
    ("envelope", "subject"),
    [
        (an_envelope(Question(story="s", question="q")), "callboard.demo.request.architect.main"),
        (an_envelope(Answer(answer="a"), kind="RESPONSE", recipient="coder.s-1.1"), "callboard.demo.reply.coder.s-1.1"),
        (an_envelope(SpecUpload(spec="x", revision=1), recipient="pm.main"), "callboard.demo.spec.pm.main"),
        (
            an_envelope(StoryComplete(story="s", spec="x", commit="c"), kind="EVENT", sender="architect.main"),
            "callboard.demo.event.architect.main",
        ),
        (an_envelope(Pause(), kind="CONTROL", recipient="coder.all"), "callboard.demo.control.coder.all"),
    ],
)
def test_an_envelope_knows_where_it_goes(envelope: Envelope, subject: str) -> None:
    assert subject_of(DEMO, envelope) == subject


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 3)), max_size=30))
def test_marks_refuse_exactly_what_came_before(sent: list[tuple[str, int, int]]) -> None:
    marks: dict[str, Position] = {}
    highest: dict[str, tuple[int, int]] = {}
    for sender, n, k in sent:
        identifier = message_id(sender, n, k)
        assert was_seen(marks, identifier) == (sender in highest and (n, k) <= highest[sender])
        marks = with_mark(marks, identifier)
        highest[sender] = max(highest.get(sender, (n, k)), (n, k))


@pytest.mark.parametrize("text", ["", "a", "a/1", "a/1/", "a/x/0", "/1/0", "a/-1/0", "a/1/0/2", "a/²/0"])
def test_what_is_no_position_is_malformed(text: str) -> None:
    with pytest.raises(MalformedMessageError):
        parse_message_id(text)


@pytest.mark.parametrize("text", [f"s-1.1/{'9' * 5000}/0", f"s-1.1/1/{'9' * 19}"])
def test_an_id_with_a_number_that_no_session_reaches_is_malformed(text: str) -> None:
    with pytest.raises(MalformedMessageError):
        parse_message_id(text)

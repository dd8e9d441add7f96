"""Conversations: what the journal gives back is what was said, whatever else stands in it and however often."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.effects import Timer
from actors.core.events import Entered, Failed, Finished, Resumed
from actors.core.failures import Unavailable
from actors.core.results import TimerRang
from actors.thinking.conversation import (
    Conversation,
    Turn,
    calls_in,
    read_back,
    render,
    render_tools,
    result_block,
    text_block,
    text_in,
)
from actors.thinking.effects import AskModel, ModelAnswered, Opening, Purpose, ToolCall
from bus.ledger.amounts import Usage
from protocol.codec import encode
from protocol.record import Record

AT = datetime(2026, 11, 19, tzinfo=UTC)
PURPOSE = Purpose(role="coder", state="CODING", story="s-1", spec="todo")
OPENING = Opening(system=("You code.",))


class Journal:
    """A session's records, as they come."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, event: Any = None, *effects: Any) -> str:
        """A record; returns the id of its first effect."""
        n = len(self.records) + 1
        named = [msgspec.structs.replace(effect, id=f"s-1.1/{n}/{k}") for k, effect in enumerate(effects)]
        self.records.append(
            Record(
                n=n,
                machine="coder",
                session="s-1.1",
                incarnation="one",
                at=AT,
                event=msgspec.Raw(encode(event or Entered(at=AT))),
                state_from="CODING",
                state_to="CODING",
                after=msgspec.Raw(b"{}"),
                effects=tuple(msgspec.Raw(encode(effect)) for effect in named),
            )
        )
        return named[0].id if named else ""


def ask(says: str, conversation: str = "", opening: Opening | None = None) -> AskModel:
    return AskModel(purpose=PURPOSE, says=says, conversation=conversation, opening=opening)


def answered(effect: str, content: str, reason: str = "tool_use") -> Finished[Any, Any]:
    result = ModelAnswered(
        conversation="c",
        position=0,
        message=f"m {effect}",
        model="claude",
        stop_reason=reason,
        content=content,
        usage=Usage(),
    )
    return Finished(at=AT, effect=effect, result=result)


def test_a_conversation_is_read_back_from_among_everything_else() -> None:
    journal = Journal()
    journal.add()
    first = journal.add(None, ask("[1]", opening=OPENING), Timer(name="t", seconds=1.0))
    journal.add(Finished(at=AT, effect="s-1.1/2/1", result=TimerRang()))
    journal.add(Resumed(at=AT))
    second = journal.add(answered(first, "[a]"), ask("[2]", first))
    journal.add(answered(second, "[b]"), ask("[3]", first))

    conversation = read_back(journal.records, first)

    assert conversation == Conversation(OPENING, (Turn("[1]", "[a]"), Turn("[2]", "[b]")), f"m {second}")


def test_an_answer_that_was_kept_during_a_suspension_counts_once() -> None:
    journal = Journal()
    first = journal.add(None, ask("[1]", opening=OPENING))
    journal.add(answered(first, "[a]"))
    journal.add(answered(first, "[a]"), ask("[2]", first))

    conversation = read_back(journal.records, first)

    assert conversation is not None
    assert conversation.turns == (Turn("[1]", "[a]"),)


def test_a_question_that_failed_is_told_only_as_it_was_asked_again() -> None:
    journal = Journal()
    first = journal.add(None, ask("[1]", opening=OPENING))
    second = journal.add(answered(first, "[a]"), ask("[2]", first))
    failure = Unavailable(service="model", reason="overloaded")
    again = journal.add(Failed[Any](at=AT, effect=second, failure=failure), ask("[2]", first))
    journal.add(answered(again, "[b]"))

    conversation = read_back(journal.records, first)

    assert conversation is not None
    assert conversation.turns == (Turn("[1]", "[a]"), Turn("[2]", "[b]"))


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "model_context_window_exceeded", "compaction"])
def test_an_answer_that_was_cut_or_refused_is_left_out(reason: str) -> None:
    journal = Journal()
    first = journal.add(None, ask("[1]", opening=OPENING))
    second = journal.add(answered(first, "[a]"), ask("[2]", first))
    third = journal.add(answered(second, "[cut", reason), ask("[2]", first))
    journal.add(answered(third, "[b]"))

    conversation = read_back(journal.records, first)

    assert conversation is not None
    assert conversation.turns == (Turn("[1]", "[a]"), Turn("[2]", "[b]"))


def test_two_conversations_of_a_session_do_not_mix() -> None:
    journal = Journal()
    one = journal.add(None, ask("[1]", opening=OPENING))
    other = journal.add(None, ask("[x]", opening=Opening(system=("You review.",))))
    journal.add(answered(one, "[a]"), ask("[2]", one))
    journal.add(answered(other, "[y]"))

    found = [read_back(journal.records, name) for name in (one, other)]

    assert [each.turns for each in found if each] == [(Turn("[1]", "[a]"),), (Turn("[x]", "[y]"),)]


def test_without_its_beginning_there_is_no_conversation() -> None:
    journal = Journal()
    first = journal.add(None, ask("[1]", opening=OPENING))
    journal.add(answered(first, "[a]"))

    assert read_back(journal.records[1:], first) is None
    assert read_back(journal.records, "s-1.1/9/0") is None


def test_tools_have_one_order_wherever_they_come_from() -> None:
    tools = [("write", "w", {"type": "object"}), ("list", "l", {"type": "object"}), ("read", "r", {"type": "object"})]

    assert render_tools(tools) == render_tools(reversed(tools))
    assert [tool["name"] for tool in json.loads(render_tools(tools))] == ["list", "read", "write"]


def test_what_a_model_says_is_taken_apart() -> None:
    content = json.dumps(
        [
            {"type": "thinking", "thinking": "", "signature": "s"},
            {"type": "text", "text": "First"},
            {"type": "tool_use", "id": "c1", "name": "edit", "input": {"b": "ü", "a": 1}},
            {"type": "text", "text": "then"},
        ]
    )

    assert text_in(content) == "First\nthen"
    assert calls_in(content) == (ToolCall(id="c1", name="edit", input='{"a": 1, "b": "ü"}'),)


@pytest.mark.parametrize("nothing", ["", " ", "\n"])
def test_no_block_is_ever_empty_for_the_api_takes_none(nothing: str) -> None:
    assert text_block(nothing)["text"].strip()
    assert result_block("c1", nothing)["content"].strip()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_whatever_a_model_puts_into_a_call_can_be_recorded(value: Any) -> None:
    """Half a character too: no text of ours can have it, so it stays spelled out."""
    content = json.dumps([{"type": "tool_use", "id": "c", "name": "edit", "input": {"value": value}}])

    (call,) = calls_in(content)

    assert encode(call)
    assert json.loads(call.input) == {"value": value}
    assert render(text_block(call.input))

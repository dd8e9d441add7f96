"""Requests: what stands in front of a mark never changes, and every call marks what the last one ended with."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.thinking.conversation import Conversation, Turn, render, result_block, text_block
from actors.thinking.effects import Opening
from actors.thinking.request import Profile, bytes_of, request_of

PROFILE = Profile(model="claude-sonnet-5-5", max_tokens=1000, effort="medium")
TOOLS = '[{"description":"d","input_schema":{"type":"object"},"name":"read"}]'
OPENING = Opening(system=("You code.", "The map."), tools=TOOLS)


def a_turn(number: int, blocks: int = 1) -> Turn:
    calls = [{"type": "tool_use", "id": f"c{number}-{n}", "name": "read", "input": {}} for n in range(blocks)]
    said = [text_block("begin")] if number == 0 else [result_block(f"c{number - 1}-{n}", "text") for n in range(blocks)]
    return Turn(render(*said), json.dumps(calls))


def conversation(turns: int, blocks: int = 1) -> Conversation:
    return Conversation(OPENING, tuple(a_turn(number, blocks) for number in range(turns)), f"m{turns}")


def asked(turns: int, blocks: int = 1) -> dict[str, Any]:
    says = a_turn(turns, blocks).says
    return request_of(conversation(turns, blocks), says, PROFILE, f"m{turns}" if turns else "", 1000)


def blocks_in(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        *request["tools"],
        *request["system"],
        *(block for each in request["messages"] for block in each["content"]),
    ]


def without_marks(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: value for name, value in block.items() if name != "cache_control"} for block in blocks_in(request)]


def marked(request: dict[str, Any]) -> list[int]:
    return [place for place, block in enumerate(blocks_in(request)) if "cache_control" in block]


def test_a_first_request_says_everything_there_is_to_say() -> None:
    assert asked(0) == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1000,
        "system": [
            {"type": "text", "text": "You code."},
            {"type": "text", "text": "The map.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        ],
        "tools": [{"description": "d", "input_schema": {"type": "object"}, "name": "read"}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "begin", "cache_control": {"type": "ephemeral"}}],
            }
        ],
        "tool_choice": {"type": "auto"},
        "diagnostics": {"previous_message_id": None},
        "output_config": {"effort": "medium"},
    }


def test_without_system_the_tools_carry_the_mark_and_without_tools_there_is_no_choice() -> None:
    bare = Conversation(Opening(system=("",), tools=TOOLS))
    poor = Conversation(Opening(system=()))

    with_tools = request_of(bare, a_turn(0).says, PROFILE, "", 10)
    with_nothing = request_of(poor, a_turn(0).says, Profile(model="m", max_tokens=1), "", 10)

    assert with_tools["tools"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert {"system", "tools", "tool_choice", "output_config"}.isdisjoint(with_nothing)


@given(st.integers(0, 6), st.integers(1, 30))
def test_each_request_begins_with_the_one_before_to_the_byte(turns: int, blocks: int) -> None:
    before, after = asked(turns, blocks), asked(turns + 1, blocks)

    assert without_marks(after)[: len(blocks_in(before))] == without_marks(before)


@given(st.integers(0, 6), st.integers(1, 30))
def test_each_request_marks_where_the_one_before_ended(turns: int, blocks: int) -> None:
    before, after = asked(turns, blocks), asked(turns + 1, blocks)

    assert len(blocks_in(before)) - 1 in marked(after)
    assert len(blocks_in(after)) - 1 in marked(after)
    assert len(marked(after)) <= 4


def test_where_the_model_only_goes_on_nothing_is_added() -> None:
    request = request_of(conversation(2), "", PROFILE, "m2", 10)

    assert [message["role"] for message in request["messages"]] == ["user", "assistant"] * 2
    assert request["diagnostics"] == {"previous_message_id": "m2"}


def test_marks_do_not_get_into_what_is_said() -> None:
    before = conversation(3)
    request_of(before, a_turn(3).says, PROFILE, "m3", 10)

    assert before == conversation(3)


@given(st.text())
def test_a_text_has_at_least_as_many_bytes_as_it_can_have_tokens(text: str) -> None:
    says = render(text_block(text.encode(errors="replace").decode()))

    assert bytes_of(Conversation(Opening(system=(), tools="[]")), says) > len(says.encode())

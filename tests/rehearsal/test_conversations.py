"""Whatever is said: a conversation that goes on from its own answers is accepted, and one that was altered is not."""

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.rehearsal.http import Request
from actors.rehearsal.models import MODELS
from actors.rehearsal.parts import Answer, Call
from actors.rehearsal.scene import Scene
from actors.rehearsal.stage import Stage
from tests.rehearsal.company import MODEL, OTHER, TOOL, Body, result, user

HEADERS = {"x-api-key": "key", "anthropic-version": "1"}
WORDS = st.text(st.characters(codec="utf-8"), max_size=40)
VALUES = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | WORDS, lambda inner: st.lists(inner, max_size=2))
CALLS = st.builds(Call, st.sampled_from(["run", "read"]), st.dictionaries(WORDS, VALUES, max_size=3))
ANSWERS = st.builds(
    lambda thinking, said, calls: Answer(thinking=thinking, text=said or ("" if calls else "."), calls=tuple(calls)),
    WORDS,
    WORDS.filter(lambda said: not said or bool(said.strip())),
    st.lists(CALLS, max_size=3),
)
SCRIPTS = st.lists(st.one_of(ANSWERS, st.just(Answer(text="Wait.", stop_reason="pause_turn"))), min_size=1, max_size=5)
LIMITS = st.sampled_from([1000, 60])
SHOWS = st.sampled_from(["summarized", "omitted"])


def send(stage: Stage, messages: list[Body], max_tokens: int, display: str) -> tuple[int, Any]:
    """One request without a wire: its status, and what was answered."""
    body = {
        "model": MODEL,
        "max_tokens": max_tokens,
        "messages": messages,
        "tools": [TOOL, OTHER],
        "thinking": {"type": "adaptive", "display": display},
        "cache_control": {"type": "ephemeral"},
    }
    request = Request(method="POST", target="/v1/messages", headers=HEADERS, body=json.dumps(body).encode())
    reply = stage.answer(stage.hear(request, "req_1"), 0.0)
    if reply.begins is not None:
        reply.begins(0.0)
    return reply.status, json.loads(reply.body)


def play(script: list[Answer], max_tokens: int, display: str) -> tuple[Stage, list[Body]]:
    """A conversation that went through a script, to where somebody has to speak; nothing in it was refused."""

    def follow(scene: Scene) -> Answer:
        return script[min(scene.turns, len(script) - 1)]

    stage = Stage([follow], MODELS, None)
    messages = [user("begin")]
    for _ in script:
        status, message = send(stage, messages, max_tokens, display)
        assert status == 200, message
        assert send(stage, messages, max_tokens, display)[1]["content"] == message["content"]
        if not message["content"]:
            break  # there was no room for anything: nothing to send back
        messages.append({"role": "assistant", "content": message["content"]})
        if message["stop_reason"] != "pause_turn":
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            messages.append(user(*(result(block["id"]) for block in calls), {"type": "text", "text": "go on"}))
    return stage, messages


@given(SCRIPTS, LIMITS, SHOWS)
def test_what_was_answered_can_always_be_sent_back(script: list[Answer], max_tokens: int, display: str) -> None:
    stage, messages = play(script, max_tokens, display)

    status, message = send(stage, messages, max_tokens, display)

    assert status == 200, message


MUTATIONS: dict[str, Callable[[Body], None]] = {
    "another text": lambda block: block.update(thinking=block["thinking"] + "x"),
    "no text": lambda block: block.update(thinking="" if block["thinking"] else "x"),
    "another signature": lambda block: block.update(signature=block["signature"][::-1]),
    "no signature": lambda block: block.update(signature=""),
}


@given(SCRIPTS, SHOWS, st.sampled_from(sorted(MUTATIONS)), st.data())
def test_a_thought_that_was_altered_anywhere_is_refused(
    script: list[Answer], display: str, mutation: str, data: st.DataObject
) -> None:
    stage, messages = play([Answer(thinking="Hm.", text="First."), *script], 1000, display)
    thoughts = [
        (at, place)
        for at, message in enumerate(messages)
        if message["role"] == "assistant"
        for place, block in enumerate(message["content"])
        if block["type"] == "thinking"
    ]
    at, place = data.draw(st.sampled_from(thoughts))
    altered = copy.deepcopy(messages)
    MUTATIONS[mutation](altered[at]["content"][place])

    status, refused = send(stage, altered, 1000, display)

    assert (status, refused["error"]["type"]) == (400, "invalid_request_error")
    assert refused["error"]["message"].startswith(f"messages.{at}.content.{place}: ")


@given(SCRIPTS, st.data())
def test_a_thought_does_not_fit_another_past(script: list[Answer], data: st.DataObject) -> None:
    stage, messages = play([*script, Answer(thinking="Hm.", text="Last.")], 1000, "omitted")
    last = max(at for at, message in enumerate(messages) if message["role"] == "assistant")
    earlier = [at for at in range(last) if messages[at]["role"] == "user"]
    at = data.draw(st.sampled_from(earlier))
    altered = copy.deepcopy(messages)
    altered[at] = altered[at] | {
        "content": [*_as_list(altered[at]["content"]), {"type": "text", "text": "and something else"}]
    }

    status, refused = send(stage, altered, 1000, "omitted")

    assert status == 400
    assert "created in a different conversation" in refused["error"]["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a body where something else could stand."""
    keys = range(len(value)) if isinstance(value, list) else list(value) if isinstance(value, dict) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@settings(max_examples=300)
@given(JSON, st.data())
def test_anything_in_any_place_is_answered_or_refused(anything: Any, data: st.DataObject) -> None:
    stage, messages = play([Answer(thinking="Hm.", calls=(Call("run", {"a": [1]}),))], 1000, "omitted")
    body: Body = copy.deepcopy(
        {
            "model": MODEL,
            "max_tokens": 1000,
            "messages": messages,
            "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
            "tools": [TOOL, OTHER],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "thinking": {"type": "adaptive", "display": "omitted"},
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
            "metadata": {"user_id": "callboard: role=pm"},
            "diagnostics": {"previous_message_id": "msg_1"},
            "stop_sequences": ["x"],
            "cache_control": {"type": "ephemeral"},
            "speed": "standard",
        }
    )
    holder, key = data.draw(st.sampled_from(places(body)))
    holder[key] = anything

    request = Request(method="POST", target="/v1/messages", headers=HEADERS, body=json.dumps(body).encode())
    reply = stage.answer(stage.hear(request, "req_1"), 0.0)

    assert reply.status in (200, 400, 404), reply.body


def _as_list(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content

"""Every rule of the API that a client can break, each with its own 400 and the words by which a person finds it."""

from collections.abc import Callable
from typing import Any

import pytest
from anthropic import APIStatusError, AsyncAnthropic, AuthenticationError, BadRequestError, NotFoundError

from actors.rehearsal import Rehearsal
from tests.rehearsal.company import (
    MODEL,
    OTHER,
    PARTS,
    TOOL,
    Body,
    ask,
    assistant,
    call,
    post,
    result,
    spoken,
    text,
    user,
)

CACHED = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
OFF = {"type": "disabled"}
LEGACY = "claude-haiku-4-5"
Rows = dict[str, tuple[Any, str]]
"""What is sent, and how the refusal begins."""


def said(*messages: Body, **more: Any) -> Body:
    return ask(**more) | {"messages": [*messages]}


def tooled(*messages: Body, **more: Any) -> Body:
    return said(*messages, tools=[TOOL], **more)


def without(name: str) -> Body:
    return {key: value for key, value in ask().items() if key != name}


def tool(**more: Any) -> Body:
    return ask(tools=[TOOL | more])


def schema(**more: Any) -> Body:
    return tool(input_schema={"type": "object", **more})


FIELDS: Rows = {
    "no model": (without("model"), "model: Field required"),
    "no max_tokens": (without("max_tokens"), "max_tokens: Field required"),
    "no messages": (without("messages"), "messages: Field required"),
    "model is no text": (ask(model=5), "model: Input should be a valid string"),
    "max_tokens is no number": (ask(max_tokens="5"), "max_tokens: Input should be a valid integer"),
    "max_tokens is negative": (ask(max_tokens=-1), "max_tokens: Input should be greater than or equal to 0"),
    "max_tokens is over the model's": (
        ask(max_tokens=128_001),
        f"max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for {MODEL}",
    ),
    "messages is no list": (ask(messages={}), "messages: Input should be a valid list"),
    "an unknown field": (ask(thread="x"), "thread: Extra inputs are not permitted"),
    "a field of the beta": (ask(context_management={}), "context_management: Extra inputs are not permitted"),
    "temperature": (ask(temperature=0), "`temperature` is not supported for this model."),
    "top_p": (ask(top_p=1), "`top_p` is not supported for this model."),
    "top_k": (ask(top_k=1), "`top_k` is not supported for this model."),
    "unknown effort": (ask(output_config={"effort": "huge"}), "output_config.effort: Input should be 'low', 'medium'"),
    "unknown metadata": (ask(metadata={"name": "x"}), "metadata.name: Extra inputs are not permitted"),
    "stream is no boolean": (ask(stream=1), "stream: Input should be a valid boolean"),
    "a blank stop sequence": (
        ask(stop_sequences=[" "]),
        "stop_sequences.0: each stop sequence must contain non-whitespace",
    ),
    "body is a list": ([], "body: Input should be a valid dictionary"),
    "a system prompt that is empty": (
        ask(system=[text("")]),
        "system: text content blocks must be non-empty",
    ),
    "an image in the system prompt": (
        ask(system=[{"type": "image", "source": {}}]),
        "system.0: Input tag 'image' found using 'type'",
    ),
    "warming with a stream": (ask(max_tokens=0, stream=True), "max_tokens: must be greater than 0 when `stream`"),
    "a prompt that is too long": (
        ask("x" * 900_000, model=LEGACY),
        "prompt is too long: 225004 tokens > 200000 maximum",
    ),
}
MESSAGES: Rows = {
    "no message": (said(), "messages: at least one message is required"),
    "the assistant first": (
        said(assistant("hello"), user("hello")),
        'messages: first message must use the "user" role',
    ),
    "an unknown role": (
        said({"role": "tool", "content": "x"}),
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    "a field of a message": (said(user("x") | {"name": "bob"}), "messages.0.name: Extra inputs are not permitted"),
    "an empty message": (said(user("")), "messages.0: all messages must have non-empty content"),
    "a message without blocks": (
        said({"role": "user", "content": []}),
        "messages.0: all messages must have non-empty content",
    ),
    "an empty text": (said(user(text(""))), "messages: text content blocks must be non-empty"),
    "a blank text": (said(user(text(" \n"))), "messages: text content blocks must contain non-whitespace text"),
    "a text without text": (said(user({"type": "text"})), "messages.0.content.0.text.text: Field required"),
    "a block without type": (said(user({"text": "x"})), "messages.0.content.0.type: Field required"),
    "an unknown block": (said(user({"type": "video"})), "messages.0.content.0: Input tag 'video' found using 'type'"),
    "an extra field of a block": (
        said(user(text("x", id=1))),
        "messages.0.content.0.text.id: Extra inputs are not permitted",
    ),
    "thinking by the user": (
        said(user({"type": "thinking", "thinking": "", "signature": ""})),
        "messages.0.content.0: Input tag 'thinking' found using 'type'",
    ),
    "the answer is begun": (
        said(user("x"), assistant("The answer is")),
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    ),
    "a pause that is not from here": (
        said(user("x"), assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "x", "input": {}})),
        "This model does not support assistant message prefill.",
    ),
    "system after the assistant": (
        said(user("x"), assistant("y"), {"role": "system", "content": "z"}, user("x")),
        "messages.2: a `system` message must follow a `user` message",
    ),
    "system on a model that hears none": (
        said(user("x"), {"role": "system", "content": "z"}, model=LEGACY),
        "messages.1.role: Input should be 'user' or 'assistant'",
    ),
}
PAIRS: Rows = {
    "a call without a result": (
        tooled(user("x"), assistant(call()), user("y")),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each",
    ),
    "one call of two without a result": (
        tooled(user("x"), assistant(call(), call("toolu_2")), user(result("toolu_2"))),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each",
    ),
    "a result that comes too late": (
        tooled(user("x"), assistant(call()), user("y"), user(result())),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each",
    ),
    "the conversation ends with a call": (
        tooled(user("x"), assistant(call())),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each",
    ),
    "a result without a call": (
        tooled(user(result())),
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each",
    ),
    "a result too many": (
        tooled(user("x"), assistant(call()), user(result(), result("toolu_2"))),
        "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_2. Each",
    ),
    "two results for a call": (
        tooled(user("x"), assistant(call()), user(result(), result())),
        "messages.2.content.1: each tool_use must have a single result.",
    ),
    "text before the result": (
        tooled(user("x"), assistant(call()), user(text("y"), result())),
        "messages.2.content.1: `tool_result` blocks must come first in the message",
    ),
    "two calls of one id": (
        tooled(user("x"), assistant(call()), user(result()), assistant(call()), user(result())),
        "messages: `tool_use` ids must be unique",
    ),
    "calls without tools": (
        said(user("x"), assistant(call()), user(result())),
        "Requests which include `tool_use` or `tool_result` blocks must define tools",
    ),
    "an id of other letters": (
        tooled(user("x"), assistant(call("a b")), user(result("a b"))),
        "messages.1.content.0.tool_use.id: String should match pattern",
    ),
    "an input that is no object": (
        tooled(user("x"), assistant(call(input="ls")), user(result())),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "a call in a result": (
        tooled(user("x"), assistant(call()), user(result(content=[call()]))),
        "messages.2.content.0.tool_result.content.0: Input tag 'tool_use' found using 'type'",
    ),
}
TOOLS: Rows = {
    "no schema": (ask(tools=[{"name": "run"}]), "tools.0.custom.input_schema: Field required"),
    "a schema without type": (tool(input_schema={}), "tools.0.custom.input_schema.type: Field required"),
    "a schema of a text": (
        tool(input_schema={"type": "string"}),
        "tools.0.custom.input_schema.type: Input should be 'object'",
    ),
    "an unknown type": (
        schema(properties={"x": {"type": "text"}}),
        "tools.0.custom.input_schema.properties.x: JSON schema is invalid ('text' is not a type)",
    ),
    "properties that are a list": (
        schema(properties=["x"]),
        "tools.0.custom.input_schema: JSON schema is invalid (properties is not an object)",
    ),
    "required that is true": (
        schema(required=True),
        "tools.0.custom.input_schema: JSON schema is invalid (required is not an array of strings)",
    ),
    "a strict schema that is open": (
        tool(strict=True),
        "tools.0.custom.input_schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
    ),
    "a name with a dot": (tool(name="a.b"), "tools.0.custom.name: String should match pattern"),
    "a name that is too long": (tool(name="a" * 129), "tools.0.custom.name: String should match pattern"),
    "two tools of one name": (ask(tools=[TOOL, OTHER, TOOL]), "tools: Tool names must be unique."),
    "an unknown field of a tool": (tool(icon="x"), "tools.0.custom.icon: Extra inputs are not permitted"),
    "a tool of the server's": (
        ask(tools=[{"type": "web_search_20260318", "name": "web_search"}]),
        "tools.0: Input tag 'web_search_20260318' found using 'type'",
    ),
    "a choice without tools": (
        ask(tool_choice={"type": "auto"}),
        "tool_choice: tool_choice may only be specified while providing tools",
    ),
    "an unknown choice": (
        ask(tools=[TOOL], tool_choice={"type": "some"}),
        "tool_choice: Input tag 'some' found using 'type'",
    ),
    "a choice of a tool that is not there": (
        ask(tools=[TOOL], tool_choice={"type": "tool", "name": "x"}, thinking=OFF),
        "tool_choice.tool.name: Tool 'x' not found in provided tools",
    ),
    "any tool, with thinking that is on unasked": (
        ask(tools=[TOOL], tool_choice={"type": "any"}),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    "one tool, with thinking": (
        ask(tools=[TOOL], tool_choice={"type": "tool", "name": "run"}, thinking={"type": "adaptive"}),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
}
THINKING: Rows = {
    "unknown": (ask(thinking={"type": "deep"}), "thinking: Input tag 'deep' found using 'type'"),
    "by a budget, on a current model": (
        ask(thinking={"type": "enabled", "budget_tokens": 2000}),
        '"thinking.type.enabled" is not supported for this model.',
    ),
    "adaptive, on an old model": (
        ask(thinking={"type": "adaptive"}, model=LEGACY),
        '"thinking.type.adaptive" is not supported for this model.',
    ),
    "off, on a model that always thinks": (
        ask(thinking=OFF, model="claude-fable-5-1"),
        '"thinking.type.disabled" is not supported for this model.',
    ),
    "with a small budget": (
        ask(thinking={"type": "enabled", "budget_tokens": 100}, model=LEGACY),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    "with a budget over max_tokens": (
        ask(thinking={"type": "enabled", "budget_tokens": 1024}, model=LEGACY),
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
    ),
    "with a budget, adaptively": (
        ask(thinking={"type": "adaptive", "budget_tokens": 2000}),
        "thinking.adaptive.budget_tokens: Extra inputs are not permitted",
    ),
    "not from here": (
        said(user("x"), assistant({"type": "thinking", "thinking": "Hm.", "signature": "abc"}, text("y")), user("x")),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "redacted, which nothing here is": (
        said(user("x"), assistant({"type": "redacted_thinking", "data": "abc"}, text("y")), user("x")),
        "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
    ),
}
CACHING: Rows = {
    "five marks": (
        said(user(*(text(f"{n}", **CACHED) for n in range(5)))),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "four marks and the automatic one": (
        said(user(*(text(f"{n}", **CACHED) for n in range(4)), text("x")), **CACHED),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "a long time after a short one": (
        said(user(text("x", **HOUR)), system=[text("y", **CACHED)]),
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
    ),
    "an unknown time": (
        ask(cache_control={"type": "ephemeral", "ttl": "1d"}),
        "cache_control.ttl: Input should be '5m' or '1h'",
    ),
    "an unknown kind": (ask(cache_control={"type": "forever"}), "cache_control.type: Input should be 'ephemeral'"),
    "a mark on thinking": (
        said(
            user("x"),
            assistant({"type": "thinking", "thinking": "", "signature": "", **CACHED}, text("y")),
            user("x"),
        ),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    "two marks on the last block that contradict each other": (
        said(user(text("x", **CACHED)), **HOUR),
        "cache_control: the last cacheable block has a cache_control with another ttl",
    ),
}
RULES = {
    f"{name}: {rule}": row
    for name, rows in {
        "fields": FIELDS,
        "messages": MESSAGES,
        "pairs": PAIRS,
        "tools": TOOLS,
        "thinking": THINKING,
        "caching": CACHING,
    }.items()
    for rule, row in rows.items()
}


@pytest.mark.parametrize(("body", "message"), RULES.values(), ids=RULES.keys())
async def test_a_broken_rule_is_refused_in_the_words_of_the_api(
    rehearsal: Rehearsal, client: AsyncAnthropic, body: Any, message: str
) -> None:
    with pytest.raises(BadRequestError) as refused:
        await post(client, body)

    assert refused.value.type == "invalid_request_error"
    assert (refused.value.api_message or "").startswith(message)
    assert refused.value.request_id == rehearsal.calls[-1].request_id
    assert isinstance(refused.value.body, dict)
    assert refused.value.body["request_id"] == refused.value.request_id


@pytest.mark.parametrize(
    "body",
    [
        tooled(user("x"), assistant(call()), user(result(), text("and now?"))),
        tooled(user("x"), assistant(call(), call("toolu_2")), user(result("toolu_2"), result())),
        tooled(user("x"), assistant(call(caller=None)), user(result(content=[text("a")], is_error=True))),
        said(user("x"), user("y")),
        said(user("x"), {"role": "system", "content": "z"}),
        said(user("x"), model="claude-opus-4-8", thinking={"type": "adaptive"}),
        ask("write", tools=[TOOL], tool_choice={"type": "any"}, thinking=OFF),
        ask("write", tools=[TOOL], tool_choice={"type": "any"}, model=LEGACY),
        ask(max_tokens=5000, thinking={"type": "enabled", "budget_tokens": 1024}, model=LEGACY),
        ask(max_tokens=0),
        said(user(*(text(f"{n}", **CACHED) for n in range(4))), **CACHED),
        said(user(text("x", **CACHED)), system=[text("y", **HOUR)], cache_control=None),
        schema(properties={"x": {"type": ["string", "null"]}, "y": {"items": {"$ref": "#"}}, "z": True}),
    ],
)
async def test_what_the_api_allows_is_answered(client: AsyncAnthropic, body: Body) -> None:
    assert (await post(client, body))["type"] == "message"


@pytest.mark.parametrize(
    "name", ["gpt-4", "claude-mythos-preview", "", "claude-sonnet-5-5 "], ids=["other", "retired", "none", "blank"]
)
async def test_a_model_that_is_not_there_is_not_found(client: AsyncAnthropic, name: str) -> None:
    with pytest.raises(NotFoundError) as refused:
        await post(client, ask(model=name))
    assert (refused.value.type, refused.value.api_message) == ("not_found_error", f"model: {name}")


@pytest.mark.parametrize(
    "body",
    [
        {"model": MODEL, "messages": [user("x")], "max_tokens": 5},
        {"model": MODEL, "messages": [user("x")], "tools": [TOOL], "tool_choice": {"type": "any"}},
        {"model": MODEL, "messages": [assistant("x")]},
    ],
)
async def test_counting_is_as_strict(client: AsyncAnthropic, body: Body) -> None:
    with pytest.raises(BadRequestError):
        await post(client, body, "/v1/messages/count_tokens")


async def test_keys_are_asked_for(connect: Callable[..., AsyncAnthropic]) -> None:
    async with Rehearsal(PARTS, keys={"good"}) as rehearsal:
        await connect(rehearsal, "good").messages.create(**ask())
        with pytest.raises(AuthenticationError, match="invalid x-api-key"):
            await connect(rehearsal, "bad").messages.create(**ask())
        with pytest.raises(AuthenticationError, match="header is required"):
            await connect(rehearsal).messages.create(**ask(), extra_headers={"Authorization": "Basic x"})
        by_header = {"Authorization": "", "x-api-key": "good"}
        await connect(rehearsal, "bad").messages.create(**ask(), extra_headers=by_header)

    assert [record.status for record in rehearsal.calls] == [200, 401, 401, 200]


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/v1/complete", "post", 404),
        ("/", "post", 404),
        ("/v1/messages/x", "post", 404),
        ("/v1/models/x", "get", 404),
        ("/v1/messages", "get", 405),
        ("/v1/models", "post", 405),
        ("/rehearsal/x", "get", 404),
    ],
)
async def test_what_is_not_there_is_said(client: AsyncAnthropic, path: str, method: str, status: int) -> None:
    with pytest.raises(APIStatusError) as refused:
        await getattr(client, method)(path, cast_to=object)
    assert refused.value.status_code == status


# What only the conversation can tell.


async def begun(client: AsyncAnthropic) -> list[Body]:
    """A conversation in the middle of a tool loop, with thinking."""
    first = await client.messages.create(**tooled(user("think")))
    return [user("think"), spoken(first), user(result(first.content[-1].id))]  # type: ignore[union-attr]


def changed(block: Body) -> Body:
    return block | {"thinking": block["thinking"] + "!"}


def resigned(block: Body) -> Body:
    return block | {"signature": block["signature"][:-4] + "AAAA"}


@pytest.mark.parametrize("change", [changed, resigned])
async def test_a_changed_thought_is_refused(client: AsyncAnthropic, change: Callable[[Body], Body]) -> None:
    messages = await begun(client)
    messages[1]["content"][0] = change(messages[1]["content"][0])

    with pytest.raises(BadRequestError, match=r"messages\.1\.content\.0: "):
        await client.messages.create(**tooled(*messages))


async def test_a_thought_that_is_missing_from_the_live_loop_is_refused(client: AsyncAnthropic) -> None:
    messages = await begun(client)
    del messages[1]["content"][0]

    with pytest.raises(BadRequestError, match="blocks in the latest assistant message cannot be modified"):
        await client.messages.create(**tooled(*messages))
    await client.messages.create(**tooled(*messages, thinking=OFF))
    await client.messages.create(**tooled(*messages, assistant("Done."), user("Well.")))


async def test_a_thought_is_good_only_in_its_conversation(client: AsyncAnthropic) -> None:
    messages = await begun(client)
    messages[0] = user("think otherwise")

    with pytest.raises(BadRequestError, match="created in a different conversation"):
        await client.messages.create(**tooled(*messages))


async def test_a_thought_is_good_only_for_its_model(client: AsyncAnthropic) -> None:
    messages = await begun(client)

    with pytest.raises(BadRequestError, match="created in a different conversation"):
        await client.messages.create(**tooled(*messages, model="claude-opus-5-5"))
    await client.messages.create(**tooled(*messages, model="claude-opus-4-8"))


# What the parts get wrong.


async def test_a_missing_cue_is_loud(
    rehearsal: Rehearsal, client: AsyncAnthropic, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = "callboard: role=coder state=CODING"

    with pytest.raises(BadRequestError, match="no cue for role=coder state=CODING after 'silence'"):
        await client.messages.create(**said(user("hello"), assistant("hi"), user("silence"), system=mark))

    shown = capsys.readouterr().err
    assert "no cue for role=coder" in shown
    assert shown.strip().splitlines()[-3:] == ["user      hello", "assistant hi", "user      silence"]
    assert rehearsal.calls[-1].error.startswith("invalid_request_error: no cue for")


async def test_a_call_of_a_tool_that_is_not_there_is_loud(client: AsyncAnthropic) -> None:
    with pytest.raises(BadRequestError, match="calls 'run', and the tools are: none"):
        await client.messages.create(**ask("think"))


async def test_a_part_that_fails_is_loud(connect: Callable[..., AsyncAnthropic]) -> None:
    def fail(scene: Any) -> None:
        raise KeyError("x")

    async with Rehearsal([fail]) as rehearsal:
        with pytest.raises(BadRequestError, match=r"a part failed for .*KeyError: 'x' \(.*test_refusals.py:\d+\)"):
            await connect(rehearsal).messages.create(**ask())
